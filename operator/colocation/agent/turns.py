"""So many at once per account (or namespace): more wait their turn, for a while."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from .errors import Refusal


class Turns:
    """Used on the event loop only.

    Args:
        what: they are, for the message.
        most: at once, of one account.
        most_waiting: of one account.
        wait_seconds: how long at most.
    """

    def __init__(self, what: str, most: int, most_waiting: int, wait_seconds: float) -> None:
        self._what = what
        self._most = most
        self._most_waiting = most_waiting
        self._wait_seconds = wait_seconds
        self._semaphores: dict[str, asyncio.Semaphore] = {}
        self._counts: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def turn(self, account: str) -> AsyncIterator[None]:
        """Wait for a turn, and have it until left.

        Raises:
            Refusal: 429, too many wait, or this one has waited for too long.
        """
        if self._counts[account] >= self._most + self._most_waiting:
            raise self._busy(account)
        self._counts[account] += 1
        semaphore = self._semaphores.setdefault(account, asyncio.Semaphore(self._most))
        try:
            try:
                async with asyncio.timeout(self._wait_seconds):
                    await semaphore.acquire()
            except TimeoutError as error:
                raise self._busy(account) from error
            try:
                yield
            finally:
                semaphore.release()
        finally:
            self._counts[account] -= 1
            if not self._counts[account]:
                del self._counts[account], self._semaphores[account]

    def _busy(self, account: str) -> Refusal:
        message = f"{account} has {self._most} {self._what} under way here, as many as allowed; ask again later"
        return Refusal(429, "Busy", message, {"Retry-After": "1"})
