"""How a pass uses the event loop: in order and inline, as simulations need it, or in threads and in parallel."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

Result = TypeVar("Result")
Work = Callable[[], Awaitable[None]]

MAX_WRITES_AT_ONCE = 16
"""Scopes that are performed at one time: the API server is others', too."""


class Strategy(Protocol):
    """Runs the two long parts of a pass."""

    async def decide(self, decision: Callable[[], Result]) -> Result:
        """The result of a pure function that may take seconds."""

    async def perform(self, works: Sequence[Work]) -> None:
        """Do all of these; none depends on another one, and none raises."""


class InOrder:
    """One thing after the other."""

    async def decide(self, decision: Callable[[], Result]) -> Result:
        """In this very task."""
        return decision()

    async def perform(self, works: Sequence[Work]) -> None:
        """In their order."""
        for work in works:
            await work()


class BesideTheLoop:
    """Decisions in a thread, so that probes, watches and the Lease go on; writes a few at a time."""

    async def decide(self, decision: Callable[[], Result]) -> Result:
        """In a thread."""
        return await asyncio.to_thread(decision)

    async def perform(self, works: Sequence[Work]) -> None:
        """A few at a time, begun in their order."""
        places = asyncio.Semaphore(MAX_WRITES_AT_ONCE)

        async def in_turn(work: Work) -> None:
            async with places:
                await work()

        await asyncio.gather(*(in_turn(work) for work in works))
