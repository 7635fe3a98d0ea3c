"""Forged tokens cause a bounded number of reviews, at no cost to other callers."""

import asyncio

import pytest

from colocation.agent.authorizer import (
    ACCOUNT_BOUNDS,
    CLOCK_LEEWAY_SECONDS,
    Access,
    AuthenticationUnavailable,
    CachedAuthorizer,
    Identity,
    ReviewGuard,
)
from colocation.common.review_bounds import PEER_BOUNDS, TooManyReviews

from .tokens import token

READ = Access("get", "shop", "orders")
NOW = 1_800_000_000.0
GOOD = token(expires_at=NOW + 3600)
LOADER = Identity("loader")


class ApiServer:
    """Knows one token, and counts its requests; ``gate`` delays its answers."""

    def __init__(self) -> None:
        self.asked = self.at_once = self.most_at_once = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.allowed: set[str] = {"orders"}

    async def identify(self, token: str, peer: str = "") -> Identity | None:
        """See ``Authorizer``."""
        await self._answer()
        return LOADER if token == GOOD else None

    async def may(self, identity: Identity, access: Access) -> bool:
        """See ``Authorizer``."""
        await self._answer()
        return access.table in self.allowed

    async def _answer(self) -> None:
        self.asked += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.gate.wait()
        finally:
            self.at_once -= 1


class Clock:
    """Seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> ApiServer:
    return ApiServer()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def guard(server: ApiServer, clock: Clock) -> ReviewGuard:
    return ReviewGuard(server, "node-1", lambda: NOW, clock)


def forged(number: int) -> str:
    """A token that only the API server recognizes as forged."""
    return token(expires_at=NOW + 3600, number=number)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("secret", id="no JWT"),
        pytest.param(token("https://kubernetes.default.svc", NOW + 60), id="for the API server"),
        pytest.param(token("colocation.dev/node-2", NOW + 60), id="for another node"),
        pytest.param(token(expires_at=NOW - CLOCK_LEEWAY_SECONDS - 1), id="ended"),
    ],
)
async def test_tokens_that_cannot_be_valid_are_not_reviewed(server: ApiServer, guard: ReviewGuard, text: str) -> None:
    """They cost the API server nothing."""
    assert await guard.identify(text, "10.0.0.1") is None
    assert server.asked == 0


@pytest.mark.parametrize(
    "text", [GOOD, token("colocation.dev/node-1", NOW + 60), token(["x", "colocation.dev"], NOW - 60)]
)
async def test_tokens_that_may_be_valid_are_reviewed(server: ApiServer, guard: ReviewGuard, text: str) -> None:
    """Their look proves nothing: the API server decides, also for a node whose clock is some minutes off."""
    assert await guard.identify(text) == (LOADER if text == GOOD else None)
    assert server.asked == 1


async def test_the_wall_clock_is_read_once(server: ApiServer, clock: Clock) -> None:
    """Stepping it refuses no caller; passed time comes from a monotonic clock."""
    wall = Clock()
    wall.now = NOW
    guard = ReviewGuard(server, "node-1", wall, clock)
    wall.now = NOW + 10**6
    assert await guard.identify(GOOD) == LOADER
    clock.now += 3600 + CLOCK_LEEWAY_SECONDS + 1
    assert await guard.identify(GOOD) is None


async def test_only_the_forgers_address_is_limited(server: ApiServer, guard: ReviewGuard, clock: Clock) -> None:
    """A thousand forged tokens from one address cause a bounded number of reviews; other addresses are served."""
    answers = [await _outcome(guard.identify(forged(number), "10.0.0.9")) for number in range(1000)]
    assert server.asked <= PEER_BOUNDS.refusals + 1
    assert answers[-1] is TooManyReviews
    assert await guard.identify(GOOD, "10.0.0.1") == LOADER
    clock.now += 100 / PEER_BOUNDS.refusals_per_second
    assert await guard.identify(GOOD, "10.0.0.9") == LOADER


async def test_callers_without_an_address_are_not_counted_together(server: ApiServer, guard: ReviewGuard) -> None:
    """Behind a proxy that hides addresses a forger must not lock out everybody."""
    for number in range(1000):
        assert await guard.identify(forged(number)) is None
    assert await guard.identify(GOOD) == LOADER


async def test_granted_requests_are_not_limited(server: ApiServer, guard: ReviewGuard) -> None:
    """A thousand pods may share one address."""
    for _ in range(1000):
        assert await guard.identify(GOOD, "10.0.0.1") == LOADER


async def test_reviews_in_progress_are_limited_per_address(server: ApiServer, guard: ReviewGuard) -> None:
    """A slow API server is not overloaded; callers beyond the queue are asked to retry."""
    server.gate.clear()
    count = PEER_BOUNDS.waiting + 10
    tasks = [asyncio.ensure_future(_outcome(guard.identify(forged(n), "10.0.0.9"))) for n in range(count)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert server.asked == PEER_BOUNDS.at_once
    assert sum(task.done() and task.result() is TooManyReviews for task in tasks) == 10
    server.gate.set()
    await asyncio.gather(*tasks)
    assert server.most_at_once == PEER_BOUNDS.at_once


async def test_refused_rights_are_bounded(server: ApiServer, guard: ReviewGuard) -> None:
    """An account asks for one foreign table after the other; another account is served."""
    for number in range(int(ACCOUNT_BOUNDS.refusals) + 50):
        await _outcome(guard.may(LOADER, Access("get", "bank", f"table-{number}")))
    assert server.asked <= ACCOUNT_BOUNDS.refusals + 1
    assert await guard.may(Identity("other"), READ) is True


async def test_failed_reviews_do_not_count_as_refusals(server: ApiServer, guard: ReviewGuard) -> None:
    """While the API server is away no caller's limit is used up."""
    async def fail() -> None:
        raise AuthenticationUnavailable("away")

    server._answer = fail  # type: ignore[method-assign]
    for _ in range(int(PEER_BOUNDS.refusals) + 10):
        with pytest.raises(AuthenticationUnavailable):
            await guard.identify(GOOD, "10.0.0.1")


async def test_forged_tokens_evict_no_good_answer(server: ApiServer, clock: Clock) -> None:
    """Refusals are cached apart from grants."""
    cached = CachedAuthorizer(server, clock)
    assert await cached.identify(GOOD) == LOADER
    for number in range(5000):
        await cached.identify(forged(number))
    asked = server.asked
    assert await cached.identify(GOOD) == LOADER
    assert server.asked == asked


async def _outcome(answer: "asyncio.Future[object]") -> object:  # type: ignore[type-arg]
    try:
        return await answer
    except TooManyReviews:
        return TooManyReviews
