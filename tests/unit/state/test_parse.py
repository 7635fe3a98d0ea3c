"""Kubernetes' objects as the operator sees them."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from colocation.manifests.clone_job import (
    ANNOTATION_FAILURES,
    ANNOTATION_NAMESPACE,
    ANNOTATION_TARGET,
    CloneJobSettings,
    clone_job,
)
from colocation.model.base import MAX_BUCKETS
from colocation.model.clone import CloneSource, CloneSpec
from colocation.model.names import (
    ANNOTATION_ACCEPTED_DISK,
    ANNOTATION_ADOPTS,
    ANNOTATION_APPROVED_PROPOSAL,
    ANNOTATION_DISCARDED_FOLDERS,
    ANNOTATION_MARKED_UNSTABLE,
    ANNOTATION_RECOVERS,
    LABEL_BUCKET,
    LABEL_GROUP,
    LABEL_NODE_CERTIFICATES,
    LABEL_NODE_TOKENS,
    LABEL_PRIVATE,
    NODE_LABEL_PREFIX,
    RECOVER_PREFIX,
)
from colocation.state.certificate_requests import parse_certificate_request
from colocation.state.objects import Identity, JobPhase, ObservedAgent, ObservedCloneError, ObservedHolder, ObservedNode
from colocation.state.observation import Observation
from colocation.state.parse import (
    MAX_FAILURES,
    UNKNOWN_TIME,
    format_time,
    parse_agent,
    parse_clone_error,
    parse_clone_job,
    parse_group,
    parse_holder,
    parse_identity,
    parse_node,
    parse_table,
)

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
    assert parsed.spec_error == "spec: columns named twice: a"


def test_fields_of_newer_definitions_are_ignored() -> None:
    """A newer CRD puts its defaults into every object; after a roll back every table would be InvalidSpec."""
    column = {"name": "a", "type": "int", "later": "", "comment": ""}
    spec = {"columns": [column], "bucketedBy": ["a"], "later": {}, "retention": {"seconds": 5, "later": 7}}
    parsed = parse_table({"metadata": metadata(), "spec": spec})
    assert parsed.spec is not None and parsed.spec.retention.seconds == 5
    of_group = {"bucketKey": ["int"], "buckets": 4, "replicas": 2, "later": "", "relocation": {"later": 1}}
    group = parse_group({"metadata": metadata(), "spec": of_group})
    assert group.spec is not None


AT = datetime(2026, 11, 21, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        pytest.param(metadata(generation=7), Identity("shop", "it", "12345678-uid", "7", 7, AT), id="all of it"),
        pytest.param(metadata(deletionTimestamp=TIME), Identity("shop", "it", "12345678-uid", "7", 0, AT, True),
                     id="it is being deleted"),
        pytest.param({"generation": "7", "name": 5, "creationTimestamp": "soon"},
                     Identity("", "", "", "", 0, UNKNOWN_TIME), id="nothing that is understood"),
    ],
)  # fmt: skip
def test_the_metadata_of_any_object(shown: dict[str, Any], expected: Identity) -> None:
    """What is missing is empty."""
    assert parse_identity({"metadata": shown}) == expected


def test_times_are_written_in_utc() -> None:
    """In whole seconds."""
    east = timezone(timedelta(hours=2))
    assert format_time(datetime(2026, 11, 21, 12, 0, 0, 999_999, tzinfo=east)) == TIME


@pytest.mark.parametrize(("label", "is_private"), [("true", True), ("false", False), (None, False)])
def test_what_users_ask_of_a_group(label: str | None, is_private: bool) -> None:
    """By annotations; others' annotations ask for nothing."""
    annotations = {
        ANNOTATION_MARKED_UNSTABLE: "somebody", ANNOTATION_APPROVED_PROPOSAL: "0a1b", f"{RECOVER_PREFIX}12345678": "",
        f"{RECOVER_PREFIX}87654321": "yes", "other/12345678": "",
    }  # fmt: skip
    body = {"metadata": metadata(annotations=annotations, labels={LABEL_PRIVATE: label} if label else {}), "spec": {}}
    found = parse_group(body)
    assert (found.marked_unstable, found.approved_proposal, found.private) == ("somebody", "0a1b", is_private)
    assert found.recover_requests == {"12345678", "87654321"}
    assert found.spec is None and "spec.buckets" in found.spec_error


def test_what_a_table_is_made_from() -> None:
    """By annotations."""
    annotations = {ANNOTATION_RECOVERS: "old", ANNOTATION_ADOPTS: "0a1b2c3d"}
    found = parse_table({"metadata": metadata(annotations=annotations)})
    assert (found.recovers, found.adopts, found.replaces) == ("old", "0a1b2c3d", None)
    plain = parse_table({"metadata": metadata()})
    assert (plain.recovers, plain.adopts) == (None, "")


def test_a_node() -> None:
    """Labels by which executors find groups are apart from the others."""
    label = f"{NODE_LABEL_PREFIX}shop.sales"
    not_ready = {"type": "Ready", "status": "False", "message": "no", "lastTransitionTime": TIME}
    body = {
        "metadata": metadata(
            labels={"zone": "a", label: "true", "odd": 5}, deletionTimestamp=TIME,
            annotations={ANNOTATION_ACCEPTED_DISK: "0" * 16, ANNOTATION_DISCARDED_FOLDERS: "shop/a-1  shop/b-2"},
        ),
        "status": {"conditions": ["odd", not_ready]},
    }  # fmt: skip
    assert parse_node(body) == ObservedNode(
        "it", {"zone": "a"}, False, AT, "no", True, uid="12345678-uid", accepted_disk="0" * 16,
        discarded_folders=frozenset({"shop/a-1", "shop/b-2"}), group_labels={label: "true"},
    )  # fmt: skip
    assert parse_node({"metadata": metadata()}).not_ready_message == "the node has no Ready condition"


def taint(key: str, effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "effect": effect}


@pytest.mark.parametrize(
    ("spec", "schedulable"),
    [
        pytest.param({}, True, id="nothing is said"),
        pytest.param({"unschedulable": True}, False, id="cordoned"),
        pytest.param({"unschedulable": False}, True, id="not cordoned any more"),
        pytest.param({"taints": [taint("full")]}, False, id="a taint"),
        pytest.param({"taints": [taint("full", "NoExecute")]}, False, id="a taint that evicts"),
        pytest.param({"taints": [taint("full", "PreferNoSchedule")]}, True, id="a wish"),
        pytest.param({"taints": [taint("ours")]}, True, id="one that is tolerated"),
        pytest.param({"taints": [taint("node.kubernetes.io/not-ready")]}, True, id="not ready: the condition tells"),
        pytest.param({"taints": [taint("ours"), taint("full")]}, False, id="one of two"),
        pytest.param({"unschedulable": True, "taints": [taint("ours")]}, False, id="cordoned, and tolerated"),
    ],
)
def test_whether_a_node_takes_new_replicas(spec: dict[str, Any], schedulable: bool) -> None:
    """As the scheduler would see it."""
    assert parse_node({"metadata": metadata(), "spec": spec}, ("ours",)).schedulable is schedulable


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([], True),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "PodScheduled", "status": "False"}], True),
        ([{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}], False),
    ],
)
@pytest.mark.parametrize("label", ["true", "false", None])
def test_an_agents_pod(conditions: list[dict[str, str]], ready: bool, label: str | None) -> None:
    """Labels tell of what release it is."""
    labels = {LABEL_NODE_TOKENS: label, LABEL_NODE_CERTIFICATES: label} if label else {}
    status = {"podIP": "10.0.0.1", "hostIP": "192.0.2.1", "conditions": conditions}
    body = {"metadata": metadata(labels=labels, deletionTimestamp=TIME), "spec": {"nodeName": "n"}, "status": status}
    assert parse_agent(body) == ObservedAgent(
        "shop", "it", "12345678-uid", "7", "n", "10.0.0.1", True, "192.0.2.1", 0, ready,
        takes_node_tokens=label == "true", shares_certificate=label != "true",
    )  # fmt: skip
    bare = parse_agent({"metadata": metadata(), "spec": {"nodeName": "n"}})
    assert bare is not None and (bare.address, bare.node_address, bare.deleting) == (None, None, False)


@pytest.mark.parametrize(
    ("phase", "has_ended"), [("Running", False), ("Succeeded", True), ("Failed", True), (None, False)]
)
def test_a_holder_pod(phase: str | None, has_ended: bool) -> None:
    """Its node may not be known yet."""
    body = {"metadata": metadata(), "spec": {"nodeName": "node-1"}, "status": {"phase": phase}}
    assert parse_holder(body) == ObservedHolder("shop", "it", "12345678-uid", "node-1", AT, False, has_ended)
    assert parse_holder({"metadata": metadata()}).node == ""


def with_text(part: str, name: str, text: str | None) -> dict[str, Any]:
    """A clone Job with this label or annotation; None = without it."""
    body = job({}, failures=1)
    texts = {**body["metadata"][part], name: text}
    body["metadata"][part] = {key: value for key, value in texts.items() if value is not None}
    return body


OUR_ANNOTATIONS = (ANNOTATION_FAILURES, ANNOTATION_NAMESPACE, ANNOTATION_TARGET)
NO_BUCKETS = ("", "-1", "x", "1.0", "\u00b2", "\u0663", str(MAX_BUCKETS), "1" * 99)


@pytest.mark.parametrize(
    "body",
    [
        *(with_text("labels", name, None) for name in (LABEL_BUCKET, LABEL_GROUP)),
        *(with_text("annotations", name, None) for name in OUR_ANNOTATIONS),
        *(with_text("labels", LABEL_BUCKET, text) for text in NO_BUCKETS),
        with_text("annotations", ANNOTATION_FAILURES, str(10**9 + 1)),
    ],
)
def test_a_job_without_our_texts_is_no_clone(body: dict[str, Any]) -> None:
    """Whatever else it has."""
    assert parse_clone_job(body) is None


@pytest.mark.parametrize(
    ("body", "bucket", "failures"),
    [
        (with_text("labels", LABEL_BUCKET, "0"), 0, 1),
        (with_text("labels", LABEL_BUCKET, str(MAX_BUCKETS - 1)), MAX_BUCKETS - 1, 1),
        (with_text("annotations", ANNOTATION_FAILURES, str(10**9)), 3, MAX_FAILURES),
    ],
)
def test_numbers_of_a_clone_job(body: dict[str, Any], bucket: int, failures: int) -> None:
    """However many attempts failed, the back-off is the longest."""
    found = parse_clone_job(body)
    assert found is not None
    assert (found.bucket, found.failures, found.group, found.group_namespace, found.target, found.source) == (
        bucket, failures, "sales", "shop", "node-2", None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "is_approved", "is_closed"),
    [
        pytest.param({}, False, False, id="new"),
        pytest.param({"status": {"conditions": [{"type": "Approved"}]}}, True, False, id="approved"),
        pytest.param({"status": {"conditions": [{"type": "Approved"}], "certificate": "x"}}, True, True, id="signed"),
        pytest.param({"status": {"conditions": [{"type": "Denied"}]}}, False, True, id="denied"),
        pytest.param({"status": {"conditions": [{"type": "Approved"}, {"type": "Failed"}]}}, True, True, id="failed"),
        pytest.param({"metadata": metadata(deletionTimestamp=TIME)}, False, True, id="deleted"),
        pytest.param({"status": {"conditions": ["Denied", 5]}}, False, False, id="nothing that is understood"),
    ],
)
def test_what_became_of_a_certificate_request(body: dict[str, Any], is_approved: bool, is_closed: bool) -> None:
    """One that is closed is not judged again."""
    found = parse_certificate_request(body)
    assert (found.is_approved, found.is_closed) == (is_approved, is_closed)


def test_a_certificate_request() -> None:
    """As its requester made it, and the API server authenticated that one."""
    spec = {
        "signerName": "s", "username": "u", "extra": {"k": ["v", 5], "odd": "x"}, "request": "cGVt",
        "usages": ["server auth", 5], "expirationSeconds": 600,
    }  # fmt: skip
    found = parse_certificate_request({"metadata": metadata(), "spec": spec})
    assert (found.name, found.uid, found.resource_version) == ("it", "12345678-uid", "7")
    assert (found.signer, found.user) == ("s", "u")
    assert (found.extra, found.pem, found.usages) == ({"k": ("v",), "odd": ()}, b"pem", ("server auth",))
    assert found.lifetime_seconds == 600
    odd = parse_certificate_request({"spec": {"request": "no base64!", "expirationSeconds": "600"}})
    assert (odd.pem, odd.lifetime_seconds) == (b"", None)


@pytest.mark.parametrize(("exit_code", "text", "message"), [
    (1, '{"error": "InsufficientSpace", "message": "node-1: 3 GiB\\nare missing"}',
     "InsufficientSpace: node-1: 3 GiB\\nare missing"),
    (137, "starts\nkilled by the kernel\n", "killed by the kernel"),
    (1, '["no", "error"]', '["no", "error"]'),
    (1, "x" * 400, "x" * 300),
    (1, "", None),
    (0, "complete", None),
])  # fmt: skip
def test_the_error_of_a_clone_is_in_its_pods_status(exit_code: int, text: str, message: str | None) -> None:
    """As the clone wrote it, in one line; of one that could not, the last line of its log."""
    owner = {"kind": "Job", "uid": "job-uid"}
    terminated = {"exitCode": exit_code, "message": text}
    status = {"containerStatuses": [{"state": {"terminated": terminated}}]}
    found = parse_clone_error({"metadata": {"ownerReferences": [owner]}, "status": status})
    assert found == (ObservedCloneError("job-uid", message) if message else None)
    assert parse_clone_error({"metadata": {}, "status": status}) is None


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": reason, "message": message}}}]}


UNSCHEDULED = {
    "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are\navailable",
}  # fmt: skip


@pytest.mark.parametrize(("status", "message"), [
    (waiting("ImagePullBackOff", 'Back-off pulling image "clone:gone"'),
     'ImagePullBackOff: Back-off pulling image "clone:gone"'),
    (waiting("CreateContainerError"), "CreateContainerError"),
    ({"phase": "Pending", "conditions": [UNSCHEDULED]}, "Unschedulable: 0/3 nodes are\\navailable"),
    ({"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource"},
     "OutOfcpu: Node didn't have enough resource"),
    (waiting("ErrImagePull", "x" * 400), f"ErrImagePull: {'x' * 286}"),
    (waiting("ContainerCreating"), None),
    (waiting("PodInitializing"), None),
    ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True", "message": "on node-1"}]}, None),
    ({"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}, None),
])  # fmt: skip
def test_why_a_clone_does_not_run_is_in_its_pods_status(status: dict[str, Any], message: str | None) -> None:
    """As the kubelet or the scheduler report it; what is normal while a pod starts is no reason."""
    owner = {"kind": "Job", "uid": "job-uid"}
    found = parse_clone_error({"metadata": {"ownerReferences": [owner]}, "status": status})
    assert found == (ObservedCloneError("job-uid", message) if message else None)
