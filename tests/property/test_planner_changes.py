"""Every kind of change to an even group against the optimum: networkx's for many sizes, all maps for tiny ones."""

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colocation.model.group import BucketSequence
from colocation.model.snapshot import GroupState, Node, Snapshot
from colocation.planner import plan

from .oracle import exact_shares, fewest_moves, largest_remainder
from .worlds import WEIGHTS, carried_out, examples, make_node, make_snapshot, node_lists, placed_groups

Change = tuple[GroupState, list[Node]]
"""An even group, and the nodes after the change. Those without the label ``data`` may not hold it any more."""

FIT = {"data": "yes"}


@st.composite
def even_groups(draw: st.DrawFn, most_nodes: int = 8) -> tuple[GroupState, list[Node]]:
    """Any map, made even by the planner; buckets of different sizes."""
    nodes = [node.model_copy(update={"labels": FIT}) for node in draw(node_lists(least=2, most=most_nodes))]
    group = draw(placed_groups([node.name for node in nodes], spec={"nodeSelector": FIT}))
    snapshot = make_snapshot(nodes, group)
    return carried_out(snapshot, plan(snapshot)).groups[0], nodes


def keep_enough(draw: st.DrawFn, group: GroupState, nodes: list[Node]) -> set[str]:
    """Nodes that do not go: as many as there are replicas, and perhaps more."""
    names = draw(st.permutations([node.name for node in nodes]))
    return set(names[: draw(st.integers(group.spec.replicas, len(names)))])


@st.composite
def nodes_added(draw: st.DrawFn) -> Change:
    """One to three nodes come."""
    group, nodes = draw(even_groups())
    added = [make_node(f"new-{n}", weight=draw(WEIGHTS), labels=FIT) for n in range(draw(st.integers(1, 3)))]
    return group, [*nodes, *added]


@st.composite
def weights_changed(draw: st.DrawFn) -> Change:
    """Any node may get another weight."""
    group, nodes = draw(even_groups())
    return group, [node.model_copy(update={"weight": draw(WEIGHTS)}) for node in nodes]


@st.composite
def selector_changed(draw: st.DrawFn) -> Change:
    """Some nodes may not hold the group any more, others may."""
    group, nodes = draw(even_groups())
    kept = keep_enough(draw, group, nodes)
    nodes = [node if node.name in kept else node.model_copy(update={"labels": {}}) for node in nodes]
    return group, [*nodes, *(make_node(f"new-{n}", labels=FIT) for n in range(draw(st.integers(0, 2))))]


@st.composite
def nodes_lost(draw: st.DrawFn) -> Change:
    """One or more nodes go for good."""
    group, nodes = draw(even_groups())
    kept = keep_enough(draw, group, nodes)
    return group, [node for node in nodes if node.name in kept]


@st.composite
def nodes_drained(draw: st.DrawFn) -> Change:
    """One or more nodes are marked for drain."""
    group, nodes = draw(even_groups())
    kept = keep_enough(draw, group, nodes)
    return group, [node if node.name in kept else node.model_copy(update={"drain": True}) for node in nodes]


def moves_until_even(snapshot: Snapshot) -> tuple[int, int, GroupState]:
    """Moves and bytes of all plans until there is nothing left to move, each carried out; the group after it."""
    moves = size_bytes = 0
    for _ in range(3):
        planned = plan(snapshot)
        moves += len(planned.groups[0].moves)
        size_bytes += sum(move.bytes for move in planned.groups[0].moves)
        if planned.groups[0].target_map == snapshot.groups[0].map:
            return moves, size_bytes, snapshot.groups[0]
        snapshot = carried_out(snapshot, planned)
    raise AssertionError("a repair and a balance do not make the group even")


def weights_of(nodes: list[Node]) -> dict[str, float]:
    return {node.name: node.weight for node in nodes if node.labels == FIT and not node.drain}


@pytest.mark.parametrize("changes", [nodes_added(), weights_changed(), selector_changed()], ids=lambda one: repr(one))
def test_balance_is_the_optimum(changes: st.SearchStrategy[Change]) -> None:
    """As few moves as the minimum-cost flow, and of these the fewest bytes, in one plan."""

    @given(changes)
    @settings(max_examples=examples(150), deadline=None)
    def check(change: Change) -> None:
        group, nodes = change
        assert group.map is not None
        moves = plan(make_snapshot(nodes, group)).groups[0].moves
        expected = fewest_moves(weights_of(nodes), group.map, group.bucket_bytes)
        assert (len(moves), sum(move.bytes for move in moves)) == expected

    check()


@pytest.mark.parametrize("changes", [nodes_lost(), nodes_drained()], ids=lambda one: repr(one))
def test_repairs_move_what_was_lost_and_evening_out_afterwards_adds_no_move(
    changes: st.SearchStrategy[Change],
) -> None:
    """One move per lost replica; with the balance that may follow, as many as a single minimum-cost flow makes."""

    @given(changes)
    @settings(max_examples=examples(150), deadline=None)
    def check(change: Change) -> None:
        group, nodes = change
        assert group.map is not None
        snapshot, weights = make_snapshot(nodes, group), weights_of(nodes)
        lost = [(b, name) for b, row in enumerate(group.map) for name in row if name not in weights]
        moves = plan(snapshot).groups[0].moves
        if lost:
            assert sorted((move.bucket, move.source) for move in moves) == sorted(lost)
        expected = fewest_moves(weights, group.map, group.bucket_bytes)
        assert expected is not None
        assert moves_until_even(snapshot)[0] == expected[0]

    check()


@given(even_groups(), st.data())
@settings(max_examples=examples(300), deadline=None)
def test_a_changed_number_of_replicas_makes_no_more_than_it_must(
    even: tuple[GroupState, list[Node]], data: st.DataObject
) -> None:
    """Raised: one place move per new replica; lowered: none. Evening out afterwards adds no move to the optimum's."""
    group, nodes = even
    assert group.map is not None
    before, after = group.spec.replicas, data.draw(st.integers(1, len(nodes)))
    spec = group.spec.model_copy(update={"replicas": after})
    snapshot = make_snapshot(nodes, group.model_copy(update={"spec": spec}))
    planned = plan(snapshot).groups[0]
    assert planned.stable
    if after != before:
        assert [move.kind for move in planned.moves] == ["place"] * max(0, after - before) * group.spec.buckets
    expected = fewest_moves(weights_of(nodes), group.map, group.bucket_bytes, replicas=after)
    assert expected is not None
    moves, _, last = moves_until_even(snapshot)
    assert moves == expected[0]
    assert all(len(row) == after for row in last.map or ())


@given(node_lists(), st.integers(1, 20), st.data())
@settings(max_examples=examples(200), deadline=None)
def test_a_first_map_is_even_by_the_largest_remainder(nodes: list[Node], buckets: int, data: st.DataObject) -> None:
    """Every node gets its whole share, give or take the choice among equal remainders."""
    replicas = data.draw(st.integers(1, min(4, len(nodes))))
    spec = {"bucketKey": ["bigint"], "buckets": buckets, "replicas": replicas}
    target = plan(
        make_snapshot(nodes, GroupState.model_validate({"namespace": "shop", "name": "sales", "spec": spec}))
    ).groups[0].target_map  # fmt: skip
    assert target is not None
    whole, tied, extra = largest_remainder(exact_shares({node.name: node.weight for node in nodes}, buckets, replicas))
    counts = Counter(chain.from_iterable(target))
    assert all(counts[name] - whole[name] in ((0, 1) if name in tied else (0,)) for name in whole)
    assert sum(counts[name] - whole[name] for name in tied) == extra


def all_maps(names: list[str], buckets: int, replicas: int) -> Iterator[BucketSequence]:
    yield from product(*[list(combinations(names, replicas))] * buckets)


def cost_of(before: GroupState, after: BucketSequence) -> tuple[int, int]:
    """Moves and bytes from one map to another."""
    made = [
        before.bucket_bytes[b]
        for b, (old, new) in enumerate(zip(before.map or (), after, strict=True))
        for _ in set(new) - set(old)
    ]
    return len(made), sum(made)


@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_tiny_groups_against_all_maps(data: st.DataObject) -> None:
    """No map that is nearest to the shares is reached by fewer moves, or by as many and fewer bytes."""
    nodes = data.draw(node_lists(least=2, most=4))
    names = [node.name for node in nodes]
    group = data.draw(placed_groups(names, most_buckets=3).filter(lambda one: one.spec.replicas <= 2))
    buckets, replicas = group.spec.buckets, group.spec.replicas
    shares = exact_shares({node.name: node.weight for node in nodes}, buckets, replicas)

    def unevenness(rows: BucketSequence) -> Fraction:
        counts = Counter(chain.from_iterable(rows))
        return sum(((counts[name] - share) ** 2 for name, share in shares.items()), Fraction(0))

    maps = list(all_maps(names, buckets, replicas))
    least = min(map(unevenness, maps))
    best = min(cost_of(group, rows) for rows in maps if unevenness(rows) == least)
    planned = plan(make_snapshot(nodes, group)).groups[0]
    assert planned.target_map is not None
    assert unevenness(planned.target_map) == least
    assert (len(planned.moves), sum(move.bytes for move in planned.moves)) == best
