"""Asking the agents: changes are noticed, silence is timed, nobody is waited for for long."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime

import pytest

from colocation.agentclient import Unreachable
from colocation.kube import inventories as module
from colocation.kube.inventories import Inventories
from colocation.model.agent import AgentReport, BucketReport, InventoryRequest, TableReference, TableReport

from ..state.objects import MANIFEST, NOW, seconds

ORDERS = TableReference(namespace="shop", directory="orders-1", manifest=MANIFEST)
URL = "https://10.0.0.1:8440"


@dataclass
class FakeAgent:
    """Answers like an agent: 304 (None) for a revision that it gave before."""

    revision: str = "1"
    bytes_wanted: int = 10
    reachable: bool = True
    gate: threading.Event = field(default_factory=threading.Event)
    asked: list[str | None] = field(default_factory=list)
    closed: bool = False

    def inventory(self, request: InventoryRequest, revision: str | None = None) -> AgentReport | None:
        self.gate.wait(10)
        self.asked.append(revision)
        if not self.reachable:
            raise Unreachable("connection refused")
        if revision == self.revision:
            return None
        size = self.bytes_wanted
        bucket = BucketReport(state="complete", files_wanted=1, files_held=1, bytes_wanted=size, bytes_held=size)
        tables = tuple(
            TableReport(
                namespace=one.namespace, directory=one.directory, manifest=one.manifest, manifest_present=True,
                buckets={0: bucket},
            )
            for one in request.tables
        )  # fmt: skip
        return AgentReport(node="node-1", revision=self.revision, capacity_bytes=1, free_bytes=1, tables=tables)

    def close(self) -> None:
        self.closed = True


class Setting:
    """Inventories of agents by URL, with a clock that stands still unless a test moves it."""

    def __init__(self) -> None:
        self.now: datetime = NOW
        self.changes = 0
        self._change = asyncio.Event()
        self.agents: dict[str, FakeAgent] = {URL: FakeAgent()}
        for agent in self.agents.values():
            agent.gate.set()
        self.inventories = Inventories(self.agents.__getitem__, lambda: self.now, self.changed)

    def changed(self) -> None:
        self.changes += 1
        self._change.set()

    async def woken(self) -> None:
        """Until the next pass is woken."""
        async with asyncio.timeout(5):
            await self._change.wait()

    async def ask(self, url: str | None = URL, waited_for: frozenset[str] | None = None) -> None:
        nodes = frozenset({"node-1"} if url else set()) if waited_for is None else waited_for
        await self.inventories.ask({"node-1": url}, nodes, (ORDERS,))


@pytest.fixture
async def setting(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Setting]:
    monkeypatch.setattr(module, "ANSWER_WAIT_SECONDS", 0.05)
    one = Setting()
    yield one
    for agent in one.agents.values():
        agent.gate.set()
    await one.inventories.close()


async def test_unchanged_report_is_not_sent_again(setting: Setting) -> None:
    """The second question carries the revision; its answer is the old report, with a newer time."""
    await setting.ask()
    first, version = setting.inventories.views["node-1"], setting.inventories.version
    setting.now += seconds(5)
    await setting.ask()
    second = setting.inventories.views["node-1"]
    assert setting.agents[URL].asked == [None, "1"]
    assert second.report is first.report
    assert (first.answered_at, second.answered_at) == (NOW, NOW + seconds(5))
    assert setting.inventories.version == version


async def test_question_about_other_tables_is_asked_anew(setting: Setting) -> None:
    """A revision is an answer to one question only."""
    await setting.ask()
    await setting.inventories.ask({"node-1": URL}, frozenset({"node-1"}), ())
    assert setting.agents[URL].asked == [None, None]
    assert setting.inventories.views["node-1"].asked == ()


async def test_silence_is_timed_from_its_first_moment(setting: Setting) -> None:
    """The last word stands while the agent is away, and stands corrected when it is back."""
    await setting.ask()
    setting.agents[URL].reachable = False
    for _ in range(3):
        setting.now += seconds(5)
        await setting.ask()
    silent = setting.inventories.views["node-1"]
    assert (silent.answered_at, silent.silent_since) == (NOW, NOW + seconds(5))
    assert silent.report is not None
    setting.agents[URL].reachable = True
    await setting.ask()
    assert setting.inventories.views["node-1"].silent_since is None


async def test_agent_that_loses_its_address_falls_silent(setting: Setting) -> None:
    """A pod that is being replaced; its successor on another address is asked with the same memory."""
    await setting.ask()
    setting.now += seconds(5)
    await setting.ask(url=None)
    assert setting.inventories.views["node-1"].silent_since == NOW + seconds(5)
    assert setting.agents[URL].closed
    successor = "https://10.0.0.9:8440"
    setting.agents[successor] = FakeAgent(revision="2")
    setting.agents[successor].gate.set()
    await setting.ask(url=successor)
    assert setting.inventories.views["node-1"].silent_since is None


async def test_slow_agent_does_not_hold_up_a_pass(setting: Setting) -> None:
    """Its last word stands; when it answers after all, the next pass is woken; it is asked one thing at a time."""
    await setting.ask()
    agent = setting.agents[URL]
    agent.gate.clear()
    agent.revision = "2"
    await setting.ask()
    await setting.ask()
    assert setting.inventories.views["node-1"].report.revision == "1"  # type: ignore[union-attr]
    assert setting.changes == 0
    agent.gate.set()
    await setting.woken()
    assert setting.inventories.views["node-1"].report.revision == "2"  # type: ignore[union-attr]
    assert len(agent.asked) == 2


async def test_agents_that_are_not_waited_for_are_asked_all_the_same(setting: Setting) -> None:
    """Of a Node that is not ready nobody expects an answer, but its return is noticed by one."""
    await setting.ask(waited_for=frozenset())
    await setting.woken()
    assert setting.inventories.views["node-1"].report is not None


async def test_bytes_of_buckets_are_remembered_while_the_manifest_lives(setting: Setting) -> None:
    """What is wanted stays known when those who know it are away."""
    await setting.ask()
    setting.agents[URL].reachable = False
    await setting.ask()
    assert setting.inventories.bucket_bytes == {("shop", "orders-1", MANIFEST): {0: 10}}
    await setting.inventories.ask({}, frozenset(), ())
    assert setting.inventories.bucket_bytes == {}
    assert setting.inventories.views == {}
