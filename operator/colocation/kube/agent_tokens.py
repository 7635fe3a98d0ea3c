"""The operator's tokens for agents: one for each node, which no other node's agent takes.

Root on a node sees what its agent is sent. A token with the audience of that node is worth nothing at any
other. The API server makes them (TokenRequest) when an agent is first asked; they are kept in memory only, and end with
the operator's pod.
"""

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from ..agentclient import CallerCredentials, Unauthorized
from ..model.credentials import claims_of
from ..model.names import AGENT_TLS_SERVER_NAME, agent_certificate_name, node_audience
from ..state.objects import ObservedAgent
from .api import Api, ApiError

LIFETIME_SECONDS = 12 * 3600
"""As asked for; the API server may give less or more."""
FIRST_RENEWAL = (0.1, 0.8)
LATER_RENEWALS = (0.76, 0.84)
"""Shares of a token's life after which it is renewed. An operator that starts asks for all tokens at once: their first
renewals are spread over most of their life, and the later ones keep that distance: 2 calls a minute for 1,000 nodes."""
MIN_LIFE_SECONDS = 60.0
END_MARGIN_SECONDS = 30.0
"""A token is used no longer than so long before its end."""
RETRY_SECONDS = 60.0
"""Between two requests for one node's token, while the one that is held is good or is refused."""
MAX_REQUESTS_AT_ONCE = 8
MIN_TIDY = 64
"""URLs that are remembered before those of agents that have gone are looked for."""


@dataclass(frozen=True)
class TokenAccount:
    """Whose tokens: a ServiceAccount, and the pod with which they end ("" = none)."""

    namespace: str
    name: str
    pod: str = ""


@dataclass
class _Held:
    """A token; moments of the clock."""

    token: str
    asked_at: float
    renew_at: float
    ends_at: float


class AgentTokens:
    """Tokens by the URL of the agent that they are sent to.

    Args:
        api: makes them.
        account: the operator's own.
        general: for agents of the release before, which know no audience of their node; and the agents' CA.
        agent_at: the agent's pod at a URL, from the API server: what an agent claims of itself is not trusted.
        clock: seconds that never go back.
        random: spreads the renewals.
    """

    def __init__(
        self,
        api: Api,
        account: TokenAccount,
        general: CallerCredentials,
        agent_at: Callable[[str], ObservedAgent | None],
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
    ) -> None:
        self._api = api
        self._account = account
        self._general = general
        self._agent_at = agent_at
        self._clock = clock
        self._random = random or Random()
        self._agents: dict[str, ObservedAgent] = {}
        self._held: dict[str, _Held] = {}
        self._tidy_at = MIN_TIDY
        self._requests = asyncio.Semaphore(MAX_REQUESTS_AT_ONCE)

    async def token(self, url: str) -> str:
        """The token for the agent at this URL.

        Raises:
            Unauthorized: the API server gives none, or no agent's pod is there.
            OSError: the general token cannot be read.
        """
        agent = self._agent_at(url)
        if agent is None:
            self._agents.pop(url, None)
            raise _no_token(f"no agent's pod is known at {url}")
        self._note(url, agent)
        if not agent.takes_node_tokens:
            return self._general.token()
        held = self._held.get(agent.node)
        if held is None or self._clock() >= min(held.renew_at, held.ends_at):
            held = await self._renewed(agent.node)
        return held.token

    def known_token(self, url: str) -> str:
        """The token that ``token`` gave for this URL. May be called in any thread.

        Raises:
            Unauthorized: it gave none yet, or the token has ended.
            OSError: the general token cannot be read.
        """
        agent = self._agents.get(url)
        if agent is not None and not agent.takes_node_tokens:
            return self._general.token()
        held = self._held.get(agent.node) if agent is not None else None
        if held is None or self._clock() >= held.ends_at:
            raise _no_token(f"the agent at {url} has not been asked anything yet")
        return held.token

    def certificate_name(self, url: str) -> str:
        """The DNS name that the certificate of the agent at this URL must have. May be called in any thread.

        It is that of the node as the API server tells it; agents of the release before have none.

        Raises:
            Unauthorized: the agent has not been asked anything yet.
        """
        agent = self._agents.get(url)
        if agent is None:
            raise _no_token(f"the agent at {url} has not been asked anything yet")
        return AGENT_TLS_SERVER_NAME if agent.shares_certificate else agent_certificate_name(agent.node)

    def credentials(self, url: str) -> CallerCredentials:
        """What ``AgentClient`` needs to talk with the agent at this URL, in any thread."""
        return _AgentCredentials(self, url, self._general)

    def refused(self, url: str) -> None:
        """The agent at this URL did not take its token: ask for another one, but not all the time."""
        agent = self._agents.get(url)
        held = self._held.get(agent.node) if agent is not None else None
        if held is not None:
            held.renew_at = min(held.renew_at, held.asked_at + RETRY_SECONDS)

    def _note(self, url: str, agent: ObservedAgent) -> None:
        self._agents[url] = agent
        if len(self._agents) < self._tidy_at:
            return
        self._agents = {one: known for one in self._agents if (known := self._agent_at(one)) is not None}
        nodes = {known.node for known in self._agents.values()}
        self._held = {node: held for node, held in self._held.items() if node in nodes}
        self._tidy_at = max(MIN_TIDY, 2 * len(self._agents))

    async def _renewed(self, node: str) -> _Held:
        async with self._requests:
            held, now = self._held.get(node), self._clock()
            if held is not None and now < min(held.renew_at, held.ends_at):
                return held  # somebody else was quicker
            try:
                token, life_seconds = await self._request(node)
            except ApiError as error:
                if held is None or now >= held.ends_at:
                    message = f"the API server gives no token for the agent of node {node}: {error}"
                    raise _no_token(f"{message}; may the operator create serviceaccounts/token of its own?") from error
                held.renew_at = now + RETRY_SECONDS
                return held
            share = self._random.uniform(*(FIRST_RENEWAL if held is None else LATER_RENEWALS))
            ends_at = now + max(life_seconds - END_MARGIN_SECONDS, MIN_LIFE_SECONDS)
            renewed = _Held(token, now, now + max(share * life_seconds, MIN_LIFE_SECONDS), ends_at)
            self._held[node] = renewed
            return renewed

    async def _request(self, node: str) -> tuple[str, float]:
        """(token, seconds that it is good for)."""
        spec: dict[str, Any] = {"audiences": [node_audience(node)], "expirationSeconds": LIFETIME_SECONDS}
        if self._account.pod:
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": self._account.pod}
        answer = await self._api.create_token(self._account.namespace, self._account.name, spec)
        token = (answer.get("status") or {}).get("token")
        if not isinstance(token, str) or not token:
            raise ApiError(0, "its answer holds no token")
        claims = claims_of(token)
        if claims is not None and claims.issued_at is not None:
            return token, claims.expires_at - claims.issued_at  # both by the clock of the API server
        given = (answer.get("spec") or {}).get("expirationSeconds")
        return token, float(given) if isinstance(given, int) else LIFETIME_SECONDS


@dataclass(frozen=True)
class _AgentCredentials:
    """Credentials for one agent."""

    tokens: AgentTokens
    url: str
    general: CallerCredentials

    def token(self) -> str:
        return self.tokens.known_token(self.url)

    def tls_context(self) -> ssl.SSLContext:
        return self.general.tls_context()

    def certificate_name(self, _node: str) -> str:
        return self.tokens.certificate_name(self.url)


def _no_token(message: str) -> Unauthorized:
    return Unauthorized(401, "NoCredentials", message)
