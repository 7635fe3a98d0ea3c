"""What cannot be carried out holds up nothing else: of its group, of other groups, of the same bucket."""

from random import Random

import pytest

from colocation.model.conditions import Reason
from colocation.model.group import BucketSequence
from colocation.model.plan import GroupPlan
from colocation.model.snapshot import Clone, GroupState, Limits, Node
from colocation.planner import plan
from tests.property.worlds import GIB, NOW, World, make_group, make_node, make_snapshot

from .cases import nodes_of, planned, reasons

WIDE = Limits(max_concurrent_clones_per_node=999)
MANY_CLONES = {"balancing": {"maxConcurrentClones": 999}}


def node_with_room(name: str, gib: int) -> Node:
    """A node on which clones may write so much: a tenth of the disk stays free."""
    return make_node(name, capacity_bytes=1000 * GIB, free_bytes=(100 + gib) * GIB)


def started(group: GroupPlan) -> set[tuple[int, str]]:
    return {(group.moves[index].bucket, group.moves[index].to) for index in group.start_now}


def ring(nodes: int, buckets: int, replicas: int = 2) -> BucketSequence:
    """Bucket b on the nodes b, b + 1, …"""
    return tuple(tuple(f"node-{(b + r) % nodes + 1}" for r in range(replicas)) for b in range(buckets))


def big_group(name: str = "sales", size_of_bucket_0: int = 350, **fields: object) -> GroupState:
    """64 buckets of 10 GiB, but for the first one, on six nodes."""
    sizes = (size_of_bucket_0 * GIB, *[10 * GIB] * 63)
    defaults = {"bucket_map": ring(6, 64), "bucket_bytes": sizes, "spec": MANY_CLONES}
    return make_group(64, 2, name=name, **(defaults | fields))  # type: ignore[arg-type]


def test_a_bucket_that_fits_nowhere_stops_no_other_repair_of_its_group() -> None:
    """Node-1 is lost; a bucket of 350 GiB finds 300 GiB of room at most. All others are repaired, and it is named."""
    nodes = [node_with_room(f"node-{number}", 300) for number in range(2, 7)]
    group = plan(make_snapshot(nodes, big_group(), limits=WIDE)).groups[0]
    lost = {bucket for bucket, row in enumerate(ring(6, 64)) if "node-1" in row}
    assert {bucket for bucket, _ in started(group)} == lost - {0}
    assert [(one.bucket, one.reason) for one in group.blocked] == [(0, Reason.INSUFFICIENT_SPACE)]
    assert group.stalled is not None
    assert "no node has room for the 375809638400 bytes of bucket 0: node" in group.stalled.message


def test_a_group_names_its_first_cause_and_how_many_others_there_are() -> None:
    """Bucket 0 finds no room, and of bucket 2 there is no live replica."""
    bucket_map = (("node-1", "node-9"), ("node-1", "node-2"), ("node-8", "node-9"), ("node-1", "node-9"))
    nodes = [node_with_room("node-1", 0), node_with_room("node-2", 5)]
    group = planned(nodes, buckets=4, bucket_map=bucket_map, bucket_bytes=(10 * GIB,) * 4)
    assert [(one.bucket, one.reason) for one in group.blocked if one.bucket != 2] == [
        (0, Reason.INSUFFICIENT_SPACE), (3, Reason.INSUFFICIENT_SPACE)
    ]
    assert group.stalled is not None
    assert group.stalled.message.startswith("buckets 0, 3 (2 of 4): no node has room for the 10737418240 bytes")
    assert group.stalled.message.endswith("; 1 bucket more for other reasons")


@pytest.mark.parametrize("spec", [{}, {"bucketSequence": [["node-1", "node-2"]] * 6}], ids=["", "a map by hand"])
def test_damaged_files_are_mended_in_place_without_room(spec: dict[str, object]) -> None:
    """The disk is full: they take the place of those that are there."""
    bucket_map = (("node-1", "node-2"),) * 6
    held = {node: dict(states) for node, states in make_group(6, 2, bucket_map).held.items()}
    held["node-2"][4] = "corrupt"
    nodes = [node_with_room("node-1", 0), node_with_room("node-2", 0)]
    group = planned(nodes, bucket_map=bucket_map, held=held, spec=spec)
    assert (started(group), group.stalled) == ({(4, "node-2")}, None)


def test_damaged_files_are_mended_in_place_whatever_else_waits() -> None:
    """Three replicas, two nodes left, no room at all: the damaged files need none, and are replaced at once."""
    bucket_map = (("node-1", "node-2", "node-3"),) * 6
    held = {node: dict(states) for node, states in make_group(6, 3, bucket_map).held.items()}
    held["node-2"][4] = "corrupt"
    nodes = [node_with_room("node-1", 0), node_with_room("node-2", 0)]
    group = planned(nodes, replicas=3, bucket_map=bucket_map, held=held)
    assert started(group) == {(4, "node-2")}
    assert reasons(group) == {Reason.INSUFFICIENT_NODES}


@pytest.mark.parametrize("strict", [False, True])
def test_a_replica_that_is_there_needs_no_room(strict: bool) -> None:
    """The map takes over a complete replica from a disk that has less free than its headroom, and nothing waits."""
    nodes = [node_with_room("node-1", 0), node_with_room("node-2", -50)]
    held = {node: {0: "complete"} for node in ("node-1", "node-2")}
    spec = {"bucketSequence": [["node-2"]], "balancing": {"strict": strict}}
    group = planned(nodes, buckets=1, replicas=1, bucket_map=(("node-1",),), held=held, spec=spec)
    assert (group.next_map, group.blocked) == ((("node-2",),), ())


def test_a_clone_that_has_copied_more_than_is_left_frees_no_room() -> None:
    """Its bucket had 100 GiB when it began, and has 1 GiB now: 50 GiB do not fit where 10 do."""
    copied = {"since": NOW, "bytes_done": 100 * GIB}
    clone = Clone(namespace="shop", group="sales", bucket=0, source="node-1", to="node-2", **copied)  # type: ignore[arg-type]
    nodes = [node_with_room("node-1", 0), node_with_room("node-2", 10)]
    group = planned(
        nodes, buckets=2, bucket_map=(("node-1", "node-9"),) * 2, bucket_bytes=(GIB, 50 * GIB), clones=(clone,)
    )
    assert (started(group), reasons(group)) == (set(), {Reason.INSUFFICIENT_SPACE})


def test_a_stuck_bucket_takes_no_room_from_another_group() -> None:
    """No live node has the first group's bucket: its 100 GiB are free for the other group until one has."""
    lost = make_group(1, 1, (("node-9",),), name="lost", bucket_bytes=(100 * GIB,))
    other = make_group(2, 2, (("node-1", "node-9"),) * 2, name="other", bucket_bytes=(80 * GIB, 20 * GIB))
    nodes = [node_with_room("node-1", 0), node_with_room("node-2", 100)]
    first, second = plan(make_snapshot(nodes, lost, other, limits=WIDE)).groups
    assert started(second) == {(0, "node-2"), (1, "node-2")}
    assert reasons(first) == {Reason.NO_LIVE_REPLICA}


def test_replicas_that_cannot_be_made_move_nothing_of_other_groups() -> None:
    """No live node has what two groups lost. Where they would go changes from pass to pass, and counts as no load: it
    would make a third group move a replica to and fro for ever.
    """
    weights = {1: 2.0, 2: 1.0, 3: 3.0, 4: 2.0, 5: 1.0, 6: 1.0, 7: 1.0, 8: 0.5, 9: 1.0}
    nodes = [make_node(f"node-{number}", weight=weight) for number, weight in weights.items()]
    whole = [(1, 9, 8, 5), *[(1, 2, 3, 4)] * 3, (1, 2, 9, 3), (1, 2, 3, 4)]
    lost = ([(3,), (6,), (8,), (9,), (2,)], [(7,), (8,), (9,), (2,), (3,)])
    groups = []
    for number, (rows, size) in enumerate(zip((whole, *lost), (3, 5, 1), strict=True)):
        bucket_map = tuple(tuple(f"node-{one}" for one in row) for row in rows)
        sizes = (size * GIB, *[GIB] * (len(rows) - 1))
        groups.append(make_group(len(rows), len(rows[0]), bucket_map, name=f"group-{number}", bucket_bytes=sizes))
    world = World(make_snapshot(nodes, *groups), Random(0))
    world.lose("node-3")
    last = world.settle()
    assert [group.stable for group in last.groups] == [True, False, False]


def test_room_goes_to_lost_replicas_before_it_goes_to_a_drain() -> None:
    """The group that is drained comes first, and is stable; the one that lost a replica gets the room."""
    drained = make_group(2, 1, (("node-3",),) * 2, name="a-drained", bucket_bytes=(60 * GIB, 60 * GIB))
    short = make_group(1, 2, (("node-1", "node-9"),), name="b-short", bucket_bytes=(90 * GIB,))
    nodes = [node_with_room("node-1", 0), node_with_room("node-2", 100), *nodes_of(3, drain=True)]
    first, second = plan(make_snapshot(nodes, drained, short, limits=WIDE)).groups
    assert started(second) == {(0, "node-2")}
    assert (started(first), reasons(first)) == (set(), {Reason.INSUFFICIENT_SPACE})


def test_buckets_with_the_fewest_live_replicas_take_room_first() -> None:
    """Room for one: the small bucket of which one replica is left, not the big one of which two are."""
    bucket_map = (("node-1", "node-2", "node-9"), ("node-1", "node-8", "node-9"))
    nodes = [node_with_room("node-1", 0), node_with_room("node-2", 0), node_with_room("node-3", 50)]
    group = planned(nodes, buckets=2, replicas=3, bucket_map=bucket_map, bucket_bytes=(50 * GIB, 20 * GIB))
    assert started(group) == {(1, "node-3")}


@pytest.mark.parametrize(
    ("rooms", "sizes", "made"),
    [
        pytest.param((10, 0), (10, 5, 5), 2, id="two small ones rather than a big one"),
        pytest.param((6, 5), (5, 3, 3), 3, id="the small ones move together"),
        pytest.param((10, 10), (10, 10, 10), 2, id="as many as fit"),
    ],
)
def test_as_many_replicas_as_fit_are_made(rooms: tuple[int, int], sizes: tuple[int, ...], made: int) -> None:
    """Every bucket lost one of two replicas, and two nodes may take them."""
    nodes = [node_with_room("node-1", 0), *(node_with_room(f"node-{2 + i}", room) for i, room in enumerate(rooms))]
    bucket_map = (("node-1", "node-9"),) * len(sizes)
    sizes_bytes = tuple(size * GIB for size in sizes)
    fields = {"buckets": len(sizes), "bucket_map": bucket_map, "bucket_bytes": sizes_bytes, "spec": MANY_CLONES}
    group = planned(nodes, WIDE, **fields)
    assert len(group.start_now) == made


def test_a_chosen_replica_goes_elsewhere_if_that_makes_room() -> None:
    """Bucket 0 may go to either node and bucket 1 to node-3 only: both are made, whatever is chosen first."""
    bucket_map = (("node-1", "node-9"), ("node-2", "node-9"))
    nodes = [node_with_room("node-1", 0), node_with_room("node-2", 10), node_with_room("node-3", 10)]
    group = planned(nodes, buckets=2, bucket_map=bucket_map, bucket_bytes=(10 * GIB, 10 * GIB))
    assert started(group) == {(0, "node-2"), (1, "node-3")}


def test_a_replica_begun_where_another_fits_only_goes_elsewhere() -> None:
    """Node-3 has a part of bucket 0, which node-2 may take as well; bucket 1 has no other node."""
    bucket_map = (("node-1", "node-9"), ("node-2", "node-9"))
    held = {"node-1": {0: "complete"}, "node-2": {1: "complete"}, "node-3": {0: "partial"}}
    nodes = [node_with_room("node-1", 0), node_with_room("node-2", 10), node_with_room("node-3", 10)]
    group = planned(nodes, buckets=2, bucket_map=bucket_map, held=held, bucket_bytes=(10 * GIB, 10 * GIB))
    assert started(group) == {(0, "node-2"), (1, "node-3")}


def test_a_group_moves_a_small_bucket_for_the_evenness_of_all_where_its_big_one_does_not_fit() -> None:
    """The added node has no room for the buckets on node-1, the fullest; it gets those on node-2."""
    rows, sizes = (("node-1",), ("node-2",)), (100 * GIB, GIB)
    fixed = {"spec": {"balancing": {"enabled": False}}}
    groups = [make_group(2, 1, rows, name=f"group-{number}", bucket_bytes=sizes) for number in range(12)]
    groups += [make_group(1, 1, rows[:1], name=f"fixed-{number}", **fixed) for number in range(6)]
    nodes = [*nodes_of(1, 2), node_with_room("node-3", 20)]
    moves = [move for group in plan(make_snapshot(nodes, *groups)).groups for move in group.moves]
    assert moves
    assert {(move.bucket, move.to) for move in moves} == {(1, "node-3")}
