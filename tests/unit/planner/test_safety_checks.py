"""Each check that keeps a replica or a limit, with the case that only it catches."""

from datetime import timedelta

import pytest

from colocation.model.plan import Drop, Move, Plan
from colocation.model.snapshot import Clone, GroupState, Limits
from colocation.planner import plan
from colocation.planner.cluster import Cluster
from colocation.planner.invariants import violations
from colocation.planner.transitions import MovePlan, next_map
from colocation.planner.view import GroupView
from tests.property.worlds import GIB, NOW, make_group, make_node, make_snapshot

from .cases import nodes_of, planned

ROW = ("node-1", "node-2")
WHOLE = {name: {0: "complete"} for name in ("node-1", "node-2", "node-3")}


def one_bucket(**fields: object) -> GroupState:
    defaults: dict[str, object] = {"held": WHOLE, "bucket_bytes": (GIB,), "bucket_map": (ROW,), "replicas": 2}
    return make_group(1, **(defaults | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("group", "mistake", "message"),
    [
        pytest.param({}, {}, None, id="node-3 is not needed"),
        pytest.param({}, {"next_map": (("node-1", "node-3"),)}, "which is in its map", id="the next map names it"),
        pytest.param(
            {}, {"moves": (Move(bucket=0, source="node-1", to="node-3", kind="balance", reason="", bytes=0),)},
            "to which it is being moved", id="a move goes there",
        ),
        pytest.param(
            {"bucket_map": (("node-1", "node-2", "node-4"),)}, {}, "with 2 complete replicas",
            id="as many complete ones as wanted, and one in the map that is not",
        ),
        pytest.param(
            {"bucket_map": (("node-1",),)}, {}, "with 1 complete replicas", id="the map names fewer than wanted"
        ),
    ],
)  # fmt: skip
def test_no_copy_goes_that_anything_needs(
    group: dict[str, object], mistake: dict[str, object], message: str | None
) -> None:
    """The drop of node-3's copy is a violation in each case but the first, whatever planned it."""
    snapshot = make_snapshot(nodes_of(1, 2, 3, 4), one_bucket(**group))
    nothing = {"next_map": None, "moves": (), "start_now": (), "blocked": ()}
    drop = {"drops": (Drop(bucket=0, node="node-3", reason="not needed"),)}
    wrong = plan(snapshot).groups[0].model_copy(update={**nothing, **drop, **mistake})
    found = violations(snapshot, Plan(groups=(wrong,)))
    assert [message in one.message for one in found if message] == ([True] if message else [])
    assert bool(found) is bool(message)


PARTIAL = WHOLE | {"node-2": {0: "partial"}}


@pytest.mark.parametrize(
    ("target", "group", "leaves"),
    [
        pytest.param(ROW, {}, True, id="the others are complete"),
        pytest.param(ROW, {"held": PARTIAL}, False, id="one of the others is not complete"),
        pytest.param(("node-1",), {}, False, id="too few others"),
        pytest.param(ROW, {"held": {"node-1": {0: "complete"}}}, True, id="it has nothing"),
        pytest.param(
            ROW, {"held": {"node-1": {0: "complete"}}, "unconfirmed": {"node-3": (0,)}}, False,
            id="it was complete when last heard of",
        ),
    ],
)  # fmt: skip
def test_a_surplus_replica_leaves_the_map_only_when_the_others_serve(
    target: tuple[str, ...], group: dict[str, object], leaves: bool
) -> None:
    """Node-3 is in the map and not in the target; no move replaces it."""
    state = one_bucket(bucket_map=((*ROW, "node-3"),), **group)
    view = GroupView(Cluster(make_snapshot(nodes_of(1, 2, 3), state)), state)
    [row] = next_map(view, MovePlan([target]))
    assert ("node-3" not in row) is leaves


def test_of_two_surplus_replicas_the_complete_one_stays_too() -> None:
    """The two that are to stay are not complete; a damaged one leaves together with it or not at all."""
    held = {"node-3": {0: "complete"}, "node-4": {0: "partial"}}
    state = one_bucket(bucket_map=((*ROW, "node-3", "node-4"),), held=held)
    view = GroupView(Cluster(make_snapshot(nodes_of(1, 2, 3, 4), state)), state)
    [row] = next_map(view, MovePlan([ROW]))
    assert "node-3" in row


def test_a_clone_that_waits_is_kept_while_its_replica_is_unconfirmed() -> None:
    """It may be complete, or it may be needed again: ended, it would begin without its failures and its backoff."""
    times = {"since": NOW, "failures": 2, "retry_at": NOW + timedelta(seconds=30)}
    clone = Clone(namespace="shop", group="sales", bucket=0, source="node-2", to="node-2", **times)  # type: ignore[arg-type]
    fields = {"buckets": 1, "replicas": 2, "bucket_map": (ROW,), "bucket_bytes": (GIB,)}
    held = {"node-1": {0: "complete"}}
    unknown = planned(nodes_of(1, 2), clones=(clone,), held=held, unconfirmed={"node-2": (0,)}, **fields)
    assert unknown.cancel == ()
    assert planned(nodes_of(1, 2), clones=(clone,), **fields).cancel == (0,)


@pytest.mark.parametrize(("running", "started"), [(0, 2), (1, 1), (2, 0)])
def test_no_node_is_read_by_more_clones_than_allowed(running: int, started: int) -> None:
    """All is on node-1 alone, and six others wait for it: it gives two at a time, those under way counted."""
    rows = tuple(("node-1", f"node-{number}") for number in range(11, 17))
    nodes = [make_node("node-1"), *(make_node(f"node-{number}") for number in range(2, 8))]
    spec = {"balancing": {"maxConcurrentClones": 99}}
    first = planned(nodes, buckets=6, bucket_map=rows, spec=spec)
    clones = tuple(
        Clone(namespace="shop", group="sales", bucket=move.bucket, source=move.source, to=move.to, since=NOW)
        for move in first.moves[:running]
    )
    assert len({move.to for move in first.moves}) == 6
    group = planned(nodes, Limits(max_concurrent_clones_per_node=2), clones, buckets=6, bucket_map=rows, spec=spec)
    assert len(group.start_now) == started
