"""A load with a node away leaves copies outside the map: they are kept as long as they are needed, and then adopted."""

import pytest

from colocation.model.conditions import Reason
from colocation.model.snapshot import Node
from tests.property.worlds import make_node

from .cases import SIX, down_for, nodes_of, planned
from .test_replicas import complete

AWAY, SUBSTITUTE = "node-2", "node-4"
BUCKETS = [bucket for bucket, row in enumerate(SIX) if AWAY in row]
STILL = {"balancing": {"enabled": False}}
Held = dict[str, dict[int, str]]


def held_with(state_of_away: str, state_of_substitute: str) -> Held:
    """All is complete, but what node-2 lacks is on node-4."""
    held = complete(SIX)
    held[AWAY] = dict.fromkeys(BUCKETS, state_of_away)
    held[SUBSTITUTE] = dict.fromkeys(BUCKETS, state_of_substitute)
    return held


@pytest.mark.parametrize("state", ["complete", "partial"])
@pytest.mark.parametrize("away", [down_for(10), make_node(AWAY)], ids=["still away", "back, without the new files"])
def test_copies_stay_until_the_maps_node_has_them(away: Node, state: str) -> None:
    """Nothing is deleted while a node of the map lacks a file, whether or not it answers."""
    group = planned([*nodes_of(1, 3, 4), away], held=held_with("partial", state))
    assert group.drops == ()
    assert not group.stable
    assert group.next_map is None


def test_a_node_that_comes_back_is_made_whole_from_the_substitute() -> None:
    """Its own bucket is repaired in place; no replica moves for a short absence."""
    group = planned([*nodes_of(1, 2, 3, 4)], held=held_with("partial", "partial"))
    repairs = {(move.bucket, move.to) for move in group.moves if move.kind == "repair"}
    assert repairs == {(bucket, AWAY) for bucket in BUCKETS}
    assert group.start_now


def test_copies_go_once_the_maps_node_has_them() -> None:
    """Then they are surplus as any."""
    group = planned([*nodes_of(1, 2, 3, 4)], held=held_with("complete", "complete"), spec=STILL)
    assert {(drop.bucket, drop.node) for drop in group.drops} == {(bucket, SUBSTITUTE) for bucket in BUCKETS}


def test_a_complete_substitute_takes_the_lost_nodes_place_at_once() -> None:
    """Nothing is copied: the map names it in the next step, and the group is stable again with that."""
    group = planned([*nodes_of(1, 3, 4, 5), down_for(10**6)], held=held_with("complete", "complete"))
    moves = {(move.bucket, move.to, move.bytes, move.reason) for move in group.moves if move.source == AWAY}
    assert moves == {(bucket, SUBSTITUTE, 0, Reason.NODE_NOT_READY) for bucket in BUCKETS}
    assert group.next_map is not None
    assert all(SUBSTITUTE in group.next_map[bucket] and AWAY not in group.next_map[bucket] for bucket in BUCKETS)
    assert group.drops == ()


def test_a_substitute_with_a_part_is_the_target_of_the_repair() -> None:
    """It lacks what earlier loads wrote; what it has is not copied to a third node."""
    group = planned([*nodes_of(1, 3, 4, 5), down_for(10**6)], held=held_with("complete", "partial"))
    assert {(move.bucket, move.to) for move in group.moves if move.source == AWAY} == {
        (bucket, SUBSTITUTE) for bucket in BUCKETS
    }
    assert group.drops == ()
