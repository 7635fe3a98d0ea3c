"""Zones: new maps spread over as many as there are, and no plan makes a bucket's spread worse."""

from collections import Counter
from itertools import chain

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from colocation.model.group import BucketSequence
from colocation.model.snapshot import Node, Snapshot
from colocation.planner import plan
from colocation.planner.evenness.shares import fair_shares, is_even

from .oracle import fewest_moves
from .worlds import carried_out, examples, make_group, make_node, make_snapshot, node_lists, placed_groups


@st.composite
def zoned_snapshots(draw: st.DrawFn) -> Snapshot:
    """A complete group with any map over nodes in up to four zones."""
    nodes = draw(node_lists(least=2, zones=True))
    return make_snapshot(nodes, draw(placed_groups([node.name for node in nodes])))


def zones_of(nodes: tuple[Node, ...], row: tuple[str, ...]) -> set[str | None]:
    zone = {node.name: node.zone for node in nodes}
    return {zone[name] for name in row}


@given(node_lists(zones=True), st.integers(1, 20), st.integers(1, 4))
@settings(max_examples=examples(300), deadline=None)
def test_a_new_map_uses_as_many_zones_as_there_are(nodes: list[Node], buckets: int, replicas: int) -> None:
    """Every bucket of a new group: distinct nodes, in as many zones as replicas and zones allow."""
    planned = plan(make_snapshot(nodes, make_group(buckets, replicas))).groups[0]
    if replicas > len(nodes):
        assert planned.next_map is None
        return
    assert planned.next_map is not None
    assert len(planned.next_map) == buckets
    all_zones = {node.zone for node in nodes}
    for row in planned.next_map:
        assert len(row) == len(set(row)) == replicas
        assert len(zones_of(tuple(nodes), row)) == min(replicas, len(all_zones))


@given(node_lists(zones=True), st.integers(1, 20), st.integers(1, 4))
@settings(max_examples=examples(300), deadline=None)
def test_a_new_map_stays(nodes: list[Node], buckets: int, replicas: int) -> None:
    """Balance finds nothing to improve in a map that was just made."""
    snapshot = make_snapshot(nodes, make_group(buckets, replicas))
    if replicas <= len(nodes):
        assert plan(carried_out(snapshot, plan(snapshot))).groups[0].moves == ()


@given(zoned_snapshots())
@settings(max_examples=examples(300), deadline=None)
def test_balance_never_makes_the_spread_worse(snapshot: Snapshot) -> None:
    """No bucket comes to lie in fewer zones than before."""
    group = snapshot.groups[0]
    target = plan(snapshot).groups[0].target_map
    assert group.map is not None
    assert target is not None
    for before, after in zip(group.map, target, strict=True):
        assert len(zones_of(snapshot.nodes, after)) >= len(zones_of(snapshot.nodes, before))


@given(zoned_snapshots())
@settings(max_examples=examples(300), deadline=None)
def test_balance_within_zones_makes_the_fewest_moves(snapshot: Snapshot) -> None:
    """Where an even map is within the limits of zones, moves and bytes equal the minimum-cost flow's."""
    group = snapshot.groups[0]
    assert group.map is not None
    zones = {node.name: node.zone or "" for node in snapshot.nodes}
    weights = {node.name: node.weight for node in snapshot.nodes}
    counts = Counter(chain.from_iterable(group.map))
    spread_shares = fair_shares(weights, zones, group.spec.buckets, group.spec.replicas)
    assume(not is_even(spread_shares, counts, weights))  # such a map is as even as zones allow, and is left alone
    expected = fewest_moves(weights, group.map, group.bucket_bytes, zones)
    assume(expected is not None)
    moves = plan(snapshot).groups[0].moves
    assert (len(moves), sum(move.bytes for move in moves)) == expected


@given(zoned_snapshots())
@settings(max_examples=examples(200), deadline=None)
def test_the_plan_after_a_plan_is_empty_with_zones(snapshot: Snapshot) -> None:
    """What is as even as zones allow is left alone."""
    after = carried_out(snapshot, plan(snapshot))
    again = plan(after).groups[0]
    assert (again.moves, again.next_map) == ((), None)


@given(zoned_snapshots(), st.data())
@settings(max_examples=examples(200), deadline=None)
def test_a_lost_replica_goes_to_a_zone_of_its_own(snapshot: Snapshot, data: st.DataObject) -> None:
    """While there is a zone that a bucket does not lie in, its repair goes there."""
    lost = data.draw(st.sampled_from([node.name for node in snapshot.nodes]))
    nodes = tuple(node for node in snapshot.nodes if node.name != lost)
    group = plan(snapshot.model_copy(update={"nodes": nodes})).groups[0]
    for move in (move for move in group.moves if move.kind == "repair"):
        bucket_map: BucketSequence = snapshot.groups[0].map or ()
        rest = tuple(name for name in bucket_map[move.bucket] if name != lost)
        free = {node.zone for node in nodes if node.name not in rest} - zones_of(nodes, rest)
        assert not free or zones_of(nodes, (move.to,)) <= free


def test_zone_label_of_choice() -> None:
    """spec.topologyKey names the label; without it the zone of the node counts."""
    nodes = [make_node(f"node-{n}", zone="same", labels={"rack": "ab"[n % 2]}) for n in range(4)]
    group = make_group(8, 2, spec={"topologyKey": "rack"})
    for row in plan(make_snapshot(nodes, group)).groups[0].next_map or ():
        assert {int(name[-1]) % 2 for name in row} == {0, 1}
