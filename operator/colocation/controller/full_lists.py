"""When full lists of all objects are taken: from time to time, and once a watch may have missed something."""

import asyncio
import logging
import time
from collections.abc import Callable

from ..kube.api import Resource
from ..kube.errors import ClusterError
from ..kube.reader import LiveCluster
from .pace import MAX_FAILURE_SECONDS

logger = logging.getLogger(__name__)


class FullLists:
    """Takes them between passes, one after another.

    Args:
        cluster: what takes them, and remembers their versions.
        seconds: between lists that nobody asked for.
        wake: begins the next pass at once.
    """

    def __init__(self, cluster: LiveCluster, seconds: float, wake: Callable[[], None]) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._wake = wake
        self._asked, self._taken = 1, 0
        self._due_at = self._retry_at = 0.0
        self._news = asyncio.Event()

    def ask(self) -> int:
        """Want lists that are begun after this; the number by which they are known."""
        self._asked += 1
        self._wake()
        return self._asked

    async def again(self, resource: Resource) -> str:
        """The resource version of a list that was begun after this was asked: a watch from there on misses nothing."""
        number = self.ask()
        while self._taken < number:
            await self._news.wait()
        return str(self._cluster.listed_at[resource])

    async def take_if_due(self) -> bool:
        """Whether lists were taken. One that fails is tried again in time.

        Raises:
            ClusterError: the first ones failed, without which no pass can be made.
        """
        asked, now = self._asked, time.monotonic()
        if now < self._retry_at or (self._taken == asked and now < self._due_at):
            return False
        try:
            await self._cluster.resync()
        except ClusterError as error:
            if not self._taken:
                raise
            logger.warning("the full lists were not taken: %s", error)
            self._retry_at = now + MAX_FAILURE_SECONDS
            return False
        self._taken, self._due_at = asked, now + self._seconds
        news, self._news = self._news, asyncio.Event()
        news.set()
        return True
