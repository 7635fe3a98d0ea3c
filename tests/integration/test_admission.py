"""The webhooks between a real API server and the real operator: what plain kubectl makes, and what it may not make."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.environments import CHECKOUT, environment
from tests.support.waiting import until

from .control_plane import ControlPlane
from .installation import Installation, installed
from .objects import JsonObject, as_json, group, table
from .webhooks import add_spark_kinds, await_spark_kinds, register_webhooks, serve_webhooks

GUARDED, UNGUARDED = "shop", "unguarded"
NAMESPACES = (GUARDED, UNGUARDED)
KUBEFLOW = "sparkapplications.sparkoperator.k8s.io"
ACCEPTED_MESSAGE = 'jsonpath={.status.conditions[?(@.type=="Accepted")].message}'


@pytest.fixture(scope="module")
def installation(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Two nodes with agents, the operator with webhooks, in both namespaces group ``sales`` with table ``orders``."""
    with installed(plane, tmp_path_factory.mktemp("installation"), nodes=2) as one:
        port = serve_webhooks(one)
        one.operator_environment["COLOCATION_SPARK_IMAGE"] = "spark:installed"
        one.start_operator()
        add_spark_kinds(one)
        for namespace in (GUARDED, UNGUARDED):
            one.kubectl("create", "-n", namespace, "-f", "-", stdin=as_json(group()))
            one.kubectl("create", "-n", namespace, "-f", "-", stdin=as_json(table()))
            one.wait("cg", "sales", namespace, "condition=Stable")
            one.wait("ct", "orders", namespace, "condition=Ready")
        await_spark_kinds(one)
        register_webhooks(one, port, UNGUARDED)
        until_asked(one)
        yield one


def until_asked(installation: Installation) -> None:
    """The API server takes a moment to notice webhook configurations."""
    body = as_json(table(name="probe", buckets=15))
    until(lambda: create(installation, body, "--dry-run=server").returncode != 0)


def create(
    installation: Installation, body: str, *options: str, namespace: str = GUARDED
) -> subprocess.CompletedProcess[str]:
    return installation.plane.kubectl("create", "-n", namespace, "-f", "-", *options, stdin=body)


def refusal(installation: Installation, body: JsonObject) -> str:
    """What the API server reports to an object that it does not take."""
    done = create(installation, as_json(body), "--dry-run=server")
    assert done.returncode != 0, done.stdout
    return done.stderr


def application(name: str = "report", **spec: Any) -> JsonObject:
    """A SparkApplication of Kubeflow's, labelled with the group."""
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": name, "namespace": GUARDED, "labels": {"colocation.dev/group": "sales"}},
        "spec": {
            "type": "Python", "mode": "cluster", "sparkVersion": "4.1.4", "mainApplicationFile": "local:///app/report.py",
            "sparkConf": {"spark.sql.shuffle.partitions": "8"},
            "driver": {"serviceAccount": "spark", "tolerations": [{"operator": "Exists"}]},
            "executor": {"instances": 2, "env": [{"name": "TZ", "value": "UTC"}]},
            **spec,
        },
    }  # fmt: skip


def apache_application(version: str) -> JsonObject:
    """A SparkApplication of Apache's, labelled with the group."""
    body = application(f"apache-{version}")
    spec = {"pyFiles": "local:///app/report.py", "runtimeVersions": {"sparkVersion": "4.1.4"}}
    return {**body, "apiVersion": f"spark.apache.org/{version}", "spec": spec}


def stored(installation: Installation, body: JsonObject, kind: str) -> JsonObject:
    """The object as the API server keeps it after a plain ``kubectl create``."""
    done = create(installation, as_json(body), namespace=body["metadata"]["namespace"])
    assert done.returncode == 0, done.stderr
    return installation.get(kind, body["metadata"]["name"], "-n", body["metadata"]["namespace"])


def submitted(installation: Installation, body: JsonObject) -> JsonObject:
    """What ``colocation submit --dry-run`` makes of a manifest."""
    command = [sys.executable, "-c", "from colocation.cli.main import main; main()", "submit", "-f", "-", "--dry-run"]
    environment = installation.operator_environment | {"KUBECONFIG": str(installation.plane.kubeconfig)}
    done = subprocess.run(command, input=as_json(body), env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    prepared: JsonObject = yaml.safe_load(done.stdout)
    return prepared


TABLES_REFUSED = [
    pytest.param(table("bad", buckets=15), id="bucket count"),
    pytest.param(table("bad", bucketedBy=["o_orderkey", "o_orderdate"], partitionedBy=[]), id="number of columns"),
    pytest.param(table("bad", bucketedBy=["o_orderdate"], partitionedBy=[]), id="type"),
    pytest.param(table("bad", replicas=1), id="replicas"),
    pytest.param(table("bad", colocateWith="elsewhere/sales"), id="group of another namespace"),
    pytest.param(
        table("bad", columns=[{"name": "o_orderkey", "type": "decimal(39,0)"}], partitionedBy=[]),
        id="what CEL cannot see",
    ),
]


@pytest.mark.parametrize("body", TABLES_REFUSED)
def test_tables_are_refused_in_the_operators_words(installation: Installation, body: JsonObject) -> None:
    """Where no webhook guards, the operator reports the same in ``Accepted=False``."""
    created = create(installation, as_json(body), namespace=UNGUARDED)
    assert created.returncode == 0, created.stderr
    installation.wait("ct", "bad", UNGUARDED, "condition=Accepted=False")
    words = installation.kubectl("get", "ct", "bad", "-n", UNGUARDED, "-o", ACCEPTED_MESSAGE)
    installation.kubectl("delete", "ct", "bad", "-n", UNGUARDED)
    said = refusal(installation, body)
    assert 'admission webhook "validation.colocation.dev" denied the request' in said
    assert words and words.replace(UNGUARDED, GUARDED) in said


def test_the_first_difference_is_reported_with_both_values(installation: Installation) -> None:
    """Doris' and StarRocks' order of checking: the bucket count comes before the types."""
    body = table("bad", buckets=15, bucketedBy=["o_orderdate"], partitionedBy=[], replicas=1)
    words = "Colocate tables must have same bucket num: 15 should be 2 or a multiple of it, as in group sales"
    assert words in refusal(installation, body)


def test_good_tables_pass(installation: Installation) -> None:
    """Also one that makes its group, and one whose group is not there yet, with a warning."""
    for body in (table("good"), table("first", colocateWith="new", buckets=4, replicas=1)):
        assert create(installation, as_json(body), "--dry-run=server").returncode == 0
    waiting = create(installation, as_json(table("waits", colocateWith="later")), "--dry-run=server")
    assert waiting.returncode == 0
    assert "Warning: group shop/later does not exist" in waiting.stderr


def test_a_table_may_not_turn_to_a_group_that_does_not_take_it(installation: Installation) -> None:
    """Changes are judged as creations; labels and annotations are never judged."""
    create(installation, as_json(group("narrow", bucketKey=["date"], deletionPolicy="Retain")))
    patch = as_json({"spec": {"colocateWith": "narrow"}})
    arguments = ("patch", "ct", "orders", "-n", GUARDED, "--type=merge")
    turned = installation.plane.kubectl(*arguments, "-p", patch, "--dry-run=server")
    assert "must have the same data type: bigint should be date" in turned.stderr
    labelled = installation.plane.kubectl(*arguments, "-p", as_json({"metadata": {"labels": {"a": "b"}}}))
    assert labelled.returncode == 0, labelled.stderr


def test_a_group_with_tables_may_not_be_deleted(installation: Installation) -> None:
    """Its map would be lost; an empty group may go."""
    done = installation.plane.kubectl("delete", "cg", "sales", "-n", GUARDED)
    assert done.returncode != 0
    assert "in group sales (kubectl get colocationgroup sales -n shop -o yaml: status.members)" in done.stderr
    create(installation, as_json(group("empty", deletionPolicy="Retain")))
    assert installation.plane.kubectl("delete", "cg", "empty", "-n", GUARDED).returncode == 0


def test_a_map_set_by_hand_names_nodes_that_there_are(installation: Installation) -> None:
    """In the words of Doris' bucketseq call; CEL alone knows no nodes."""
    patch = as_json({"spec": {"bucketSequence": [["node-1", "node-2"], ["node-1", "node-9"]]}})
    done = installation.plane.kubectl("patch", "cg", "sales", "-n", GUARDED, "--type=merge", "-p", patch)
    assert done.returncode != 0
    assert "The backend node-9 does not exist or not available" in done.stderr


def test_kubectl_makes_what_submit_makes(installation: Installation) -> None:
    """The same manifest through the webhook and through the command; the prepared one passes the webhook unchanged."""
    wanted = submitted(installation, application())
    found = stored(installation, application(), KUBEFLOW)
    assert found["spec"] == wanted["spec"]
    assert found["metadata"]["labels"] == wanted["metadata"]["labels"]
    decision = {"colocation.dev/decision": "colocate: true"}
    assert found["metadata"]["annotations"] == wanted["metadata"]["annotations"] == decision
    again = {**wanted, "metadata": {**wanted["metadata"], "name": "prepared"}}
    assert stored(installation, again, KUBEFLOW)["spec"] == wanted["spec"]


def test_runs_of_a_schedule_are_placed(installation: Installation) -> None:
    """The template of the runs is placed; no decision is frozen into it."""
    body = {**application("nightly"), "kind": "ScheduledSparkApplication"}
    body["spec"] = {"schedule": "@daily", "template": application()["spec"]}
    wanted = submitted(installation, body)
    found = stored(installation, body, "scheduledsparkapplications")
    assert found["spec"] == wanted["spec"]
    assert found["spec"]["template"]["executor"]["template"]["spec"]["affinity"]


@pytest.mark.parametrize(
    "version", ["v1", *(pytest.param(one, marks=pytest.mark.deep) for one in ("v1beta1", "v1alpha1"))]
)
def test_apaches_applications_are_placed(installation: Installation, version: str) -> None:
    """In their own fields."""
    body = apache_application(version)
    wanted = submitted(installation, body)
    found = stored(installation, body, f"sparkapplications.{version}.spark.apache.org")
    assert found["spec"] == wanted["spec"]
    assert found["spec"]["executorSpec"]["podTemplateSpec"]["spec"]["affinity"]


def test_connect_servers_are_placed(installation: Installation) -> None:
    """That of examples/spark-connect; Kubeflow's kind keeps every field."""
    body = yaml.safe_load((CHECKOUT / "examples" / "spark-connect" / "server.yaml").read_text())
    wanted = submitted(installation, body)
    found = stored(installation, body, "sparkconnects")
    assert found["spec"] == wanted["spec"]
    assert found["spec"]["executor"]["template"]["spec"]["affinity"]


def test_airflows_applications_are_placed(installation: Installation) -> None:
    """Those of examples/airflow, as Airflow's operator makes them for a day."""
    dag = CHECKOUT / "examples" / "airflow" / "daily_prices.py"
    program = [str(environment("airflow") / "python"), str(Path(__file__).with_name("airflow_program.py")), str(dag)]
    settings = {**os.environ, "AIRFLOW_HOME": str(installation.folder / "airflow")}
    made = subprocess.run([*program, "2026-01-02"], env=settings, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    for body in json.loads(made.stdout):
        found = stored(installation, body, KUBEFLOW)
        assert found["metadata"]["annotations"]["colocation.dev/decision"].startswith("colocate: true")
        assert found["spec"]["executor"]["template"]["spec"]["affinity"]
        assert "2026-01-02" in " ".join(found["spec"]["arguments"])


def test_health_by_argo_cd_and_flux(installation: Installation) -> None:
    """The checks of examples/gitops, on objects as the operator leaves them."""
    for body in (table("odd", buckets=15), group("wide", replicas=5)):
        assert create(installation, as_json(body), namespace=UNGUARDED).returncode == 0
    installation.wait("ct", "odd", UNGUARDED, "condition=Accepted=False")
    installation.wait("cg", "wide", UNGUARDED, "condition=Stalled")
    assert create(installation, as_json(group("widened")), namespace=UNGUARDED).returncode == 0
    installation.wait("cg", "widened", UNGUARDED, "condition=Stable")
    installation.kubectl("patch", "cg", "widened", "-n", UNGUARDED, "--type=merge", "-p", '{"spec": {"replicas": 5}}')
    installation.wait("cg", "widened", UNGUARDED, "condition=Stalled")
    widened = installation.read("cg", "widened", UNGUARDED)
    assert {"Stable", "Stalled"} <= {one["type"] for one in widened["status"]["conditions"] if one["status"] == "True"}
    stable, ready = (installation.read(kind, name, GUARDED) for kind, name in (("cg", "sales"), ("ct", "orders")))
    stalled, refused = (installation.read(kind, name, UNGUARDED) for kind, name in (("cg", "wide"), ("ct", "odd")))
    changed = {**stable, "metadata": {**stable["metadata"], "generation": 99}}
    new = {key: value for key, value in ready.items() if key != "status"}
    program = [str(environment("gitops") / "python"), str(Path(__file__).with_name("gitops_program.py"))]
    judged = subprocess.run(
        [*program, str(CHECKOUT / "examples" / "gitops")], capture_output=True, text=True, check=False,
        input=json.dumps([stable, ready, stalled, refused, changed, new, widened]),
    )  # fmt: skip
    assert judged.returncode == 0, judged.stderr
    found = json.loads(judged.stdout)
    assert [(argo, flux) for argo, _, flux in found] == [
        ("Healthy", "current"), ("Healthy", "current"), ("Degraded", "failed"), ("Degraded", "failed"),
        ("Progressing", "inProgress"), ("Progressing", "inProgress"), ("Degraded", "failed"),
    ]  # fmt: skip
    assert "5" in found[2][1] and "15" in found[3][1]


def test_unlabelled_applications_are_left_alone(installation: Installation) -> None:
    """Whatever the operator thinks of them."""
    body = application("plain")
    del body["metadata"]["labels"]
    found = stored(installation, body, KUBEFLOW)
    assert found["spec"] == body["spec"]
    assert "annotations" not in found["metadata"]


def test_a_contradiction_is_refused_in_the_words_of_submit(installation: Installation) -> None:
    """Both values, and what to do."""
    said = refusal(installation, application(executor={"nodeSelector": {"kubernetes.io/hostname": "node-9"}}))
    assert 'admission webhook "spark-applications.colocation.dev" denied the request' in said
    assert "'node-9'" in said and "['node-1', 'node-2']" in said and "let it name a node of the group" in said
    body = application()
    body["metadata"]["labels"] = {"colocation.dev/group": "sails"}
    assert "there is no group 'sails' in namespace 'shop'; `kubectl get" in refusal(installation, body)


def test_an_update_that_leaves_the_spec_alone_changes_nothing(installation: Installation) -> None:
    """Kubeflow's operator runs an application again when its spec changes."""
    before = stored(installation, application("steady"), KUBEFLOW)
    done = installation.plane.kubectl("annotate", KUBEFLOW, "steady", "-n", GUARDED, "note=seen")
    assert done.returncode == 0, done.stderr
    after = installation.get(KUBEFLOW, "steady", "-n", GUARDED)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


def test_an_unstable_group_is_reported_in_the_annotation(installation: Installation) -> None:
    """The decision is that of the moment, with the operator's reason."""
    installation.set_ready("node-2", False)
    try:
        installation.wait("cg", "sales", GUARDED, "jsonpath={.status.stable}=false")
        found = stored(installation, application("degraded"), KUBEFLOW)
    finally:
        installation.set_ready("node-2", True)
        installation.wait("cg", "sales", GUARDED, "condition=Stable")
    decision = found["metadata"]["annotations"]["colocation.dev/decision"]
    assert decision.startswith("colocate: ")
    assert "group is not stable: NodeNotReady" in decision
    assert "spark.colocation.degradeReason" not in found["spec"]["sparkConf"]


def test_without_the_operator_everything_goes_on(installation: Installation) -> None:
    """Both webhooks are passed over; the operator judges what came in meanwhile when it is back."""
    installation.stop_operator(signal.SIGKILL)
    try:
        assert stored(installation, application("alone"), KUBEFLOW)["spec"] == application()["spec"]
        assert create(installation, as_json(table("late", buckets=15))).returncode == 0
    finally:
        installation.start_operator()
    installation.wait("ct", "late", GUARDED, "condition=Accepted=False")
    said = installation.read("ct", "late", GUARDED)["status"]["conditions"]
    assert "15 should be 2" in json.dumps(said)
