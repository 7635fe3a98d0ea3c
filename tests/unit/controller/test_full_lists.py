"""When full lists are taken."""

import asyncio
from collections import Counter

import pytest

from colocation.controller import full_lists
from colocation.controller.full_lists import FullLists
from colocation.kube.api import GROUPS, NODES, TABLES, ApiError, Resource


class FakeCluster:
    """The lists of each kind have the versions 1, 2, 3, ...; each lasts until a test ends it, or fails."""

    kinds = (TABLES, GROUPS, NODES)

    def __init__(self) -> None:
        self.listed_at: dict[Resource, int] = {}
        self.begun: Counter[Resource] = Counter()
        self.end = asyncio.Event()
        self.failing: set[Resource] = set()

    async def list_again(self, resource: Resource) -> None:
        self.begun[resource] += 1
        version = self.begun[resource]
        await self.end.wait()
        if resource in self.failing:
            raise ApiError(0, "no answer")
        self.listed_at[resource] = version


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    cluster.end.set()
    return cluster


@pytest.fixture
def lists(cluster: FakeCluster) -> FullLists:
    return FullLists(cluster, 3600, lambda: None)  # type: ignore[arg-type]


async def test_list_is_taken_at_the_start_and_then_from_time_to_time(lists: FullLists, cluster: FakeCluster) -> None:
    assert await lists.take_if_due()
    assert not await lists.take_if_due()
    often = FullLists(cluster, 0, lambda: None)  # type: ignore[arg-type]
    assert await often.take_if_due() and await often.take_if_due()


async def test_list_that_had_begun_answers_no_one(lists: FullLists, cluster: FakeCluster) -> None:
    """What a watch missed may have been read by it before: the next list shows it, and its version is reported."""
    cluster.end.clear()
    pass_of_lists = asyncio.create_task(lists.take_if_due())
    await asyncio.sleep(0)
    asked = asyncio.create_task(lists.again(TABLES))
    await asyncio.sleep(0)
    cluster.end.set()
    assert await pass_of_lists
    await asyncio.sleep(0)
    assert not asked.done()
    assert await lists.take_if_due()
    assert await asked == "2"
    assert not await lists.take_if_due()


async def test_pass_waits_for_the_first_list_of_each_kind(lists: FullLists, cluster: FakeCluster) -> None:
    """Without it there is no pass."""
    cluster.failing = {NODES}
    for _ in range(2):
        with pytest.raises(ApiError):
            await lists.take_if_due()
    cluster.failing.clear()
    assert await lists.take_if_due()


async def test_list_that_fails_is_tried_again_soon_and_then_more_seldom(
    lists: FullLists, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that has just begun again does not know all kinds yet."""
    seconds = [0.0]
    monkeypatch.setattr(full_lists.time, "monotonic", lambda: seconds[0])
    assert await lists.take_if_due()
    cluster.failing = {TABLES}
    lists.ask()
    tried_at = []
    for seconds[0] in range(100):
        before = cluster.begun[TABLES]
        assert not await lists.take_if_due()
        tried_at += [seconds[0]] * (cluster.begun[TABLES] - before)
    assert tried_at == [0, 2, 6, 14, 30, 60, 90]
    cluster.failing.clear()
    seconds[0] = 120
    assert await lists.take_if_due()


async def test_pass_is_made_when_a_list_is_to_be_tried_again(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else may happen for long."""
    monkeypatch.setattr(full_lists, "BUSY_SECONDS", 0.01)
    woken = asyncio.Event()
    lists = FullLists(cluster, 3600, woken.set)  # type: ignore[arg-type]
    assert await lists.take_if_due()
    cluster.failing = {TABLES}
    lists.ask()
    woken.clear()
    assert not await lists.take_if_due()
    async with asyncio.timeout(5):
        await woken.wait()


async def test_watch_waits_for_no_list_of_another_kind(lists: FullLists, cluster: FakeCluster) -> None:
    """The failure of one kind harms no other, however long it fails."""
    assert await lists.take_if_due()
    cluster.failing = {TABLES}
    tables, nodes = (asyncio.create_task(lists.again(one)) for one in (TABLES, NODES))
    await asyncio.sleep(0)
    assert not await lists.take_if_due()
    assert not await lists.take_if_due()
    assert await nodes == "2"
    again = asyncio.create_task(lists.again(NODES))
    await asyncio.sleep(0)
    assert not await lists.take_if_due()
    assert await again == "3"
    assert not tables.done()
    tables.cancel()
