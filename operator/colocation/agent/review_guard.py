"""Keeps callers from making the agent ask the API server without bound.

A token that cannot be good is refused unasked; that it looks good proves nothing, the API server alone decides. What
remains is bounded for each peer and each account: how many questions are under way at a time, and how many may be
answered with no. Whoever asks for what is granted is never turned away for it.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from colocation.model.names import TOKEN_AUDIENCE, node_audience
from colocation.model.tokens import claims_of

from .authorizer import Access, Authorizer, Identity, TooManyReviews

CLOCK_LEEWAY_SECONDS = 600.0
"""A node's clock may be wrong by so much before it refuses tokens as too old; the API server judges by its own."""
MAX_REVIEWS_AT_ONCE = 32
"""Of all peers and accounts together."""
WAIT_SECONDS = 5.0
"""How long a question waits for its turn."""
MAX_REMEMBERED = 4096
LOG_SECONDS = 60.0

_log = logging.getLogger(__name__)


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
ACCOUNT_BOUNDS = Bounds(at_once=8, waiting=512, refusals=100, refusals_per_second=2.0)


class ReviewGuard:
    """Asks another authorizer, within bounds.

    Args:
        authorizer: asks the API server.
        node: the agent's.
        wall: seconds since 1970, asked once.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        authorizer: Authorizer,
        node: str,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authorizer = authorizer
        self._audiences = frozenset({TOKEN_AUDIENCE, node_audience(node)})
        self._clock = clock
        self._wall_minus_clock = wall() - clock()
        self._logged_at = -LOG_SECONDS
        turns = asyncio.Semaphore(MAX_REVIEWS_AT_ONCE)
        self._peers = _Askers("address", PEER_BOUNDS, turns, clock)
        self._accounts = _Askers("account", ACCOUNT_BOUNDS, turns, clock)

    async def identify(self, token: str, peer: str = "") -> Identity | None:
        """See ``Authorizer``."""
        if not self._may_be_good(token):
            return None
        async with self._peers.turn(peer) as asker:
            identity = await self._authorizer.identify(token, peer)
            asker.refused += identity is None
        return identity

    async def may(self, identity: Identity, access: Access) -> bool:
        """See ``Authorizer``."""
        async with self._accounts.turn(identity.user) as asker:
            allowed = await self._authorizer.may(identity, access)
            asker.refused += not allowed
        return allowed

    def _may_be_good(self, token: str) -> bool:
        claims = claims_of(token)
        if claims is None or not claims.audiences & self._audiences:
            return False
        over_seconds = self._clock() + self._wall_minus_clock - claims.expires_at
        if over_seconds <= CLOCK_LEEWAY_SECONDS:
            return True
        if self._clock() - self._logged_at >= LOG_SECONDS:
            self._logged_at = self._clock()
            _log.warning("a token is refused that ended %.0f s ago by this node's clock; is the clock right?",
                         over_seconds)  # fmt: skip
        return False


@dataclass
class _Asker:
    """One peer or account. ``refused`` falls with time, see ``Bounds``."""

    turns: asyncio.Semaphore
    waiting: int = 0
    refused: float = 0.0
    seen_at: float = 0.0


@dataclass
class _Askers:
    """All peers, or all accounts; those that wait for nothing are forgotten, the longest unseen first."""

    kind: str
    bounds: Bounds
    turns: asyncio.Semaphore
    clock: Callable[[], float]
    known: OrderedDict[str, _Asker] = field(default_factory=OrderedDict)

    @contextlib.asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[_Asker]:
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

    async def _wait(self, asker: _Asker, stack: contextlib.AsyncExitStack) -> None:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                for turns in (asker.turns, self.turns):
                    await stack.enter_async_context(turns)
        except TimeoutError:
            raise TooManyReviews(f"no turn for this {self.kind} in {WAIT_SECONDS} s; ask again in a moment") from None

    def _refuse_if_spent(self, asker: _Asker, bounds: Bounds) -> None:
        if asker.refused >= bounds.refusals:
            message = (
                f"{asker.refused:.0f} questions about this {self.kind} were answered with no; allowed: "
                f"{bounds.refusals_per_second} a second; send a valid token, and ask for what it may"
            )
            raise TooManyReviews(message)

    def _seen(self, name: str, bounds: Bounds) -> _Asker:
        now = self.clock()
        asker = self.known.pop(name, None) or _Asker(asyncio.Semaphore(bounds.at_once), seen_at=now)
        forgiven = (now - asker.seen_at) * bounds.refusals_per_second
        asker.refused, asker.seen_at = max(0.0, asker.refused - forgiven), now
        self.known[name] = asker
        if len(self.known) > MAX_REMEMBERED:
            idle = next((one for one, other in self.known.items() if not other.waiting and other is not asker), None)
            if idle is not None:
                del self.known[idle]
        return asker
