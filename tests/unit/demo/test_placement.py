"""The demo's own yardstick for moves, which must not come from the planner that it measures."""

from itertools import product

import pytest

from demo.placement import minimal_moves, moved_replicas, replicas_per_node

EIGHT_BUCKETS_THREE_REPLICAS = [["a", "b", "c"]] * 8


@pytest.mark.parametrize(("before", "nodes", "moves"), [
    pytest.param(EIGHT_BUCKETS_THREE_REPLICAS, "abcd", 6, id="Doris' example: 8 buckets x 3 replicas, 3 -> 4 nodes"),
    pytest.param([["a", "b"]] * 8, "abc", 5, id="16 replicas on two nodes, 2 -> 3 nodes"),
    pytest.param([["a", "b"], ["b", "c"], ["c", "a"]], "abc", 0, id="already even"),
    pytest.param([["a", "x"], ["b", "x"]], "abc", 2, id="replicas on a node that is gone"),
])
def test_minimal_moves(before: list[list[str]], nodes: str, moves: int) -> None:
    """The smallest number of moves to evenness, on cases worked out by hand."""
    assert minimal_moves(before, list(nodes)) == moves


def test_minimal_moves_is_the_least_of_all_maps() -> None:
    """No even placement of three single-replica buckets over three nodes needs fewer moves than the formula states."""
    for start in product("abc", repeat=3):
        before = [[node] for node in start]
        even = [[[node] for node in end] for end in product("abc", repeat=3) if len(set(end)) == 3]
        assert minimal_moves(before, list("abc")) == min(moved_replicas(before, after) for after in even)


def test_replicas_per_node() -> None:
    """Each node's count is its number of buckets."""
    assert replicas_per_node(EIGHT_BUCKETS_THREE_REPLICAS) == {"a": 8, "b": 8, "c": 8}
