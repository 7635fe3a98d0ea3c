"""Who calls and what they may do: reviews by the Kubernetes API, cached, and bounded per caller.

The chain is ``CachedAuthorizer`` over ``ReviewGuard`` over ``KubernetesAuthorizer``.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import aiohttp
from kubernetes.aio import client, config

from colocation.common.review_bounds import PEER_BOUNDS, Askers, Bounds
from colocation.model.credentials import claims_of
from colocation.model.names import API_GROUP, TABLE_DATA_SUBRESOURCE, TABLE_PLURAL, TOKEN_AUDIENCE, node_audience
from colocation.model.wording import in_words

MAX_ANSWER_SECONDS = 60.0
"""How long an answer is cached: a revoked right works for no longer."""
REFUSAL_SECONDS = 10.0
"""Refusals are cached for less: the caller may just have been granted the right."""
MAX_CACHED_ANSWERS = 4096

Answer = TypeVar("Answer")

CLOCK_LEEWAY_SECONDS = 600.0
"""How far a node's clock may be ahead before tokens are refused as expired; the API server uses its own clock."""
MAX_REVIEWS_AT_ONCE = 32
"""For all peers and accounts together."""
LOG_SECONDS = 60.0

ACCOUNT_BOUNDS = Bounds(at_once=8, waiting=512, refusals=100, refusals_per_second=2.0)

REQUEST_SECONDS = 10.0
"""For one review."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Identity:
    """A caller as TokenReview names them.

    ``is_for_this_node``: the token's audience is this agent's node; no other agent accepts it.
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
    """The API server could not be asked; no request is allowed meanwhile."""


class Authorizer(Protocol):
    """Answers the two questions that the agent asks of the Kubernetes API."""

    async def identify(self, token: str, peer: str = "") -> Identity | None:
        """The owner of a token; None if it is not valid for the agents' audience. ``peer``: the caller's address.

        Raises:
            AuthenticationUnavailable: the question could not be asked.
            TooManyReviews: this peer has asked too much.
        """

    async def may(self, identity: Identity, access: Access) -> bool:
        """Whether the caller has the right.

        Raises:
            AuthenticationUnavailable: the question could not be asked.
            TooManyReviews: this account has asked too much.
        """


class CachedAuthorizer:
    """Caches another authorizer's answers for at most a minute, and asks each question once at a time.

    The keys contain all that an answer depends on: the whole token, and the whole identity with its audience.
    """

    def __init__(self, authorizer: Authorizer, clock: Callable[[], float] = time.monotonic) -> None:
        self._authorizer = authorizer
        self._identities: _Answers[Identity | None] = _Answers(clock)
        self._rights: _Answers[bool] = _Answers(clock)

    async def identify(self, token: str, peer: str = "") -> Identity | None:
        """See ``Authorizer``. Only a hash of the token is kept."""
        key = hashlib.sha256(token.encode()).hexdigest()
        return await self._identities.get(key, lambda: self._authorizer.identify(token, peer))

    async def may(self, identity: Identity, access: Access) -> bool:
        """See ``Authorizer``."""
        return await self._rights.get((identity, access), lambda: self._authorizer.may(identity, access))


class _Answers(Generic[Answer]):
    """Answers by question, bounded in number and age. Failures are not cached.

    Refusals are kept apart, so that a caller with many refused requests evicts no other answers.
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
        return await asyncio.shield(self._asked[question])  # a caller that leaves must not fail the others

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


class ReviewGuard:
    """Asks another authorizer, and keeps callers from making the agent ask the API server without bound.

    Tokens that cannot be valid are refused without a review. For each peer and each account the running reviews are
    limited, and the number of refused ones; requests that are granted are never limited for it.

    Args:
        authorizer: asks the API server.
        node: the agent's.
        wall: seconds since 1970, read once.
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
            _log.warning("refused a token that expired %.0f s ago by this node's clock; check the clock",
                         over_seconds)  # fmt: skip
        return False


class KubernetesAuthorizer(contextlib.AbstractAsyncContextManager["KubernetesAuthorizer"]):
    """TokenReview and SubjectAccessReview, by the pod's ServiceAccount, or by ``KUBECONFIG`` if it is set.

    Args:
        node: the agent's.
    """

    def __init__(self, node: str) -> None:
        self._node_audience = node_audience(node)
        self._api: client.ApiClient | None = None

    async def __aenter__(self) -> "KubernetesAuthorizer":
        configuration = client.Configuration()
        kubeconfig = os.environ.get("KUBECONFIG")
        if kubeconfig:
            await config.load_kube_config(config_file=kubeconfig, client_configuration=configuration)
        else:
            config.load_incluster_config(client_configuration=configuration)
        self._api = client.ApiClient(configuration)
        return self

    @property
    def api(self) -> client.ApiClient:
        """The connection to the API server, with the agent's own account."""
        assert self._api is not None, "entered"
        return self._api

    async def __aexit__(self, *_exception: object) -> None:
        if self._api is not None:
            await self._api.close()

    async def identify(self, token: str, peer: str = "") -> Identity | None:
        """See ``Authorizer``. A negative answer is confirmed as in ``may``."""
        return await self._confirmed(lambda: self._identify(token))

    async def _identify(self, token: str) -> Identity | None:
        asked = [TOKEN_AUDIENCE, self._node_audience]
        review = client.V1TokenReview(spec=client.V1TokenReviewSpec(token=token, audiences=asked))
        answer = await self._ask(client.AuthenticationV1Api(self._api).create_token_review, review)
        status = answer.status
        matched = set(status.audiences or ()).intersection(asked)
        if not status.authenticated or not matched:
            return None
        user = status.user
        extra = tuple(sorted((key, tuple(values)) for key, values in (user.extra or {}).items()))
        groups = tuple(user.groups or ())
        return Identity(user.username, user.uid or "", groups, extra, self._node_audience in matched)

    async def may(self, identity: Identity, access: Access) -> bool:
        """See ``Authorizer``. A negative answer counts only after the API server has reported itself ready.

        Before that it has not read all accounts and roles, and grants fewer rights than there are.
        """
        review = self._access_review(identity, access)
        create = client.AuthorizationV1Api(self._api).create_subject_access_review

        async def is_allowed() -> bool:
            return bool((await self._ask(create, review)).status.allowed)

        return await self._confirmed(is_allowed)

    async def _confirmed(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer; a negative one is asked for again once the API server is ready."""
        answer = await ask()
        if answer:
            return answer
        await self._check_ready()
        return await ask()

    def _access_review(self, identity: Identity, access: Access) -> client.V1SubjectAccessReview:
        spec = client.V1SubjectAccessReviewSpec(
            user=identity.user,
            uid=identity.uid,
            groups=list(identity.groups),
            extra={key: list(values) for key, values in identity.extra},
            resource_attributes=client.V1ResourceAttributes(
                group=API_GROUP,
                resource=TABLE_PLURAL,
                subresource=TABLE_DATA_SUBRESOURCE,
                verb=access.verb,
                namespace=access.namespace,
                name=access.table,
            ),
        )
        return client.V1SubjectAccessReview(spec=spec)

    async def _check_ready(self) -> None:
        request = await self.api.param_serialize("GET", "/readyz", auth_settings=["BearerToken"])
        try:
            response = await self.api.call_api(*request, _request_timeout=REQUEST_SECONDS)
            await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(error) from error
        if response.status != HTTPStatus.OK:
            raise AuthenticationUnavailable(
                f"the API server answered {response.status} to /readyz: it has just started, and has not read all "
                "accounts and roles yet; ask again in a moment"
            )

    async def _ask(self, create: Callable[..., Awaitable[Any]], review: object) -> Any:  # the client is untyped
        try:
            return await create(review, _request_timeout=REQUEST_SECONDS)
        except client.ApiException as error:
            raise AuthenticationUnavailable(
                f"the API server answered {error.status} {error.reason} to a {type(review).__name__}; "
                "may the agent's ServiceAccount create tokenreviews and subjectaccessreviews?"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(error) from error


def _unreachable(error: Exception) -> AuthenticationUnavailable:
    return AuthenticationUnavailable(f"the API server cannot be reached: {in_words(error)}")
