"""When full lists of all objects are taken: from time to time, and once a watch may have missed something."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..kube.api import Resource
from ..kube.errors import ClusterError
from ..kube.reader import LiveCluster
from .pace import BUSY_SECONDS, MAX_DOUBLINGS, MAX_FAILURE_SECONDS

logger = logging.getLogger(__name__)


@dataclass
class _Kind:
    """``taken``: the newest number that its list answers. ``failures``: in a row; until ``retry_at`` it is put off."""

    taken: int = 0
    failures: int = 0
    retry_at: float = 0.0


class FullLists:
    """Takes them between passes, one after another. What fails for one kind holds up no other.

    Args:
        cluster: what takes them, and remembers their versions.
        seconds: between lists that no watch asked for.
        wake: begins the next pass at once.
    """

    def __init__(self, cluster: LiveCluster, seconds: float, wake: Callable[[], None]) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._wake = wake
        self._asked, self._due_at = 0, 0.0
        self._kinds = {resource: _Kind() for resource in cluster.kinds}
        self._news = asyncio.Event()

    def ask(self) -> int:
        """Want lists that are begun after this; the number by which they are known."""
        self._asked += 1
        self._wake()
        return self._asked

    async def again(self, resource: Resource) -> str:
        """The resource version of a list that was begun after this was asked: a watch from there on misses nothing."""
        number = self.ask()
        while self._kinds[resource].taken < number:
            await self._news.wait()
        return str(self._cluster.listed_at[resource])

    async def take_if_due(self) -> bool:
        """Whether the lists of all kinds are taken by this. One that fails is tried again in time.

        Raises:
            ClusterError: a first one failed, without which no pass can be made.
        """
        now = time.monotonic()
        if now >= self._due_at:
            self._asked, self._due_at = self._asked + 1, now + self._seconds
        wanted = self._asked
        missing = [(resource, kind) for resource, kind in self._kinds.items() if kind.taken < wanted]
        for resource, kind in missing:
            if now < kind.retry_at:
                continue
            try:
                await self._take(resource, kind)
            except ClusterError as error:
                if not all(one.taken for one in self._kinds.values()):
                    raise
                self._put_off(kind, now)
                logger.warning("the full list of %s was not taken: %s", resource.plural, error)
                return False
        is_done = bool(missing) and all(kind.taken >= wanted for _, kind in missing)
        self._due_at = now + self._seconds if is_done else self._due_at
        return is_done

    async def _take(self, resource: Resource, kind: _Kind) -> None:
        asked = self._asked
        await self._cluster.list_again(resource)
        kind.taken, kind.failures = asked, 0
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _put_off(self, kind: _Kind, now: float) -> None:
        """Not for long at first: the API server may have just started."""
        seconds = min(BUSY_SECONDS * 2 ** min(kind.failures, MAX_DOUBLINGS), MAX_FAILURE_SECONDS)
        kind.failures, kind.retry_at = kind.failures + 1, now + seconds
        asyncio.get_running_loop().call_later(seconds, self._wake)
