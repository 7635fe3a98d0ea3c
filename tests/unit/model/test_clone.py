"""What clones get of the budgets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from colocation.model.clone import MIN_CLUSTER_CLONES, CloneBandwidth
from colocation.model.group import Balancing

BUDGETS = st.none() | st.floats(1, 1e6)
BALANCING = st.builds(
    Balancing,
    max_concurrent_clones=st.integers(1, 1000),
    max_bandwidth_mib_per_second=st.none() | st.floats(0.001, 1e6),
)


@pytest.mark.parametrize(
    ("node", "cluster", "clones", "share"),
    [
        pytest.param(None, None, None, None, id="no budget"),
        pytest.param(100, None, None, 100, id="a node's alone: one clone may have all of it"),
        pytest.param(None, 1, 4, 0.25, id="the least"),
        pytest.param(None, 200, 4, 50, id="a quarter each"),
        pytest.param(None, 1000, 16, 62.5, id="more clones instead of quicker ones"),
        pytest.param(10, 1000, 100, 10, id="as many as it takes where nodes take little"),
        pytest.param(500, 1000, 16, 62.5, id="a node's large budget makes no clone quicker"),
    ],
)
def test_shares(node: float | None, cluster: float | None, clones: int | None, share: float | None) -> None:
    """Clones at one time, and MiB per second of each, of a group without a limit."""
    bandwidth = CloneBandwidth(per_node_mib_per_second=node, per_cluster_mib_per_second=cluster)
    assert bandwidth.max_clones == clones
    assert bandwidth.of_clone(Balancing()) == share


@given(BUDGETS, BUDGETS, BALANCING)
def test_together_they_keep_to_every_budget(node: float | None, cluster: float | None, balancing: Balancing) -> None:
    """All clones that may run take the cluster's budget at most, a group's take the group's, one the node's."""
    bandwidth = CloneBandwidth(per_node_mib_per_second=node, per_cluster_mib_per_second=cluster)
    share = bandwidth.of_clone(balancing)
    group = balancing.max_bandwidth_mib_per_second
    assert (share is None) == (node is None and cluster is None and group is None)
    if share is not None:
        assert share > 0
        assert cluster is None or (bandwidth.max_clones or 0) * share <= cluster * 1.000001
        assert group is None or balancing.max_concurrent_clones * share <= group * 1.000001
        assert node is None or share <= node


@given(BUDGETS, st.floats(1, 1e6))
def test_no_budget_starves_a_repair(node: float | None, cluster: float) -> None:
    """Whatever balances leaves a share to it, and a share is no standstill."""
    bandwidth = CloneBandwidth(per_node_mib_per_second=node, per_cluster_mib_per_second=cluster)
    balancing = sum(1 for clones in range(bandwidth.max_clones or 0) if bandwidth.allows_another(clones, False))
    assert balancing >= MIN_CLUSTER_CLONES - 1
    assert bandwidth.allows_another(balancing, is_repair=True)
    assert not bandwidth.allows_another(bandwidth.max_clones or 0, is_repair=True)
    assert (bandwidth.of_clone(Balancing()) or 0) >= 0.25


@pytest.mark.parametrize("budget", [0, 0.5, -1])
def test_a_standstill_is_no_budget(budget: float) -> None:
    """Clones are turned off by other switches, which say so."""
    with pytest.raises(ValidationError):
        CloneBandwidth(per_node_mib_per_second=budget)
    with pytest.raises(ValidationError):
        CloneBandwidth(per_cluster_mib_per_second=budget)


def test_names_in_snapshots() -> None:
    """The unit is written as everywhere."""
    bandwidth = CloneBandwidth(per_node_mib_per_second=1, per_cluster_mib_per_second=2)
    assert bandwidth.to_json_dict() == {"perNodeMiBPerSecond": 1.0, "perClusterMiBPerSecond": 2.0}
