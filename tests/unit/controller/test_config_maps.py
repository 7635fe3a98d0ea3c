"""When the ConfigMaps for Spark are written: at once when they change, and again from time to time, some per pass."""

import pytest

from colocation.controller import reconciler as module
from colocation.controller.reconciler import PassResult, Reconciler
from colocation.controller.settings import Settings
from colocation.reconcile.actions import WriteConfigMap

from .fake_cluster import FakeCluster

SETTINGS = Settings(namespace="colocation", image="operator:1")
GROUPS = 5


def written(result: PassResult) -> int:
    """How many ConfigMaps a pass wrote."""
    return sum(isinstance(action, WriteConfigMap) for action in result.performed)


@pytest.fixture
async def reconciler() -> Reconciler:
    """An operator that has made its first passes over some groups."""
    cluster = FakeCluster()
    for number in (1, 2, 3):
        cluster.add_node(f"node-{number}")
    for number in range(GROUPS):
        cluster.add_group(f"group-{number}")
    one = Reconciler(cluster, cluster, SETTINGS)
    for _ in range(4):
        await one.reconcile_once()
    assert written(await one.reconcile_once()) == 0
    return one


async def test_each_is_written_again_once_over_several_passes(
    reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand of them in one pass would hold up everything else for seconds."""
    monkeypatch.setattr(module, "MAX_REWRITES", 2)
    reconciler.forget_writes()
    assert [written(await reconciler.reconcile_once()) for _ in range(4)] == [2, 2, 1, 0]


async def test_those_of_groups_that_are_gone_are_forgotten(reconciler: Reconciler) -> None:
    """They do not keep the operator busy."""
    reconciler.forget_writes()
    cluster = reconciler._reader
    assert isinstance(cluster, FakeCluster)
    del cluster.groups["shop", "group-0"]
    assert written(await reconciler.reconcile_once()) == GROUPS - 1
    assert not reconciler._doubtful
