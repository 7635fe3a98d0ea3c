"""Balance against the optimum that networkx finds."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from colocation.model.snapshot import Snapshot
from colocation.planner import plan
from colocation.planner.invariants import violations

from .oracle import exact_shares, fewest_moves, largest_remainder
from .worlds import carried_out, examples, make_snapshot, node_lists, placed_groups


@st.composite
def uneven_snapshots(draw: st.DrawFn) -> Snapshot:
    """A complete group with any map; some nodes hold replicas and may not any more."""
    nodes = draw(node_lists())
    group = draw(placed_groups([node.name for node in nodes]))
    fit = max(group.spec.replicas, draw(st.integers(1, len(nodes))))
    nodes = [node.model_copy(update={"labels": {"data": "yes" if i < fit else "no"}}) for i, node in enumerate(nodes)]
    spec = group.spec.model_copy(update={"node_selector": {"data": "yes"}})
    return make_snapshot(nodes, group.model_copy(update={"spec": spec}))


@given(uneven_snapshots())
@settings(max_examples=examples(400), deadline=None)
def test_balance_makes_the_fewest_moves_and_of_these_the_fewest_bytes(snapshot: Snapshot) -> None:
    """Moves and bytes equal the minimum-cost flow's on every random case."""
    group = snapshot.groups[0]
    assert group.map is not None
    planned = plan(snapshot)
    assert violations(snapshot, planned) == ()
    moves = planned.groups[0].moves
    weights = {node.name: node.weight for node in snapshot.nodes if node.labels["data"] == "yes"}
    expected = fewest_moves(weights, group.map, group.bucket_bytes)
    assert (len(moves), sum(move.bytes for move in moves)) == expected


@given(uneven_snapshots())
@settings(max_examples=examples(200), deadline=None)
def test_the_target_is_even_by_the_largest_remainder(snapshot: Snapshot) -> None:
    """Every node holds its whole share, give or take the choice among equal remainders."""
    group = snapshot.groups[0]
    target = plan(snapshot).groups[0].target_map
    assert target is not None
    weights = {node.name: node.weight for node in snapshot.nodes if node.labels["data"] == "yes"}
    whole, tied, extra = largest_remainder(exact_shares(weights, group.spec.buckets, group.spec.replicas))
    held = {node: sum(node in nodes for nodes in target) for node in weights}
    assert sum(held.values()) == group.spec.buckets * group.spec.replicas
    assert sum(held[node] - whole[node] for node in tied) == extra
    assert all(held[node] == whole[node] or node in tied for node in weights)
    assert all(Fraction(held[node] - whole[node]) in (0, 1) for node in weights)


@given(uneven_snapshots())
@settings(max_examples=examples(200), deadline=None)
def test_the_plan_after_a_plan_is_empty(snapshot: Snapshot) -> None:
    """A balanced group plans nothing: planning ends and does not flap."""
    after = carried_out(snapshot, plan(snapshot))
    again = plan(after).groups[0]
    assert (again.moves, again.next_map, again.drops, again.target_map) == ((), None, (), after.groups[0].map)
