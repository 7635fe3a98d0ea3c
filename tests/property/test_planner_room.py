"""Full disks, at realistic sizes: every replica that fits is made, and every clone that the limits allow starts."""

from collections import Counter
from random import Random

import pytest

from colocation.model.plan import GroupPlan
from colocation.model.snapshot import GroupState, Limits, Node, Snapshot
from colocation.planner import plan
from colocation.planner.cluster import Cluster
from colocation.planner.invariants import violations

from .oracle import most_repairs
from .worlds import GIB, examples, make_group, make_node, make_snapshot

SEEDS = range(examples(60))
CAPACITY = 10_000 * GIB
EQUAL = (10,)
SKEWED = (1, 2, 5, 10, 10, 10, 30, 120)
TOO_BIG = 5_000
"""GiB; no node has room for it."""
ANY_CLONES = 10_000


def random_snapshot(random: Random, sizes: tuple[int, ...], limits: Limits, groups: int) -> Snapshot:
    """Groups of 64 to 128 buckets on 8 to 14 nodes, of which one to three are lost; the others have little room."""
    names = [f"node-{number}" for number in range(random.randint(8, 14))]
    lost = random.sample(names, random.randint(1, 3))
    tightness = random.choice([0.3, 0.8, 1.5])
    states = [random_group(random, names, sizes, f"group-{number}") for number in range(groups)]
    missing = sum(
        size
        for group in states
        for row, size in zip(group.map or (), group.bucket_bytes, strict=True)
        for node in row
        if node in lost and size < TOO_BIG * GIB
    )
    mean_gib = max(1, round(tightness * missing / GIB / (len(names) - len(lost))))
    return make_snapshot(
        [node_with_room(name, random.randint(0, 2 * mean_gib)) for name in names if name not in lost],
        *states,
        limits=limits,
    )


def node_with_room(name: str, gib: int) -> Node:
    return make_node(name, capacity_bytes=CAPACITY, free_bytes=CAPACITY // 10 + gib * GIB)


def random_group(random: Random, names: list[str], sizes: tuple[int, ...], name: str) -> GroupState:
    buckets, replicas = random.randint(64, 128), random.choice([2, 3])
    rows = tuple(tuple(random.sample(names, replicas)) for _ in range(buckets))
    gib = [random.choice(sizes) for _ in range(buckets)]
    too_big = random.choice([0, 1, 5])
    gib[:too_big] = [TOO_BIG] * too_big
    spec = {"balancing": {"maxConcurrentClones": random.choice([4, 16, 64])}}
    return make_group(buckets, replicas, rows, name=name, bucket_bytes=tuple(one * GIB for one in gib), spec=spec)


def lost_of(group: GroupState, snapshot: Snapshot) -> dict[int, int]:
    """Replicas to make per bucket that some live node has."""
    alive = {node.name for node in snapshot.nodes}
    lost = {bucket: sum(node not in alive for node in row) for bucket, row in enumerate(group.map or ())}
    return {bucket: number for bucket, number in lost.items() if 0 < number < group.spec.replicas}


def planned_of(group: GroupPlan, lost: dict[int, int]) -> list[tuple[int, str, int]]:
    return [(move.bucket, move.to, move.bytes) for move in group.moves if move.bucket in lost]


def room_of(snapshot: Snapshot) -> dict[str, int]:
    room = Cluster(snapshot).room
    return {node.name: int(room.available_bytes(node.name)) for node in snapshot.nodes}


@pytest.mark.parametrize("seed", SEEDS)
def test_as_many_replicas_are_planned_as_fit(seed: int) -> None:
    """Equal buckets, and some too big for any node: as many as a maximum flow finds, group by group."""
    snapshot = random_snapshot(Random(seed), EQUAL, Limits(), groups=3)
    decided, room, size_bytes = plan(snapshot), room_of(snapshot), EQUAL[0] * GIB
    for group, planned in zip(snapshot.groups, decided.groups, strict=True):
        lost = lost_of(group, snapshot)
        fitting = {bucket: number for bucket, number in lost.items() if group.bucket_bytes[bucket] == size_bytes}
        slots = {node: left // size_bytes for node, left in room.items()}
        moves = planned_of(planned, lost)
        assert len(moves) == most_repairs(fitting, slots, group.map or ())
        for _, node, moved_bytes in moves:
            room[node] -= moved_bytes
        named = {problem.bucket for problem in planned.blocked}
        assert named >= {bucket for bucket, number in lost.items() if number > sum(one[0] == bucket for one in moves)}
    assert min(room.values()) >= 0


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_is_left_over_fits(seed: int) -> None:
    """Buckets of skewed sizes: after the moves of all groups no node has room for a replica that is not made."""
    snapshot = random_snapshot(Random(seed), SKEWED, Limits(), groups=3)
    decided, room = plan(snapshot), room_of(snapshot)
    moves = {
        group.name: planned_of(group, lost_of(state, snapshot))
        for state, group in zip(snapshot.groups, decided.groups, strict=True)
    }
    for node, moved_bytes in (move[1:] for some in moves.values() for move in some):
        room[node] -= moved_bytes
    assert min(room.values()) >= 0
    for group in snapshot.groups:
        made = Counter(bucket for bucket, _, _ in moves[group.name])
        for bucket, number in lost_of(group, snapshot).items():
            if made[bucket] < number:
                used = {*(group.map or ())[bucket], *(to for one, to, _ in moves[group.name] if one == bucket)}
                assert all(room[node] < group.bucket_bytes[bucket] for node in room.keys() - used)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_clone_starts_that_the_limits_allow(seed: int) -> None:
    """A planned move that does not start has a full group, a full target, or only full sources."""
    random = Random(seed)
    per_node = random.choice([1, 2, 8])
    snapshot = random_snapshot(
        random, random.choice([EQUAL, SKEWED]), Limits(max_concurrent_clones_per_node=per_node), 3
    )
    decided = plan(snapshot)
    assert violations(snapshot, decided) == ()
    started = [
        (group, planned.moves[index])
        for group, planned in zip(snapshot.groups, decided.groups, strict=True)
        for index in planned.start_now
    ]
    receiving = Counter(move.to for _, move in started)
    assert max(receiving.values(), default=0) <= per_node
    alive = {node.name for node in snapshot.nodes}
    for group, planned in zip(snapshot.groups, decided.groups, strict=True):
        if len(planned.start_now) == group.spec.balancing.max_concurrent_clones:
            continue
        waiting = [move for index, move in enumerate(planned.moves) if index not in planned.start_now]
        for move in waiting:
            sources = alive.intersection((group.map or ())[move.bucket])
            assert not sources or receiving[move.to] == per_node or _may_be_full(sources, started, per_node)


def _may_be_full(sources: set[str], started: list[tuple[GroupState, object]], per_node: int) -> bool:
    """Whether the clones that started could read as many at a time as allowed from each of the sources."""
    reading = Counter(
        node
        for group, move in started
        for node in set((group.map or ())[move.bucket])  # type: ignore[attr-defined]
    )
    return all(reading[node] >= per_node for node in sources)
