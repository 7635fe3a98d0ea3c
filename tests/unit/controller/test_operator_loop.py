"""The loop of passes: it survives a cluster that is away, and never dies unnoticed."""

import asyncio
from typing import Any

import pytest

from colocation.controller import operator as module
from colocation.controller.operator import Operator
from colocation.controller.settings import Settings
from colocation.kube.api import NODES, ApiError, Resource

SETTINGS = Settings(namespace="system", image="operator:1", inventory_seconds=0.01)


class FakeApi:
    """An API server without objects, that answers what a test tells it to."""

    def __init__(self, errors: list[Exception]) -> None:
        self.errors = errors
        self.lists = 0
        self.closed = False

    async def list_all(self, resource: Resource, namespace: str = "", labels: str = "") -> tuple[list[Any], int]:
        self.lists += 1
        if self.errors:
            raise self.errors.pop()
        return [], 1

    async def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(module, "COALESCING_SECONDS", 0)


async def test_death_of_the_loop_is_told_and_the_rest_stops() -> None:
    """An error that nobody foresaw ends the process, which Kubernetes starts again; it does not hang."""
    died = asyncio.Event()
    api = FakeApi([RuntimeError("a bug")])
    operator = Operator(api, SETTINGS, failed=died.set)  # type: ignore[arg-type]
    operator.start()
    async with asyncio.timeout(5):
        await died.wait()
        await operator.stop()
    assert api.closed


async def test_api_server_that_is_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes that cannot be made are counted; the first one that can is made."""
    died, passes = asyncio.Event(), asyncio.Queue[object]()
    api = FakeApi([ApiError(0, "no answer"), ApiError(429, "storage is (re)initializing")])
    operator = Operator(api, SETTINGS, failed=died.set)  # type: ignore[arg-type]
    monkeypatch.setattr(operator.metrics, "show", passes.put_nowait)
    operator.start()
    async with asyncio.timeout(5):
        await passes.get()
        await operator.stop()
    assert not died.is_set()
    assert b"colocation_failed_passes_total 2.0" in operator.metrics.render()


async def test_stop_ends_a_pass_wherever_it_is() -> None:
    """SIGTERM does not wait for the next pass."""
    operator = Operator(FakeApi([]), SETTINGS, failed=lambda: None)  # type: ignore[arg-type]
    operator.start()
    async with asyncio.timeout(5):
        await operator.stop()


async def test_change_wakes_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quiet operator reacts at once to a watch event, and not to one that says nothing new."""
    operator = Operator(FakeApi([]), SETTINGS.model_copy(update={"inventory_seconds": 3600}), failed=lambda: None)  # type: ignore[arg-type]
    passes = asyncio.Queue[object]()
    monkeypatch.setattr(operator.metrics, "show", passes.put_nowait)
    operator.start()
    node = {"metadata": {"name": "node-1", "resourceVersion": "2"}}
    heartbeat = {"metadata": {"name": "node-1", "resourceVersion": "3"}}
    async with asyncio.timeout(5):
        await passes.get()
        operator.take(NODES, node)
        await passes.get()
        operator.take(NODES, heartbeat)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(passes.get(), timeout=0.1)
    await operator.stop()
