"""Orders to agents: answers, errors, and agents that take their time."""

import threading

import pytest

from colocation.agentclient import AgentClient, Unreachable
from colocation.kube import orders as module
from colocation.kube.orders import AgentFailure, AgentOrders

URL = "https://10.0.0.1:8440"


class FakeClient:
    def close(self) -> None:
        pass


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> AgentOrders:
    monkeypatch.setattr(module, "ORDER_WAIT_SECONDS", 0.05)
    return AgentOrders(lambda url: FakeClient())  # type: ignore[arg-type,return-value]


async def test_answer_and_error(orders: AgentOrders) -> None:
    """An order's answer comes back; an agent's error is one of the cluster's, that the next pass survives."""

    def refuse(client: AgentClient) -> None:
        raise Unreachable("connection refused")

    assert await orders.call(URL, lambda client: 42) == 42
    with pytest.raises(AgentFailure, match=r"agent at https://10.0.0.1:8440.*connection refused"):
        await orders.call(URL, refuse)
    orders.close()


async def test_slow_agent_gets_no_second_order(orders: AgentOrders) -> None:
    """The pass goes on; until the first order is done, others to this agent are refused; then all is as before."""
    gate, done = threading.Event(), threading.Event()

    def work(client: AgentClient) -> None:
        gate.wait(10)
        done.set()

    with pytest.raises(AgentFailure, match="has not answered within"):
        await orders.call(URL, work)
    with pytest.raises(AgentFailure, match="still busy"):
        await orders.call(URL, lambda client: None)
    assert await orders.call("https://10.0.0.2:8440", lambda client: "other") == "other"
    gate.set()
    assert done.wait(10)
    orders.close()
