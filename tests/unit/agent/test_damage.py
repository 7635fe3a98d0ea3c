"""Damage reported by readers or by the front's log: checks are bounded, and the agent reads the file itself."""

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient

from colocation.agent.damage import MAX_WAITING, MAX_WAITING_OF_NAMESPACE, DamageChecks
from colocation.agent.http_messages import Refusal, error_response
from colocation.agent.read_requests import ReadRequests
from colocation.agentclient import AgentError, DigestMismatch, NotFound, Unreachable
from colocation.model.agent import InventoryRequest
from colocation.storage.errors import UNREADABLE_MEDIUM
from colocation.storage.paths import TablePath
from tests.support.waiting import until
from tests.unit.storage.tables import Table, data_path, make_table, on_disk

from .failing_nginx import FIRST_BAD_BYTE, install
from .harness import AgentThread, FakeAuthorizer, Pki

NAMESPACES = tuple(f"tenant-{number}" for number in range(MAX_WAITING))

PATH = data_path(0)
CONTENT = bytes(range(256)) * (128 << 10)
SHORT_BYTES = len(CONTENT) - (4 << 20)
"""More than all buffers between the disk and a reader that has read nothing yet."""
TABLE = make_table({PATH: CONTENT})
SMALL = make_table({PATH: bytes(2 * FIRST_BAD_BYTE)})


class SlowNode:
    """A node whose disk answers once ``goes_on`` is set. ``checked``: namespaces, in the order of their checks."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.checked: list[str] = []
        self.working = self

    async def run(self, check: Callable[..., bool], table: TablePath, path: str) -> bool:
        """See ``Threads``."""
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
        """One report, as ``agent.routes`` takes it."""
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


async def test_damage_reports_are_limited_per_namespace(scene: Scene) -> None:
    """Its own are refused; others are checked in order, and then its own are accepted again."""
    reports = await scene.report(*["loud"] * MAX_WAITING, "bank", "shop")
    assert scene.refused == ["loud"] * (MAX_WAITING - MAX_WAITING_OF_NAMESPACE)
    scene.node.goes_on.set()
    statuses = await asyncio.gather(*reports)
    assert statuses == [200] * MAX_WAITING_OF_NAMESPACE + [429] * len(scene.refused) + [200, 200]
    assert scene.node.checked == ["loud"] * MAX_WAITING_OF_NAMESPACE + ["bank", "shop"]
    assert await scene.status("loud", 0) == 200


async def test_damage_reports_are_limited_in_total(scene: Scene) -> None:
    """Many namespaces do not lengthen the agent's queue; files that the agent itself suspects are dropped then."""
    reports = await scene.report(*NAMESPACES, "one-more")
    assert scene.refused == ["one-more"]
    await scene.checks.suspect(TablePath("one-more", "orders-0a1b2c3d"), data_path(0))
    scene.node.goes_on.set()
    assert await asyncio.gather(*reports) == [200] * MAX_WAITING + [429]
    assert scene.node.checked == list(NAMESPACES)


@pytest.fixture
def suspected(monkeypatch: pytest.MonkeyPatch) -> list[tuple[TablePath, str]]:
    """The files that the agent checks because of the front's log."""
    found: list[tuple[TablePath, str]] = []
    suspect = DamageChecks.suspect

    async def recorded(checks: DamageChecks, table: TablePath, path: str) -> None:
        await suspect(checks, table, path)
        found.append((table, path))

    monkeypatch.setattr(DamageChecks, "suspect", recorded)
    return found


def publish(agent: AgentThread, table: Table = TABLE) -> None:
    """Publish the table, which the operator asks about."""
    with agent.client() as client:
        client.put_file(*table.path, PATH, table.contents[PATH])
        client.put_manifest(*table.path, table.stored, table.manifest)
        client.inventory(InventoryRequest(session="s", number=1, changed=(table.asked,)))


@pytest.fixture
def shorten(monkeypatch: pytest.MonkeyPatch) -> Callable[[AgentThread], None]:
    """Shorten a file right after the agent has allowed the front to send it."""

    def prepare(agent: AgentThread) -> None:
        allowed = ReadRequests._allowed

        def shortened(requests: ReadRequests, *arguments: object) -> bytes:
            answer = allowed(requests, *arguments)  # type: ignore[arg-type]
            os.truncate(on_disk(agent.settings.data_root, TABLE.path, PATH), SHORT_BYTES)
            return answer

        monkeypatch.setattr(ReadRequests, "_allowed", shortened)

    return prepare


@pytest.mark.parametrize("call", ["openat", "pread"])
@pytest.mark.parametrize("number", sorted(UNREADABLE_MEDIUM), ids=lambda number: errno.errorcode[number])
def test_every_failure_of_the_medium_is_checked(
    tmp_path: Path, pki: Pki, monkeypatch: pytest.MonkeyPatch, suspected: list[object], call: str, number: int
) -> None:
    """By the lines that nginx really writes, whether the file cannot be opened or a block cannot be read."""
    failing = install(tmp_path / "bin", call, number)
    monkeypatch.setenv("PATH", f"{failing}:{os.environ['PATH']}")
    agent = AgentThread(tmp_path / "root", pki, FakeAuthorizer()).start()
    try:
        publish(agent, SMALL)
        with agent.client() as client, pytest.raises(AgentError):
            client.get_file(*SMALL.path, PATH).read()
        until(lambda: suspected)
        assert set(suspected) == {(SMALL.path, PATH)}
    finally:
        agent.stop()


def test_a_file_shortened_while_it_is_sent_is_cut_off(agent: AgentThread, suspected: list[object]) -> None:
    """No reader takes it for complete; the agent reads it, and serves it no longer."""
    publish(agent)
    with agent.client() as client, client.get_file(*TABLE.path, PATH) as stream:
        os.truncate(on_disk(agent.settings.data_root, TABLE.path, PATH), SHORT_BYTES)
        received = b""
        with pytest.raises(Unreachable, match="cut off"):
            for chunk in stream.chunks():
                received += chunk
    assert received == CONTENT[: len(received)] and len(received) <= SHORT_BYTES
    until(lambda: suspected)
    with agent.client() as client, pytest.raises(NotFound):
        client.get_file(*TABLE.path, PATH)


def test_a_file_shortened_before_it_is_sent_fails_its_digest(
    agent: AgentThread, shorten: Callable[[AgentThread], None]
) -> None:
    """The front announces fewer bytes with the digest that the agent knows, which do not match."""
    publish(agent)
    shorten(agent)
    with agent.client() as client, pytest.raises(DigestMismatch) as refused:
        client.get_file(*TABLE.path, PATH).read()
    assert refused.value.may_pass


def test_a_range_of_a_shortened_file_ends_at_its_end(
    agent: AgentThread, shorten: Callable[[AgentThread], None]
) -> None:
    """The answer has the current size; a range past the end is refused."""
    publish(agent)
    shorten(agent)
    with agent.client() as client:
        with client.get_file(*TABLE.path, PATH, SHORT_BYTES - 10, SHORT_BYTES + 10) as stream:
            assert stream.total_bytes == SHORT_BYTES
            assert stream.read() == CONTENT[SHORT_BYTES - 10 : SHORT_BYTES]
        with pytest.raises(AgentError):
            client.get_file(*TABLE.path, PATH, SHORT_BYTES, SHORT_BYTES + 10).read()
