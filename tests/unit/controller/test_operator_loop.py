"""The loop of passes: it survives a cluster that is away, and never dies unnoticed."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from colocation.common.server_clock import ServerClock
from colocation.controller import leadership, pace
from colocation.controller import operator as module
from colocation.controller.operator import Operator
from colocation.controller.settings import Settings
from colocation.kube import own_watches
from colocation.kube.api import NODES, TABLES, ApiError, Expired, Listing, Resource

from .fake_leases import FakeLeases
from .test_clock import NOON

SETTINGS = Settings(namespace="system", image="operator:1", inventory_seconds=0.01)


class FakeApi(FakeLeases):
    """An API server without objects but a Lease; its lists answer what a test tells it to."""

    def __init__(self, errors: list[Exception]) -> None:
        super().__init__()
        self.errors = errors
        self.lists = 0
        self.forgets = False
        self.watched = asyncio.Queue[tuple[object, ...]]()
        self.closed = False

    async def list_into(self, listing: Listing, resource: Resource, namespace: str = "", labels: str = "") -> int:
        self.lists += 1
        if self.errors:
            raise self.errors.pop()
        listing.begin()
        return self.lists

    async def watch(self, *asked: object) -> AsyncIterator[Any]:
        self.watched.put_nowait(asked)
        if asked[0] == TABLES and self.forgets:
            self.forgets = False
            raise Expired(410, "too old resource version")
        await asyncio.Event().wait()
        yield

    async def close(self) -> None:
        self.closed = True


def shown_passes(operator: Operator) -> asyncio.Queue[object]:
    """The passes as they are made."""
    passes = asyncio.Queue[object]()
    operator.metrics.show = passes.put_nowait  # type: ignore[method-assign]
    return passes


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(module, "COALESCING_SECONDS", 0)


async def test_error_that_no_one_foresaw_ends_one_pass_only(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with its traceback and counted; the next pass is made."""
    operator = Operator(FakeApi([RuntimeError("a bug")]), SETTINGS, failed=lambda: None)  # type: ignore[arg-type]
    passes = shown_passes(operator)
    await operator.start()
    async with asyncio.timeout(5):
        await passes.get()
        await operator.stop()
    assert "RuntimeError: a bug" in caplog.text
    assert b"colocation_failed_passes_total 1.0" in operator.metrics.render()


async def versions_of_table_watches(api: FakeApi, count: int) -> list[object]:
    """From where the next ones begin."""
    versions: list[object] = []
    while len(versions) < count:
        asked = await api.watched.get()
        if asked[0] == TABLES:
            versions.append(asked[3])
    return versions


async def test_watch_that_may_have_missed_something_goes_on_from_full_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only minutes later, and from them on: nothing else shows what was deleted meanwhile."""
    monkeypatch.setattr(own_watches, "PAUSE_SECONDS", 0)
    api = FakeApi([])
    api.forgets = True
    operator = Operator(api, SETTINGS, failed=lambda: None)  # type: ignore[arg-type]
    await operator.start()
    async with asyncio.timeout(5):
        assert await versions_of_table_watches(api, 2) == ["2", "11"]  # tables are the second of nine kinds
        await operator.stop()


async def test_full_lists_are_taken_once_a_watch_of_kopf_begins_again() -> None:
    """It tells what is there, not what is gone."""
    api = FakeApi([])
    operator = Operator(api, SETTINGS.model_copy(update={"inventory_seconds": 3600}), failed=lambda: None)  # type: ignore[arg-type]
    passes = shown_passes(operator)
    await operator.start()
    async with asyncio.timeout(5):
        await passes.get()
        lists = api.lists
        operator.take_listed(NODES, {"metadata": {"name": "node-1", "resourceVersion": "2"}})
        await passes.get()
        await operator.stop()
    assert api.lists == 2 * lists


async def test_leader_that_makes_no_passes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Lease must not keep an old verdict alive; Kubernetes starts it again."""
    monkeypatch.setattr(module, "MAX_UNSUCCESSFUL_SECONDS", 0.05)
    died = asyncio.Event()
    api = FakeApi([RuntimeError("a bug")] * 1000)
    operator = Operator(api, SETTINGS, failed=died.set)  # type: ignore[arg-type]
    await operator.start()
    async with asyncio.timeout(5):
        await died.wait()
        await operator.stop()
    assert api.closed


async def test_operator_that_lost_its_lease_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it remembers is not to be trusted any more."""
    monkeypatch.setattr(leadership, "LEASE_RENEW_SECONDS", 0.01)
    died, api = asyncio.Event(), FakeApi([])
    operator = Operator(api, SETTINGS, failed=died.set)  # type: ignore[arg-type]
    passes = shown_passes(operator)
    await operator.start()
    async with asyncio.timeout(5):
        await passes.get()
        assert api.lease is not None
        api.lease["spec"]["holderIdentity"] = "another"
        await died.wait()
        await operator.stop()


async def test_operator_ends_when_etcd_was_restored(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Kubernetes starts it again, and it reads everything again."""
    monkeypatch.setattr(leadership, "LEASE_RENEW_SECONDS", 0.01)
    died, api = asyncio.Event(), FakeApi([])
    operator = Operator(api, SETTINGS, failed=died.set)  # type: ignore[arg-type]
    await operator.leadership.step()
    before = api.save()
    await operator.leadership.step()
    api.restore(before)
    await operator.start()
    async with asyncio.timeout(60):
        await died.wait()
        await operator.stop()
    assert "etcd was restored from an older copy" in caplog.text


async def test_operator_that_waits_for_the_lease_does_nothing_and_is_alive() -> None:
    """Two operators: one leads."""
    api = FakeApi([])
    first, second = (Operator(api, SETTINGS, failed=lambda: None) for _ in range(2))  # type: ignore[arg-type]
    passes, others = shown_passes(first), shown_passes(second)
    await first.leadership.step()
    await first.start()
    await second.start()
    async with asyncio.timeout(5):
        await passes.get()
        assert second.is_alive and others.empty() and not second.leadership.is_leading
        await second.stop()
        await first.stop()


async def test_operator_is_alive_while_the_api_server_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart would not bring it back, and would lose what the operator remembers."""
    monkeypatch.setattr(module, "MAX_STILL_SECONDS", 0.1)
    monkeypatch.setattr(module, "WAITING_INTERVAL_SECONDS", 0.01)
    api = FakeApi([])
    api.away = True
    operator = Operator(api, SETTINGS, failed=lambda: None)  # type: ignore[arg-type]
    starting = asyncio.create_task(operator.start())
    await asyncio.sleep(0.3)
    assert operator.is_alive and not starting.done()
    api.away = False
    async with asyncio.timeout(5):
        await starting
    api.away = True
    await asyncio.sleep(0.3)
    assert operator.is_alive
    await operator.stop()


async def test_proxy_that_answers_in_its_place_tells_no_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The API server is waited for; where no one tells the time, the node's own clock is taken, and that is logged.

    So is each cause of the wait, once.
    """
    monkeypatch.setattr(module, "WAITING_INTERVAL_SECONDS", 0.01)
    api = FakeApi([])
    api.tells, api.clock = {}, ServerClock(local=lambda: NOON)
    operator = Operator(api, SETTINGS, failed=lambda: None)  # type: ignore[arg-type]
    asked = iter([503] * 3)

    async def check_ready() -> None:
        if (status := next(asked, 0)) != 0:
            raise ApiError(status, "bad gateway")
        api.clock.hear({"Date": "Sun, 22 Nov 2026 12:00:00 GMT"} if shown else {})

    monkeypatch.setattr(api, "check_ready", check_ready)
    for shown in (True, False):
        api.clock, asked = ServerClock(local=lambda: NOON), iter([503] * 3)
        operator._clock._wall = api.clock.now
        await operator._set_clock()
        assert (operator._now() - NOON > timedelta(hours=12)) is shown
    assert "the clock of this node is taken" in caplog.text
    waits = [record.getMessage().rpartition(": ")[2] for record in caplog.records if "waiting" in record.message]
    assert waits == ["503 bad gateway", "503 bad gateway", "its answer has no header Date"]


async def test_operators_clock_is_the_api_servers() -> None:
    """Its own node's may be a day ahead: every table's history would be too old, and the Lease one of tomorrow."""
    api = FakeApi([])
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    api.clock = ServerClock(local=lambda: tomorrow)
    operator = Operator(api, SETTINGS, failed=lambda: None)  # type: ignore[arg-type]
    api.tells = {"Date": "Sat, 21 Nov 2026 12:00:00 GMT"}
    passes = shown_passes(operator)
    async with asyncio.timeout(5):
        await operator.start()
        await passes.get()
        await operator.stop()
    assert operator.last and operator.last.observation.now - NOON < timedelta(minutes=1)
    assert operator.leadership.renewed_at and operator.leadership.renewed_at - NOON < timedelta(minutes=1)


async def test_api_server_that_is_away_is_asked_again() -> None:
    """Passes that cannot be made are counted; the first one that can is made."""
    died = asyncio.Event()
    api = FakeApi([ApiError(0, "no answer"), ApiError(429, "storage is (re)initializing")])
    operator = Operator(api, SETTINGS, failed=died.set)  # type: ignore[arg-type]
    passes = shown_passes(operator)
    await operator.start()
    async with asyncio.timeout(5):
        await passes.get()
        await operator.stop()
    assert not died.is_set()
    assert b"colocation_failed_passes_total 2.0" in operator.metrics.render()


async def test_tables_are_watched_from_the_first_full_list_on() -> None:
    """No object is read twice at the start, and nothing that changes after the list is missed."""
    api = FakeApi([])
    operator = Operator(api, SETTINGS, failed=lambda: None)  # type: ignore[arg-type]
    await operator.start()
    async with asyncio.timeout(5):
        assert await versions_of_table_watches(api, 1) == ["2"]
        await operator.stop()


async def test_stop_ends_a_pass_wherever_it_is() -> None:
    """SIGTERM does not wait for the next pass."""
    operator = Operator(FakeApi([]), SETTINGS, failed=lambda: None)  # type: ignore[arg-type]
    await operator.start()
    async with asyncio.timeout(5):
        await operator.stop()


async def test_change_wakes_a_pass() -> None:
    """A quiet operator reacts at once to a watch event, and not to one that has no news."""
    operator = Operator(FakeApi([]), SETTINGS.model_copy(update={"inventory_seconds": 3600}), failed=lambda: None)  # type: ignore[arg-type]
    passes = shown_passes(operator)
    await operator.start()
    node = {"metadata": {"name": "node-1", "resourceVersion": "2"}}
    heartbeat = {"metadata": {"name": "node-1", "resourceVersion": "3"}}
    async with asyncio.timeout(5):
        await passes.get()
        operator.take(NODES, node)
        await passes.get()
        operator.take(NODES, heartbeat)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await passes.get()
    await operator.stop()


@pytest.mark.parametrize("turns", range(6))
async def test_operator_that_hears_of_something_while_it_is_stopped_ends(turns: int) -> None:
    """Whatever the event loop has done of the wake-up, in so many turns: the stop is not lost."""
    operator = Operator(FakeApi([]), SETTINGS.model_copy(update={"inventory_seconds": 3600}), failed=lambda: None)  # type: ignore[arg-type]
    passes = shown_passes(operator)
    await operator.start()
    async with asyncio.timeout(5):
        await passes.get()
        await asyncio.sleep(0.01)  # it waits for the next event
        operator.take(NODES, {"metadata": {"name": "node-1", "resourceVersion": "2"}})
        operator.leadership.hear_term(operator.leadership.term + 1)
        for _ in range(turns):
            await asyncio.sleep(0)
        await operator.stop()
