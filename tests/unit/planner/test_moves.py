"""What is moved where, what starts now, and what is in the way."""

from datetime import timedelta

import pytest

from colocation.model.conditions import Reason
from colocation.model.group import BucketSequence
from colocation.model.plan import Move, Plan
from colocation.model.snapshot import Clone, Limits, Node
from colocation.planner import balance, plan
from colocation.planner.cluster import Cluster, room_left
from colocation.planner.evenness.exchange import even_placement
from colocation.planner.evenness.min_cost_flow import EvennessProblem
from tests.property.worlds import GIB, NOW, make_group, make_node, make_snapshot

from .cases import SIX, down_for, nodes_of, planned, reasons, shape


def test_down_within_tolerance_moves_nothing_and_reports_until_when() -> None:
    """1,800 s by default: before, the group is unstable and waits."""
    group = planned([*nodes_of(1, 3, 4), down_for(1799)])
    assert (group.moves, reasons(group)) == ((), {Reason.WITHIN_DOWN_TOLERANCE})
    message = "its replicas are made again on other nodes after 1800 s"
    assert group.blocked[0].message == f"node node-2 is down since 2026-11-20T23:30:01Z; {message}"
    unknown = planned([*nodes_of(1, 3, 4), make_node("node-2", ready=False)])
    assert unknown.blocked[0].message == f"node node-2 is down since 2026-11-21T00:00:00Z; {message}"


@pytest.mark.parametrize(
    ("nodes", "kind", "reason"),
    [
        pytest.param([*nodes_of(1, 3, 4), down_for(1800)], "repair", Reason.NODE_NOT_READY, id="down too long"),
        pytest.param(nodes_of(1, 3, 4), "repair", Reason.NODE_GONE, id="gone"),
        pytest.param([*nodes_of(1, 3, 4), *nodes_of(2, drain=True)], "drain", Reason.NODE_DRAINING, id="drained"),
        pytest.param(
            [*nodes_of(1, 3, 4), down_for(5).model_copy(update={"drain": True})],
            "drain",
            Reason.NODE_DRAINING,
            id="drained and down",
        ),
    ],
)
def test_lost_replicas_go_to_other_nodes(nodes: list[Node], kind: str, reason: Reason) -> None:
    """Each of the node's four replicas is made again, by weight, and nothing else moves."""
    group = planned(nodes)
    assert {(move.source, move.kind, move.reason) for move in group.moves} == {("node-2", kind, reason)}
    assert len(group.moves) == 4
    assert all(move.to not in SIX[move.bucket] for move in group.moves)


def test_a_drained_node_serves_until_its_successors_are_complete() -> None:
    """Make before break: stable, no map change, no drops while the clones run."""
    group = planned([*nodes_of(1, 3, 4), *nodes_of(2, drain=True)])
    assert (group.stable, group.next_map, group.drops) == (True, None, ())
    assert len(group.start_now) == 2  # two clones per node, all go to node-4 or stay


def test_damaged_files_are_made_whole_in_place() -> None:
    """A corrupt, a partial and a missing replica on live nodes are repaired where they are."""
    held = make_group(6, 2, SIX).held
    held = {node: dict(states) for node, states in held.items()}
    held["node-1"][0], held["node-2"][1] = "corrupt", "partial"
    del held["node-3"][2]
    group = planned(nodes_of(1, 2, 3), held=held)
    assert shape(group) == [
        (0, "node-1", "node-1", "repair"),
        (1, "node-2", "node-2", "repair"),
        (2, "node-3", "node-3", "repair"),
    ]
    damage = [Reason.REPLICA_CORRUPT, Reason.REPLICA_INCOMPLETE, Reason.REPLICA_MISSING]
    assert [move.reason for move in group.moves] == damage
    assert group.start_now == (0, 1, 2)
    assert group.target_map == SIX


def test_the_map_changes_when_the_replica_is_complete_and_then_the_old_one_goes() -> None:
    """Node-4 has bucket 0 complete: it enters the map in place of the node that it succeeds; later that is dropped."""
    start = planned(nodes_of(1, 2, 3, 4))
    first = start.moves[0]
    group = make_group(6, 2, SIX)
    held = {node: dict(states) for node, states in group.held.items()} | {first.to: {first.bucket: "complete"}}
    then = planned(nodes_of(1, 2, 3, 4), held=held)
    assert then.next_map is not None
    assert first.to in then.next_map[first.bucket]
    assert first.source not in then.next_map[first.bucket]
    assert then.drops == ()
    after = planned(nodes_of(1, 2, 3, 4), held=held, bucket_map=then.next_map)
    assert [(drop.bucket, drop.node) for drop in after.drops] == [(first.bucket, first.source)]


def test_a_stray_replica_is_kept_while_the_map_is_not_complete() -> None:
    """Nothing is deleted of a bucket as long as one of its mapped replicas is not complete."""
    held = {node: dict(states) for node, states in make_group(6, 2, SIX).held.items()} | {"node-4": {0: "complete"}}
    balanced_off = {"balancing": {"enabled": False}}
    assert len(planned(nodes_of(1, 2, 3, 4), held=held, spec=balanced_off).drops) == 1
    held["node-1"][0] = "corrupt"
    assert planned(nodes_of(1, 2, 3, 4), held=held, spec=balanced_off).drops == ()


@pytest.mark.parametrize(
    ("limits", "spec", "started"),
    [
        pytest.param({}, {}, 4, id="defaults: 4 of the group"),
        pytest.param({"max_concurrent_clones_per_node": 1}, {}, 2, id="1 per node"),
        pytest.param({}, {"balancing": {"maxConcurrentClones": 1}}, 1, id="1 of the group"),
        pytest.param({"disable_colocate_relocate": True}, {}, 0, id="relocation off, operator"),
        pytest.param({}, {"relocation": {"enabled": False}}, 0, id="relocation off, group"),
        pytest.param({"disable_colocate_balance": True}, {"balancing": {"enabled": False}}, 4, id="balance off"),
    ],
)
def test_limits_and_switches(limits: dict[str, object], spec: dict[str, object], started: int) -> None:
    """Of the repairs after a loss, as many start as limits and switches allow."""
    group = planned(nodes_of(1, 3, 4, 5), Limits.model_validate(limits), spec=spec)
    assert len(group.start_now) == started


CLUSTER_OF_4 = {"clone_bandwidth": {"perClusterMiBPerSecond": 1}, "max_concurrent_clones_per_node": 9}
ELSEWHERE = tuple(
    Clone(namespace="other", group="one", bucket=number, source=None, to=f"node-{number + 3}", since=NOW)
    for number in range(3)
)


@pytest.mark.parametrize(
    ("nodes", "clones", "started"),
    [
        pytest.param(nodes_of(1, 3, 4, 5), ELSEWHERE[:0], 4, id="repairs: as many as its bandwidth allows"),
        pytest.param(nodes_of(1, 3, 4, 5), ELSEWHERE, 1, id="repairs: what runs elsewhere counts"),
        pytest.param([*nodes_of(1, 3, 4, 5), *nodes_of(2, drain=True)], ELSEWHERE[:0], 3, id="others leave one"),
        pytest.param([*nodes_of(1, 3, 4, 5), *nodes_of(2, drain=True)], ELSEWHERE, 0, id="others wait"),
    ],
)
def test_clones_of_the_cluster(nodes: list[Node], clones: tuple[Clone, ...], started: int) -> None:
    """A budget of the cluster is so many shares; one is kept for repairs."""
    limits = Limits.model_validate(CLUSTER_OF_4)
    group = planned(nodes, limits, clones, spec={"balancing": {"maxConcurrentClones": 9}})
    assert len(group.start_now) == started


def test_balance_is_off_by_either_switch() -> None:
    """A new node takes nothing when balancing is off for the group or for all."""
    assert planned(nodes_of(1, 2, 3, 4)).moves
    assert not planned(nodes_of(1, 2, 3, 4), spec={"balancing": {"enabled": False}}).moves
    assert not planned(nodes_of(1, 2, 3, 4), Limits(disable_colocate_balance=True)).moves


def test_fewest_live_replicas_first() -> None:
    """A bucket with one live replica left is repaired before one with two."""
    bucket_map: BucketSequence = (("node-1", "node-2", "node-3"), ("node-1", "node-5", "node-6")) * 2
    nodes = nodes_of(3, 4, 5, 6, 7)
    group = planned(nodes, buckets=4, replicas=3, bucket_map=bucket_map)
    live = [sum(node in ("node-3", "node-5", "node-6") for node in bucket_map[move.bucket]) for move in group.moves]
    assert live == sorted(live)
    assert live[0] == 1


def test_clones_under_way_count_and_are_not_started_twice() -> None:
    """A clone in flight keeps its target and takes its part of the limits."""
    fresh = planned(nodes_of(1, 3, 4))
    move = fresh.moves[0]
    clone = Clone(namespace="shop", group="sales", bucket=move.bucket, source="node-2", to=move.to, since=NOW)
    group = planned(nodes_of(1, 3, 4), clones=(clone,))
    assert shape(group) == shape(fresh)
    assert 0 not in group.start_now
    assert (len(fresh.start_now), len(group.start_now)) == (2, 1)
    assert group.cancel == ()


def test_a_clone_to_a_node_that_is_down_takes_no_part_of_the_limits() -> None:
    """The group makes one clone at a time, and the one that was begun cannot go on."""
    clone = Clone(namespace="shop", group="sales", bucket=0, source="node-1", to="node-5", since=NOW)
    spec = {"balancing": {"maxConcurrentClones": 1}}
    waits = clone.model_copy(update={"retry_at": NOW + timedelta(seconds=30)})
    there = make_node("node-5")
    for node, one, started in ((down_for(5, 5), clone, 1), (there, waits, 1), (there, clone, 0)):
        group = planned([*nodes_of(1, 3, 4), node], clones=(one,), spec=spec)
        assert len(group.start_now) == started


def test_a_part_of_a_bucket_is_no_source_of_itself() -> None:
    """The only live node with files of the bucket is to take it: the group reports that no other one has them."""
    rows: BucketSequence = (("node-1",),)
    group = planned(nodes_of(2), buckets=1, replicas=1, bucket_map=rows, held={"node-2": {0: "partial"}})
    assert [move.to for move in group.moves] == ["node-2"]
    assert (group.start_now, reasons(group)) == ((), {Reason.NO_LIVE_REPLICA})


def test_clones_not_wanted_any_more_are_cancelled() -> None:
    """The node came back: what was begun in its place ends."""
    clone = Clone(namespace="shop", group="sales", bucket=0, source="node-2", to="node-4", since=NOW)
    spec = {"balancing": {"enabled": False}}
    assert planned(nodes_of(1, 2, 3, 4), clones=(clone,), spec=spec).cancel == (0,)


@pytest.mark.parametrize(
    ("bucket", "to", "nodes", "fields", "ends"),
    [
        pytest.param(6, "node-1", nodes_of(1, 2, 3), {}, True, id="of a bucket beyond the last"),
        pytest.param(0, "node-1", nodes_of(1, 2, 3), {}, False, id="runs, to a node that is whole meanwhile"),
        pytest.param(0, "node-2", [*nodes_of(1, 3, 4), down_for(10**6)], {}, True, id="to a node that is lost"),
        pytest.param(0, "node-1", nodes_of(1, 2, 3), {"retry_at": NOW}, True, id="waits, and is not needed"),
        pytest.param(2, "node-4", nodes_of(1, 3, 4), {"source": None}, True, id="its node takes other buckets"),
        pytest.param(0, "node-4", nodes_of(1, 2, 3, 4), {}, False, id="a move needs it"),
        pytest.param(2, "node-5", nodes_of(1, 3, 4, 5), {"source": "node-1"}, False, id="balance began it"),
        pytest.param(2, "node-5", nodes_of(1, 3, 4, 5), {"source": None}, True, id="a repair that is over began it"),
        pytest.param(2, "node-5", [*nodes_of(1, 3, 4), *nodes_of(5, schedulable=False)], {"source": "node-1"}, True,
                     id="balance began it, and its node takes nothing now"),
    ],
)  # fmt: skip
def test_which_clones_end(bucket: int, to: str, nodes: list[Node], fields: dict[str, object], ends: bool) -> None:
    """Those that neither a move needs, nor the balance that goes on after repairs."""
    clone = Clone.model_validate(
        {"namespace": "shop", "group": "sales", "bucket": bucket, "source": "node-2", "to": to, "since": NOW, **fields}
    )
    rows = tuple(("node-1", "node-2") if number == 0 else row for number, row in enumerate(SIX))
    held = make_group(6, 2, rows).held
    group = planned(nodes, clones=(clone,), held=held)
    assert group.cancel == ((0,) if ends else ())


def test_copies_of_buckets_that_the_group_does_not_have_go() -> None:
    """Buckets are immutable, but a group can be made again with fewer."""
    held = {**make_group(6, 2, SIX).held, "node-4": {6: "complete", 9: "partial"}}
    group = planned(nodes_of(1, 2, 3, 4), held=held, spec={"balancing": {"enabled": False}})
    assert [(drop.bucket, drop.node) for drop in group.drops] == [(6, "node-4"), (9, "node-4")]


@pytest.mark.parametrize("row", [("node-1", "node-1"), ("node-1", "node-1", "node-2")])
def test_a_map_that_names_a_node_twice_is_mended(row: tuple[str, ...]) -> None:
    """Also where as many copies exist as it names."""
    held = {node: {0: "complete"} for node in ("node-1", "node-2", "node-3")[: len(row)]}
    group = planned(nodes_of(1, 2, 3), buckets=1, bucket_map=(row,), held=held)
    assert len(set((group.next_map or group.target_map or ())[0])) == 2 or group.moves


def test_the_clone_that_stands_still_for_longest_is_named() -> None:
    """And whether its node is there."""
    moves = planned(nodes_of(1, 3, 4)).moves
    clones = tuple(
        Clone(namespace="shop", group="sales", bucket=move.bucket, source="node-2", to=move.to,
              since=NOW - timedelta(seconds=700 + 10 * number), bytes_done=number)
        for number, move in enumerate(moves[:2])
    )  # fmt: skip
    [late, *_] = [clone for clone in clones if clone.bytes_done == 1]
    others = [one for one in nodes_of(1, 3, 4) if one.name != late.to]
    there, away = [make_node(late.to)], [down_for(60, int(late.to[-1]))]
    for node, cause in ((there, ""), (away, "; the node is not ready"), ([], "; the node is not ready")):
        nodes = [*others, *node]
        group = planned(nodes, clones=clones)
        assert group.stalled is not None
        assert (group.stalled.bucket, group.stalled.reason) == (late.bucket, Reason.CLONE_NOT_ADVANCING)
        assert group.stalled.message == (
            f"the clone of bucket {late.bucket} to node {late.to} has not advanced since 2026-11-20T23:48:10Z "
            f"(1 of {GIB} bytes, 0 failures){cause}"
        )


def test_a_first_map_of_buckets_with_files_starts_what_has_room() -> None:
    """Its tables were taken over from another group; what does not fit waits, and is named."""
    full = {"capacity_bytes": 100 * GIB, "free_bytes": 10 * GIB}
    held = {"node-3": {0: "complete"}}
    group = planned([*nodes_of(1, 2, **full), *nodes_of(3, drain=True)], buckets=1, replicas=2, bucket_map=None,
                    bucket_bytes=(GIB,), held=held)  # fmt: skip
    assert (len(group.moves), group.start_now) == (2, ())
    there = planned(nodes_of(1, 2), buckets=1, bucket_map=None, bucket_bytes=(GIB,), held={"node-1": {0: "complete"}})
    assert (shape(there), there.start_now) == ([(0, None, "node-2", "place")], (0,))
    assert reasons(group) == {Reason.INSUFFICIENT_SPACE}
    assert [one.message for one in group.blocked] == [
        f"node node-{number} is {GIB} bytes short of the {GIB} of bucket 0" for number in (1, 2)
    ]


def test_a_first_map_starts_no_more_than_fits_together() -> None:
    """The disk has room for either bucket, not for both."""
    small = {"capacity_bytes": 100 * GIB, "free_bytes": 11 * GIB + GIB // 2}
    group = planned([*nodes_of(1), *nodes_of(2, **small)], buckets=2, replicas=2, bucket_map=None,
                    bucket_bytes=(GIB, GIB), held={"node-1": {0: "complete", 1: "complete"}})  # fmt: skip
    assert (len(group.moves), len(group.start_now)) == (2, 1)
    assert [one.message for one in group.blocked] == [
        f"node node-2 is {GIB // 2} bytes short of the {GIB} of bucket 1"
    ]


@pytest.mark.parametrize(
    ("limits", "spec", "switch"),
    [
        pytest.param({}, {"balancing": {"enabled": False}}, "spec.balancing.enabled is false", id="the group's"),
        pytest.param({"disable_colocate_balance": True}, {}, "disableColocateBalance is set", id="the operator's"),
    ],
)
def test_replicas_that_may_not_stay_and_may_not_move(
    limits: dict[str, object], spec: dict[str, object], switch: str
) -> None:
    """Each bucket names the nodes, and which switch is in the way."""
    rows = (("node-3", "node-2"), ("node-1", "node-4"), ("node-1", "node-3"))
    nodes = [*nodes_of(1, 4, 5), *nodes_of(2, 3, weight=0)]
    group = planned(nodes, Limits.model_validate(limits), buckets=3, bucket_map=rows, spec=spec)
    assert (group.moves, reasons(group)) == ((), {Reason.BALANCING_DISABLED})
    assert [(one.bucket, one.message) for one in group.blocked] == [
        (0, f"node node-2, node-3 may no longer hold the bucket, but {switch}"),
        (2, f"node node-3 may no longer hold the bucket, but {switch}"),
    ]


def test_replicas_that_may_not_stay_go_where_there_are_just_enough_nodes() -> None:
    """With fewer they stay, and the group reports why; so do those for which no node has a weight."""
    rows = (("node-1", "node-3"),)
    leaving = nodes_of(3, weight=0)
    group = planned([*nodes_of(1, 2), *leaving], buckets=1, bucket_map=rows)
    assert shape(group) == [(0, "node-3", "node-2", "balance")]
    short = planned([*nodes_of(1), *leaving], buckets=1, bucket_map=rows)
    assert (short.moves, reasons(short)) == ((), {Reason.INSUFFICIENT_NODES})
    kept = planned([*nodes_of(1, schedulable=False), *leaving], buckets=1, bucket_map=rows)
    assert (kept.moves, reasons(kept)) == ((), {Reason.INSUFFICIENT_NODES})
    assert "there are 1; node node-1 is cordoned or tainted" in kept.blocked[0].message


def test_what_waits_for_a_weight_names_the_nodes() -> None:
    """Of replicas that may not stay where they are."""
    rows = (("node-1", "node-3"), ("node-1", "node-2"))
    nodes = [*nodes_of(1, 2), *nodes_of(3, weight=0), *nodes_of(5, 4, is_weight_known=False)]
    group = planned(nodes, buckets=2, bucket_map=rows)
    assert [(one.bucket, one.reason) for one in group.blocked] == [(0, Reason.AGENT_NOT_READY)]
    assert "has not heard from node node-4, node-5 since it started" in group.blocked[0].message


@pytest.mark.parametrize(
    ("weights", "rows", "evenness"),
    [
        pytest.param((1, 1, 1), ((1,), (1,), (2,)), 2.0, id="equal weights, an empty node"),
        pytest.param((3, 1, 1), ((1,), (2,), (3,)), (1 - 1 / 3) * 5 / 3, id="by weight, in replicas of a mean node"),
        pytest.param((3, 1, 1), ((1,), (2,), (2,)), 2 * 5 / 3, id="by weight, an empty node"),
    ],
)
def test_evenness(weights: tuple[int, ...], rows: tuple[tuple[int, ...], ...], evenness: float) -> None:
    """Of the map as it is; reports and previews show it."""
    nodes = [make_node(f"node-{number}", weight=weight) for number, weight in enumerate(weights, 1)]
    bucket_map = tuple(tuple(f"node-{number}" for number in row) for row in rows)
    for spec in ({}, {"balancing": {"enabled": False}}):
        group = planned(nodes, buckets=3, replicas=1, bucket_map=bucket_map, spec=spec)
        assert group.evenness is not None
        assert group.evenness.before == pytest.approx(evenness)


def test_nothing_is_uneven_without_nodes() -> None:
    """Each of them is drained."""
    group = planned(nodes_of(1, 2, 3, drain=True))
    assert group.evenness is not None
    assert (group.evenness.before, group.evenness.after) == (0, 0)


@pytest.mark.parametrize(
    ("fields", "taken"),
    [
        pytest.param({"bucket": 1}, 7, id="what its bucket has now, less what is written"),
        pytest.param({"bucket": 0}, 0, id="more is written than the bucket has"),
        pytest.param({"bucket": 2}, 17, id="a bucket that is not known: what the clone reports"),
        pytest.param({"group": "gone", "bucket": 0}, 17, id="a group that is not known"),
        pytest.param({"to": "node-9"}, 0, id="to a node that is gone"),
    ],
)
def test_room_that_clones_in_flight_leave(fields: dict[str, object], taken: int) -> None:
    """A tenth of the disk stays free; what starts now takes its part, too."""
    defaults = {"namespace": "shop", "group": "sales", "bucket": 1, "source": "node-1", "to": "node-2", "since": NOW}
    clone = Clone.model_validate({**defaults, "bytes_total": 20, "bytes_done": 3, **fields})
    group = make_group(2, 2, (("node-1", "node-3"),) * 2, bucket_bytes=(2, 10))
    nodes = [*nodes_of(1, 3), make_node("node-2", capacity_bytes=1000, free_bytes=200)]
    snapshot = make_snapshot(nodes, group, clones=(clone,))
    assert Cluster(snapshot).room.available_bytes("node-2") == 100 - taken
    move = Move(bucket=0, source="node-1", to="node-2", kind="balance", reason="", bytes=40)
    starting = plan(snapshot).groups[0].model_copy(update={"moves": (move,), "start_now": (0,)})
    assert room_left(snapshot, Plan(groups=(starting,)))["node-2"] == 60 - taken


def test_groups_with_different_tolerances_wait_differently() -> None:
    """For one node that is down."""
    groups = [
        make_group(6, 2, SIX, name=f"group-{seconds}", spec={"relocation": {"downToleranceSeconds": seconds}})
        for seconds in (600, 1800)
    ]
    snapshot = make_snapshot([*nodes_of(1, 3, 4), down_for(1000)], *groups)
    assert [bool(group.moves) for group in plan(snapshot).groups] == [True, False]


def test_a_failed_clone_waits_for_its_time() -> None:
    """Not before retryAt, then again; the wait is reported."""
    times = {"since": NOW, "failures": 2, "retry_at": NOW + timedelta(seconds=30)}
    move = planned(nodes_of(1, 3, 4)).moves[0]
    clone = Clone(namespace="shop", group="sales", bucket=move.bucket, source="node-2", to=move.to, **times)  # type: ignore[arg-type]
    waiting = planned(nodes_of(1, 3, 4), clones=(clone,))
    assert 0 not in waiting.start_now
    assert Reason.CLONE_FAILED in reasons(waiting)
    due = clone.model_copy(update={"retry_at": NOW})
    assert 0 in planned(nodes_of(1, 3, 4), clones=(due,)).start_now


def test_a_failed_clone_keeps_the_room_that_it_has_reserved() -> None:
    """The last of it: the next attempt needs no second time as much."""
    times = {"since": NOW, "failures": 2, "retry_at": NOW}
    clone = Clone(namespace="shop", group="sales", bucket=0, source="node-9", to="node-2", **times)  # type: ignore[arg-type]
    nodes = [*nodes_of(1), make_node("node-2", capacity_bytes=1000 * GIB, free_bytes=101 * GIB)]
    rows: BucketSequence = (("node-1", "node-9"),)
    group = planned(nodes, buckets=1, bucket_map=rows, clones=(clone,))
    assert [group.moves[index].to for index in group.start_now] == ["node-2"]


def test_a_clone_that_does_not_advance_is_reported_and_not_started_again() -> None:
    """Beyond the deadline the group is stalled, with the cause; no second Job."""
    move = planned(nodes_of(1, 3, 4)).moves[0]
    late = NOW - timedelta(seconds=601)
    clone = Clone(namespace="shop", group="sales", bucket=move.bucket, source="node-2", to=move.to, since=late)
    group = planned(nodes_of(1, 3, 4), clones=(clone,))
    assert group.stalled is not None
    assert group.stalled.reason == Reason.CLONE_NOT_ADVANCING
    assert 0 not in group.start_now


def test_too_few_nodes_start_nothing_and_say_so() -> None:
    """Four replicas, two nodes left: nothing moves, nothing is dropped; each bucket has one reason."""
    bucket_map = (("node-1", "node-2", "node-3", "node-4"),) * 2
    group = planned(nodes_of(1, 2), buckets=2, replicas=4, bucket_map=bucket_map)
    assert (group.moves, group.next_map, group.drops) == ((), None, ())
    assert group.stalled is not None
    assert group.stalled.reason == Reason.INSUFFICIENT_NODES
    message = "4 replicas need as many nodes that may hold them; there are 2; add nodes, or lower spec.replicas"
    assert group.stalled.message == f"buckets 0, 1 (2 of 2): {message}"
    assert [problem.bucket for problem in group.blocked] == [0, 1]


def test_a_new_group_without_enough_nodes_gets_no_map() -> None:
    """No map at all rather than one with too few replicas."""
    group = planned(nodes_of(1), bucket_map=None)
    assert (group.target_map, group.next_map, group.moves) == (None, None, ())
    assert reasons(group) == {Reason.INSUFFICIENT_NODES}


def test_a_selector_that_leaves_out_nodes_is_named() -> None:
    """A label that no node has, or a misspelt one, is seen in the message."""
    nodes = [*nodes_of(1, 2, 3), *nodes_of(4, labels={"disk": "sdd", "arch": "arm"})]
    group = planned(nodes, bucket_map=None, spec={"nodeSelector": {"disk": "sdd", "arch": "arm"}})
    assert group.stalled is not None
    message = "there are 1; nodeSelector arch=arm, disk=sdd leaves out 3 nodes; add nodes, or lower"
    assert message in group.stalled.message


def test_replicas_without_room_wait_alone_and_the_group_names_them() -> None:
    """A tenth of the disk stays free: the node with 1.5 GiB above that takes one of four buckets, and three wait."""
    full = {"capacity_bytes": 100 * GIB, "free_bytes": 10 * GIB}
    small = {"capacity_bytes": 100 * GIB, "free_bytes": 11 * GIB + GIB // 2}
    group = planned([*nodes_of(1, 3, **full), *nodes_of(4, **small)])
    assert [group.moves[index].bucket for index in group.start_now] == [0]
    assert group.stalled is not None
    assert group.stalled.reason == Reason.INSUFFICIENT_SPACE
    assert group.stalled.message == (
        f"buckets 1, 3, 4 (3 of 6): no node has room for the {GIB} bytes of bucket 1: node node-4 has most, "
        f"{GIB // 2} bytes short"
    )


@pytest.mark.parametrize("is_strict", [False, True])
def test_a_balance_that_lacks_room_starts_what_fits(is_strict: bool) -> None:
    """The new node has room for one bucket of its share: stable, one moves. A strict map names no node without room."""
    spec = {"balancing": {"strict": is_strict}}
    small = make_node("node-4", capacity_bytes=10 * GIB, free_bytes=2 * GIB + GIB // 4)
    group = planned([*nodes_of(1, 2, 3), small], spec=spec)
    assert (group.stable, len(group.moves), len(group.start_now)) == (True, 3, 1)
    assert group.stalled is not None
    assert group.stalled.reason == Reason.INSUFFICIENT_SPACE
    waiting = [move.bucket for index, move in enumerate(group.moves) if index not in group.start_now]
    assert [one.message for one in group.blocked] == [
        f"node node-4 is {GIB - GIB // 4} bytes short of the {GIB} of bucket {bucket}" for bucket in waiting
    ]
    assert sum("node-4" in row for row in group.next_map or ()) == (1 if is_strict else 0)


def test_no_one_has_the_bucket() -> None:
    """The only replica is gone: reported, not started; an empty bucket needs no source and moves at once."""
    bucket_map = (("node-1",), ("node-1",))
    group = planned(nodes_of(2, 3), buckets=2, replicas=1, bucket_map=bucket_map, bucket_bytes=(GIB, 0))
    assert [(problem.bucket, problem.reason) for problem in group.blocked] == [(0, Reason.NO_LIVE_REPLICA)]
    assert group.next_map is not None
    assert group.next_map[0] == ("node-1",)
    assert group.next_map[1] != ("node-1",)


def test_strict_balancing_changes_the_map_first() -> None:
    """Doris' and StarRocks' order, when asked for."""
    group = planned(nodes_of(1, 2, 3, 4), spec={"balancing": {"strict": True}})
    assert group.next_map == group.target_map
    assert group.drops == ()


def test_even_map_is_remembered_until_another_one_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes plan the same again and again; a commit changes the bytes, and what was planned before is let go."""
    found: list[EvennessProblem] = []
    monkeypatch.setattr(balance, "even_placement", lambda problem: found.append(problem) or even_placement(problem))
    for size_bytes in (1, 1, 2, 2, 1):
        planned(nodes_of(1, 2, 3, 4), name="remembered", bucket_bytes=(size_bytes,) * 6)
    assert [problem.bucket_bytes[0] for problem in found] == [1, 2, 1]
