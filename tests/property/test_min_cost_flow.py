"""Each unit of a flow is sent so that all of them together cost the least, by the best of all assignments."""

from itertools import combinations, permutations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from colocation.planner.evenness.min_cost_flow import Network

SOURCE, SINK = 0, 1
TOO_MUCH = 1000
SIDE = 4
Costs = list[list[int]]
COSTS = st.lists(st.lists(st.integers(0, 20), min_size=SIDE, max_size=SIDE), min_size=SIDE, max_size=SIDE)


def network_of(costs: Costs) -> tuple[Network, dict[tuple[int, int], int]]:
    """Givers and takers of one unit each, and the edge from each giver to each taker."""
    network = Network(2 + 2 * SIDE)
    for place in range(SIDE):
        network.add_edge(SOURCE, 2 + place, 1, 0)
        network.add_edge(2 + SIDE + place, SINK, 1, 0)
    edges = {
        (giver, taker): network.add_edge(2 + giver, 2 + SIDE + taker, 1, costs[giver][taker])
        for giver in range(SIDE)
        for taker in range(SIDE)
    }
    return network, edges


def least(costs: Costs, units: int) -> int:
    """What so many units cost at least."""
    return min(
        sum(costs[giver][taker] for giver, taker in zip(givers, takers, strict=True))
        for givers in combinations(range(SIDE), units)
        for takers in permutations(range(SIDE), units)
    )


@settings(max_examples=200)
@given(COSTS)
@example([[3, 2, 4, 0], [1, 0, 2, 0], [4, 2, 3, 0], [4, 2, 4, 1]])  # one in 200 needs the potentials
def test_each_unit_leaves_the_least_cost(costs: Costs) -> None:
    """Until no unit is left."""
    network, edges = network_of(costs)
    for units in range(1, SIDE + 1):
        assert network.augment(SOURCE, SINK, TOO_MUCH)
        assert sum(costs[g][t] * network.flow(edge) for (g, t), edge in edges.items()) == least(costs, units)
    assert not network.augment(SOURCE, SINK, TOO_MUCH)


@pytest.mark.parametrize(("limit", "is_sent"), [(3, False), (4, True)])
def test_a_unit_costs_less_than_the_limit(limit: int, is_sent: bool) -> None:
    """The first one costs 1; the second one takes its place away, and costs 3 with what the first one costs more."""
    network, _ = network_of([[1, 2, 99, 99], [2, 9, 99, 99], [99] * SIDE, [99] * SIDE])
    assert network.augment(SOURCE, SINK, TOO_MUCH)
    assert network.augment(SOURCE, SINK, limit) == is_sent
