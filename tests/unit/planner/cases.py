"""A group of 6 buckets x 2 replicas on three nodes, and what tests read off its plan."""

from datetime import timedelta

from colocation.model.plan import GroupPlan
from colocation.model.snapshot import Clone, Limits, Node
from colocation.planner import plan
from colocation.planner.invariants import violations
from tests.property.worlds import NOW, make_group, make_node, make_snapshot

SIX = (("node-1", "node-2"), ("node-2", "node-3"), ("node-3", "node-1")) * 2


def nodes_of(*numbers: int, **fields: object) -> list[Node]:
    return [make_node(f"node-{number}", **fields) for number in numbers]


def down_for(seconds: int, number: int = 2) -> Node:
    return make_node(f"node-{number}", ready=False, not_ready_since=NOW - timedelta(seconds=seconds))


def planned(
    nodes: list[Node], limits: Limits | None = None, clones: tuple[Clone, ...] = (), **group: object
) -> GroupPlan:
    """The plan of a group of 6 buckets x 2 replicas on node-1 to node-3, changed as given; it is safe."""
    defaults: dict[str, object] = {"buckets": 6, "replicas": 2, "bucket_map": SIX}
    snapshot = make_snapshot(nodes, make_group(**(defaults | group)), limits=limits or Limits(), clones=clones)  # type: ignore[arg-type]
    decided = plan(snapshot)
    assert violations(snapshot, decided) == ()
    return decided.groups[0]


def reasons(group: GroupPlan) -> set[str]:
    return {problem.reason for problem in group.blocked}


def shape(group: GroupPlan) -> list[tuple[int, str | None, str, str]]:
    return [(move.bucket, move.source, move.to, move.kind) for move in group.moves]
