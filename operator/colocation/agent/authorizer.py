"""Who calls and what they may do: the seam between the server and the Kubernetes API."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

MAX_ANSWER_SECONDS = 60.0
"""How long an answer may be used: a revoked right works for no longer."""
REFUSAL_SECONDS = 10.0
"""A refusal is asked for again sooner: the caller may just have been granted the right."""
MAX_CACHED_ANSWERS = 4096

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Identity:
    """A caller as TokenReview names them.

    ``is_for_this_node``: the token has the audience of this agent's node, and is worth nothing at any other agent.
    """

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    is_for_this_node: bool = False


class Access(NamedTuple):
    """A right on ``colocatedtables/data``; namespace '' = all namespaces, table '' = all tables."""

    verb: str
    namespace: str = ""
    table: str = ""


class AuthenticationUnavailable(Exception):
    """The API server could not be asked; nobody is let in meanwhile."""


class Authorizer(Protocol):
    """Answers the two questions that the agent asks of the Kubernetes API."""

    async def identify(self, token: str, peer: str = "") -> Identity | None:
        """Whose token it is; None when it is not valid for the agents' audience. ``peer``: the address it came from.

        Raises:
            AuthenticationUnavailable: the question could not be asked.
            TooManyReviews: it is not asked for this peer now.
        """

    async def may(self, identity: Identity, access: Access) -> bool:
        """Whether they have the right.

        Raises:
            AuthenticationUnavailable: the question could not be asked.
            TooManyReviews: it is not asked for this account now.
        """


class CachedAuthorizer:
    """Remembers another authorizer's answers for at most a minute, and asks each question once at a time.

    The keys hold all that an answer depends on: the whole token, and the whole identity with what its token is for.
    """

    def __init__(self, authorizer: Authorizer, clock: Callable[[], float] = time.monotonic) -> None:
        self._authorizer = authorizer
        self._identities: _Answers[Identity | None] = _Answers(clock)
        self._rights: _Answers[bool] = _Answers(clock)

    async def identify(self, token: str, peer: str = "") -> Identity | None:
        """See ``Authorizer``. The token is kept only as a hash."""
        key = hashlib.sha256(token.encode()).hexdigest()
        return await self._identities.get(key, lambda: self._authorizer.identify(token, peer))

    async def may(self, identity: Identity, access: Access) -> bool:
        """See ``Authorizer``."""
        return await self._rights.get((identity, access), lambda: self._authorizer.may(identity, access))


class _Answers(Generic[Answer]):
    """Answers by question, bounded in number and age. Failures to ask are not kept.

    Refusals have a place of their own: whoever sends much that is refused pushes out no answer of anybody else.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._granted: OrderedDict[object, tuple[float, Answer]] = OrderedDict()
        self._refused: OrderedDict[object, tuple[float, Answer]] = OrderedDict()
        self._asked: dict[object, asyncio.Future[Answer]] = {}

    async def get(self, question: object, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        known = self._granted.get(question) or self._refused.get(question)
        if known is not None and self._clock() < known[0]:
            return known[1]
        if question not in self._asked:
            asked = asyncio.ensure_future(ask())
            self._asked[question] = asked
            asked.add_done_callback(lambda future: self._settle(question, future))
        return await asyncio.shield(self._asked[question])  # one caller's going away must not fail the others

    def _settle(self, question: object, asked: "asyncio.Future[Answer]") -> None:
        del self._asked[question]
        if asked.cancelled() or asked.exception() is not None:
            return
        answer = asked.result()
        self._granted.pop(question, None)
        self._refused.pop(question, None)
        lifetime_seconds = MAX_ANSWER_SECONDS if answer else REFUSAL_SECONDS
        known = self._granted if answer else self._refused
        known[question] = (self._clock() + lifetime_seconds, answer)
        while len(known) > MAX_CACHED_ANSWERS:
            known.popitem(last=False)
