"""When full lists are taken."""

import asyncio

import pytest

from colocation.controller import full_lists
from colocation.controller.full_lists import FullLists
from colocation.kube.api import TABLES, ApiError, Resource


class FakeCluster:
    """Its lists have the versions 1, 2, 3, ...; each lasts until a test ends it, or fails as it says."""

    def __init__(self) -> None:
        self.listed_at: dict[Resource, int] = {}
        self.begun = 0
        self.end = asyncio.Event()
        self.errors: list[Exception] = []

    async def resync(self) -> bool:
        self.begun += 1
        version = self.begun
        await self.end.wait()
        if self.errors:
            raise self.errors.pop()
        self.listed_at[TABLES] = version
        return False


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


async def test_list_that_had_begun_answers_nobody(lists: FullLists, cluster: FakeCluster) -> None:
    """What a watch missed may have been read by it before: the next list tells, and its version is told."""
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


async def test_list_that_fails_is_tried_again_in_time(
    lists: FullLists, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the first one, without which there is no pass."""
    cluster.errors = [ApiError(0, "no answer")]
    with pytest.raises(ApiError):
        await lists.take_if_due()
    assert await lists.take_if_due()
    asked = asyncio.create_task(lists.again(TABLES))
    await asyncio.sleep(0)
    cluster.errors = [ApiError(0, "no answer")]
    assert not await lists.take_if_due()
    assert not await lists.take_if_due() and cluster.begun == 3
    later = full_lists.time.monotonic() + full_lists.MAX_FAILURE_SECONDS
    monkeypatch.setattr(full_lists.time, "monotonic", lambda: later)
    assert await lists.take_if_due()
    assert await asked == "4"
