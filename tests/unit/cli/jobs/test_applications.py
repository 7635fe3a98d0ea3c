"""`submit`, `load`, `sql`: from the command line to what is created, and from the driver's result to the output."""

import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
import yaml
from kubernetes.client.exceptions import ApiException

from colocation.cli.jobs import launch
from colocation.cli.terminal import options
from colocation.model.names import LABEL_GROUP, LABEL_GROUP_NAMESPACE
from colocation.model.reader_rules import Freshness
from colocation.submit.status import ApplicationStatus, obstacle

from ...submit.applications_under_test import schedule, spark_application
from ...submit.fake_applications import FakeApplications, VirtualTime
from ...submit.test_prepare_connect import connect_server
from ..conftest import FakeCluster, Run, group_object, table_object

LOADED = {
    "table": "orders", "rows": 10, "files": 4, "bytes": 2048, "partitions": 2, "snapshot_id": 3, "replicas_missing": 0,
}  # fmt: skip
COMPACTED = {
    "partitions": 1, "files_before": 9, "files_after": 3, "rows": 20, "bytes": 99, "snapshot_id": 4,
    "replicas_missing": 0,
}  # fmt: skip
DROPPED = {"partitions": 1, "files": 3, "rows": 20, "snapshot_id": 4}
BACK = {"rows": 20, "snapshot_id": 5}
REBUCKETED = {
    "buckets_before": 8, "buckets": 16, "files_before": 9, "files_after": 16, "rows": 20, "bytes": 99, "snapshot_id": 4,
    "replicas_missing": 0,
}  # fmt: skip
ALREADY = {**REBUCKETED, "buckets_before": 16, "files_before": 0, "files_after": 0, "rows": 0, "bytes": 0}
NOTHING = {**COMPACTED, **DROPPED, "partitions": 0, "files_before": 0}
Kubeflow = Callable[..., FakeApplications]


@pytest.fixture
def kubeflow(monkeypatch: pytest.MonkeyPatch) -> Kubeflow:
    """``kubeflow(state, result)``: applications end at once in this state, their driver printed this result."""

    def installed(state: str = "COMPLETED", result: dict[str, Any] | None = None, log: str = "") -> FakeApplications:
        text = log if result is None else f"{log}\nCOLOCATION_RESULT {json.dumps(result)}\n"
        fake = FakeApplications([state], log=text, error_message="driver container failed")
        monkeypatch.setattr(launch, "KubernetesApplications", lambda connection, kind: fake)
        return fake

    return installed


@pytest.mark.parametrize("refusal", [None, ApiException(status=403, reason="Forbidden")])
def test_an_application_that_cannot_run_is_deleted(
    run: Run, cluster: FakeCluster, kubeflow: Kubeflow, monkeypatch: pytest.MonkeyPatch, refusal: ApiException | None
) -> None:
    """Else it would run later, when the Secret is there and the load has been repeated."""
    created, time = kubeflow(), VirtualTime()
    monkeypatch.setattr(launch, "time", SimpleNamespace(monotonic=time.clock, sleep=time.sleep))
    waits = ApplicationStatus(state="SUBMITTED", phase="running", has_executors=True)
    created.play(waits.with_obstacle(obstacle('CreateContainerConfigError: secret "lake" not found', "shop")))
    if refusal:
        created.refuse_deletion(refusal)
    done = run("load", "orders", "--from", "s3a://lake/orders", "--secret", "lake")
    assert done.exit_code == 1
    *_, said = done.stderr.splitlines()
    assert 'secret "lake" not found; create it (kubectl create secret generic lake -n shop' in said
    [name] = created.objects if refusal else created.deleted
    assert said.endswith(f"end it: kubectl delete {created.reference(name)} -n shop" if refusal else "It is deleted")


def manifest(**spec: Any) -> str:
    return yaml.safe_dump(spark_application(**spec))


@pytest.fixture(autouse=True)
def buckets_for_every_core(cluster: FakeCluster) -> None:
    """No remark upon fewer buckets than cores."""
    for group in cluster.groups():
        group["spec"]["buckets"] = 8


def test_submit_prints_decision_and_result(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """The decision comes first, the driver's result as one marked line; progress goes to stderr."""
    created = kubeflow(result={"answer": 42})
    done = run("submit", "-f", "-", stdin=manifest())
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "colocate: true", "sparkapplication report: COMPLETED", 'COLOCATION_RESULT {"answer": 42}',
    ]  # fmt: skip
    assert "report: COMPLETED" in done.stderr
    assert created.objects["report"]["spec"]["image"] == "spark:installed"


def test_submit_degrades_with_the_operators_reason(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """An unstable group's application runs, and the output has why it is not colocated."""
    created = kubeflow()
    condition = {"type": "Stable", "status": "False", "reason": "NodeNotReady", "message": "node-2 is not ready"}
    cluster.groups()[0] = group_object(stable=False, reason="NodeNotReady", conditions=[condition])
    done = run("submit", "-f", "-", stdin=manifest())
    reason = "group is not stable: NodeNotReady: node-2 is not ready; NoLiveReplica: buckets 0, 1"
    assert done.stdout.splitlines()[0] == f"colocate: false, reason: {reason}"
    assert "spark.colocation.degradeReason" not in created.objects["report"]["spec"]["sparkConf"]


def test_submit_for_programs(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """-o json prints one document: decision, application, state, result."""
    kubeflow(result={"answer": 42})
    assert json.loads(run("submit", "-f", "-", "-o", "json", stdin=manifest()).stdout) == {
        "decision": {"colocated": True, "reason": "", "note": ""}, "application": "report", "state": "COMPLETED",
        "result": {"answer": 42},
    }  # fmt: skip


def test_a_dry_run_creates_nothing(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """The output is a manifest that kubectl takes, with the decision as a comment."""
    created = kubeflow()
    done = run("submit", "-f", "-", "--dry-run", stdin=manifest())
    assert done.stdout.startswith("# colocate: true\n")
    assert yaml.safe_load(done.stdout)["spec"]["executor"]["template"]["spec"]["affinity"]
    assert created.objects == {}


def test_a_dry_run_of_direct_shows_the_job(run: Run, cluster: FakeCluster) -> None:
    """It is one, the driver's Job; a generated name is filled in."""
    application = spark_application()
    application["metadata"] = {"generateName": "report-", "labels": application["metadata"]["labels"]}
    done = run("submit", "-f", "-", "--dry-run", "--direct", stdin=yaml.safe_dump(application))
    assert done.stdout.startswith("# colocate: true\n")
    job = yaml.safe_load(done.stdout)
    assert job["kind"] == "Job"
    assert re.fullmatch(r"report-[0-9a-f]{6}", job["metadata"]["name"])


def test_direct_refuses_what_needs_an_operator(run: Run, cluster: FakeCluster) -> None:
    """Wrong usage, with the field and what to do, and no half of an application on standard output."""
    done = run("submit", "-f", "-", "--dry-run", "--direct", stdin=manifest(restartPolicy={"type": "Always"}))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "spec.restartPolicy.type is 'Always'" in done.stderr


def test_a_schedule_is_created_and_not_waited_for(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """Its first run may be tomorrow; the decision is what a run now would get."""
    created = kubeflow(state="Scheduled")
    done = run("submit", "-f", "-", stdin=yaml.safe_dump(schedule()))
    assert done.exit_code == 0
    assert done.stdout.splitlines() == ["colocate: true"]
    assert "watch it" in done.stderr
    assert created.objects["report"]["spec"]["template"]["executor"]["template"]


def test_a_server_without_an_account_is_warned_of(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """Kubeflow's operator may restart it without end; it is made, since the account may have the rights."""
    created = kubeflow(state="Ready")
    done = run("submit", "-f", "-", stdin=yaml.safe_dump(connect_server()))
    assert done.exit_code == 0
    assert "Warning: spec.server.template.spec.serviceAccountName is not given" in done.stderr
    assert list(created.objects) == ["notebooks"]


def test_no_wait_returns_at_once(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """The application is created, and how to watch it is said, and what tells why a pod waits."""
    created = kubeflow(state="RUNNING")
    done = run("submit", "-f", "-", "--no-wait", stdin=manifest())
    assert done.exit_code == 0
    why = "if it does not start: kubectl get events -n shop --field-selector type=Warning"
    assert f"sparkapplications.sparkoperator.k8s.io report -n shop --watch; {why}" in done.stderr
    assert list(created.objects) == ["report"]


def test_a_failed_application_is_1_with_its_log(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """The driver's exception is in the message, the end of its log above it."""
    kubeflow(state="FAILED", log="INFO x\nTraceback (most recent call last):\n  File y\nValueError: no such table")
    done = run("submit", "-f", "-", stdin=manifest())
    assert done.exit_code == 1
    assert "INFO x" not in done.stderr
    assert "error: SparkApplication report is FAILED: ValueError: no such table" in done.stderr


def test_a_submission_that_failed_shows_what_the_operator_said(
    run: Run, cluster: FakeCluster, kubeflow: Kubeflow
) -> None:
    """Without a driver there is no log; Kubeflow's operator knows the cause."""
    kubeflow(state="FAILED")
    done = run("submit", "-f", "-", stdin=manifest())
    assert done.exit_code == 1
    assert "is FAILED: driver container failed; the log of its driver report-driver is empty" in done.stderr


@pytest.fixture
def unreadable(kubeflow: Kubeflow) -> FakeApplications:
    """Applications complete whose logs may not be read."""

    def refuse(namespace: str, pod: str, lines: int = 5000) -> str:
        raise ApiException(status=403, reason="Forbidden")

    created = kubeflow(result=LOADED)
    created.driver_log = refuse  # type: ignore[method-assign]
    return created


UNREAD = "succeeded; its result could not be read: the log of its driver "


@pytest.mark.parametrize(
    "command",
    [
        ["load", "orders", "--from", "x"], ["compact", "orders"], ["drop-partitions", "orders", "--partition", "k=1"],
        ["rebucket", "orders", "--buckets", "16"], ["roll-back", "orders", "--to", "3"],
    ],
)  # fmt: skip
def test_a_change_without_a_readable_log_has_been_made(
    run: Run, cluster: FakeCluster, unreadable: FakeApplications, command: list[str]
) -> None:
    """Exit code 0, else a pipeline makes it again; programs get a whole document, and the reason on stderr."""
    done = run(*command)
    assert (done.exit_code, UNREAD in done.stdout) == (0, True)
    unreadable.objects.clear()
    program = run(*command, "-o", "json")
    assert (program.exit_code, UNREAD in program.stderr) == (0, True)
    report = json.loads(program.stdout)
    assert (report["state"], report["result"]) == ("COMPLETED", None)


def test_a_submission_without_a_readable_log_has_succeeded(
    run: Run, cluster: FakeCluster, unreadable: FakeApplications
) -> None:
    """An application need not have a result; one that cannot be read gives a warning."""
    done = run("submit", "-f", "-", stdin=manifest())
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == "sparkapplication report: COMPLETED"
    assert f"warning: SparkApplication report {UNREAD}report-driver: the cluster answered 403" in done.stderr


def test_a_load_whose_log_is_gone_shows_that_it_succeeded(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """It said nothing at all."""
    kubeflow()
    done = run("load", "orders", "--from", "x")
    assert (done.exit_code, "succeeded; its result could not be read" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["rebucket", "orders", "--buckets", "12"], "table shop.orders is in a group of 8 buckets; allowed: 8 or a"),
        (["roll-back", "orders", "--to", "2"], "keeps no snapshot 2; it keeps: 3 (2026-11-21T00:00:00Z). spec"),
        (["drop-partitions", "orders", "--partition", "day=1"], "'day' is no partition column; the table is"),
        (["compact", "orders", "--partition", "dt=1/k=1"], "'k' is no partition column; the table is p"),
    ],
)  # fmt: skip
def test_what_objects_show_to_be_impossible_is_refused_before_anything_runs(
    run: Run, cluster: FakeCluster, kubeflow: Kubeflow, command: list[str], why: str
) -> None:
    """In the words of the program, which would refuse it half a minute later."""
    created = kubeflow(result=NOTHING)
    columns = [{"name": "k", "type": "bigint"}, {"name": "dt", "type": "date"}]
    table = cluster.tables()[0] = table_object(columns=columns, partitionedBy=["dt"])
    table["metadata"]["generation"] = 1
    done = run(*command)
    assert (done.exit_code, created.objects) == (1, {})
    assert done.stderr.startswith("error: ")
    assert why in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["roll-back", "orders", "--to", "latest"], ["rebucket", "orders", "--buckets", "8.5"], ["ui", "--port", "http"],
        ["advise", "--size", "1Gi", "--survive", "one"],
    ],
)  # fmt: skip
def test_what_is_no_number_is_called_so(run: Run, command: list[str]) -> None:
    """Click calls it no valid "integer range"."""
    done = run(*command)
    assert done.exit_code == 2
    assert f"{command[-1]!r} is not a valid whole number" in done.stderr


@pytest.mark.parametrize(
    ("command", "result", "change"),
    [
        (["rebucket", "orders", "--buckets", "12"], ALREADY, lambda group, table: group["spec"].pop("buckets")),
        (["roll-back", "orders", "--to", "2"], BACK, lambda group, table: table["status"].update(history=["?"])),
        (["drop-partitions", "orders", "--partition", "dt=1"], NOTHING,
         lambda group, table: table["metadata"].update(generation=2)),
    ],
)  # fmt: skip
def test_what_objects_do_not_show_is_left_to_the_program(
    run: Run, cluster: FakeCluster, kubeflow: Kubeflow, command: list[str], result: dict[str, Any], change: Any
) -> None:
    """A group without a number, a status that cannot be understood, files of before a change of the spec."""
    created = kubeflow(result=result)
    change(cluster.groups()[0], cluster.tables()[0])
    done = run(*command)
    assert (done.exit_code, len(created.objects)) == (0, 1), done.stderr


def interrupted(_: object) -> NoReturn:
    """Ctrl-C while this runs."""
    raise KeyboardInterrupt


def test_an_interrupted_wait_leaves_the_application(
    run: Run, cluster: FakeCluster, kubeflow: Kubeflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends the command, not the application; the message has how to watch and how to end it."""
    created = kubeflow(state="RUNNING")
    monkeypatch.setattr(launch, "follow", interrupted)
    done = run("submit", "-f", "-", stdin=manifest())
    assert done.exit_code == 1
    assert "interrupted; SparkApplication report goes on" in done.stderr
    assert "kubectl delete sparkapplications.sparkoperator.k8s.io report -n shop" in done.stderr
    assert list(created.objects) == ["report"]


def test_an_interrupted_creation_names_what_may_run(
    run: Run, cluster: FakeCluster, kubeflow: Kubeflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the API server has taken the request is not known."""
    created = kubeflow(state="RUNNING")
    monkeypatch.setattr(created, "create", interrupted)
    done = run("submit", "-f", "-", stdin=manifest())
    reference = "sparkapplications.sparkoperator.k8s.io report -n shop"
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (
        1, f"error: interrupted; if the SparkApplication was created, it goes on: kubectl get {reference}; "
           f"end it: kubectl delete {reference}",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["rebucket", "orders", "--buckets", "8"], "nothing was changed"),
        (["groups"], "nothing was changed"),
        (["approve", "sales"], "what it had changed stays; repeat the command for the rest"),
    ],
)
def test_a_command_that_is_interrupted_at_once_states_what_stays(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str], what: str
) -> None:
    """Not only `Aborted!`: nothing is created before the cluster has been read."""

    def interrupted(_connection: object, *_rest: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(options, "Cluster", interrupted)
    done = run(*arguments)
    assert (done.exit_code, done.stderr) == (1, f"error: interrupted; {what}\n")


def test_nothing_is_created_before_the_operator_knows_the_group(
    run: Run, cluster: FakeCluster, kubeflow: Kubeflow
) -> None:
    """Without the group's ConfigMap Spark's pods would wait for their volume for ever."""
    created = kubeflow()
    cluster.config_map = None
    done = run("submit", "-f", "-", stdin=manifest())
    assert done.exit_code == 1
    assert "there is no ConfigMap 'sales-spark'" in done.stderr
    assert created.objects == {}


def test_a_submission_while_the_operator_is_silent(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """The group's verdict is unknown: the application joins as with an unstable group, and the output has why."""
    kubeflow()
    cluster.fresh = Freshness(message="no sign of life since noon")
    first = run("submit", "-f", "-", stdin=manifest()).stdout.splitlines()[0]
    assert first == "colocate: false, reason: group is not stable: OperatorSilent: no sign of life since noon"
    statement = run("sql", "SELECT 1", "--dry-run").stdout
    assert statement.startswith(f"# {first}")


def test_two_namespaces_are_wrong_usage(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """The manifest's and the option's may not differ."""
    done = run("submit", "-f", "-", "-n", "other", stdin=manifest())
    assert done.exit_code == 2
    assert "'shop'" in done.stderr and "'other'" in done.stderr


def test_load_reports_what_was_committed(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """Rows, files, bytes for people, and the marked line for programs."""
    created = kubeflow(result=LOADED)
    done = run("load", "orders", "--from", "s3a://lake/orders", "--mode", "overwrite", "--service-account", "etl")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == (
        "loaded 10 rows into orders: 4 files, 2.0 KiB per replica, 2 partitions; snapshot 3"
    )
    assert json.loads(done.stdout.splitlines()[1].removeprefix("COLOCATION_RESULT ")) == LOADED
    (application,) = created.objects.values()
    assert application["metadata"]["labels"][LABEL_GROUP] == "sales"
    assert application["spec"]["arguments"][:5] == ["orders", "--namespace", "shop", "--from", "s3a://lake/orders"]
    assert application["spec"]["driver"]["serviceAccount"] == "etl"


def test_load_shows_which_copies_are_missing(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """A majority was written; the operator makes the rest."""
    kubeflow(result={**LOADED, "replicas_missing": 2})
    assert "the operator repairs 2 missing copies" in run("load", "orders", "--from", "x").stdout


def test_load_shows_where_copies_are_meanwhile(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """A node was away: which buckets went to which nodes instead; of many the first few."""
    substitutes = [{"bucket": bucket, "away": "node-2", "node": "node-3", "files": 1, "reason": "Unreachable"}
                   for bucket in range(7)]  # fmt: skip
    kubeflow(result={**LOADED, "replicas_missing": 7, "substitutes": substitutes})
    text = run("load", "orders", "--from", "x").stdout
    assert "7 missing copies of files (meanwhile they are on other nodes: bucket 0: node-3 for node-2, " in text
    assert "bucket 4: node-3 for node-2, and 2 more)" in text


def test_load_builds_on_an_application(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """--application gives volumes and sizes; --image overrides its image."""
    created = kubeflow(result=LOADED)
    base = {"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
            "spec": {"image": "old", "executor": {"instances": 9}}}
    done = run("load", "orders", "--from", "x", "--application", "-", "--image", "new", stdin=yaml.safe_dump(base))
    assert done.exit_code == 0
    (application,) = created.objects.values()
    assert (application["spec"]["image"], application["spec"]["executor"]["instances"]) == ("new", 9)


def test_a_table_in_no_group_is_loaded_next_to_its_own(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """Such a table has a private group, whose map places its rows."""
    cluster.tables()[0]["spec"]["colocateWith"] = ""
    assert "'orders-0badcafe'" in run("load", "orders", "--from", "x").stderr
    cluster.groups()[0]["metadata"]["name"] = "orders-0badcafe"
    created = kubeflow(result=LOADED)
    assert run("load", "orders", "--from", "x").exit_code == 0
    assert next(iter(created.objects.values()))["metadata"]["labels"][LABEL_GROUP] == "orders-0badcafe"


def test_load_tells_of_its_compaction(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """What was merged, or why not and what to do: the load is committed in both cases."""
    kubeflow(result={**LOADED, "compaction": COMPACTED})
    assert "\ncompacted orders: 9 files became 3" in run("load", "orders", "--from", "x").stdout
    kubeflow(result={**LOADED, "compaction_failure": "NotReady: no map"})
    done = run("load", "orders", "--from", "x")
    assert done.exit_code == 0
    assert "not compacted: NotReady: no map; try again, with the same -n: colocation compact orders" in done.stdout


def test_load_from_a_source_without_a_path(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """Options go to the program; without a path and options there is nothing to read."""
    created = kubeflow(result=LOADED)
    assert run("load", "orders", "--format", "jdbc", "--option", "url=jdbc:x", "--option", "dbtable=t").exit_code == 0
    arguments = next(iter(created.objects.values()))["spec"]["arguments"]
    assert "--option=url=jdbc:x" in arguments and "--from" not in arguments
    for wrong in ([], ["--from", "x", "--option", "header"]):
        assert run("load", "orders", *wrong).exit_code == 2


@pytest.mark.parametrize(
    ("command", "result", "words"),
    [
        (["compact", "orders"], "COMPACTED", "compacted orders: 9 files became 3, 20 rows"),
        (["compact", "orders"], "NOTHING", "nothing to compact in orders"),
        (["drop-partitions", "orders", "--partition", "dt=1"], "DROPPED", "dropped 1 partition of orders: 20 rows"),
        (["drop-partitions", "orders", "--partition", "dt=2"], "NOTHING", "nothing to drop in orders"),
        (["rebucket", "orders", "--buckets", "16"], "REBUCKETED", "rebucketed orders: 8 buckets became 16, 20 rows in"),
        (["rebucket", "orders", "--buckets", "16"], "ALREADY", "nothing to do in orders: it already has 16 buckets"),
        (["roll-back", "orders", "--to", "3"], "BACK", "rolled orders back: it holds 20 rows; snapshot 5"),
    ],
)
def test_what_was_done_to_files(
    command: list[str], result: str, words: str, run: Run, cluster: FakeCluster, kubeflow: Kubeflow
) -> None:
    """One line for people, then the driver's result."""
    results = {"COMPACTED": COMPACTED, "REBUCKETED": REBUCKETED, "ALREADY": ALREADY}
    kubeflow(result={**results, "DROPPED": DROPPED, "NOTHING": NOTHING, "BACK": BACK}[result])
    done = run(*command)
    assert done.exit_code == 0
    assert done.stdout.startswith(words)
    assert "COLOCATION_RESULT" in done.stdout


def test_drop_needs_a_partition(run: Run, cluster: FakeCluster) -> None:
    """Wrong usage, before anything is created."""
    done = run("drop-partitions", "orders")
    assert done.exit_code == 2
    assert "--partition" in done.stderr


def group_elsewhere(cluster: FakeCluster) -> dict[str, Any]:
    """Namespace ``shop`` has no group of its own; its table is in one of ``accounts``, which allows no other."""
    group = group_object()
    group["metadata"]["namespace"] = "accounts"
    cluster.groups()[:] = []
    cluster.tables()[:] = [table_object(colocateWith="accounts/sales")]
    cluster.group_of = lambda key: group  # type: ignore[method-assign]
    return group


@pytest.mark.parametrize(
    "command",
    [
        ["submit", "-f", "-"], ["sql", "select 1"], ["sql", "select 1", "--group", "accounts/sales"],
        ["load", "orders", "--from", "x"], ["compact", "orders"], ["drop-partitions", "orders", "--partition", "k=1"],
        ["rebucket", "orders", "--buckets", "16"], ["roll-back", "orders", "--to", "3"],
    ],
)  # fmt: skip
def test_a_group_that_does_not_allow_the_namespace_places_nothing(
    run: Run, cluster: FakeCluster, kubeflow: Kubeflow, command: list[str]
) -> None:
    """However it is named: by labels, by an option, by the status of a table, which its loaders may write."""
    group_elsewhere(cluster)
    created = kubeflow()
    body = spark_application()
    body["metadata"]["labels"] |= {LABEL_GROUP: "sales", LABEL_GROUP_NAMESPACE: "accounts"}
    done = run(*command, stdin=yaml.safe_dump(body))
    assert (done.exit_code, created.objects) == (2, {})
    assert done.stderr == (
        "error: NamespaceNotAllowed: group accounts/sales allows namespaces [], and this is namespace shop; add it to "
        "allowedNamespaces of the group\n"
    )


def test_a_table_with_a_spoiled_status_is_loaded_again(run: Run, cluster: FakeCluster, kubeflow: Kubeflow) -> None:
    """Its group is the one that its spec names."""
    cluster.tables()[0]["status"]["snapshot"]["committedAt"] = "soon"
    cluster.tables()[0]["status"]["group"] = 7
    created = kubeflow(result=LOADED)
    assert run("load", "orders", "--from", "x", "--mode", "overwrite").exit_code == 0
    (application,) = created.objects.values()
    assert application["metadata"]["labels"][LABEL_GROUP] == "sales"


