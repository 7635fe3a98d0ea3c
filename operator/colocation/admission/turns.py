"""Turns that callers take, of which no caller has more than its share: one that is slow, or asks much, waits alone."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

WAIT_SECONDS = 30.0
"""No API server waits longer for a webhook (``timeoutSeconds``)."""


class Busy(Exception):
    """There was no turn in time; the message names what to do."""


@dataclass
class Caller:
    """One that has a turn or waits for one. ``present``: how many of its requests do."""

    turns: asyncio.Semaphore
    present: int = 0


class Turns:
    """``at_once`` turns, ``of_one`` of them at most of one caller; those who wait get theirs in order."""

    def __init__(self, at_once: int, of_one: int) -> None:
        self._all = asyncio.Semaphore(at_once)
        self._of_one = of_one
        self._callers: dict[str, Caller] = {}

    @contextlib.asynccontextmanager
    async def taken_by(self, name: str) -> AsyncIterator[None]:
        """Have a turn.

        Raises:
            Busy: there was none within ``WAIT_SECONDS``.
        """
        caller = self._callers.setdefault(name, Caller(asyncio.Semaphore(self._of_one)))
        caller.present += 1
        try:
            async with contextlib.AsyncExitStack() as stack:
                await self._wait(caller, stack)
                yield
        finally:
            caller.present -= 1
            if not caller.present:
                del self._callers[name]

    async def _wait(self, caller: Caller, stack: contextlib.AsyncExitStack) -> None:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                for turns in (caller.turns, self._all):
                    await stack.enter_async_context(turns)
        except TimeoutError:
            raise Busy(f"too much is asked: no turn in {WAIT_SECONDS} s; try again in a moment") from None
