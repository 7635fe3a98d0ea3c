"""The real operator with real agents against a real API server; only kubelets and the Job controller are played."""

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from colocation.model.metrics import AGENT_METRICS, OPERATOR_METRICS
from colocation.model.names import LABEL_LEADS, node_label
from tests.monitoring.server import Prometheus, running_prometheus
from tests.support.ports import free_ports
from tests.support.waiting import until

from .control_plane import ControlPlane
from .installation import SYSTEM, Installation, installed
from .objects import as_json, group, table

NAMESPACE = "shop"
NAMESPACES = (NAMESPACE,)
UNSTABLE = "jsonpath={.status.stable}=false"
STABLE = "condition=Stable"


@pytest.fixture(scope="module")
def installation(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Three nodes with agents, the operator, a stable group ``sales`` with a loaded table ``orders``."""
    with installed(plane, tmp_path_factory.mktemp("installation"), nodes=3) as one:
        one.start_operator()
        relocation = {"downToleranceSeconds": 2}
        one.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=as_json(group(buckets=3, relocation=relocation)))
        one.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=as_json(table()))
        one.wait("cg", "sales", NAMESPACE, STABLE)
        one.wait("ct", "orders", NAMESPACE, "condition=Ready")
        one.load(NAMESPACE, "orders")
        yield one


def status_of(installation: Installation) -> dict[str, object]:
    return installation.read("cg", "sales", NAMESPACE)["status"]


def running_jobs(installation: Installation) -> list[str]:
    return [job["metadata"]["name"] for job in installation.read("jobs", namespace=SYSTEM)["items"]]


def test_operator_writes_and_agents_are_asked(installation: Installation) -> None:
    """The group is stable, its ConfigMap names the agents, its snapshot what they hold, its events what happened."""
    data = installation.read("configmaps", "sales-spark", NAMESPACE)["data"]
    assert json.loads(data["agents.json"]) == {
        node: f"https://{address}:8440" for node, address in installation.nodes.items()
    }
    assert data["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")
    events = {event["reason"] for event in installation.get("events", "-n", NAMESPACE)["items"]}
    assert {"MapCreated", "Stable", "TableAccepted"} <= events


def test_nodes_of_a_group_have_its_label(installation: Installation) -> None:
    """The operator puts it back where somebody takes it away, and takes away what it did not put there."""
    label, leftover = node_label(NAMESPACE, "sales"), node_label(NAMESPACE, "gone")

    def labelled(name: str) -> list[str]:
        nodes = [node["metadata"] for node in installation.read("nodes")["items"]]
        return [node["name"] for node in nodes if node.get("labels", {}).get(name) == "true"]

    nodes = sorted({node for row in status_of(installation)["backendsPerBucketSeq"] for node in row})
    until(lambda: labelled(label) == nodes)
    done = installation.plane.kubectl("label", "node", nodes[0], f"{label}-", f"{leftover}=true")
    assert done.returncode == 0, done.stderr
    until(lambda: labelled(label) == nodes and labelled(leftover) == [])


def test_snapshot_health_and_metrics_are_served(installation: Installation) -> None:
    """The CLI reads the snapshot by port-forward; kubelet and Prometheus read health and metrics."""
    port = installation.operator_environment["COLOCATION_SNAPSHOT_PORT"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/snapshot") as answer:
        snapshot = json.load(answer)
    assert [node["name"] for node in snapshot["nodes"]] == sorted(installation.nodes)
    assert snapshot["groups"][0]["name"] == "sales"
    for path, text in (("healthz", "last pass"), ("readyz", "last pass"), ("metrics", "colocation_group_stable{")):
        with urllib.request.urlopen(f"http://127.0.0.1:{installation.health_port}/{path}") as answer:
            assert text in answer.read().decode()


def test_prometheus_takes_all_of_it(installation: Installation, tmp_path: Path) -> None:
    """A real server scrapes operator and agents, has every metric of the table, and evaluates every rule."""
    operator = {"": f"127.0.0.1:{installation.health_port}"}
    jobs = {"colocation-operator": operator, "colocation-agent": installation.agent_health_addresses}
    with running_prometheus(tmp_path / "prometheus", jobs) as prometheus:
        prometheus.wait(lambda one: one.value("count(up == 1)") == 1 + len(installation.nodes))
        known = {one.base_name for one in (*OPERATOR_METRICS, *AGENT_METRICS)}
        shown = set(prometheus.get("metadata"))
        assert {name.removesuffix("_total") for name in shown} >= known
        assert prometheus.value('colocation_group_stable{namespace="shop",group="sales"}') == 1
        assert prometheus.value('sum(colocation_tables{accepted="True"})') == 1
        assert prometheus.value("count(colocation_agent_certificate_end_timestamp_seconds > time())") == 3
        prometheus.wait(lambda one: all(rule["health"] == "ok" for rule in rules_of(one)))
        firing = {rule["name"] for rule in rules_of(prometheus) if rule["state"] == "firing"}
        assert firing == set()


def rules_of(prometheus: Prometheus) -> list[dict[str, Any]]:
    return [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]


def holder_of(installation: Installation, node: str) -> dict[str, Any] | None:
    """The metadata of its pod."""
    pods = installation.read("pods", namespace=SYSTEM)["items"]
    return next((pod["metadata"] for pod in pods if pod["metadata"]["name"] == f"colocation-holder-{node}"), None)


def test_an_evicted_holder_waits_and_is_taken_back(installation: Installation) -> None:
    """There is no other node for the replicas; `kubectl uncordon` ends the drain, and the node has a new holder."""
    until(lambda: all(holder_of(installation, node) for node in installation.nodes))
    before = holder_of(installation, "node-1")
    assert before is not None
    drain = ("drain", "node-1", "--ignore-daemonsets", "--force", "--pod-selector=app.kubernetes.io/component=holder")
    drained = installation.plane.kubectl(*drain, "--timeout=5s")
    assert drained.returncode != 0 and "evicting pod" in drained.stdout + drained.stderr, drained.stderr
    after = holder_of(installation, "node-1")
    assert after is not None and (after["uid"], "deletionTimestamp" in after) == (before["uid"], True)
    until(lambda: drains(installation) == {"node-1": "its holder pod was evicted"})
    installation.kubectl("uncordon", "node-1")
    until(lambda: (holder_of(installation, "node-1") or before)["uid"] != before["uid"])
    until(lambda: drains(installation) == {})


def drains(installation: Installation) -> dict[str, str]:
    """Node -> why it is drained, as the operator's last pass has it."""
    port = installation.operator_environment["COLOCATION_SNAPSHOT_PORT"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/snapshot") as answer:
        nodes = json.load(answer)["nodes"]
    return {node["name"]: node["drainMessage"] for node in nodes if node["drain"]}


def test_a_second_operator_stands_by_and_takes_over(installation: Installation) -> None:
    """Both are ready, and one has the leader's label, by which the Services choose; it moves to the successor."""
    pods = {name: operator_pod(installation, name) for name in ("operator-a", "operator-b")}
    before = installation.operator_environment
    installation.stop_operator()
    try:
        installation.operator_environment = {**before, **pods["operator-a"]}
        installation.start_operator()
        until(lambda: leaders(installation) == ["operator-a"])
        assert readiness(installation.operator_environment).startswith("leads")
        first, installation.operator = installation.operator, None
        installation.operator_environment = {**before, **pods["operator-b"]}
        installation.start_operator()
        until(lambda: readiness(installation.operator_environment).startswith("stands by"))
        assert leaders(installation) == ["operator-a"]
        assert first is not None
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 0
        until(lambda: leaders(installation) == ["operator-b"])
        assert readiness(installation.operator_environment).startswith("leads")
        installation.stop_operator()
    finally:
        installation.operator_environment = before
    installation.start_operator()


def operator_pod(installation: Installation, name: str) -> dict[str, str]:
    """The pod of an operator, and the environment of its process."""
    labels = {"app.kubernetes.io/name": "colocation-operator", "app.kubernetes.io/component": "operator"}
    containers = [{"name": "operator", "image": "operator"}]
    spec = {"nodeName": "node-1", "serviceAccountName": "colocation-operator", "containers": containers}
    metadata = {"name": name, "namespace": SYSTEM, "labels": labels}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    installation.kubectl("create", "-f", "-", stdin=as_json(body))
    names = ("COLOCATION_HEALTH_PORT", "COLOCATION_SNAPSHOT_PORT", "COLOCATION_ADMIN_PORT")
    ports = {variable: str(port) for variable, port in zip(names, free_ports(len(names)), strict=True)}
    return {"COLOCATION_POD_NAME": name, **ports}


def leaders(installation: Installation) -> list[str]:
    """Pods with the leader's label."""
    pods = installation.read("pods", namespace=SYSTEM)["items"]
    return [pod["metadata"]["name"] for pod in pods if pod["metadata"]["labels"].get(LABEL_LEADS) == "true"]


def readiness(environment: dict[str, str]) -> str:
    """What a ready operator reports; empty while it is not ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{environment['COLOCATION_HEALTH_PORT']}/readyz") as answer:
            text: str = answer.read().decode()
    except urllib.error.URLError:
        return ""
    return text


def test_lost_node_is_reported(installation: Installation) -> None:
    """NotReady -> unstable, with the reason, long before anything is repaired: no clone ends unless a test runs it."""
    installation.set_ready("node-3", False)
    installation.wait("cg", "sales", NAMESPACE, UNSTABLE)
    assert status_of(installation)["reason"] == "NodeNotReady"


def test_operator_killed_in_the_middle_of_clones_goes_on(installation: Installation) -> None:
    """Clones run on without the operator; after SIGKILL a new process counts them, and the group is stable again."""
    installation.wait("cg", "sales", NAMESPACE, "jsonpath={.status.clones.running}=2")
    jobs = running_jobs(installation)
    assert len(jobs) == 2
    installation.stop_operator(signal.SIGKILL)
    for name in jobs:
        installation.run_clone(name)
    installation.start_operator()
    installation.wait("cg", "sales", NAMESPACE, STABLE)
    rows = status_of(installation)["backendsPerBucketSeq"]
    assert all(set(row) == {"node-1", "node-2"} for row in rows)
    installation.wait("cg", "sales", NAMESPACE, "jsonpath={.status.clones.succeeded}=2")
    assert running_jobs(installation) == []


def test_node_that_returns_is_used_again(installation: Installation) -> None:
    """What it holds was verified by its agent, so it enters the map without a clone, and the group stays stable."""
    before = status_of(installation)
    installation.set_ready("node-3", True)
    installation.wait("cg", "sales", NAMESPACE, "jsonpath={.status.nodeCount}=3")
    after = status_of(installation)
    assert after["stable"]
    assert after["mapVersion"] > before["mapVersion"]
    assert after["clones"]["succeeded"] == before["clones"]["succeeded"]


def test_objects_are_deleted_while_the_operator_is_down(installation: Installation) -> None:
    """No finalizer waits for us: `kubectl delete` returns, and the group is made again when the operator is back."""
    rows = status_of(installation)["backendsPerBucketSeq"]
    assert installation.stop_operator() == 0
    installation.kubectl("delete", "cg", "sales", "-n", NAMESPACE, "--timeout=50s")
    patch = as_json({"spec": {"buckets": 3, "replicas": 2}})
    installation.kubectl("patch", "ct", "orders", "-n", NAMESPACE, "--type=merge", "-p", patch)
    installation.start_operator()
    until(lambda: installation.plane.kubectl("get", "cg", "sales", "-n", NAMESPACE).returncode == 0)
    installation.wait("cg", "sales", NAMESPACE, STABLE)
    assert [set(row) for row in status_of(installation)["backendsPerBucketSeq"]] == [set(row) for row in rows]


def test_dropped_table_is_recycled_on_every_node(installation: Installation) -> None:
    """`kubectl delete ct` returns at once; the folders move into the recycle bins."""
    installation.kubectl("delete", "ct", "orders", "-n", NAMESPACE, "--timeout=50s")
    installation.wait("cg", "sales", NAMESPACE, "jsonpath={.status.tableCount}=0")
    installation.wait("cg", "sales", NAMESPACE, "jsonpath={.status.deleteAfter}")
    folders = [installation.data_root(node) / NAMESPACE for node in installation.nodes]
    until(lambda: not any(list(folder.glob("orders-*")) for folder in folders))
