"""Orders to agents: drop, recycle, collect; in threads, so that a slow agent holds up a pass for a moment only."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ..agentclient import AgentClient, AgentError, Credentials, Timeouts
from .errors import ClusterError

Answer = TypeVar("Answer")

INVENTORY_TIMEOUTS = Timeouts(connect_seconds=2, read_seconds=10, retry_deadline_seconds=0)
ORDER_TIMEOUTS = Timeouts(connect_seconds=2, read_seconds=60, retry_deadline_seconds=0)
"""No retries here: the next pass is the retry."""
ORDER_WAIT_SECONDS = 2.0
"""How long a pass waits for an order; it is carried out even if it takes longer."""
MAX_THREADS = 8


class AgentFailure(ClusterError):
    """An agent did not do what it was told; the next pass tells it again."""


class AgentOrders:
    """Runs calls of ``AgentClient`` in threads; one client per URL."""

    def __init__(self, connect: Callable[[str], AgentClient]) -> None:
        self._connect = connect
        self._clients: dict[str, AgentClient] = {}
        self._unanswered: dict[str, asyncio.Future[Any]] = {}
        self._executor = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="orders")

    async def call(self, url: str, order: Callable[[AgentClient], Answer]) -> Answer:
        """The answer of the agent at this URL; AgentFailure when there is none, or none yet."""
        if url in self._unanswered:
            if not self._unanswered[url].done():
                raise AgentFailure(f"agent at {url} is still busy with an earlier order")
            del self._unanswered[url]
        client = self._clients.get(url)
        if client is None:
            client = self._clients[url] = self._connect(url)
        future = asyncio.get_running_loop().run_in_executor(self._executor, _guarded, order, client)
        await asyncio.wait({future}, timeout=ORDER_WAIT_SECONDS)
        if not future.done():
            self._unanswered[url] = future
            raise AgentFailure(f"agent at {url} has not answered within {ORDER_WAIT_SECONDS} s; it may still do it")
        answer = future.result()
        if isinstance(answer, AgentError):
            raise AgentFailure(f"agent at {url}: {answer}") from answer
        return answer

    def close(self) -> None:
        """Close the connections."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        for client in self._clients.values():
            client.close()


def _guarded(order: Callable[[AgentClient], Answer], client: AgentClient) -> Answer | AgentError:
    """The error as a value: nobody may be waiting for it any more."""
    try:
        return order(client)
    except AgentError as error:
        return error


def inventory_client(credentials: Credentials) -> Callable[[str], AgentClient]:
    """How to connect to an agent to ask what it holds."""
    return lambda url: AgentClient(url, credentials, INVENTORY_TIMEOUTS, pool_size=1)


def order_client(credentials: Credentials) -> Callable[[str], AgentClient]:
    """How to connect to an agent to tell it to do something."""
    return lambda url: AgentClient(url, credentials, ORDER_TIMEOUTS, pool_size=2)
