"""Answers are cached for at most a minute; failures are not cached."""

import asyncio

import pytest

from colocation.agent.authorizer import (
    MAX_ANSWER_SECONDS,
    MAX_CACHED_ANSWERS,
    REFUSAL_SECONDS,
    Access,
    AuthenticationUnavailable,
    CachedAuthorizer,
    Identity,
)

from .harness import ADMIN, ADMIN_TOKEN, FakeAuthorizer

READ = Access("get", "shop", "orders")


class Clock:
    """Monotonic seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_an_answer_is_used_for_a_minute() -> None:
    """Then it is asked for again: a revoked right works for no longer."""
    inner, clock = FakeAuthorizer(), Clock()
    cached = CachedAuthorizer(inner, clock)
    for seconds in (0.0, MAX_ANSWER_SECONDS - 1):
        clock.now = seconds
        assert await cached.identify(ADMIN_TOKEN) == ADMIN
        assert await cached.may(ADMIN, READ) is True
    assert inner.asked == 2
    inner.rights["admin"] = set()
    clock.now = MAX_ANSWER_SECONDS
    assert await cached.may(ADMIN, READ) is False


async def test_a_refusal_is_cached_for_less() -> None:
    """A caller who was just granted the right need not wait a minute."""
    inner, clock = FakeAuthorizer(), Clock()
    cached = CachedAuthorizer(inner, clock)
    assert await cached.identify("forged") is None
    clock.now = REFUSAL_SECONDS - 1
    assert await cached.identify("forged") is None
    assert inner.asked == 1
    clock.now = REFUSAL_SECONDS
    assert await cached.identify("forged") is None
    assert inner.asked == 2


async def test_one_question_at_a_time() -> None:
    """A hundred tasks that start together ask the API server once."""
    inner = FakeAuthorizer()
    cached = CachedAuthorizer(inner)
    answers = await asyncio.gather(*(cached.identify(ADMIN_TOKEN) for _ in range(100)))
    assert set(answers) == {ADMIN}
    assert inner.asked == 1


async def test_failures_are_not_cached() -> None:
    """When the API server is back, callers get in."""
    inner = FakeAuthorizer(available=False)
    cached = CachedAuthorizer(inner)
    with pytest.raises(AuthenticationUnavailable):
        await cached.identify(ADMIN_TOKEN)
    inner.available = True
    assert await cached.identify(ADMIN_TOKEN) == ADMIN


async def test_the_cache_is_bounded() -> None:
    """Many forged tokens evict the oldest answers instead of filling the memory."""
    inner = FakeAuthorizer()
    cached = CachedAuthorizer(inner)
    for number in range(MAX_CACHED_ANSWERS + 1):
        await cached.identify(f"forged {number}")
    asked = inner.asked
    await cached.identify(f"forged {MAX_CACHED_ANSWERS}")
    assert inner.asked == asked
    await cached.identify("forged 0")
    assert inner.asked == asked + 1


async def test_a_caller_that_leaves_does_not_fail_the_others() -> None:
    """The question is shared, its cancellation is not."""
    inner = FakeAuthorizer()
    cached = CachedAuthorizer(inner)
    leaving = asyncio.ensure_future(cached.identify(ADMIN_TOKEN))
    staying = asyncio.ensure_future(cached.identify(ADMIN_TOKEN))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == ADMIN


class ByGroup(FakeAuthorizer):
    """A right that members of one group have, whatever their name."""

    async def may(self, identity: Identity, access: Access) -> bool:
        """See ``Authorizer``."""
        return "loaders" in identity.groups


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Identity("ann", "1", ("readers",)), id="other groups"),
        pytest.param(Identity("ann"), id="no groups"),
    ],
)
async def test_rights_are_cached_by_the_whole_identity(other: Identity) -> None:
    """Two tokens may name one user with different groups and rights."""
    cached = CachedAuthorizer(ByGroup())
    loader = Identity("ann", "1", ("loaders",))
    assert await cached.may(loader, READ) is True
    assert await cached.may(other, READ) is False
    assert await cached.may(loader, READ._replace(verb="update")) is True


async def test_no_token_is_kept() -> None:
    """Only its hash: the process's memory reveals no token."""
    cached = CachedAuthorizer(FakeAuthorizer())
    assert await cached.identify(ADMIN_TOKEN) == ADMIN
    kept = list(cached._identities._granted)
    assert kept and not any(ADMIN_TOKEN in str(key) for key in kept)
