"""Kubernetes' objects as the operator sees them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from colocation.manifests.clone_job import CloneJobSettings, clone_job
from colocation.model.clone import CloneSource, CloneSpec
from colocation.state.objects import JobPhase
from colocation.state.observation import Observation
from colocation.state.parse import parse_agent, parse_clone_job, parse_group, parse_node, parse_table

from .objects import NOW, agent

TIME = "2026-11-21T10:00:00Z"


def metadata(**more: Any) -> dict[str, Any]:
    identity = {"name": "it", "namespace": "shop", "uid": "12345678-uid", "resourceVersion": "7"}
    return {**identity, "creationTimestamp": TIME, **more}


def job(status: dict[str, Any], failures: int = 0) -> dict[str, Any]:
    source = CloneSource(node="node-1", url="https://10.0.0.1:8440")
    spec = CloneSpec(namespace="shop", group="sales", bucket=3, target="node-2", tables=(), sources=(source,))
    settings = CloneJobSettings(namespace="system", image="operator:1")
    body = clone_job("clone-x", spec, None, failures, settings)
    return {**body, "metadata": {**metadata(), **body["metadata"]}, "status": status}


def ended(kind: str, status: str = "True") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, "lastTransitionTime": TIME, "message": "because"}]}


NODE_PORT: list[dict[str, Any]] = [{"containerPort": 8441}, {"containerPort": 8440, "hostPort": 18440}]


@pytest.mark.parametrize(
    ("status", "phase", "failures"),
    [
        pytest.param({}, "pending", 1, id="no pod yet"),
        pytest.param({"active": 1, "ready": 0}, "pending", 1, id="its pod starts"),
        pytest.param({"active": 1, "ready": 1}, "running", 1, id="its pod runs"),
        pytest.param(ended("Complete"), "succeeded", 1, id="succeeded"),
        pytest.param(ended("Failed"), "failed", 2, id="failed: counted"),
        pytest.param(ended("Failed", "False"), "pending", 1, id="condition that does not hold"),
        pytest.param(ended("SuccessCriteriaMet"), "pending", 1, id="about to succeed"),
    ],
)
def test_phase_of_a_clone_job(status: dict[str, Any], phase: JobPhase, failures: int) -> None:
    """Failures are those of the Job's annotation, and its own."""
    parsed = parse_clone_job(job(status, failures=1))
    assert parsed is not None
    assert (parsed.phase, parsed.failures) == (phase, failures)
    over = phase in ("succeeded", "failed")
    assert parsed.finished_at == (datetime(2026, 11, 21, 10, tzinfo=UTC) if over else None)


def test_job_that_is_not_ours_is_no_clone() -> None:
    """Somebody else's Job that carries our labels."""
    assert parse_clone_job({"metadata": metadata(labels={}), "spec": {}}) is None


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([{"type": "Ready", "status": "True", "lastTransitionTime": TIME}], True),
        ([{"type": "Ready", "status": "Unknown", "lastTransitionTime": TIME}], False),
        ([{"type": "DiskPressure", "status": "True", "lastTransitionTime": TIME}], False),
        ([], False),
    ],
)
def test_node_is_ready_only_when_it_reports_it(conditions: list[dict[str, str]], ready: bool) -> None:
    """Unknown is what a lost node shows."""
    assert parse_node({"metadata": metadata(), "status": {"conditions": conditions}}).ready is ready


def test_pod_without_a_node_is_no_agent_yet() -> None:
    """It is taken note of when it is scheduled."""
    assert parse_agent({"metadata": metadata(), "spec": {}}) is None
    parsed = parse_agent({"metadata": metadata(), "spec": {"nodeName": "node-1"}})
    assert parsed is not None
    assert parsed.url is None


@pytest.mark.parametrize(
    ("pods", "url"),
    [
        pytest.param([agent("node-1", "10.0.0.1")], "https://10.0.0.1:8440", id="one"),
        pytest.param([agent("node-1", "fd00::1")], "https://[fd00::1]:8440", id="IPv6"),
        pytest.param([agent("node-1", None)], None, id="no address yet"),
        pytest.param([agent("node-1", "10.0.0.1", deleting=True)], None, id="going"),
        pytest.param(
            [agent("node-1", "10.0.0.1", deleting=True), agent("node-1", "10.0.0.2")], "https://10.0.0.2:8440",
            id="its successor",
        ),
        pytest.param(
            [agent("node-1", "10.0.0.2"), agent("node-1", "10.0.0.1", deleting=True)], "https://10.0.0.2:8440",
            id="its successor, in any order",
        ),
    ],
)  # fmt: skip
def test_where_a_nodes_agent_listens(pods: list[Any], url: str | None) -> None:
    """At the pod that has an address and stays."""
    assert Observation(NOW, agents=tuple(pods)).agent_urls == {"node-1": url}


def pod(ports: list[dict[str, Any]], **status: str) -> dict[str, Any]:
    containers = [{"name": "side"}, {"name": "agent", "ports": ports}]
    return {"metadata": metadata(), "spec": {"nodeName": "node-1", "containers": containers}, "status": status}


@pytest.mark.parametrize(
    ("body", "url"),
    [
        pytest.param(pod(NODE_PORT, podIP="10.0.0.1", hostIP="192.0.2.1"), "https://192.0.2.1:18440", id="node's port"),
        pytest.param(pod(NODE_PORT, hostIP="192.0.2.1"), "https://192.0.2.1:18440", id="starting: no pod IP yet"),
        pytest.param(pod(NODE_PORT, podIP="fd00::1", hostIP="fd01::1"), "https://[fd01::1]:18440", id="IPv6"),
        pytest.param(pod([{"containerPort": 8440}], podIP="10.0.0.1", hostIP="192.0.2.1"), "https://10.0.0.1:8440",
                     id="no port of the node"),
        pytest.param(pod([{"containerPort": 8441, "hostPort": 9}], podIP="10.0.0.1", hostIP="192.0.2.1"),
                     "https://10.0.0.1:8440", id="another port"),
        pytest.param(pod([{"containerPort": 8440, "hostPort": 10**6}], podIP="10.0.0.1", hostIP="192.0.2.1"),
                     "https://10.0.0.1:8440", id="no such port"),
    ],
)  # fmt: skip
def test_where_readers_reach_an_agent(body: dict[str, Any], url: str) -> None:
    """At its node's address, which outlives the pod, where it has a port there; the operator asks the pod itself."""
    parsed = parse_agent(body)
    assert parsed is not None
    assert Observation(NOW, agents=(parsed,)).readers_urls == {"node-1": url}


def test_readers_keep_the_address_of_an_agent_that_restarts() -> None:
    """Also while one pod goes and the next one is not there yet; the newest pod's address counts."""
    going = parse_agent({**pod(NODE_PORT, podIP="10.0.0.1", hostIP="192.0.2.1"), "metadata": {
        **metadata(), "deletionTimestamp": "2026-11-21T00:00:00Z"}})
    new = parse_agent(pod(NODE_PORT, podIP="10.0.0.2", hostIP="192.0.2.9"))
    assert going is not None and new is not None
    assert Observation(NOW, agents=(going,)).readers_urls == {"node-1": "https://192.0.2.1:18440"}
    for pods in ((going, new), (new, going)):
        assert Observation(NOW, agents=pods).readers_urls == {"node-1": "https://192.0.2.9:18440"}
    before = {"node-1": "https://192.0.2.1:18440"}
    assert Observation(NOW, last_readers_urls=before).readers_urls == before


def test_spec_that_makes_no_sense_gives_the_reason() -> None:
    """What the CRD cannot check is found here: columns that differ in case only."""
    columns = [{"name": "a", "type": "int"}, {"name": "A", "type": "int"}]
    parsed = parse_table({"metadata": metadata(), "spec": {"columns": columns, "bucketedBy": ["a"]}})
    assert parsed.spec is None
    assert "columns named twice: a" in parsed.spec_error


def test_fields_of_newer_definitions_are_ignored() -> None:
    """A newer CRD puts its defaults into every object; after a roll back every table would be InvalidSpec."""
    column = {"name": "a", "type": "int", "later": "", "comment": ""}
    spec = {"columns": [column], "bucketedBy": ["a"], "later": {}, "retention": {"seconds": 5, "later": 7}}
    parsed = parse_table({"metadata": metadata(), "spec": spec})
    assert parsed.spec is not None and parsed.spec.retention.seconds == 5
    of_group = {"bucketKey": ["int"], "buckets": 4, "replicas": 2, "later": "", "relocation": {"later": 1}}
    group = parse_group({"metadata": metadata(), "spec": of_group})
    assert group.spec is not None
