"""Nodes that take nothing for now: cordoned ones, ones where clones fail, ones that have not been heard of."""

from collections import Counter
from datetime import datetime, timedelta

import pytest

from colocation.model.conditions import Reason
from colocation.model.plan import GroupPlan
from colocation.model.snapshot import Clone, FailingTarget
from colocation.planner import plan
from colocation.planner.cluster import Cluster
from colocation.planner.transitions import CORDONED
from colocation.planner.view import GroupView
from tests.property.worlds import GIB, NOW, make_group, make_node, make_snapshot

from .cases import SIX, down_for, nodes_of, planned, reasons, shape

LATER = NOW + timedelta(seconds=90)
EARLIER = NOW - timedelta(seconds=1)


def failing(number: int, retry_at: datetime = LATER) -> dict[str, FailingTarget]:
    return {f"node-{number}": FailingTarget(failures=4, retry_at=retry_at, cause="the disk is full")}


def held_but(node: str, bucket: int, state: str | None = None) -> dict[str, dict[int, str]]:
    """Everything complete, but that a node's bucket is missing, or in another state."""
    held = {name: dict(states) for name, states in make_group(6, 2, SIX).held.items()}
    del held[node][bucket]
    if state:
        held[node][bucket] = state  # type: ignore[assignment]
    return held  # type: ignore[return-value]


def targets(group: GroupPlan) -> set[str]:
    return {move.to for move in group.moves}


def test_a_cordoned_node_is_stable_and_keeps_what_it_has() -> None:
    """It counts as live; nothing moves."""
    group = planned([*nodes_of(1, 3), *nodes_of(2, schedulable=False)])
    assert (group.stable, group.moves, group.blocked) == (True, (), ())


def test_a_cordon_does_not_make_other_nodes_shares_uneven() -> None:
    """A group that holds nothing there is even with the node and would not be without it: it is left alone."""
    nodes = [make_node("node-1", weight=2), *nodes_of(2, schedulable=False), *nodes_of(3, 4)]
    here = make_group(2, 1, (("node-1",), ("node-2",)), name="here")
    elsewhere = make_group(2, 1, (("node-4",), ("node-3",)), name="elsewhere")
    assert [group.moves for group in plan(make_snapshot(nodes, here, elsewhere)).groups] == [(), ()]


def test_a_lost_replica_does_not_go_to_a_cordoned_node() -> None:
    """Two nodes are left for two replicas, one of them is cordoned: nothing fits, and the message names it."""
    group = planned([*nodes_of(1), *nodes_of(3, schedulable=False)])
    assert group.stalled is not None
    assert group.stalled.reason == Reason.INSUFFICIENT_NODES
    assert "node-3 is cordoned or tainted" in group.stalled.message
    assert targets(planned([*nodes_of(1, 4), *nodes_of(3, schedulable=False)])) <= {"node-1", "node-4"}


def test_a_new_group_is_placed_without_cordoned_nodes() -> None:
    """With too few others it waits, and names which nodes are cordoned."""
    nodes = [*nodes_of(1, 2), *nodes_of(3, 4, schedulable=False)]
    placed = planned(nodes, bucket_map=None)
    assert {node for row in placed.next_map or () for node in row} == {"node-1", "node-2"}
    waiting = planned(nodes, bucket_map=None, replicas=3)
    assert waiting.next_map is None
    assert waiting.stalled is not None
    assert "nodes node-3, node-4 are cordoned or tainted" in waiting.stalled.message
    assert waiting.stalled.message.startswith("3 replicas need as many nodes")
    assert (waiting.stable, waiting.reason) == (False, Reason.INSUFFICIENT_NODES)
    assert waiting.message == f"the group has no map yet: {waiting.stalled.message}"


def test_a_new_node_that_is_tainted_takes_nothing_by_balance() -> None:
    """As soon as it may, it gets its share."""
    assert planned([*nodes_of(1, 2, 3), *nodes_of(4, schedulable=False)]).moves == ()
    assert targets(planned(nodes_of(1, 2, 3, 4))) == {"node-4"}


def test_a_full_disk_is_named_with_the_nodes_that_would_do_but_are_cordoned() -> None:
    """Anyone who reads it can uncordon the node."""
    nodes = [*nodes_of(1), make_node("node-3", free_bytes=0), *nodes_of(4, schedulable=False)]
    group = planned(nodes, bucket_bytes=(GIB,) * 6)
    assert group.stalled is not None
    assert group.stalled.reason == Reason.INSUFFICIENT_SPACE
    assert group.stalled.message.endswith(f"node node-4 is {CORDONED}")


def test_damaged_files_on_a_cordoned_node_are_made_whole_in_place() -> None:
    """It is its own replica, not a new one."""
    nodes = [*nodes_of(1, 3), *nodes_of(2, schedulable=False)]
    group = planned(nodes, held=held_but("node-2", 0, "partial"), bucket_bytes=(GIB,) * 6)
    assert shape(group) == [(0, "node-2", "node-2", "repair")]
    assert group.start_now == (0,)


def test_a_map_set_by_hand_waits_for_a_cordoned_node() -> None:
    """The sequence stays valid; a new group's does not name such a node."""
    rows = (("node-1", "node-4"), *SIX[1:])
    nodes = [*nodes_of(1, 2, 3), *nodes_of(4, schedulable=False)]
    spec = {"bucketSequence": rows}
    group = planned(nodes, spec=spec, bucket_bytes=(GIB,) * 6)
    assert (shape(group), group.start_now) == ([(0, "node-2", "node-4", "balance")], ())
    assert group.blocked[0].message == f"node node-4 is {CORDONED}; the bucket waits"
    away = planned([*nodes_of(1, 2, 3), down_for(60, 4)], spec=spec, bucket_bytes=(GIB,) * 6)
    assert (shape(away), away.start_now) == ([(0, "node-2", "node-4", "balance")], ())
    assert [(one.bucket, one.reason, one.message) for one in away.blocked] == [
        (0, Reason.NODE_NOT_READY, "node node-4, which is to take the bucket, is not ready")
    ]
    assert reasons(planned(nodes, spec=spec, bucket_map=None)) == {Reason.INVALID_BUCKET_SEQUENCE}


def test_a_lost_replica_goes_past_a_failing_target() -> None:
    """The emptiest node would be the fittest, and a clone to it has begun; clones fail there, so another takes it."""
    rows = (("node-1", "node-2"), ("node-2", "node-9"))
    waits = Clone(namespace="shop", group="sales", bucket=1, source="node-9", to="node-4", since=NOW, retry_at=LATER)
    group = planned(nodes_of(1, 2, 4), clones=(waits,), buckets=2, bucket_map=rows, failing_targets=failing(4))
    assert shape(group) == [(1, "node-9", "node-1", "repair")]
    assert (group.start_now, group.cancel, group.stalled) == ((0,), (0,), None)


def test_when_only_a_failing_target_is_left_the_group_reports_it() -> None:
    """Node, failures, cause, and when it is tried again."""
    rows = (("node-1", "node-9"),)
    group = planned(nodes_of(1, 4), buckets=1, bucket_map=rows, failing_targets=failing(4))
    assert group.stalled is not None
    assert group.stalled.reason == Reason.TARGET_FAILING
    assert group.stalled.message == (
        "bucket 0: no other node fits: 4 clones to node node-4 failed: the disk is full; "
        "it is tried again at 2026-11-21T00:01:30Z"
    )
    assert group.moves == ()


def test_other_buckets_go_on_while_one_waits_for_a_failing_target() -> None:
    """What one sick node keeps from being repaired is that which fits nowhere else."""
    rows = (("node-1", "node-3", "node-9"), ("node-1", "node-9", "node-5"))
    group = planned(nodes_of(1, 3, 5), buckets=2, replicas=3, bucket_map=rows, failing_targets=failing(5))
    assert shape(group) == [(1, "node-9", "node-3", "repair")]
    assert group.start_now == (0,)
    assert {problem.bucket for problem in group.blocked if problem.reason == Reason.TARGET_FAILING} == {0}


def test_a_failing_target_is_tried_again_by_one_clone_at_a_time() -> None:
    """After its time, and only where no other node fits."""
    rows = (("node-1", "node-9"), ("node-1", "node-9"))
    group = planned(nodes_of(1, 4), buckets=2, bucket_map=rows, failing_targets=failing(4, EARLIER))
    assert targets(group) == {"node-4"}
    assert (len(group.moves), group.start_now, group.stalled) == (2, (0,), None)
    both = planned(nodes_of(1, 3, 4), buckets=2, bucket_map=rows, failing_targets=failing(4, EARLIER))
    assert targets(both) == {"node-3"}


def test_damaged_files_on_a_failing_node_are_repaired_on_another() -> None:
    """The replica there counts as lost, for the reason that it is damaged."""
    held = held_but("node-2", 0, "corrupt")
    group = planned(nodes_of(1, 2, 3), held=held, bucket_bytes=(GIB,) * 6, failing_targets=failing(2))
    assert shape(group) == [(0, "node-2", "node-3", "repair")]
    assert (group.moves[0].reason, group.start_now) == (Reason.REPLICA_CORRUPT, (0,))


def test_damaged_files_that_fit_nowhere_else_wait_for_their_node() -> None:
    """Two nodes for two replicas: in place, when the node is tried again."""
    rows = (("node-1", "node-2"),)
    fields = {"buckets": 1, "bucket_map": rows, "held": {"node-1": {0: "complete"}}, "bucket_bytes": (GIB,)}
    group = planned(nodes_of(1, 2), **fields, failing_targets=failing(2))  # type: ignore[arg-type]
    assert (shape(group), group.start_now) == ([(0, "node-2", "node-2", "repair")], ())
    assert group.stalled is not None
    assert (group.stalled.reason, reasons(group)) == (Reason.TARGET_FAILING, {Reason.TARGET_FAILING})
    again = planned(nodes_of(1, 2), **fields, failing_targets=failing(2, EARLIER))  # type: ignore[arg-type]
    assert (again.start_now, again.stalled) == ((0,), None)


def test_whole_replicas_stay_on_a_failing_node() -> None:
    """Clones fail there; what it has can be read. Another node's loss is no reason to move them, either."""
    assert planned(nodes_of(1, 2, 3, 4), failing_targets=failing(2), spec={"balancing": {"enabled": False}}).moves == ()
    group = planned(nodes_of(1, 2, 4), failing_targets=failing(2))
    assert {(move.source, move.to) for move in group.moves} == {("node-3", "node-4")}


def test_replicas_leave_a_failing_node_that_may_not_hold_them() -> None:
    """Its weight is 0: it is neither a target nor a keeper."""
    group = planned([*nodes_of(1, 3, 4), *nodes_of(2, weight=0)], failing_targets=failing(2))
    assert {move.source for move in group.moves} == {"node-2"}
    assert len(group.moves) == 4


def test_damaged_files_stay_on_their_node_where_nothing_may_be_relocated() -> None:
    """Relocation disabled: the node is tried again, whatever fails there."""
    held = held_but("node-2", 0, "corrupt")
    spec = {"relocation": {"enabled": False}}
    group = planned(nodes_of(1, 2, 3), held=held, bucket_bytes=(GIB,) * 6, failing_targets=failing(2), spec=spec)
    assert (shape(group), group.start_now) == ([(0, "node-2", "node-2", "repair")], ())


def test_balance_does_without_a_failing_target_until_its_time() -> None:
    """A node on which every clone fails is not the reason for moves; after its time one clone tries it."""
    assert planned(nodes_of(1, 2, 3, 4), failing_targets=failing(4)).moves == ()
    group = planned(nodes_of(1, 2, 3, 4), bucket_bytes=(GIB,) * 6, failing_targets=failing(4, EARLIER))
    assert targets(group) == {"node-4"}
    assert len(group.start_now) == 1


def test_shares_of_the_others_are_whole_without_a_failing_target() -> None:
    """What it does not hold is not kept for it."""
    group = planned(nodes_of(1, 2, 3, 4), bucket_map=(("node-1", "node-2"),) * 6, failing_targets=failing(4))
    assert Counter(move.to for move in group.moves) == {"node-3": 4}


def test_what_a_node_has_of_a_bucket() -> None:
    """Unconfirmed: complete when it was last heard, and neither known to be whole nor to be damaged."""
    states = {"node-1": "complete", "node-2": "corrupt", "node-3": "partial"}
    held = {node: {0: state} for node, state in states.items()}
    silent = {f"node-{number}": (0,) for number in range(1, 6)}
    rows = (("node-1", "node-2"), ("node-3", "node-5"))
    group = make_group(2, 2, rows, held=held, bucket_bytes=(GIB, 0), unconfirmed=silent)
    view = GroupView(Cluster(make_snapshot([*nodes_of(1, 2, 3, 4), down_for(5, 5)], group)), group)
    names = [f"node-{number}" for number in range(1, 6)]
    assert [view.is_unconfirmed(0, node) for node in names] == [False, False, True, True, False]
    assert [view.is_presumed_complete(0, node) for node in names] == [True, False, True, True, False]
    assert [view.live_replicas(bucket) for bucket in (0, 1)] == [1, 1]
    assert [view.bytes_to_copy(0, node) for node in names] == [0, *[GIB] * 4]


def test_an_unconfirmed_replica_is_stable_and_corrupt_files_are_not() -> None:
    """What an agent said of damage counts, whatever was true before."""
    sizes = (GIB,) * 6
    silent = {"node-2": (0,)}
    group = planned(nodes_of(1, 2, 3), held=held_but("node-2", 0), bucket_bytes=sizes, unconfirmed=silent)
    assert (group.stable, group.moves) == (True, ())
    corrupt = held_but("node-2", 0, "corrupt")
    assert not planned(nodes_of(1, 2, 3), held=corrupt, bucket_bytes=sizes, unconfirmed=silent).stable


def test_a_replica_whose_only_sources_are_unconfirmed_waits() -> None:
    """The bucket is not lost: its other node is heard of again soon."""
    rows = (("node-1", "node-2"),)
    fields = {"buckets": 1, "bucket_map": rows, "bucket_bytes": (GIB,), "unconfirmed": {"node-1": (0,)}}
    group = planned(nodes_of(1, 2), **fields, held={})  # type: ignore[arg-type]
    assert (shape(group), group.start_now) == ([(0, "node-2", "node-2", "repair")], ())
    assert (group.stalled, group.blocked) == (None, ())


def test_no_copy_outside_of_the_map_is_deleted_because_of_unconfirmed_ones() -> None:
    """It may be the only whole one."""
    fields = {"buckets": 1, "bucket_map": (("node-1", "node-2"),), "bucket_bytes": (GIB,)}
    held = {node: {0: "complete"} for node in ("node-1", "node-3")}
    group = planned(nodes_of(1, 2, 3), **fields, held=held, unconfirmed={"node-2": (0,)})  # type: ignore[arg-type]
    assert (group.stable, group.drops, group.stalled) == (True, (), None)
    whole = {**held, "node-2": {0: "complete"}}
    assert planned(nodes_of(1, 2, 3), **fields, held=whole).drops  # type: ignore[arg-type]


def test_no_surplus_replica_leaves_because_of_unconfirmed_ones() -> None:
    """Replicas are lowered while two of three are not heard of: the third is known to be complete, and stays."""
    rows = (("node-1", "node-2", "node-3"),)
    fields = {"buckets": 1, "replicas": 1, "bucket_map": rows, "bucket_bytes": (GIB,)}
    silent = {"node-1": (0,), "node-2": (0,), "node-3": (0,)}
    group = planned(nodes_of(1, 2, 3), **fields, held={}, unconfirmed=silent)  # type: ignore[arg-type]
    assert (group.stable, group.next_map, group.drops) == (True, None, ())
    heard = planned(nodes_of(1, 2, 3), **fields, held={"node-3": {0: "complete"}}, unconfirmed=silent)  # type: ignore[arg-type]
    assert heard.next_map == (("node-3",),)


def test_lost_replicas_go_evenly_to_the_nodes_that_are_here() -> None:
    """Node 2 is away and keeps what it has, so nothing is planned as if it gave some of it up."""
    rows = (
        ("node-2", "node-5"), ("node-4", "node-5"), ("node-5", "node-6"),
        ("node-5", "node-4"), ("node-5", "node-6"), ("node-4", "node-5"),
    )  # fmt: skip
    group = planned([*nodes_of(1, 3, 5, 6), down_for(10)], bucket_map=rows)
    assert {move.source for move in group.moves} == {"node-4"}
    taken = Counter(move.to for move in group.moves)
    assert taken["node-6"] == 0, "it has two already, and two others have none"


FAST, SLOW = {"disks": "fast"}, {"disks": "slow"}
DOWN = {"ready": False, "not_ready_since": NOW - timedelta(seconds=60)}
LOST = {"ready": False, "not_ready_since": NOW - timedelta(days=1)}


@pytest.mark.parametrize(
    ("fields", "moves"),
    [
        pytest.param({"labels": FAST}, False, id="ready, not known"),
        pytest.param({"labels": FAST, **DOWN}, False, id="down within the tolerance"),
        pytest.param({"labels": FAST, **LOST}, True, id="lost"),
        pytest.param({"labels": SLOW}, True, id="not selected"),
        pytest.param({"labels": FAST, "is_weight_known": True}, True, id="known"),
    ],
)
@pytest.mark.parametrize("buckets", [12, 1], ids=["within a group", "across groups"])
def test_nothing_is_balanced_while_a_weight_is_not_known(fields: dict[str, object], moves: bool, buckets: int) -> None:
    """A node that is lost, or that the groups do not select, holds up nothing: so the waiting ends."""
    odd = make_node("node-4", **{"is_weight_known": False, **fields})
    rows = (("node-1", "node-2"),) * buckets
    spec = {"nodeSelector": FAST}
    groups = [make_group(buckets, 2, rows, name=f"group-{number}", spec=spec) for number in range(12 // buckets)]
    found = plan(make_snapshot([*nodes_of(1, 2, 3, labels=FAST), odd], *groups)).groups
    assert any(group.moves for group in found) == moves


def test_what_balance_began_goes_on_while_a_weight_is_not_known() -> None:
    """The clone is not ended, and what has arrived outside of the map is not deleted."""
    odd = make_node("node-4", is_weight_known=False)
    held = make_group(6, 2, SIX).held | {"node-5": {0: "complete"}}
    clone = Clone.model_validate(
        {"namespace": "shop", "group": "sales", "bucket": 1, "from": "node-2", "to": "node-5", "since": NOW}
    )
    group = planned([*nodes_of(1, 2, 3, 5), odd], clones=(clone,), held=held)
    assert (group.moves, group.cancel, group.drops) == ((), (), ())


def test_a_lost_replica_is_made_again_although_a_weight_is_not_known() -> None:
    """Repair waits for no one; the node may be down for good."""
    odd = make_node("node-5", is_weight_known=False, **DOWN)
    assert targets(planned([*nodes_of(1, 3, 4), odd])) == {"node-4"}
