"""Requests to agents on the event loop: thousands of held questions at once, and dead peers noticed within seconds."""

import asyncio
import socket
from typing import Protocol

import aiohttp

from ..agentclient import AgentError, CallerCredentials, Unauthorized, Unreachable, error_of_response
from ..agentclient.calls import Call
from .agent_tokens import AgentTokens

UNAUTHORIZED = 401
CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 10.0
"""How long an agent may take beyond the time that it was asked to hold its answer; then it counts as hung."""
BODY_SECONDS = 20.0
"""How long a whole answer may take on its way."""
MAX_ANSWER_BYTES = 64 << 20
IDLE_SECONDS = 60.0

DEAD_PEER_SECONDS = 14
_SOCKET_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 3),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_PEER_SECONDS * 1000),
)
"""A node that vanishes answers no probe and acknowledges nothing: its connections end within DEAD_PEER_SECONDS."""


class AgentChannel(Protocol):
    """How questions reach agents; the real one is ``HttpChannel``, simulations have their own."""

    async def send(self, url: str, call: Call, wait_seconds: float) -> tuple[int, bytes]:
        """(status, body) of the accepted answer of the agent at ``url``, which may hold it for ``wait_seconds``.

        Raises:
            AgentError: any other answer, or none.
        """

    async def close(self) -> None:
        """Close the connections; the next call opens new ones."""


class HttpChannel:
    """HTTPS by pod IP; the token and the agents' CA are read again when their files change.

    Args:
        credentials: of the operator: the agents' CA, and the token where there are no ``tokens``.
        tokens: for each agent its own.
    """

    def __init__(self, credentials: CallerCredentials, tokens: AgentTokens | None = None) -> None:
        self._credentials = credentials
        self._tokens = tokens
        self._session: aiohttp.ClientSession | None = None

    async def send(self, url: str, call: Call, wait_seconds: float) -> tuple[int, bytes]:
        """See ``AgentChannel``."""
        try:
            token = await self._tokens.token(url) if self._tokens else self._credentials.token()
            context = self._credentials.tls_context()
            name = self._tokens.certificate_name(url) if self._tokens else self._credentials.certificate_name("")
        except OSError as error:
            message = f"cannot read the token or the agents' CA: {error}; mount them as the chart does"
            raise Unauthorized(401, "NoCredentials", message) from error
        try:
            async with self._current_session().request(
                call.method,
                url + call.target,
                data=call.body,
                headers={"Authorization": f"Bearer {token}", "Accept-Encoding": "identity", **call.headers},
                timeout=aiohttp.ClientTimeout(
                    total=wait_seconds + BODY_SECONDS,
                    sock_connect=CONNECT_SECONDS,
                    sock_read=wait_seconds + ANSWER_SECONDS,
                ),
                ssl=context,
                server_hostname=name,
                allow_redirects=False,
            ) as response:
                status, body = response.status, await _bounded_body(response)
        except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError, OSError) as error:
            raise Unreachable(f"{call.method} {url}{call.target}: {str(error) or repr(error)}") from error
        if status not in call.accepted:
            if status == UNAUTHORIZED and self._tokens:
                self._tokens.refused(url)
            raise error_of_response(status, body)
        return status, body

    async def close(self) -> None:
        """See ``AgentChannel``."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _current_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=0, keepalive_timeout=IDLE_SECONDS, socket_factory=_open_socket, use_dns_cache=False
            )
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
            )
        return self._session


async def _bounded_body(response: aiohttp.ClientResponse) -> bytes:
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            response.close()
            message = f"the answer has more than the {MAX_ANSWER_BYTES} bytes that are allowed"
            raise AgentError(response.status, "AnswerTooLarge", message)
        chunks.append(chunk)
    return b"".join(chunks)


def _open_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    for option in _SOCKET_OPTIONS:
        opened.setsockopt(*option)
    return opened
