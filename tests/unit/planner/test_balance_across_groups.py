"""Evenness over all groups, and plans that depend on the snapshot alone."""

import os
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from itertools import chain
from random import Random

import pytest

from colocation.model.snapshot import FailingTarget, GroupState, Limits, Node, Snapshot
from colocation.planner import plan
from colocation.planner.invariants import violations
from tests.property.worlds import GIB, NOW, World, make_group, make_node, make_snapshot

SMALL = 40


def small_groups(nodes: int) -> Snapshot:
    """Many groups, each with fewer replicas than there are nodes, as the planner places them."""
    all_nodes = [make_node(f"node-{number}") for number in range(nodes)]
    groups = [make_group(2, 1, name=f"group-{number:02d}") for number in range(SMALL)]
    world = World(make_snapshot(all_nodes, *groups), Random(0))
    world.settle()
    return world.snapshot


def totals(snapshot: Snapshot) -> Counter[str]:
    return Counter(chain.from_iterable(chain.from_iterable(group.map or () for group in snapshot.groups)))


def test_a_new_node_is_filled_by_groups_that_are_even_without_it() -> None:
    """80 replicas on 5 nodes, a sixth is added: no group needs it for itself, and together they fill it."""
    snapshot = small_groups(5)
    nodes = (*snapshot.nodes, make_node("node-9"))
    world = World(snapshot.model_copy(update={"nodes": nodes}), Random(0))
    assert all(group.stable for group in plan(world.snapshot).groups)
    world.settle()
    assert totals(world.snapshot)["node-9"] >= 10
    assert max(totals(world.snapshot).values()) <= 16


def test_a_node_that_is_cordoned_while_it_is_filled_takes_no_more() -> None:
    """What it has got it keeps; nothing is planned to come, nor to go."""
    snapshot = small_groups(5)
    rows = [group.map for group in snapshot.groups]
    groups = [make_group(2, 1, row, name=f"group-{number:02d}") for number, row in enumerate(rows)]
    world = World(make_snapshot([*snapshot.nodes, make_node("node-9")], *groups), Random(0))
    while not totals(world.snapshot)["node-9"]:
        world.step()
    shut = [node.model_copy(update={"schedulable": node.name != "node-9"}) for node in world.snapshot.nodes]
    now = world.snapshot.model_copy(update={"nodes": tuple(shut)})
    assert totals(now)["node-9"] < 10
    assert not any("node-9" in (move.source, move.to) for group in plan(now).groups for move in group.moves)


Moved = Counter[tuple[str | None, str]]


def moved(nodes: list[Node], *groups: GroupState, **fields: object) -> Moved:
    """From where to where the plan moves replicas for the evenness of all: safely, and one of a group at most."""
    snapshot = make_snapshot(nodes, *groups, **fields)
    decided = plan(snapshot)
    assert violations(snapshot, decided) == ()
    assert all(len(group.moves) <= 1 for group in decided.groups)
    assert all(group.stalled is None for group in decided.groups)
    for group in decided.groups:
        for move in group.moves:
            row = (group.target_map or ())[move.bucket]
            assert move.to in row and move.source not in row
    moves = [move for group in decided.groups for move in group.moves]
    assert {move.kind for move in moves} <= {"balance"}
    return Counter((move.source, move.to) for move in moves)


def singles(*numbers: int, name: str = "one", **fields: object) -> list[GroupState]:
    """Groups of one bucket with one replica: so many of them on node-1, node-2, …"""
    rows = [((f"node-{node}",),) for node, number in enumerate(numbers, 1) for _ in range(number)]
    return [make_group(1, 1, row, name=f"{name}-{number:03d}", **fields) for number, row in enumerate(rows)]


def edges(**moves: int) -> Moved:
    """``_12=3``: three replicas from node-1 to node-2."""
    return Counter({(f"node-{ends[1]}", f"node-{ends[2]}"): number for ends, number in moves.items()})


@pytest.mark.parametrize(
    ("weights", "counts", "moves"),
    [
        pytest.param((1, 1, 1), (6, 4, 2), edges(), id="two replicas from the share: within the tolerance"),
        pytest.param((1, 1, 1), (7, 4, 1), edges(_13=1), id="three: one moves"),
        pytest.param((1, 1, 1), (7, 1, 4), edges(_12=1), id="three: one moves to the emptiest"),
        pytest.param((1, 1, 1), (10, 1, 1), edges(_12=2, _13=2), id="many: until within the tolerance"),
        pytest.param((1, 1, 1), (7, 7, 1), edges(_13=2), id="too little on one: from the first groups"),
        pytest.param((1, 1, 1, 1), (7, 3, 3, 3), edges(_12=1), id="too much on one: to the emptiest, by name"),
        pytest.param((1, 1, 1, 1), (5, 5, 5, 1), edges(_14=1), id="too little on one: from the fullest, by name"),
        pytest.param((2, 1, 1), (6, 3, 3), edges(), id="by weight"),
        pytest.param((1, 1, 2), (6, 3, 3), edges(_13=1), id="uneven by weight"),
        pytest.param((1, 1, 1), (63, 60, 57), edges(), id="a twentieth of the share"),
        pytest.param((1, 1, 1), (64, 60, 56), edges(_13=1), id="more than a twentieth"),
    ],
)
def test_replicas_move_until_all_nodes_are_within_the_tolerance(
    weights: tuple[int, ...], counts: tuple[int, ...], moves: Moved
) -> None:
    """And no further."""
    nodes = [make_node(f"node-{number}", weight=weight) for number, weight in enumerate(weights, 1)]
    assert moved(nodes, *singles(*counts)) == moves


FAILING = {"node-3": FailingTarget(failures=3, retry_at=NOW + timedelta(seconds=60), cause="the disk is full")}
CORDONED = {"schedulable": False}
ROOM_FOR_TWO = {"capacity_bytes": 1000 * GIB, "free_bytes": 102 * GIB}
DOWN = {"ready": False, "not_ready_since": NOW - timedelta(seconds=60)}


@pytest.mark.parametrize(
    ("nodes", "groups", "moves"),
    [
        pytest.param({}, singles(9, 5, 1, spec={"balancing": {"enabled": False}}), edges(), id="balancing is off"),
        pytest.param({}, singles(9, 5, 1, spec={"bucketSequence": [["node-1"]]})[:9] + singles(0, 5, 1, name="x"),
                     edges(_23=2), id="a map set by hand"),
        pytest.param({}, singles(9, 5, 1, failing_targets=FAILING), edges(), id="clones fail there"),
        pytest.param({}, singles(9, 0, 0, failing_targets=FAILING) + singles(0, 5, 1, name="x"), edges(_12=1, _23=2),
                     id="clones of some groups fail there"),
        pytest.param({3: CORDONED}, singles(9, 5, 1), edges(), id="the empty one is cordoned"),
        pytest.param({3: CORDONED}, singles(9, 3, 0), edges(_12=1), id="a cordoned one without any has no share"),
        pytest.param({1: CORDONED}, singles(9, 5, 1), edges(_23=2), id="the full one is cordoned"),
        pytest.param({3: DOWN}, singles(9, 5, 1), edges(_12=2), id="the empty one is away for a moment"),
        pytest.param({3: ROOM_FOR_TWO}, singles(15, 5, 1), edges(_13=2), id="room for two"),
        pytest.param({1: {"zone": "a"}, 2: {"zone": "b"}, 3: {"zone": "b"}},
                     [make_group(1, 2, (("node-1", "node-2"),), name=f"two-{number}") for number in range(9)],
                     edges(_23=3), id="zones: only within one"),
        pytest.param({}, [make_group(2, 1, (("node-1",), ("node-2",)), name=f"two-{number}") for number in range(9)],
                     edges(_13=2, _23=2), id="groups of two: each stays even by itself"),
        pytest.param({}, [make_group(3, 1, (("node-1",), ("node-2",), ("node-3",)), name=f"three-{number}")
                          for number in range(9)] + singles(6, 0, 0), edges(_12=1, _13=1),
                     id="groups of three have a replica on each, and give none"),
    ],
)  # fmt: skip
def test_what_moves_nothing_for_the_evenness_of_all(
    nodes: dict[int, dict[str, object]], groups: list[GroupState], moves: Moved
) -> None:
    """Switches, failing and cordoned nodes, room, zones, and the group's own evenness."""
    found = [make_node(f"node-{number}", **nodes.get(number, {})) for number in (1, 2, 3)]
    assert moved(found, *groups) == moves


FIXED = {"balancing": {"enabled": False}}


def groups_of(rows: tuple[tuple[int, ...], ...], number: int) -> list[GroupState]:
    """So many groups with these nodes in their buckets."""
    bucket_map = tuple(tuple(f"node-{one}" for one in row) for row in rows)
    return [make_group(len(rows), len(rows[0]), bucket_map, name=f"many-{one:03d}") for one in range(number)]


@pytest.mark.parametrize(
    ("nodes", "groups", "moves"),
    [
        pytest.param(
            [{"weight": 2}, {}, {}], groups_of(((1,), (2,)), 12) + singles(10, spec=FIXED), edges(_23=6),
            id="the fullest holds just its share of the group, and gives none of it",
        ),
        pytest.param(
            [{}, {}, {}, {}], groups_of(((1,), (3,)), 1) + singles(7, 5, 2, 4, spec=FIXED), edges(_14=1),
            id="the emptiest has its share of the group already",
        ),
        pytest.param(
            [{}, {}, {}, {}], singles(0, 5, 3, 4, name="x") + singles(8), edges(_13=1),
            id="one holds too much: only that one gives",
        ),
        pytest.param(
            [{"zone": "a"}, {"zone": "b"}, {"zone": "b"}, {"zone": "c"}],
            groups_of(((1, 2),), 6) + singles(2, 0, 0, 5, spec=FIXED), edges(_23=3),
            id="the fullest is alone in its zone",
        ),
        pytest.param(
            [{}, {}, {}], singles(3) + singles(9, 3, 1, name="fixed", spec=FIXED), edges(_13=3),
            id="the emptiest comes first",
        ),
    ],
)  # fmt: skip
def test_who_gives_and_who_takes(nodes: list[dict[str, object]], groups: list[GroupState], moves: Moved) -> None:
    """No group becomes uneven by itself, no bucket is in fewer zones, and nothing moves that gains nothing."""
    assert moved([make_node(f"node-{number}", **one) for number, one in enumerate(nodes, 1)], *groups) == moves


def test_a_group_that_waits_for_a_node_moves_nothing_for_the_others() -> None:
    """It is unstable as it is; nor does a new group that finds no nodes."""
    nodes = [*(make_node(f"node-{number}") for number in (1, 2, 3)), make_node("node-4", **DOWN)]
    waiting = make_group(1, 2, (("node-1", "node-4"),), name="a")
    new = make_group(1, 4, name="b")
    first, second, *others = plan(make_snapshot(nodes, waiting, new, *singles(9, 5, 1))).groups
    assert (first.moves, second.moves) == ((), ())
    assert any(group.moves for group in others)


def test_a_bucket_that_has_the_node_already_is_not_moved_there() -> None:
    """Another one of its group is."""
    nodes = [make_node(f"node-{number}") for number in (1, 2, 3)]
    [group] = groups_of(((1, 3), (1, 2)), 1)
    [first, *_] = plan(make_snapshot(nodes, group, *singles(9, 5, 2, spec=FIXED))).groups
    assert [(move.bucket, move.source, move.to) for move in first.moves] == [(1, "node-1", "node-3")]


def test_the_operators_switch_moves_nothing_for_the_evenness_of_all() -> None:
    """Nor does a single group have anything to be even with."""
    nodes = [make_node(f"node-{number}") for number in (1, 2, 3)]
    assert moved(nodes, *singles(9, 5, 1), limits=Limits(disable_colocate_balance=True)) == edges()


def test_of_a_groups_buckets_the_begun_one_moves_then_the_smallest() -> None:
    """So plans stay the same while they are carried out."""
    nodes = [make_node(f"node-{number}") for number in (1, 2, 3)]
    rows, sizes = (("node-1",), ("node-1",), ("node-3",), ("node-2",)), (3 * GIB, 2 * GIB, GIB, GIB)
    for begun, bucket in ((None, 1), (0, 0)):
        four = make_group(4, 1, rows, name="a", bucket_bytes=sizes)
        held = four.held if begun is None else {**four.held, "node-2": {3: "complete", begun: "partial"}}
        [first, *_] = plan(make_snapshot(nodes, four.model_copy(update={"held": held}), *singles(9, 0, 4))).groups
        assert [(move.bucket, move.to) for move in first.moves] == [(bucket, "node-2")]


@pytest.mark.parametrize(("heavy", "light"), [(2, 3), (3, 2)])
def test_a_group_balances_towards_the_node_that_is_lightest_over_all(heavy: int, light: int) -> None:
    """Where its own evenness leaves the choice."""
    nodes = [make_node(f"node-{number}") for number in (1, 2, 3)]
    uneven = make_group(2, 1, (("node-1",),) * 2, name="a")
    fixed = [
        make_group(1, 1, ((f"node-{heavy}",),), name=f"b-{number}", spec={"balancing": {"enabled": False}})
        for number in range(2)
    ]
    [first, *_] = plan(make_snapshot(nodes, uneven, *fixed)).groups
    assert [(move.source, move.to) for move in first.moves] == [("node-1", f"node-{light}")]


def test_small_differences_move_nothing() -> None:
    """One replica more or less than the share over all groups is not worth moving data."""
    nodes = [make_node(f"node-{number}") for number in range(3)]
    rows = (("node-0",), ("node-1",), ("node-2",), ("node-0",))
    groups = [make_group(4, 1, rows, name=f"group-{number}") for number in range(3)]
    assert not any(group.moves for group in plan(make_snapshot(nodes, *groups)).groups)


def test_new_groups_are_even_together_by_weight() -> None:
    """Groups of one replica each: the heavy node gets twice as many of them, not all and not an equal part."""
    nodes = [make_node("node-1"), make_node("node-2"), make_node("node-3", weight=2)]
    groups = [make_group(1, 1, name=f"group-{number}") for number in range(16)]
    maps = [group.next_map or () for group in plan(make_snapshot(nodes, *groups)).groups]
    assert Counter(chain.from_iterable(chain.from_iterable(maps))) == {"node-1": 4, "node-2": 4, "node-3": 8}


def test_plans_do_not_depend_on_the_hash_seed() -> None:
    """Two processes with different orders of sets decide alike: two operators must."""
    nodes = [make_node(f"node-{number}", weight=1 + number % 2, zone="abc"[number % 3]) for number in range(7)]
    rows = tuple(tuple(f"node-{(bucket + n) % 4}" for n in range(3)) for bucket in range(12))
    snapshot = make_snapshot(nodes, make_group(12, 3, rows, bucket_bytes=tuple(range(1, 13)))).model_dump_json()
    program = (
        "import sys; from colocation.model.snapshot import Snapshot; from colocation.planner import plan; "
        "print(plan(Snapshot.model_validate_json(sys.stdin.read())).model_dump_json())"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", program],
            input=snapshot,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(answers) == 1
    assert '"kind":"balance"' in answers.pop()
