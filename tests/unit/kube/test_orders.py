"""Orders to agents: answers, errors, agents that take their time, and orders that come too late."""

import asyncio
import re
import threading
from collections.abc import Callable
from typing import cast

import pytest

from colocation.agentclient import AgentClient, StaleOrder, StaleTerm, Unreachable
from colocation.kube import orders as module
from colocation.kube.errors import StaleDecision
from colocation.kube.orders import AgentFailure, AgentOrders, OrderNotSent, OrderRefused, OrderUnanswered

from .agents import until

URL = "https://10.0.0.1:8440"



class FakeClient:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Setting:
    """Orders, their clients, and which agents have ended one."""

    def __init__(self) -> None:
        self.clients: dict[str, FakeClient] = {}
        self.ended: list[str] = []
        self.stale: list[str] = []
        self.terms: list[int] = []
        self.orders = AgentOrders(self.connect, self.end, self.terms.append)

    def end(self, url: str, was_stale: bool) -> None:
        self.ended.append(url)
        self.stale += [url] if was_stale else []

    def connect(self, url: str) -> AgentClient:
        self.clients[url] = FakeClient()
        return cast(AgentClient, self.clients[url])


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> Setting:
    monkeypatch.setattr(module, "ORDER_WAIT_SECONDS", 0.05)
    return Setting()


def raising(error: Exception) -> Callable[[AgentClient], None]:
    def order(client: AgentClient) -> None:
        raise error

    return order


async def test_answer_comes_back_and_is_reported(setting: Setting) -> None:
    """Anyone who knows what the agent holds asks it again."""
    assert await setting.orders.call(URL, lambda client: 42) == 42
    await asyncio.sleep(0)
    assert setting.ended == [URL]
    setting.orders.close()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(Unreachable("connection refused"), AgentFailure, id="unreachable"),
        pytest.param(StaleOrder(409, "StaleOrder", "the map differs"), OrderRefused, id="stale order"),
        pytest.param(StaleTerm(409, "StaleTerm", "another leads", 9), OrderRefused, id="stale term"),
    ],
)
async def test_error_is_typed_by_what_is_done_about_it(
    setting: Setting, error: Exception, kind: type[AgentFailure]
) -> None:
    """A refusal is expected and harmless; the rest is a failure of the cluster that the next pass survives."""
    with pytest.raises(AgentFailure, match=re.escape(f"agent at {URL}")) as caught:
        await setting.orders.call(URL, raising(error))
    assert type(caught.value) is kind
    assert isinstance(caught.value, StaleDecision) == (kind is OrderRefused)
    assert setting.terms == ([9] if isinstance(error, StaleTerm) else [])
    await until(lambda: setting.ended)
    assert setting.stale == ([URL] if isinstance(error, StaleOrder) else [])
    setting.orders.close()


async def test_slow_agent_gets_one_order_at_a_time(setting: Setting) -> None:
    """The pass goes on; until the first order is done, others to this agent are not sent; then all is as before."""
    gate, done = threading.Event(), threading.Event()

    def work(client: AgentClient) -> None:
        gate.wait(10)
        done.set()

    with pytest.raises(OrderUnanswered, match="may still do it"):
        await setting.orders.call(URL, work)
    with pytest.raises(OrderNotSent, match="still busy"):
        await setting.orders.call(URL, lambda client: None)
    assert await setting.orders.call("https://10.0.0.2:8440", lambda client: "other") == "other"
    gate.set()
    assert done.wait(10)
    await until(lambda: URL in setting.ended)
    assert await setting.orders.call(URL, lambda client: "again") == "again"
    setting.orders.close()


async def test_orders_at_the_same_time_take_turns_up_to_a_bound(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scopes are performed in parallel; an agent's queue does not grow without end."""
    monkeypatch.setattr(module, "ORDER_WAIT_SECONDS", 5)
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    running: list[int] = []

    def work(client: AgentClient) -> int:
        running.append(1)
        assert len(running) == 1
        running.pop()
        return 1

    calls = (setting.orders.call(URL, work) for _ in range(10))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert answers.count(1) >= 3
    assert all(isinstance(one, OrderNotSent) for one in answers if one != 1)
    setting.orders.close()


async def test_order_that_waited_beyond_its_time_is_not_sent(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All threads are taken: what the order was decided on may not be so any more when one is free."""
    monkeypatch.setattr(module, "MAX_THREADS", 1)
    monkeypatch.setattr(module, "ORDER_WAIT_SECONDS", 0.05)
    setting = Setting()
    gate, sent = threading.Event(), threading.Event()
    with pytest.raises(OrderUnanswered):
        await setting.orders.call("https://10.0.0.2:8440", lambda client: gate.wait(10))
    with pytest.raises(OrderUnanswered):
        await setting.orders.call(URL, lambda client: sent.set(), within_seconds=0.01)
    gate.set()
    await until(lambda: URL in setting.ended)
    assert not sent.is_set()
    monkeypatch.setattr(module, "ORDER_WAIT_SECONDS", 5)
    with pytest.raises(OrderNotSent, match="was not sent within"):
        await setting.orders.call(URL, lambda client: sent.set(), within_seconds=-1)
    setting.orders.close()


async def test_clients_of_agents_that_are_gone_are_closed(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every restart of an agent gives it another address; their clients must not pile up."""
    monkeypatch.setattr(module, "IDLE_SECONDS", -1.0)
    for number in range(5):
        await setting.orders.call(f"https://10.0.0.{number}:8440", lambda client: None)
        await asyncio.sleep(0)
    assert [client.closed for client in setting.clients.values()] == [True] * 4 + [False]
    setting.orders.close()
