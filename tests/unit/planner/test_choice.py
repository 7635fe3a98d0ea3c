"""Which node takes a lost replica, by the documented order; room that is made; and books that stay true meanwhile."""

from collections import Counter
from itertools import chain, combinations, product
from random import Random

import pytest

from colocation.model.plan import GroupPlan
from colocation.model.snapshot import Clone, FailingTarget, Limits, Node, Snapshot
from colocation.planner import choice, plan
from colocation.planner.assignment import assign_lost
from colocation.planner.choice import KIND_ORDER, Chooser, kind_of
from colocation.planner.cluster import Cluster, Standing
from colocation.planner.invariants import violations
from colocation.planner.repair import find_losses
from colocation.planner.transitions import MovePlan
from colocation.planner.view import GroupView
from tests.property.test_planner_room import EQUAL, SKEWED, random_snapshot
from tests.property.worlds import GIB, NOW, make_group, make_node, make_snapshot

from .cases import nodes_of, planned
from .test_stuck_buckets import MANY_CLONES, WIDE, node_with_room, started

STILL = {"balancing": {"enabled": False}}
"""What repairs is not planned with the balance that follows in mind."""


def random_nodes(random: Random, zones: str) -> list[Node]:
    """Five to eight nodes, of which the last two are lost or drained."""
    number = random.randint(5, 8)
    return [
        make_node(
            f"node-{index}",
            weight=random.choice([1, 1, 1, 2, 0.5]),
            zone=random.choice(zones) if zones else None,
            drain=index >= number - 2 and random.random() < 0.5,
        )
        for index in range(number)
    ]


def random_rows(random: Random, nodes: list[Node], most_lost: int) -> tuple[tuple[str, ...], ...]:
    """Two or three replicas of up to eight buckets; as many of them may be on the last two nodes."""
    names, lost_left, rows = [node.name for node in nodes], most_lost, []
    replicas = random.choice([2, 3])
    for _ in range(random.randint(2, 8)):
        row = random.sample(names[:-2], replicas)
        if lost_left:
            row[random.randrange(replicas)] = random.choice(names[-2:])
            lost_left -= 1
        rows.append(tuple(row))
    random.shuffle(rows)
    return tuple(rows)


def random_world(seed: int, zones: str, most_lost: int) -> Snapshot:
    """A group that has lost replicas, and another one; replicas begun elsewhere, clones, nodes on which some failed."""
    random = Random(seed)
    nodes = random_nodes(random, zones)
    rows = random_rows(random, nodes, most_lost)
    sizes = tuple(random.choice([1, 1, 2, 5]) * GIB for _ in rows)
    group = make_group(len(rows), len(rows[0]), rows, bucket_bytes=sizes, spec=STILL)
    held = {node: dict(states) for node, states in group.held.items()}
    for _ in range(random.choice([0, 3, 6])):
        bucket, node = random.randrange(len(rows)), random.choice(nodes[:-2]).name
        if node not in rows[bucket]:
            held.setdefault(node, {})[bucket] = random.choice(["partial", "complete", "corrupt"])
    clones = [
        Clone(namespace="shop", group="sales", bucket=random.randrange(len(rows)), source=None, to=node.name, since=NOW)
        for node in random.sample(nodes[:-2], random.choice([0, 1]))
    ]
    tried = random.sample([node.name for node in nodes[:-2]], random.choice([0, 0, 2]))
    failing = {node: FailingTarget(failures=3, retry_at=NOW, cause="the disk is full") for node in tried}
    group = group.model_copy(update={"held": held, "failing_targets": failing})
    others = random_rows(random, nodes, 0)
    groups = [group, make_group(len(others), len(others[0]), others, name="other", spec=STILL)][: random.choice([1, 2])]
    gone = {node.name for node in nodes[-2:] if not node.drain}
    alive = [node for node in nodes if node.name not in gone]
    return make_snapshot(alive, *groups, clones=[clone for clone in clones if clone.to not in gone])


def by_the_documented_order(snapshot: Snapshot) -> list[tuple[int, str | None, str]]:
    """The node of each lost replica, one after the other: see the docstring of `choice`."""
    cluster = Cluster(snapshot)
    view = GroupView(cluster, snapshot.groups[0])
    nodes = {node.name: node for node in snapshot.nodes}
    lost = [
        (bucket, node)
        for bucket, row in enumerate(view.map)
        for node in row
        if node not in nodes or nodes[node].drain
    ]
    lost.sort(key=lambda one: (
        KIND_ORDER.index(kind_of(view, one[1])), view.live_replicas(one[0]), -view.bytes_of(one[0]), one[0]
    ))  # fmt: skip
    rows = [set(row) for row in view.map]
    for bucket, node in lost:
        rows[bucket].discard(node)
    counts = Counter(chain.from_iterable(rows))
    replicas = Counter(chain.from_iterable(row for group in snapshot.groups for row in group.map or ()))
    size_bytes: Counter[str] = Counter()
    for group in snapshot.groups:
        for row, size in zip(group.map or (), group.bucket_bytes, strict=True):
            size_bytes.update(dict.fromkeys(row, size))
    zone = {name: node.zone for name, node in nodes.items()}
    deviation = view.shares().deviation
    begun = {(clone.bucket, clone.to): 1 for clone in snapshot.clones}
    for name, states in view.group.held.items():
        begun.update({(b, name): 0 if state == "complete" else 1 for b, state in states.items() if state != "corrupt"})
    found = []
    for bucket, left in lost:
        taken = {zone[node] for node in rows[bucket]} if len({zone[name] for name in view.takers}) > 1 else set()

        def key(node: str, bucket: int = bucket, taken: set[str | None] = taken) -> tuple[object, ...]:
            load = replicas[node] / nodes[node].weight, size_bytes[node] / nodes[node].weight
            order = deviation(node, counts[node] + 1), *load, node
            return node in view.group.failing_targets, zone[node] in taken, begun.get((bucket, node), 2), *order

        node = min((name for name in view.takers if name not in rows[bucket] | set(view.map[bucket])), key=key)
        rows[bucket].add(node)
        counts[node] += 1
        found.append((bucket, left, node))
    return found


@pytest.mark.parametrize(("zones", "most_lost"), [("", 1), ("ab", 1), ("abc", 4)])
def test_each_lost_replica_goes_to_the_fittest_node(zones: str, most_lost: int) -> None:
    """With room everywhere, and no balance to follow."""
    compared = 0
    for seed in range(150):
        snapshot = random_world(seed, zones, most_lost)
        view = GroupView(Cluster(snapshot), snapshot.groups[0])
        if len(set(view.pool.zones.values())) != (len(set(zones)) if zones else 0):
            continue  # without zones that differ, several repairs are made even together
        moves = [(move.bucket, move.source, move.to) for move in plan(snapshot).groups[0].moves]
        expected = by_the_documented_order(snapshot)
        assert sorted(moves) == sorted(expected), f"seed {seed}"
        compared += bool(expected)
    assert compared > 50


SWITCHES = [
    pytest.param({"spec": STILL}, {}, id="the group's switch"),
    pytest.param({"spec": {}}, {"disable_colocate_balance": True}, id="the operator's switch"),
]


@pytest.mark.parametrize(("fields", "limits"), SWITCHES)
def test_repairs_that_no_balance_follows_are_even_among_themselves(
    fields: dict[str, object], limits: dict[str, object]
) -> None:
    """No replica that was made would be nearer to the shares on another node that may take it."""
    for seed in range(80):
        random = Random(seed)
        names = [f"node-{number}" for number in range(random.randint(4, 7))]
        nodes = [make_node(name, weight=random.choice([1, 1, 2])) for name in names]
        rows = tuple(tuple(random.sample(names, 2)) for _ in range(random.randint(3, 10)))
        group = make_group(len(rows), 2, rows, **fields)  # type: ignore[arg-type]
        snapshot = make_snapshot(nodes[1:], group, limits=Limits.model_validate(limits))
        [made] = plan(snapshot).groups
        counts = Counter(chain.from_iterable(made.target_map or ()))
        deviation = GroupView(Cluster(snapshot), group).shares().deviation
        for move in made.moves:
            others = set(names[1:]).difference((made.target_map or ())[move.bucket])
            here = deviation(move.to, counts[move.to])
            assert all(here <= deviation(node, counts[node] + 1) for node in others), f"seed {seed}"


@pytest.mark.parametrize("sizes", [EQUAL, SKEWED], ids=["equal", "skewed"])
@pytest.mark.parametrize("seed", range(12))
def test_the_books_are_true_after_room_was_made(sizes: tuple[int, ...], seed: int) -> None:
    """Nodes of buckets, replicas of nodes, and room: as if all had been chosen at once."""
    snapshot = random_snapshot(Random(seed), sizes, Limits(), 1)
    view = GroupView(Cluster(snapshot), snapshot.groups[0])
    before = dict(view.cluster.room.bytes_by_node)
    move_plan = MovePlan(list(view.map))
    losses = find_losses(view, move_plan)
    chooser = Chooser(view, move_plan.target, losses)
    chooser.choose_all()
    lost = [(bucket, node) for bucket, nodes in losses.items() for node in nodes]
    assert sorted([*((bucket, node) for bucket, node, _ in chooser.assignments), *chooser.left_over]) == sorted(lost)
    kept = [set(row) - set(losses.get(bucket, ())) for bucket, row in enumerate(view.map)]
    for bucket, _, node in chooser.assignments:
        assert node not in kept[bucket]
        kept[bucket].add(node)
        before[node] -= view.bytes_of(bucket) if view.has_source(bucket) else 0
    assert chooser.holders == kept
    assert +chooser.counts == Counter(chain.from_iterable(kept))
    assert view.cluster.room.bytes_by_node == before


@pytest.mark.parametrize("sizes", [EQUAL, SKEWED], ids=["equal", "skewed"])
@pytest.mark.parametrize("seed", range(12))
def test_room_is_reserved_for_what_is_made(sizes: tuple[int, ...], seed: int) -> None:
    """Also where an exchange with the later balance in mind was looked for, and did not fit."""
    snapshot = random_snapshot(Random(seed), sizes, Limits(), 1)
    view = GroupView(Cluster(snapshot), snapshot.groups[0])
    left = dict(view.cluster.room.bytes_by_node)
    move_plan = MovePlan(list(view.map))
    for bucket, _, node in assign_lost(view, move_plan, find_losses(view, move_plan)):
        left[node] -= view.bytes_of(bucket) if view.has_source(bucket) else 0
    assert view.cluster.room.bytes_by_node == left


def repaired(rooms: dict[int, int], rows: list[tuple[int, ...]], sizes: list[int], **fields: object) -> GroupPlan:
    """The plan of buckets of so many GiB on nodes with so much room; node 9 is gone."""
    nodes = [node_with_room(f"node-{number}", room) for number, room in rooms.items()]
    bucket_map = tuple(tuple(f"node-{number}" for number in row) for row in rows)
    defaults = {"bucket_bytes": tuple(size * GIB for size in sizes), "spec": MANY_CLONES}
    return planned(nodes, WIDE, buckets=len(rows), replicas=len(rows[0]), bucket_map=bucket_map, **(defaults | fields))


def begun(rows: list[tuple[int, ...]], **parts: int) -> dict[str, dict[int, str]]:
    """All is complete on the nodes that are left, and nodes have a part of a bucket."""
    held: dict[str, dict[int, str]] = {}
    for bucket, row in enumerate(rows):
        for number in row[:-1]:
            held.setdefault(f"node-{number}", {})[bucket] = "complete"
    for bucket, number in parts.items():
        held.setdefault(f"node-{number}", {})[int(bucket[1:])] = "partial"
    return held


def test_of_as_many_replicas_the_big_ones_are_made() -> None:
    """Small ones come first only where more of them fit."""
    assert started(repaired({1: 0, 2: 10}, [(1, 9), (1, 9)], [5, 10])) == {(1, "node-2")}


def test_the_number_of_urgent_replicas_decides() -> None:
    """Two lost ones rather than a lost and two drained ones, for which the big lost one would leave room."""
    nodes = [node_with_room("node-1", 0), node_with_room("node-2", 10), *nodes_of(4, drain=True)]
    rows = (("node-1", "node-9"),) * 3 + (("node-1", "node-4"),) * 2
    sizes = tuple(size * GIB for size in (8, 5, 5, 1, 1))
    group = planned(nodes, WIDE, buckets=5, bucket_map=rows, bucket_bytes=sizes, spec=MANY_CLONES)
    assert started(group) == {(1, "node-2"), (2, "node-2")}


CHAIN = [(4, 1, 9), (2, 1, 9), (2, 3, 9)]


@pytest.mark.parametrize(("most_steps", "made"), [(10, {0: 2, 1: 3, 2: 4}), (1, {0: 3, 1: 4})])
def test_replicas_push_each_other_on(monkeypatch: pytest.MonkeyPatch, most_steps: int, made: dict[int, int]) -> None:
    """Bucket 2 has node-4 only, bucket 1 then goes to node-3, and bucket 0 to node-2; but the search has an end."""
    monkeypatch.setattr(choice, "MOST_STEPS", most_steps)
    group = repaired({1: 0, 2: 10, 3: 10, 4: 10}, CHAIN, [10, 10, 10], held=begun(CHAIN, b0=3, b1=4))
    assert started(group) == {(bucket, f"node-{number}") for bucket, number in made.items()}


def test_the_smallest_replica_makes_room() -> None:
    """Bucket 2 has node-3 only, where buckets 0 and 1 were begun; both could go to node-2."""
    rows = [(1, 9), (1, 9), (2, 9)]
    group = repaired({1: 0, 2: 10, 3: 15}, rows, [10, 5, 5], held=begun(rows, b0=3, b1=3))
    assert started(group) == {(0, "node-3"), (1, "node-2"), (2, "node-3")}


def test_what_a_group_plans_is_a_load_for_the_next() -> None:
    """Two groups lose a replica each; the second one's goes to the node that is lighter then."""
    groups = [make_group(1, 2, (("node-1", "node-9"),), name=name) for name in "ab"]
    moves = [group.moves for group in plan(make_snapshot(nodes_of(1, 2, 3), *groups)).groups]
    assert [[move.to for move in some] for some in moves] == [["node-2"], ["node-3"]]


def test_parts_of_a_bucket_can_be_made_whole_and_take_room() -> None:
    """A clone takes each file from a node that has it, so what is to come there needs its room."""
    held = {"node-1": {0: "partial"}}
    group = repaired({1: 20, 2: 5}, [(1, 9)], [10], held=held)
    assert [(move.to, move.source) for move in group.moves] == [("node-1", "node-1")]
    assert "no node has room for the" in str(group.blocked)


def test_a_complete_copy_on_a_full_disk_takes_the_lost_ones_place() -> None:
    """It needs no room, whatever the others have."""
    held = {"node-1": {0: "complete"}, "node-2": {0: "complete"}}
    group = repaired({1: 0, 2: -50, 3: 99}, [(1, 9)], [10], held=held)
    assert ([(move.to, move.bytes) for move in group.moves], group.blocked) == ([("node-2", 0)], ())
    assert group.next_map == (("node-1", "node-2"),)


def test_failing_nodes_that_would_do_are_named() -> None:
    """Not those that have the bucket, or no room."""
    target = FailingTarget(failures=3, retry_at=NOW.replace(year=2030), cause="")
    targets = {f"node-{number}": target for number in (1, 3, 4, 5)}
    group = repaired({1: 20, 3: 20, 4: 20, 5: 0}, [(1, 9)], [10], failing_targets=targets)
    again = "failed; it is tried again at 2030-11-21T00:00:00Z"
    [message] = [one.message for one in group.blocked]
    assert message == f"no other node fits: 3 clones to node node-3 {again}; 3 clones to node node-4 {again}"


def least_cost(view: GroupView, rows: list[tuple[str, ...]], after: list[tuple[str, ...]]) -> tuple[int, int, int]:
    """What giving up replicas costs: serving ones, zones that buckets leave, unevenness that remains."""
    serving = zones = 0
    for bucket, (row, left) in enumerate(zip(rows, after, strict=True)):
        gone = set(row) - set(left)
        may_stay = [node for node in gone if view.standing(node) in (Standing.FIT, Standing.KEEPING)]
        serving += sum(view.is_complete(bucket, node) for node in may_stay)
        zones += len({view.zone(node) for node in row}) - len({view.zone(node) for node in left})
    counts, shares = Counter(chain.from_iterable(after)), view.shares()
    uneven = sum(
        sum(shares.deviation(node, number) for number in range(1, counts[node] + 1))
        for node in shares.by_node
    )
    return serving, zones, uneven


@pytest.mark.parametrize("zones", ["", "ab", "abc"])
@pytest.mark.parametrize("seed", range(30))
def test_the_replicas_that_are_given_up_are_the_least_costly(seed: int, zones: str) -> None:
    """Compared with each other choice, for few buckets."""
    random = Random(seed)
    names = [f"node-{number}" for number in range(5)]
    nodes = [
        make_node(name, weight=random.choice([1, 1, 2]), zone=random.choice(zones) if zones else None,
                  schedulable=random.random() < 0.8)
        for name in names
    ]  # fmt: skip
    rows = tuple(tuple(random.sample(names, random.randint(2, 4))) for _ in range(random.randint(2, 4)))
    held = {node: dict(states) for node, states in make_group(len(rows), 2, rows).held.items()}
    for bucket, row in enumerate(rows):
        if random.random() < 0.4:
            held[random.choice(row)][bucket] = "partial"
    group = make_group(len(rows), 2, rows, held=held, spec=STILL)
    snapshot = make_snapshot(nodes, group)
    view = GroupView(Cluster(snapshot), group)
    target = list(plan(snapshot).groups[0].target_map or ())
    choices = product(*(list(combinations(row, 2)) for row in rows))
    assert [len(row) for row in target] == [2] * len(rows)
    assert least_cost(view, list(rows), target) == min(least_cost(view, list(rows), list(one)) for one in choices)


def test_a_plan_with_room_is_safe() -> None:
    """Of all worlds above, with several losses."""
    for seed in range(40):
        snapshot = random_world(seed, "abc", 4)
        assert violations(snapshot, plan(snapshot)) == ()
