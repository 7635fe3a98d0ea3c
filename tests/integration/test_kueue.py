"""Kueue holds labelled applications back and admits them, next to the real operator's webhook and ``submit``.

The test plays the Job controller, and where it does not run Kubeflow's operator, as far as Kueue looks at what they do.
"""

import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from colocation.model.names import node_label
from colocation.submit.queue_holds import QUEUE_LABEL, WORKLOAD_LABEL
from devcluster import binaries
from tests.support.environments import CHECKOUT

from .control_plane import ControlPlane, dying_with_us, kubeconfig_of
from .installation import SUCCEED_IN_TWO_STEPS, Installation, installed
from .kueue import EXAMPLES, running_kueue
from .objects import JsonObject, as_json, group, table
from .test_admission import until_asked
from .webhooks import add_spark_kinds, await_spark_kinds, register_webhooks, serve_webhooks

pytestmark = pytest.mark.deep

SHOP = "shop"
NAMESPACES = (SHOP,)
KUBEFLOW = "sparkapplications.sparkoperator.k8s.io"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
OF_FLAVOR = {"colocation.dev/data": "true"}
TOLERATION = {"key": "dedicated", "operator": "Equal", "value": "colocation", "effect": "NoSchedule"}
NO_QUOTA = "couldn't assign flavors to pod set {}: insufficient unused quota for cpu in flavor colocation-data, {} more"


@pytest.fixture(scope="module")
def installation(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The operator with webhooks, a stable group ``sales``, and Kueue with the queue of examples/kueue."""
    with installed(plane, tmp_path_factory.mktemp("installation"), nodes=2) as one:
        port = serve_webhooks(one)
        one.start_operator()
        add_spark_kinds(one)
        for body, kind, ready in ((group(), "cg", "Stable"), (table(), "ct", "Ready")):
            one.kubectl("create", "-n", SHOP, "-f", "-", stdin=as_json(body))
            one.wait(kind, body["metadata"]["name"], SHOP, f"condition={ready}")
        await_spark_kinds(one)
        register_webhooks(one, port, "unguarded")
        until_asked(one)
        with running_kueue(plane, tmp_path_factory.mktemp("kueue")):
            one.kubectl("apply", "-f", str(EXAMPLES / "queues.yaml"))
            one.kubectl("wait", "clusterqueue/colocation", "--for=condition=Active", "--timeout=60s")
            yield one


def application(name: str = "join", **driver: Any) -> JsonObject:
    """The example's under another name; ``driver`` adds or replaces fields of its driver."""
    body: JsonObject = yaml.safe_load((EXAMPLES / "application.yaml").read_text())
    body["metadata"]["name"] = name
    body["spec"]["driver"] |= driver
    return body


@contextmanager
def applied(installation: Installation, body: JsonObject) -> Iterator[None]:
    """A SparkApplication by plain kubectl, which is deleted afterwards."""
    installation.kubectl("apply", "-f", "-", stdin=as_json(body))
    try:
        yield
    finally:
        remove(installation, KUBEFLOW, body["metadata"]["name"])


def remove(installation: Installation, kind: str, name: str) -> None:
    """Delete an application, and its Workload as the garbage collector would."""
    uid = installation.get(kind, name, "-n", SHOP)["metadata"]["uid"]
    installation.kubectl("delete", kind, name, "-n", SHOP)
    installation.kubectl("delete", "workloads", "-n", SHOP, "-l", f"{WORKLOAD_LABEL}={uid}", "--timeout=60s")


@contextmanager
def submitted(
    installation: Installation, body: JsonObject, *options: str, kubeconfig: Path | None = None
) -> "Iterator[subprocess.Popen[str]]":
    """``colocation submit``, which waits for the application's end, and is itself ended afterwards."""
    command = [sys.executable, "-c", "from colocation.cli.main import main; main()", "submit", "-f", "-", *options]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "KUBECONFIG": str(kubeconfig or installation.plane.kubeconfig)},
    )  # fmt: skip
    assert process.stdin
    process.stdin.write(as_json(body))
    process.stdin.close()
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def said(process: "subprocess.Popen[str]", text: str) -> str:
    """The first line with this text."""
    assert process.stdout
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return line
    raise AssertionError("".join(lines))


def await_suspended(installation: Installation, kind: str, name: str, suspended: bool) -> JsonObject:
    """The object once Kueue has suspended it, or admitted it."""
    installation.wait(kind, name, SHOP, f"jsonpath={{.spec.suspend}}={str(suspended).lower()}")
    return installation.get(kind, name, "-n", SHOP)


def end(installation: Installation, name: str) -> None:
    """What Kubeflow's operator writes when the application has ended."""
    status = as_json({"status": {"applicationState": {"state": "COMPLETED"}, "driverInfo": {}}})
    installation.kubectl("patch", KUBEFLOW, name, "-n", SHOP, "--subresource=status", "--type=merge", "-p", status)


def group_labels(affinity: JsonObject) -> list[str]:
    """The labels of nodes that executors need."""
    terms = affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return [one["key"] for term in terms for one in term["matchExpressions"]]


def assert_placed(stored: JsonObject, *, admitted: bool) -> None:
    """Our affinity, mounts and configuration; and in both pods what the flavor adds, if it is admitted."""
    executor = stored["spec"]["executor"]["template"]["spec"]
    assert group_labels(executor["affinity"]) == [node_label(SHOP, "sales")]
    assert "colocation-data" in [one["name"] for one in executor["volumes"]]
    assert stored["spec"]["sparkConf"]["spark.sql.extensions"] == "dev.colocation.spark.ColocationExtensions"
    for role in ("driver", "executor"):
        pod = stored["spec"][role]["template"]["spec"]
        assert pod.get("nodeSelector") == (OF_FLAVOR if admitted else None)
        assert pod.get("tolerations") == ([TOLERATION] if admitted else None)


def test_an_application_waits_for_quota(installation: Installation) -> None:
    """``submit`` shows for what it waits; admitted, both are in the pods' templates: our placement and the flavor's."""
    with applied(installation, application("first")):
        assert_placed(await_suspended(installation, KUBEFLOW, "first", False), admitted=True)
        with submitted(installation, application("second")) as command:
            assert NO_QUOTA.format("executor", 6) in said(command, "second: held back by Kueue in queue shop: ")
            assert_placed(await_suspended(installation, KUBEFLOW, "second", True), admitted=False)
            end(installation, "first")
            assert_placed(await_suspended(installation, KUBEFLOW, "second", False), admitted=True)
            end(installation, "second")
            assert command.stdout and "sparkapplication second: COMPLETED" in command.stdout.read()
            assert command.wait() == 0
        remove(installation, KUBEFLOW, "second")


def test_a_driver_without_an_operator_waits_for_quota(installation: Installation) -> None:
    """The Job is held back; its pod gets the flavor's selector, and the executors' template stays as it was."""
    with applied(installation, application("first")):
        await_suspended(installation, KUBEFLOW, "first", False)
        body = application("direct", coreRequest="2")
        with submitted(installation, body, "--direct") as command:
            assert NO_QUOTA.format("main", 1) in said(command, "direct: held back by Kueue in queue shop: ")
            held = await_suspended(installation, "job", "direct", True)
            end(installation, "first")
            admitted = await_suspended(installation, "job", "direct", False)
            end_job(installation, "direct")
            assert command.stdout and "spark application direct: Succeeded" in command.stdout.read()
            assert command.wait() == 0
        remove(installation, "job", "direct")
    before, after = (one["spec"]["template"] for one in (held, admitted))
    assert "nodeSelector" not in before["spec"] and after["spec"]["nodeSelector"] == OF_FLAVOR
    assert after["spec"]["tolerations"] == [TOLERATION]
    [template] = {one["metadata"]["annotations"]["colocation.dev/executor-pod-template"] for one in (before, after)}
    assert group_labels(json.loads(template)["spec"]["affinity"]) == [node_label(SHOP, "sales")]


def end_job(installation: Installation, name: str) -> None:
    """What the Job controller writes when the driver has ended."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kinds = ("SuccessCriteriaMet", "Complete") if SUCCEED_IN_TWO_STEPS else ("Complete",)
    ended = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds]
    status = as_json({"status": {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": ended}})
    installation.kubectl("patch", "job", name, "-n", SHOP, "--subresource=status", "--type=merge", "-p", status)


@contextmanager
def stopped_queue(installation: Installation, policy: str) -> Iterator[None]:
    """Nothing is admitted; ``HoldAndDrain``: what runs is evicted."""
    for_all = ("patch", "clusterqueue", "colocation", "--type=merge", "-p")
    installation.kubectl(*for_all, as_json({"spec": {"stopPolicy": policy}}))
    yield
    installation.kubectl(*for_all, as_json({"spec": {"stopPolicy": "None"}}))


def test_an_evicted_application_is_as_it_was_before(installation: Installation) -> None:
    """Kueue takes back what the flavor added; our placement stays, and it can be admitted again."""
    with applied(installation, application("evicted", nodeSelector={"disk": "fast"})):
        first = await_suspended(installation, KUBEFLOW, "evicted", False)
        with stopped_queue(installation, "HoldAndDrain"):
            evicted = await_suspended(installation, KUBEFLOW, "evicted", True)
        again = await_suspended(installation, KUBEFLOW, "evicted", False)
    admitted = ({"disk": "fast", **OF_FLAVOR}, OF_FLAVOR)
    assert selectors(evicted) == ({"disk": "fast"}, None)
    assert selectors(first) == selectors(again) == admitted
    for one in (first, evicted, again):
        affinity = one["spec"]["executor"]["template"]["spec"]["affinity"]
        assert group_labels(affinity) == [node_label(SHOP, "sales")]


def selectors(stored: JsonObject) -> tuple[JsonObject | None, ...]:
    """Of driver and executors."""
    return tuple(stored["spec"][role]["template"]["spec"].get("nodeSelector") for role in ("driver", "executor"))


SPARK_SUBMIT = """\
#!/bin/sh -e
for word in "$@"; do
  case $word in
    spark.kubernetes.*.podTemplateFile=*)
      cp "${word#*=}" "$HANDED_OVER.part"
      mv "$HANDED_OVER.part" "$HANDED_OVER/${word%%=*}"
      ;;
  esac
done
"""


@contextmanager
def kubeflows_operator(installation: Installation, folder: Path) -> Iterator[Path]:
    """Kubeflow's operator, with a ``spark-submit`` that keeps the pod templates in the folder that this yields."""
    binaries.ensure((binaries.SPARK_OPERATOR,))
    program, handed_over = folder / "bin" / "spark-submit", folder / "handed-over"
    program.parent.mkdir()
    handed_over.mkdir()
    program.write_text(SPARK_SUBMIT)
    program.chmod(0o755)
    command = [str(binaries.SPARK_OPERATOR.program("spark-operator")), "controller", "start", f"--namespaces={SHOP}",
               "--enable-ui-service=false", "--health-probe-bind-address=0",
               f"--kubeconfig={installation.plane.kubeconfig}"]  # fmt: skip
    environment = {**os.environ, "SPARK_HOME": str(folder), "HANDED_OVER": str(handed_over),
                   "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}  # fmt: skip
    with (folder / "operator.log").open("wb") as log:
        process = subprocess.Popen(dying_with_us(command), env=environment, stdout=log, stderr=log)
    try:
        yield handed_over
    finally:
        process.kill()
        process.wait()


def test_kubeflows_operator_submits_what_was_admitted(installation: Installation, tmp_path: Path) -> None:
    """Nothing before; then pod templates with both, our placement and the flavor's."""
    with kubeflows_operator(installation, tmp_path) as handed_over:
        with stopped_queue(installation, "Hold"), submitted(installation, application("run")) as command:
            said(command, "run: SUSPENDED (held back by Kueue in queue shop: ClusterQueue colocation is inactive)")
            assert not list(handed_over.iterdir())
        paths = [handed_over / f"spark.kubernetes.{role}.podTemplateFile" for role in ("driver", "executor")]
        deadline = time.monotonic() + 60
        while not all(path.exists() for path in paths):
            assert time.monotonic() < deadline, (tmp_path / "operator.log").read_text()[-4000:]
            time.sleep(0.2)
        driver, executor = (yaml.safe_load(path.read_text())["spec"] for path in paths)
        remove(installation, KUBEFLOW, "run")
    assert driver["nodeSelector"] == executor["nodeSelector"] == OF_FLAVOR
    assert driver["tolerations"] == executor["tolerations"] == [TOLERATION]
    assert group_labels(executor["affinity"]) == [node_label(SHOP, "sales")]


def test_who_may_not_read_workloads_learns_how_to_see_the_reason(installation: Installation, tmp_path: Path) -> None:
    """The command goes on waiting."""
    resources = f"{KUBEFLOW},colocationgroups.colocation.dev,configmaps"
    installation.kubectl("create", "role", "author", "-n", SHOP, "--verb=get,list,create", f"--resource={resources}")
    installation.kubectl("create", "serviceaccount", "author", "-n", SHOP)
    installation.kubectl("create", "rolebinding", "author", "-n", SHOP, "--role=author",
                         f"--serviceaccount={SHOP}:author")  # fmt: skip
    kubeconfig = tmp_path / "kubeconfig"
    token = installation.kubectl("create", "token", "author", "-n", SHOP)
    kubeconfig.write_text(kubeconfig_of(installation.plane.url, token))
    with stopped_queue(installation, "Hold"):
        with submitted(installation, application("quiet"), kubeconfig=kubeconfig) as command:
            line = said(command, "quiet: held back by Kueue in queue shop; why: ")
            uid = installation.get(KUBEFLOW, "quiet", "-n", SHOP)["metadata"]["uid"]
            see = f"kubectl describe workloads -n {SHOP} -l {WORKLOAD_LABEL}={uid}"
            assert f"; why: {see} (" in line
            shown = installation.kubectl(*see.split()[1:])
            assert "ClusterQueue colocation is inactive" in shown
        remove(installation, KUBEFLOW, "quiet")


def test_kueue_takes_no_dynamic_allocation(installation: Installation) -> None:
    """Its webhook refuses the application at once; as a Job, or without the label of the queue, it is accepted."""
    body = yaml.safe_load((CHECKOUT / "examples" / "spark-applications" / "kubeflow-dynamic.yaml").read_text())
    body["metadata"]["labels"][QUEUE_LABEL] = SHOP
    with submitted(installation, body) as command:
        assert "spec.dynamicAllocation.enabled: Invalid value: true" in said(command, "vsparkapplication.kb.io")
        assert command.wait() == 1
    with submitted(installation, body, "--direct", "--no-wait") as command:
        assert "created in shop" in said(command, "spark application join-dynamic")
    remove(installation, "job", "join-dynamic")
