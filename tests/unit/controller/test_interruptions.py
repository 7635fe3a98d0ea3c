"""The operator may die between any two writes, and another may work beside it from an older view: nothing is lost."""

from collections.abc import Mapping
from datetime import datetime

import pytest

from colocation.controller.reconciler import Reconciler
from colocation.controller.settings import Settings
from colocation.state.observation import Observation

from .fake_cluster import Crash, FakeCluster, minutes

SETTINGS = Settings(namespace="colocation", image="operator:1")
REPLICAS = 2
ENOUGH_PASSES = 12


class DelayedReader:
    """Shows the cluster as it was some observations ago: a slow watch, or a second operator."""

    def __init__(self, cluster: FakeCluster, delay: int) -> None:
        self._cluster = cluster
        self._delay = delay
        self._past: list[Observation] = []

    async def observe(self, doubtful: Mapping[str, datetime] | None = None) -> Observation:
        self._past.append(await self._cluster.observe())
        return self._past[max(0, len(self._past) - 1 - self._delay)]


def assert_nothing_lost(cluster: FakeCluster, copies: int) -> None:
    """Every committed bucket of the table lies whole on at least so many nodes."""
    directory = cluster.table("orders").directory
    for bucket in range(4):
        holders = [node for node, disk in cluster.disks.items() if bucket in disk.get(directory, set())]
        assert len(holders) >= copies, f"bucket {bucket} is on {holders}"


async def run_until_crash(cluster: FakeCluster, copies: int) -> bool:
    """Whether the operator died before everything was done."""
    reconciler = Reconciler(cluster, cluster, SETTINGS)
    for _ in range(ENOUGH_PASSES):
        try:
            await reconciler.reconcile_once()
        except Crash:
            return True
        finally:
            assert_nothing_lost(cluster, copies)
        cluster.end_clones()
    return False


async def loaded_cluster() -> FakeCluster:
    cluster = FakeCluster()
    for name in ("node-1", "node-2", "node-3"):
        cluster.add_node(name)
    cluster.add_group("sales", replicas=REPLICAS)
    cluster.add_table("orders", buckets=4, replicas=REPLICAS)
    for _ in range(3):
        await Reconciler(cluster, cluster, SETTINGS).reconcile_once()
    cluster.load("orders")
    return cluster


def lose_a_node(cluster: FakeCluster) -> int:
    cluster.set_ready("node-1", False)
    cluster.now += minutes(60)
    return REPLICAS - 1


def remove_a_node(cluster: FakeCluster) -> int:
    cluster.remove_node("node-2")
    return REPLICAS - 1


def add_a_node(cluster: FakeCluster) -> int:
    cluster.add_node("node-4")
    return REPLICAS


def delete_the_group(cluster: FakeCluster) -> int:
    del cluster.groups["shop", "sales"]
    return REPLICAS


STORIES = [lose_a_node, remove_a_node, add_a_node, delete_the_group]


@pytest.mark.parametrize("story", STORIES)
async def test_operator_dies_after_any_write(story) -> None:  # type: ignore[no-untyped-def]
    """Whichever write was the last of a dying operator, the next one brings the group to the same good end."""
    writes = 0
    while True:
        cluster = await loaded_cluster()
        copies = story(cluster)
        cluster.crash_after = writes
        died = await run_until_crash(cluster, copies)
        cluster.crash_after = None
        await run_until_crash(cluster, copies)
        assert cluster.group().status.stable
        assert cluster.jobs == {}
        assert_nothing_lost(cluster, REPLICAS)
        if not died:
            break
        writes += 1
    assert writes > 2, "the story had writes to die between"


@pytest.mark.parametrize("delay", [1, 2, 3])
@pytest.mark.parametrize("story", STORIES)
async def test_second_operator_with_an_older_view_does_no_harm(story, delay: int) -> None:  # type: ignore[no-untyped-def]
    """Two operators write at once, one from older observations; no replica is deleted that the map needs."""
    cluster = await loaded_cluster()
    copies = story(cluster)
    operators = [
        Reconciler(cluster, cluster, SETTINGS),
        Reconciler(DelayedReader(cluster, delay), cluster, SETTINGS),
    ]
    for _ in range(ENOUGH_PASSES):
        for operator in operators:
            await operator.reconcile_once()
            assert_nothing_lost(cluster, copies)
        cluster.end_clones()
    await run_until_crash(cluster, copies)
    assert cluster.group().status.stable
    assert_nothing_lost(cluster, REPLICAS)
