"""Reports of damage wait for each other; whoever sends many keeps out nobody of another namespace."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient

from colocation.agent.damage import MAX_WAITING, MAX_WAITING_OF_NAMESPACE, DamageChecks
from colocation.agent.http_messages import Refusal, error_response
from colocation.storage.paths import TablePath
from tests.unit.storage.tables import data_path

NAMESPACES = tuple(f"tenant-{number}" for number in range(MAX_WAITING))


class SlowNode:
    """A node whose disk answers when ``goes_on`` is set. ``checked``: namespaces, in the order of their checks."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.checked: list[str] = []

    async def run_work(self, check: Callable[..., bool], table: TablePath, path: str) -> bool:
        """See ``NodeState``."""
        self.checked.append(table.namespace)
        await self.goes_on.wait()
        return False


class Scene:
    """Callers who report files to one agent. ``refused``: namespaces whose reports got 429."""

    def __init__(self) -> None:
        self.node = SlowNode()
        self.checks = DamageChecks(self.node)  # type: ignore[arg-type]
        self.refused: list[str] = []
        self.client: TestClient[Any, Any]

    async def serve(self, request: web.Request) -> web.Response:
        """One report, as ``agent.api`` takes it."""
        try:
            return await self.checks.report(request, TablePath(request.match_info["namespace"], "orders-0a1b2c3d"))
        except Refusal as refusal:
            self.refused.append(request.match_info["namespace"])
            return error_response(refusal)

    async def report(self, *namespaces: str) -> list["asyncio.Task[int]"]:
        """Report a file of each, one after the other; returns once each is refused or waits for its check."""
        tasks = []
        for bucket, namespace in enumerate(namespaces):
            before = self._seen()
            tasks.append(asyncio.create_task(self.status(namespace, bucket)))
            while self._seen() == before:  # noqa: ASYNC110 - a condition, not an event
                await asyncio.sleep(0)
        return tasks

    def _seen(self) -> int:
        return len(self.refused) + self.checks._waiting.total()

    async def status(self, namespace: str, bucket: int) -> int:
        """The answer to one report."""
        async with self.client.post(f"/{namespace}", json={"path": data_path(bucket)}) as answer:
            return answer.status


@pytest.fixture
async def scene(aiohttp_client: Callable[..., Any]) -> Scene:
    """An agent that checks nothing yet."""
    one = Scene()
    application = web.Application()
    application.router.add_post("/{namespace}", one.serve)
    one.client = await aiohttp_client(application)
    return one


async def test_a_namespace_with_many_reports_keeps_out_no_other(scene: Scene) -> None:
    """Its own are refused; the others' are checked, the oldest first, and then its own are taken again."""
    reports = await scene.report(*["loud"] * MAX_WAITING, "bank", "shop")
    assert scene.refused == ["loud"] * (MAX_WAITING - MAX_WAITING_OF_NAMESPACE)
    scene.node.goes_on.set()
    statuses = await asyncio.gather(*reports)
    assert statuses == [200] * MAX_WAITING_OF_NAMESPACE + [429] * len(scene.refused) + [200, 200]
    assert scene.node.checked == ["loud"] * MAX_WAITING_OF_NAMESPACE + ["bank", "shop"]
    assert await scene.status("loud", 0) == 200


async def test_all_namespaces_together_have_a_bound(scene: Scene) -> None:
    """Many namespaces do not make the agent's queue long; files that the agent itself suspects are dropped then."""
    reports = await scene.report(*NAMESPACES, "one-more")
    assert scene.refused == ["one-more"]
    await scene.checks.suspect(TablePath("one-more", "orders-0a1b2c3d"), data_path(0))
    scene.node.goes_on.set()
    assert await asyncio.gather(*reports) == [200] * MAX_WAITING + [429]
    assert scene.node.checked == list(NAMESPACES)
