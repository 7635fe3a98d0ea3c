"""Which copies outside of the map may be deleted: those that neither the map nor what is under way can need."""

import pytest

from colocation.model.snapshot import Clone, GroupState
from colocation.planner.cluster import Cluster
from colocation.planner.transitions import MovePlan, drops
from colocation.planner.view import GroupView
from tests.property.worlds import GIB, NOW, make_group, make_node, make_snapshot

from .cases import nodes_of, planned

ROW = ("node-1", "node-2")
HELD = {name: {0: "complete"} for name in ("node-1", "node-2", "node-3")}
CLONE = Clone(namespace="shop", group="sales", bucket=0, source="node-1", to="node-3", since=NOW)


def dropped(
    target: tuple[str, ...] = ROW, moves_to: str = "", clones: tuple[Clone, ...] = (), down: str = "", **group: object
) -> bool:
    """Whether node 3's copy goes of a bucket that nodes 1 and 2 hold for the map; ``moves_to``: where a move goes."""
    fields: dict[str, object] = {"held": HELD, "bucket_bytes": (GIB,), "replicas": 2, **group}
    state: GroupState = make_group(1, bucket_map=(ROW,), **fields)  # type: ignore[arg-type]
    nodes = [make_node(node.name, ready=node.name != down) for node in nodes_of(1, 2, 3, 4)]
    view = GroupView(Cluster(make_snapshot(nodes, state, clones=clones)), state)
    move_plan = MovePlan([target], pending=True)
    if moves_to:
        move_plan.moves.append(view.move(0, "node-1", moves_to, "balance", "Balancing"))
    return [(drop.bucket, drop.node) for drop in drops(view, move_plan)] == [(0, "node-3")]


@pytest.mark.parametrize(
    ("fields", "goes"),
    [
        pytest.param({}, True, id="nothing needs it"),
        pytest.param({"moves_to": "node-4"}, True, id="a move goes elsewhere"),
        pytest.param({"moves_to": "node-3"}, False, id="a move goes there"),
        pytest.param({"target": ("node-1", "node-3")}, False, id="the map is to name it"),
        pytest.param({"clones": (CLONE,)}, False, id="a clone that goes on writes it"),
        pytest.param({"replicas": 3}, False, id="the map has fewer replicas than are wanted"),
        pytest.param({"held": HELD | {"node-1": {0: "partial"}}}, False, id="one in the map is not complete"),
        pytest.param({"down": "node-2"}, False, id="one in the map is on a node that is down"),
        pytest.param({"unconfirmed": {"node-1": (0,)}, "held": {"node-2": {0: "complete"}, "node-3": {0: "complete"}}},
                     False, id="one in the map is unconfirmed"),
        pytest.param({"down": "node-3"}, False, id="its node is down: it would not hear of it"),
    ],
)  # fmt: skip
def test_copy_outside_of_the_map_goes_when_nothing_needs_it(fields: dict[str, object], goes: bool) -> None:
    """Each of these alone keeps it."""
    assert dropped(**fields) is goes  # type: ignore[arg-type]


def test_copy_beyond_the_map_stays_while_replicas_are_short() -> None:
    """Three replicas are wanted since a moment ago; a cordoned node has one that may not enter the map."""
    held = {**HELD, "node-4": {0: "complete"}}
    fields = {"buckets": 1, "replicas": 3, "bucket_map": (ROW,), "held": held, "bucket_bytes": (GIB,)}
    nodes = [*nodes_of(1, 2, 3), *nodes_of(4, schedulable=False)]
    group = planned(nodes, **fields)  # type: ignore[arg-type]
    assert group.next_map == (("node-1", "node-2", "node-3"),)
    assert group.drops == ()
    then = planned(nodes, **{**fields, "bucket_map": group.next_map})  # type: ignore[arg-type]
    assert [drop.node for drop in then.drops] == ["node-4"]
