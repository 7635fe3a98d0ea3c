"""What is moved where, what starts now, and what is in the way."""

from datetime import timedelta

import pytest

from colocation.model.conditions import Reason
from colocation.model.group import BucketSequence
from colocation.model.snapshot import Clone, Limits, Node
from colocation.planner import balance
from colocation.planner.evenness.exchange import even_placement
from colocation.planner.evenness.min_cost_flow import EvennessProblem
from tests.property.worlds import GIB, NOW, make_group, make_node

from .cases import SIX, down_for, nodes_of, planned, reasons, shape


def test_down_within_tolerance_moves_nothing_and_reports_until_when() -> None:
    """1,800 s by default: before, the group is unstable and waits."""
    group = planned([*nodes_of(1, 3, 4), down_for(1799)])
    assert (group.moves, reasons(group)) == ((), {Reason.WITHIN_DOWN_TOLERANCE})
    assert "made again on other nodes after 1800 s" in group.blocked[0].message


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
    nodes = [*nodes_of(1, 3, 4), down_for(5, number=5)]
    group = planned(nodes, clones=(clone,), spec={"balancing": {"maxConcurrentClones": 1}})
    assert len(group.start_now) == 1


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
    group = planned(nodes_of(1, 2, 3), bucket_map=None, spec={"nodeSelector": {"disk": "sdd"}})
    assert group.stalled is not None
    assert "there are 0; nodeSelector disk=sdd leaves out 3 nodes; add nodes, or lower" in group.stalled.message


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
    small = make_node("node-4", capacity_bytes=10 * GIB, free_bytes=2 * GIB)
    group = planned([*nodes_of(1, 2, 3), small], spec=spec)
    assert (group.stable, len(group.moves), len(group.start_now)) == (True, 3, 1)
    assert group.stalled is not None
    assert group.stalled.reason == Reason.INSUFFICIENT_SPACE
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
