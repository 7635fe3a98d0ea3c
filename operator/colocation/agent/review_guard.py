"""Keeps callers from making the agent ask the API server without bound.

A token that cannot be good is refused unasked; that it looks good proves nothing, the API server alone decides. What
remains is bounded for each peer and each account: how many questions are under way at a time, and how many may be
answered with no. Whoever asks for what is granted is never turned away for it.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from colocation.common.review_bounds import PEER_BOUNDS, Askers, Bounds
from colocation.model.names import TOKEN_AUDIENCE, node_audience
from colocation.model.tokens import claims_of

from .authorizer import Access, Authorizer, Identity

CLOCK_LEEWAY_SECONDS = 600.0
"""A node's clock may be wrong by so much before it refuses tokens as too old; the API server judges by its own."""
MAX_REVIEWS_AT_ONCE = 32
"""Of all peers and accounts together."""
LOG_SECONDS = 60.0

_log = logging.getLogger(__name__)


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
        self._peers = Askers("address", PEER_BOUNDS, turns, clock)
        self._accounts = Askers("account", ACCOUNT_BOUNDS, turns, clock)

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
