"""Orders to agents: drop, recycle, collect; in threads, so that a slow agent holds up a pass for a moment only."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..agentclient import AgentClient, AgentError, CallerCredentials, StaleOrder, StaleTerm, Timeouts
from .errors import ClusterError, StaleDecision

Answer = TypeVar("Answer")

ORDER_TIMEOUTS = Timeouts(connect_seconds=2, read_seconds=60, retry_deadline_seconds=0)
"""No retries here: the next pass is the retry."""
PATIENT_TIMEOUTS = Timeouts(connect_seconds=2, read_seconds=60, retry_deadline_seconds=5)
ORDER_WAIT_SECONDS = 2.0
"""How long a pass waits for an order; it is carried out even if it takes longer."""
ORDER_VALID_SECONDS = 30.0
"""An order that has not been sent by then is not sent: what it was decided on may not be so any more."""
MAX_THREADS = 32
MAX_WAITING = 8
"""Orders that wait for their turn at one agent."""
IDLE_SECONDS = 300.0
"""A client that was not used for so long is closed; its agent may be gone."""


class AgentFailure(ClusterError):
    """An agent did not carry out an order; the next pass gives it again."""


class OrderNotSent(AgentFailure):
    """The agent was busy, or the order too old: nothing was sent, so nothing will happen."""


class OrderUnanswered(AgentFailure):
    """No answer yet: the order may still be carried out."""


class OrderRefused(AgentFailure, StaleDecision):
    """What the order was decided on is not so at the agent, or another operator leads: nothing happened."""


@dataclass
class _Agent:
    """``turn`` is held while an order is under way, also when its caller no longer waits for the answer."""

    client: AgentClient
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    used_at: float = 0.0


class AgentOrders:
    """Runs calls of ``AgentClient`` in threads, one at a time for each agent.

    Args:
        connect: makes a client for an agent's URL.
        ended: called with the URL of an agent whose order has just ended, as what it holds may have changed; and with
            whether it found the order stale: what is known of it is not enough to decide on.
        heard_term: called when an agent has heard of a newer term of leadership.
    """

    def __init__(
        self,
        connect: Callable[[str], AgentClient],
        ended: Callable[[str, bool], None] = lambda url, was_stale: None,
        heard_term: Callable[[int], None] = lambda term: None,
    ) -> None:
        self._connect = connect
        self._ended = ended
        self._heard_term = heard_term
        self._agents: dict[str, _Agent] = {}
        self._executor = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="orders")

    async def call(
        self, url: str, order: Callable[[AgentClient], Answer], within_seconds: float = ORDER_VALID_SECONDS
    ) -> Answer:
        """The answer of the agent at this URL. The order is dropped if it cannot be sent ``within_seconds``.

        Raises:
            OrderNotSent: the agent is busy with earlier orders.
            OrderUnanswered: it has not answered yet.
            OrderRefused: it has found that the order's proof is not true any more, or that another operator leads.
            AgentFailure: it answered with another error, or cannot be reached.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._close_idle(now)
        agent = self._agents.get(url)
        if agent is None:
            agent = self._agents[url] = _Agent(self._connect(url))
        agent.used_at = now
        await self._wait_for_turn(url, agent)
        future = loop.run_in_executor(self._executor, _in_time, order, agent.client, loop.time, now + within_seconds)
        future.add_done_callback(lambda done: self._end(url, agent, done))
        await asyncio.wait({future}, timeout=max(0.0, now + ORDER_WAIT_SECONDS - loop.time()))
        if not future.done():
            message = f"agent at {url} has not answered within {ORDER_WAIT_SECONDS} s; it may still do it"
            raise OrderUnanswered(message)
        answer = future.result()
        if isinstance(answer, _Expired):
            raise OrderNotSent(f"the order to the agent at {url} was not sent within {within_seconds} s")
        if isinstance(answer, StaleTerm):
            self._heard_term(answer.term)
        if isinstance(answer, StaleOrder | StaleTerm):
            raise OrderRefused(f"agent at {url}: {answer}") from answer
        if isinstance(answer, AgentError):
            raise AgentFailure(f"agent at {url}: {answer}") from answer
        return answer

    def close(self) -> None:
        """Close the connections."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        for agent in self._agents.values():
            agent.client.close()
        self._agents.clear()

    async def _wait_for_turn(self, url: str, agent: _Agent) -> None:
        if agent.waiting >= MAX_WAITING:
            raise OrderNotSent(f"{agent.waiting} orders wait for the agent at {url} already")
        agent.waiting += 1
        try:
            async with asyncio.timeout(ORDER_WAIT_SECONDS):
                await agent.turn.acquire()
        except TimeoutError:
            raise OrderNotSent(f"agent at {url} is still busy with an earlier order") from None
        finally:
            agent.waiting -= 1

    def _end(self, url: str, agent: _Agent, done: "asyncio.Future[Any]") -> None:
        agent.turn.release()
        is_answered = not done.cancelled() and done.exception() is None
        self._ended(url, is_answered and isinstance(done.result(), StaleOrder))

    def _close_idle(self, now: float) -> None:
        for url, agent in list(self._agents.items()):
            if now - agent.used_at > IDLE_SECONDS and not agent.turn.locked() and not agent.waiting:
                agent.client.close()
                del self._agents[url]


class _Expired:
    """In the place of an answer: the order was too old to be sent."""


def _in_time(
    order: Callable[[AgentClient], Answer], client: AgentClient, clock: Callable[[], float], deadline: float
) -> Answer | AgentError | _Expired:
    """The error as a value: the caller may no longer be waiting."""
    if clock() > deadline:
        return _Expired()
    try:
        return order(client)
    except AgentError as error:
        return error


def order_client(credentials: Callable[[str], CallerCredentials]) -> Callable[[str], AgentClient]:
    """How to connect to an agent, with the credentials for its URL, to tell it to do something."""
    return lambda url: AgentClient(url, credentials(url), ORDER_TIMEOUTS, pool_size=2)


def patient_client(credentials: Callable[[str], CallerCredentials]) -> Callable[[str], AgentClient]:
    """How to connect to an agent whose answer may take as long as it hashes."""
    return lambda url: AgentClient(url, credentials(url), PATIENT_TIMEOUTS, pool_size=1)
