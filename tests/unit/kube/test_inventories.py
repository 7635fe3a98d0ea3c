"""Conversations with agents: what changes is heard of, silence is timed, one agent's fault is that agent's alone."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime

import pytest

from colocation.agentclient.calls import Call
from colocation.kube import conversation as conversation_module
from colocation.kube import inventories as module
from colocation.kube.inventories import Inventories
from colocation.model.agent import AgentReport, AskedTable, InventoryRequest, OldInventoryRequest, SeenLease
from colocation.state.agent_view import AgentView, TableKey
from tests.support.leaders import FixedLeader

from ..state.objects import NOW, seconds
from .agents import FakeAgent, FakeChannel, asked_about, malformed, question, until

URL = "https://10.0.0.1:8440"
OTHER_URL = "https://10.0.0.2:8440"
ORDERS = asked_about("orders")
LINES = asked_about("lines")
KEY = ("shop", "orders-00000001")


class Setting:
    """Inventories of agents by URL, with a clock that stands still unless a test moves it."""

    def __init__(self) -> None:
        self.now: datetime = NOW
        self.wakes = 0
        self.leader = FixedLeader()
        self.agents = {URL: FakeAgent("node-1"), OTHER_URL: FakeAgent("node-2")}
        self.agents[URL].put("orders")
        self.questions: dict[str, dict[TableKey, AskedTable]] = {"node-1": question(ORDERS)}
        self.inventories = Inventories(
            FakeChannel(self.agents), lambda: self.now, self.changed, self.leader
        )

    def changed(self) -> None:
        self.wakes += 1

    async def ask(self, url: str | None = URL, again: bool = False) -> None:
        waited_for = {"node-1"} if url else set()
        await self.inventories.ask({"node-1": url}, waited_for, self.questions, {"node-1"} if again else ())

    @property
    def view(self) -> AgentView:
        return self.inventories.views["node-1"]

    @property
    def sizes(self) -> dict[TableKey, int]:
        """Bytes of bucket 0, as the agent's last word has them."""
        return {key: one.buckets[0].bytes_held for key, one in self.view.tables.items() if one.buckets}

    async def held(self) -> None:
        """Until the agent holds a question."""
        await until(lambda: self.agents[URL].held)


@pytest.fixture
async def setting(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Setting]:
    monkeypatch.setattr(module, "ANSWER_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(conversation_module, "FIRST_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(conversation_module, "MAX_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(conversation_module, "OLD_INTERVAL_SECONDS", 0.001)
    monkeypatch.setattr(conversation_module, "MIN_INTERVAL_SECONDS", 0.01)
    one = Setting()
    yield one
    await one.inventories.close()


async def test_quiet_agent_is_asked_once_and_then_holds_the_question(setting: Setting) -> None:
    """Further passes ask nothing, so a thousand quiet nodes cost a request a minute each."""
    await setting.ask()
    await setting.held()
    for _ in range(3):
        await setting.ask()
    requests = setting.agents[URL].requests
    assert [(one.base, one.wait_seconds > 0) for one in requests if isinstance(one, InventoryRequest)] == [
        (None, False),
        (1, True),
    ]
    assert setting.sizes == {KEY: 10}
    assert setting.wakes == 0


async def test_change_on_the_node_wakes_a_pass(setting: Setting) -> None:
    """The held question is answered with what has changed, and the rest stands."""
    setting.questions = {"node-1": question(ORDERS, LINES)}
    setting.agents[URL].put("lines", 7)
    await setting.ask()
    await setting.held()
    version = setting.inventories.version
    setting.agents[URL].put("orders", 99)
    await until(lambda: setting.wakes)
    assert setting.sizes == {KEY: 99, ("shop", "lines-00000001"): 7}
    assert setting.inventories.version > version


async def test_new_question_replaces_the_held_one_and_reports_only_what_differs(setting: Setting) -> None:
    """A commit reaches the nodes of its table at once, and costs one table."""
    setting.questions = {"node-1": question(ORDERS, LINES)}
    await setting.ask()
    await setting.held()
    committed = asked_about("orders", "b" * 64)
    setting.questions = {"node-1": question(committed)}
    await setting.ask()
    asked = [one for one in setting.agents[URL].requests if isinstance(one, InventoryRequest)]
    changes = [(one.changed, one.removed, one.wait_seconds) for one in asked if one.base]
    assert [one for one in changes if one[0] or one[1]] == [((committed,), ("shop/lines-00000001",), 0)]
    assert setting.view.asked == {KEY: committed}
    assert setting.view.tables[KEY].manifest == "b" * 64
    assert ("shop", "lines-00000001") not in setting.view.tables


async def test_epoch_of_deletions_reaches_the_agent_although_no_report_changes(setting: Setting) -> None:
    """A new map version is a new question; ``asked`` tells the pass that it has arrived."""
    await setting.ask()
    await setting.held()
    newer = asked_about("orders", map_version=2)
    setting.questions = {"node-1": question(newer)}
    await setting.ask()
    assert setting.view.asked == {KEY: newer}
    assert setting.sizes == {KEY: 10}


async def test_report_ages_while_nothing_changes(setting: Setting) -> None:
    """Orders end at a moment of the agent's own clock, so its last known figure has to go on."""
    reports = [_report(uptime_seconds=100.0)]
    setting.agents[URL].answers = lambda call: (200, reports.pop()) if reports else (304, b"")
    await setting.ask()
    setting.now += seconds(45)
    await until(lambda: setting.view.report and setting.view.report.uptime_seconds > 100)
    assert setting.view.report is not None
    assert setting.view.report.uptime_seconds == 145.0


async def test_agent_that_holds_nothing_back_is_not_asked_all_the_time(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers every question at once; the operator has other things to do."""
    monkeypatch.setattr(conversation_module, "MIN_INTERVAL_SECONDS", 3600)
    asked: list[object] = []

    def answer(call: object) -> tuple[int, bytes]:
        asked.append(call)
        return 200, _report()

    setting.agents[URL].answers = answer
    await setting.ask()
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(asked) <= 2
    setting.questions = {"node-1": question(LINES)}
    await setting.ask()
    assert setting.view.asked.keys() == {("shop", "lines-00000001")}


async def test_agent_is_asked_again_on_demand(setting: Setting) -> None:
    """What it holds may have changed by an order; the answer is newer than the order."""
    await setting.ask()
    await setting.held()
    setting.now += seconds(5)
    setting.inventories.ask_again(URL)
    await until(lambda: setting.view.is_newer_than(NOW))
    await setting.held()
    setting.now += seconds(5)
    await setting.ask(again=True)
    assert setting.view.asked_at == setting.now


async def test_agent_that_found_an_order_stale_reports_all_again(setting: Setting) -> None:
    """A report that was long on its way tells an old uptime: on a quiet agent every order would be refused for ever."""
    asked: list[str | None] = []

    def answer(call: Call) -> tuple[int, bytes]:
        asked.append(call.headers.get("If-None-Match"))
        return (304, b"") if asked[-1] else (200, _report(uptime_seconds=100.0 * asked.count(None)))

    setting.agents[URL].answers = answer
    await setting.ask()
    setting.inventories.ask_again(URL, in_full=True)
    await until(lambda: setting.view.report and setting.view.report.uptime_seconds == 200.0)
    assert asked[0] is None
    await until(lambda: asked[-1])


async def test_silence_is_timed_from_its_first_moment(setting: Setting) -> None:
    """The last word stands while the agent is away, and a pass is woken when it goes and when it is back."""
    await setting.ask()
    await setting.held()
    agent = setting.agents[URL]
    agent.reachable = False
    setting.now += seconds(5)
    agent.ring()
    await until(lambda: setting.view.silent_since)
    setting.now += seconds(5)
    silent = setting.view
    assert (silent.answered_at, silent.silent_since) == (NOW + seconds(5), NOW + seconds(5))
    assert setting.sizes == {KEY: 10}
    wakes = setting.wakes
    agent.reachable = True
    await until(lambda: setting.view.silent_since is None)
    assert setting.wakes > wakes > 0


async def test_restarted_agent_is_asked_in_full(setting: Setting) -> None:
    """It remembers no question; what its predecessor said is replaced by what it reports."""
    await setting.ask()
    await setting.held()
    agent = setting.agents[URL]
    agent.sizes.clear()
    agent.put("orders", 3)
    agent.restart()
    await until(lambda: setting.sizes == {KEY: 3})
    await setting.held()
    assert setting.view.silent_since is None


async def test_agent_that_loses_its_address_falls_silent(setting: Setting) -> None:
    """A pod that is being replaced; its successor on another address is asked in full."""
    await setting.ask()
    setting.now += seconds(5)
    await setting.ask(url=None)
    assert setting.view.silent_since == NOW + seconds(5)
    setting.agents["https://10.0.0.9:8440"] = FakeAgent("node-1", sizes={"orders-00000001": 4})
    await setting.ask(url="https://10.0.0.9:8440")
    assert (setting.view.silent_since, setting.sizes) == (None, {KEY: 4})


async def test_slow_agent_holds_up_a_pass_for_a_moment_and_only_once(setting: Setting) -> None:
    """Its last word stands; when it answers after all, the next pass is woken."""
    await setting.ask()
    await setting.held()
    agent = setting.agents[URL]
    agent.hangs = True
    setting.questions = {"node-1": question(asked_about("orders", "b" * 64))}
    async with asyncio.timeout(5):
        await setting.ask()
        await setting.ask()
    assert setting.view.tables[KEY].manifest == "a" * 64


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"<html>", id="no JSON"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b'{"node": "node-1"}', id="fields missing"),
        pytest.param(b'{"node": "node-2", "revision": "x", "capacityBytes": 1, "freeBytes": 1}', id="another node"),
        pytest.param(
            b'{"node": "node-1", "revision": "x", "capacityBytes": 1, "freeBytes": 1, "isFull": false}',
            id="changes since nothing",
        ),
        pytest.param(b'{"node": "node-1", "revision": "x", "capacityBytes": "1e999"}', id="wrong types"),
        pytest.param(b'{"node": "node-1", "revision": "x", "capacityBytes": 1, "freeBytes": -1}', id="less than none"),
        pytest.param(
            b'{"node": "node-1", "revision": "x", "capacityBytes": 1%s, "freeBytes": 1}' % (b"0" * 400), id="no disk"
        ),
        pytest.param(
            b'{"node": "node-1", "revision": "x", "capacityBytes": 1, "freeBytes": 1, "term": 2147483648}', id="no term"
        ),
        pytest.param(b"\xff\xfe" * 10, id="no text"),
    ],
)
async def test_malformed_answer_is_silence_of_that_agent_alone(setting: Setting, body: bytes) -> None:
    """Others go on; when it answers properly again, it is believed again."""
    agent = setting.agents[URL]
    agent.answers = malformed(body)
    urls = {"node-1": URL, "node-2": OTHER_URL}
    await setting.inventories.ask(urls, set(urls), setting.questions)
    views = setting.inventories.views
    assert (views["node-1"].silent_since, views["node-1"].report) == (NOW, None)
    assert views["node-2"].silent_since is None
    agent.answers = None
    await until(lambda: setting.view.silent_since is None)


async def test_error_that_no_one_foresaw_stays_in_its_conversation(setting: Setting) -> None:
    """Whatever breaks in handling one agent's answer, the agent is silent and asked again."""

    def fail(call: object) -> tuple[int, bytes]:
        raise RecursionError

    setting.agents[URL].answers = fail
    await setting.ask()
    assert setting.view.silent_since == NOW
    setting.agents[URL].answers = None
    await until(lambda: setting.view.silent_since is None)


async def test_newer_term_is_reported(setting: Setting) -> None:
    """An agent that has heard of another leader refuses; the operator learns how new its term has to be."""
    setting.agents[URL].term = 7
    await setting.ask()
    assert setting.leader.heard_terms[0] == 7
    assert setting.view.silent_since == NOW
    setting.leader.term = 8
    await until(lambda: setting.view.silent_since is None)


async def test_an_agent_remembers_nothing_new_before_it_was_heard(setting: Setting) -> None:
    """What it remembered is heard first; it is asked to remember ours with the next question, and not heard again."""
    agent, lost = setting.agents[URL], SeenLease(holder="of the lost time", version=500)
    agent.lease, setting.leader.lease = lost, SeenLease(holder="this one", version=7)
    await setting.ask()
    assert setting.leader.heard_leases == [lost]
    await setting.held()
    await until(lambda: agent.lease == setting.leader.lease)
    agent.put("orders", 99)
    await until(lambda: setting.sizes == {KEY: 99})
    assert setting.leader.heard_leases == [lost]
    requests = [one for one in agent.requests if isinstance(one, InventoryRequest)]
    assert requests[0].lease is None and not any(one.frozen for one in requests)


async def test_agents_keep_their_memory_and_their_bins_until_the_mark_is_written(setting: Setting) -> None:
    """The leader has nothing to remember for them yet."""
    agent = setting.agents[URL]
    agent.lease = SeenLease(holder="of the lost time", version=500)
    setting.leader.etcd_restored = True
    await setting.ask()
    await setting.held()
    assert agent.lease.version == 500
    assert all(one.frozen for one in agent.requests if isinstance(one, InventoryRequest))


async def test_agent_of_the_release_before_is_asked_its_way(setting: Setting) -> None:
    """It knows no sessions: it is asked about all tables every few seconds, and what changes is noticed."""
    agent = setting.agents[URL]
    agent.is_old = True
    setting.questions = {"node-1": question(ORDERS, LINES)}
    await setting.ask()
    await until(lambda: setting.sizes == {KEY: 10})
    agent.put("lines", 5)
    await until(lambda: ("shop", "lines-00000001") in setting.sizes)
    assert isinstance(agent.requests[-1], OldInventoryRequest)
    agent.is_old = False
    agent.reachable = False
    await until(lambda: setting.view.silent_since)
    agent.reachable = True
    await setting.held()


async def test_equal_reports_are_one_object(setting: Setting) -> None:
    """Replicas are equal, and there are millions of them."""
    setting.agents[OTHER_URL].put("orders")
    urls = {"node-1": URL, "node-2": OTHER_URL}
    await setting.inventories.ask(urls, set(urls), dict.fromkeys(urls, question(ORDERS)))
    first, second = (setting.inventories.views[node].tables[KEY] for node in urls)
    assert first == second
    assert first.buckets[0] is second.buckets[0]


async def test_bytes_of_buckets_are_remembered_until_they_are_forgotten(setting: Setting) -> None:
    """What is wanted stays known when those who know it are away."""
    await setting.ask()
    setting.agents[URL].reachable = False
    setting.agents[URL].ring()
    known = {(*KEY, "a" * 64): {0: 10}}
    assert setting.inventories.bucket_bytes == known
    setting.inventories.keep_bytes(known.keys())
    assert setting.inventories.bucket_bytes == known
    setting.inventories.forget_bytes(known)
    assert setting.inventories.bucket_bytes == {}


async def test_nodes_that_are_gone_are_forgotten(setting: Setting) -> None:
    """Their conversations end."""
    await setting.ask()
    await setting.inventories.ask({}, (), {})
    assert setting.inventories.views == {}
    await until(lambda: not setting.agents[URL].held)


def _report(**fields: object) -> bytes:
    report = AgentReport(node="node-1", revision="r", capacity_bytes=1, free_bytes=1)
    return json.dumps(report.model_copy(update=fields).to_json_dict()).encode()


async def test_an_answer_in_parts_counts_once_it_is_whole(setting: Setting) -> None:
    """Before that a table that was not reported yet would seem to be missing on the node."""
    setting.questions = {"node-1": question(ORDERS, LINES)}
    agent = setting.agents[URL]
    agent.put("lines", 20)
    parts = iter([(ORDERS, True, False), (LINES, False, True)])
    seen: list[bool] = []

    def answer(call: Call) -> tuple[int, bytes]:
        seen.append("node-1" in setting.inventories.views and bool(setting.view.tables))
        table, is_full, is_whole = next(parts, (None, False, True))
        reports = () if table is None else (agent._report_on(table.reference),)
        report = agent._header(reports, is_full, f"one-{len(seen)}", set())
        return 200, report.model_copy(update={"is_whole": is_whole}).model_dump_json(by_alias=True).encode()

    agent.answers = answer
    await setting.ask()
    await until(lambda: setting.sizes)
    assert setting.sizes == {KEY: 10, ("shop", "lines-00000001"): 20}
    assert seen[:2] == [False, False]
