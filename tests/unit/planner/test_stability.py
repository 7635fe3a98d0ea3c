"""When a group is stable, and the one reason why it is not."""

from datetime import timedelta

import pytest

from colocation.model.conditions import Reason
from colocation.model.plan import GroupPlan
from colocation.planner import plan
from tests.property.worlds import GIB, NOW, make_group, make_node, make_snapshot

THREE = ["node-1", "node-2", "node-3"]
FULL_MAP = (("node-1", "node-2"), ("node-2", "node-3"), ("node-1", "node-3"))
EARLIER = NOW - timedelta(seconds=60)


def planned(nodes: list[object] | None = None, **group: object) -> GroupPlan:
    """The plan of a group of 3 buckets x 2 replicas on three nodes, changed as given."""
    defaults: dict[str, object] = {"buckets": 3, "replicas": 2, "bucket_map": FULL_MAP}
    all_nodes = [make_node(name) for name in THREE] if nodes is None else nodes
    return plan(make_snapshot(all_nodes, make_group(**(defaults | group)))).groups[0]  # type: ignore[arg-type]


def down(name: str, **fields: object) -> object:
    return make_node(name, ready=False, not_ready_since=EARLIER, not_ready_reason=Reason.NODE_NOT_READY, **fields)


def held(**states: dict[int, str]) -> dict[str, dict[int, str]]:
    """All replicas of FULL_MAP complete, but for what is given (node_2={0: "corrupt"}); None = nothing held."""
    found: dict[str, dict[int, str]] = {}
    for bucket, nodes in enumerate(FULL_MAP):
        for node in nodes:
            found.setdefault(node, {})[bucket] = "complete"
    for name, changes in states.items():
        for bucket, state in changes.items():
            if state:
                found[name.replace("_", "-")][bucket] = state
            else:
                del found[name.replace("_", "-")][bucket]
    return found


NODE_2_AND = [make_node("node-1"), make_node("node-3")]

CASES = [
    pytest.param({}, True, Reason.ALL_REPLICAS_COMPLETE, [], id="complete"),
    pytest.param({"bucket_map": None}, False, Reason.NO_MAP, [], id="new"),
    pytest.param({"nodes": NODE_2_AND}, False, Reason.NODE_GONE, [0, 1], id="node gone"),
    pytest.param({"nodes": [*NODE_2_AND, down("node-2")]}, False, Reason.NODE_NOT_READY, [0, 1], id="node down"),
    pytest.param({"held": held(node_1={2: "corrupt"})}, False, Reason.REPLICA_CORRUPT, [2], id="file damaged"),
    pytest.param({"held": held(node_3={1: "partial"})}, False, Reason.REPLICA_INCOMPLETE, [1], id="load half done"),
    pytest.param({"held": held(node_3={1: ""})}, False, Reason.REPLICA_MISSING, [1], id="nothing held"),
    pytest.param(
        {"held": held(node_2={0: "corrupt"}, node_3={0: "complete"})}, False, Reason.REPLICA_CORRUPT, [0],
        id="file damaged, and another copy outside of the map",
    ),
    pytest.param({"held": {}, "bucket_bytes": (0, 0, 0)}, True, Reason.ALL_REPLICAS_COMPLETE, [], id="nothing to hold"),
    pytest.param({"held": {}, "bucket_bytes": (0, 5)}, False, Reason.REPLICA_MISSING, [1], id="one bucket has data"),
    pytest.param({"marked_unstable": "by ann"}, False, Reason.MARKED_UNSTABLE, [], id="marked by hand"),
    pytest.param(
        {"marked_unstable": "by ann", "nodes": NODE_2_AND}, False, Reason.MARKED_UNSTABLE, [0, 1], id="marked and worse"
    ),
    pytest.param({"replicas": 3}, True, Reason.ALL_REPLICAS_COMPLETE, [], id="replicas raised"),
    pytest.param({"replicas": 1}, True, Reason.ALL_REPLICAS_COMPLETE, [], id="replicas lowered"),
    pytest.param({"bucket_map": FULL_MAP[:2]}, False, Reason.REPLICA_MISSING, [2], id="a bucket without nodes"),
    pytest.param(
        {"nodes": [*NODE_2_AND, make_node("node-2", drain=True)]}, True, Reason.ALL_REPLICAS_COMPLETE, [], id="drained"
    ),
    pytest.param(
        {"nodes": NODE_2_AND, "held": held(node_1={2: "corrupt"})}, False, Reason.NODE_GONE, [0, 1, 2], id="worst first"
    ),
]


@pytest.mark.parametrize(("change", "stable", "reason", "unstable"), CASES)
def test_stability_and_its_reason(change: dict[str, object], stable: bool, reason: Reason, unstable: list[int]) -> None:
    """One word for the group, the most severe one; each unstable bucket is named with its own."""
    group = planned(**change)
    assert (group.stable, group.reason) == (stable, reason)
    assert [problem.bucket for problem in group.unstable_buckets] == unstable


def test_message_counts_the_replicas_of_the_map() -> None:
    """Alike for a group that is quiet and for one that is looked at in full."""
    assert planned().message == "all 6 replicas of 3 buckets are complete"
    assert planned(replicas=3).message == "all 6 replicas of 3 buckets are complete"


def test_message_names_buckets_node_and_time() -> None:
    """Anyone who reads the condition knows which buckets, which node, since when, and why."""
    message = "Kubelet stopped posting node status."
    group = planned(nodes=[*NODE_2_AND, down("node-2", not_ready_message=message)])
    assert group.message == (
        "buckets 0, 1 (2 of 3): node node-2 is not ready since 2026-11-20T23:59:00Z: "
        "Kubelet stopped posting node status."
    )


@pytest.mark.parametrize(
    ("mark", "nodes", "message"),
    [
        pytest.param("by ann", None, "marked unstable by hand: by ann", id="only marked"),
        pytest.param("", None, "marked unstable by hand: the mark does not say by whom", id="by someone"),
        pytest.param(
            "by ann", NODE_2_AND,
            "marked unstable by hand: by ann; also NodeGone: buckets 0, 1 (2 of 3): node node-2 no longer exists",
            id="and worse",
        ),
    ],
)  # fmt: skip
def test_message_of_a_mark(mark: str, nodes: list[object] | None, message: str) -> None:
    """It comes first, and what else is wrong after it."""
    assert planned(nodes=nodes, marked_unstable=mark).message == message


def test_message_of_a_node_of_which_little_is_known() -> None:
    """Neither since when it is down, nor why."""
    group = planned(nodes=[*NODE_2_AND, make_node("node-2", ready=False)])
    assert group.message == "buckets 0, 1 (2 of 3): node node-2 is not ready"


def test_message_counts_the_buckets_with_lesser_reasons() -> None:
    """They are listed with their own reasons."""
    group = planned(nodes=[make_node("node-1"), make_node("node-3")], held=held(node_1={2: "corrupt"}))
    assert group.message == "buckets 0, 1 (2 of 3): node node-2 no longer exists; 1 bucket more for lesser reasons"
    one = planned(held=held(node_1={2: "corrupt"}))
    assert one.message == "bucket 2 (1 of 3): files on node node-1 are damaged"


def test_agent_not_ready_is_distinguished() -> None:
    """A node whose agent does not answer has another reason than one that is down."""
    node = make_node("node-2", ready=False, not_ready_since=EARLIER, not_ready_reason=Reason.AGENT_NOT_READY)
    assert planned(nodes=[*NODE_2_AND, node]).reason == Reason.AGENT_NOT_READY


def test_since_is_kept_from_the_snapshot() -> None:
    """A bucket is unstable since it was first seen so, not since this pass."""
    group = planned(nodes=NODE_2_AND, unstable_since={0: EARLIER})
    assert [problem.since for problem in group.unstable_buckets] == ["2026-11-20T23:59:00Z", "2026-11-21T00:00:00Z"]


def test_strict_balancing_reports_balancing() -> None:
    """In Doris' order the map goes ahead; the bucket that is under way is unstable because of balancing."""
    ahead = (("node-1", "node-4"), ("node-2", "node-3"), ("node-1", "node-3"))
    nodes = [make_node(name) for name in (*THREE, "node-4")]
    group = planned(nodes=nodes, bucket_map=ahead, held=held(), spec={"balancing": {"strict": True}})
    assert (group.stable, group.reason) == (False, Reason.BALANCING)
    assert [(move.source, move.to, move.kind, move.bytes) for move in group.moves] == [
        ("node-4", "node-4", "balance", GIB)
    ]
    assert group.drops == ()
