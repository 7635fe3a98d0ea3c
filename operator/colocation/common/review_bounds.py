"""Bounds on the questions that callers make our servers ask the API server (TokenReview, SubjectAccessReview).

Only refusals count against a caller, and the number of its questions that are under way at a time: one who asks for
what is granted is never turned away for it.
"""

import asyncio
import contextlib
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

WAIT_SECONDS = 5.0
"""How long a question waits for its turn."""
MAX_REMEMBERED = 4096


class TooManyReviews(Exception):
    """The API server is not asked: this peer, or this account, has asked too much that was refused."""


@dataclass(frozen=True)
class Bounds:
    """Of one peer or account. ``refusals`` are allowed at once, ``refusals_per_second`` in the long run."""

    at_once: int
    waiting: int
    refusals: float
    refusals_per_second: float


PEER_BOUNDS = Bounds(at_once=4, waiting=128, refusals=20, refusals_per_second=0.5)
"""Many pods may come from one address, where a network plugin masks theirs by their node's."""
UNKNOWN_PEER_BOUNDS = Bounds(at_once=16, waiting=1024, refusals=math.inf, refusals_per_second=0.0)
"""Of callers whose address is not known: one of them must not use up what the others may be refused."""


@dataclass
class Asker:
    """One peer or account. ``refused`` falls with time, see ``Bounds``."""

    turns: asyncio.Semaphore
    waiting: int = 0
    refused: float = 0.0
    seen_at: float = 0.0


@dataclass
class Askers:
    """All peers, or all accounts; those that wait for nothing are forgotten, the longest unseen first."""

    kind: str
    bounds: Bounds
    turns: asyncio.Semaphore
    clock: Callable[[], float]
    known: OrderedDict[str, Asker] = field(default_factory=OrderedDict)

    @contextlib.asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[Asker]:
        """Wait for a turn of this one.

        Raises:
            TooManyReviews: too much is refused to it, or waits already.
        """
        bounds = self.bounds if name else UNKNOWN_PEER_BOUNDS
        asker = self._seen(name, bounds)
        if asker.waiting >= bounds.waiting:
            raise TooManyReviews(f"{asker.waiting} questions of this {self.kind} wait already; ask again in a moment")
        asker.waiting += 1
        try:
            async with contextlib.AsyncExitStack() as stack:
                await self._wait(asker, stack)
                self._refuse_if_spent(asker, bounds)
                yield asker
        finally:
            asker.waiting -= 1

    async def _wait(self, asker: Asker, stack: contextlib.AsyncExitStack) -> None:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                for turns in (asker.turns, self.turns):
                    await stack.enter_async_context(turns)
        except TimeoutError:
            raise TooManyReviews(f"no turn for this {self.kind} in {WAIT_SECONDS} s; ask again in a moment") from None

    def _refuse_if_spent(self, asker: Asker, bounds: Bounds) -> None:
        if asker.refused >= bounds.refusals:
            message = (
                f"{asker.refused:.0f} questions about this {self.kind} were answered with no; allowed: "
                f"{bounds.refusals_per_second} a second; send a valid token, and ask for what it may"
            )
            raise TooManyReviews(message)

    def _seen(self, name: str, bounds: Bounds) -> Asker:
        now = self.clock()
        asker = self.known.pop(name, None) or Asker(asyncio.Semaphore(bounds.at_once), seen_at=now)
        forgiven = (now - asker.seen_at) * bounds.refusals_per_second
        asker.refused, asker.seen_at = max(0.0, asker.refused - forgiven), now
        self.known[name] = asker
        if len(self.known) > MAX_REMEMBERED:
            idle = next((one for one, other in self.known.items() if not other.waiting and other is not asker), None)
            if idle is not None:
                del self.known[idle]
        return asker
