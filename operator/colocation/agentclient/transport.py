"""Connections to one agent: credentials, retries, and errors."""

import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

import urllib3

from colocation.model.names import AGENT_NODE_HEADER, AGENT_TLS_SERVER_NAME, CA_PATH, TOKEN_PATH, agent_certificate_name

from .errors import AgentError, Unauthorized, Unreachable, error_of_response

SEND_BLOCK_BYTES = 1 << 20
MAX_ERROR_BODY_BYTES = 1 << 16
FIRST_DELAY_SECONDS = 0.2
MAX_DELAY_SECONDS = 5.0

Urls = Callable[[], Sequence[str]]
"""An agent's addresses as currently known, the most likely first."""
Outcome = TypeVar("Outcome")

_SOCKET_OPTIONS = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
]
"""A node that vanishes is noticed within a minute, even if an answer may take an hour."""


@dataclass(frozen=True)
class _Version:
    """Identifies one content of a file; the kubelet swaps a symlink, so the inode changes, too."""

    inode: int
    modified_nanoseconds: int
    bytes: int


class CallerCredentials(Protocol):
    """How a caller proves its identity to an agent, and verifies the agent's."""

    def token(self) -> str:
        """The token to send.

        Raises:
            OSError: there is none.
        """

    def tls_context(self) -> ssl.SSLContext:
        """A context that trusts only the agents' CA; a new object when that has changed.

        Raises:
            OSError: there is no CA.
        """

    def certificate_name(self, node: str) -> str:
        """The DNS name that the certificate of this node's agent must have; ``node`` empty = not known."""


class Credentials:
    """Token and CA from files, read again whenever the kubelet renews them.

    Safe to share between threads and between clients.

    Args:
        token_path: file with a ServiceAccount token of audience ``colocation.dev``.
        ca_path: PEM file with the CA that signed the agents' certificate.
    """

    def __init__(self, token_path: str | Path = TOKEN_PATH, ca_path: str | Path = CA_PATH) -> None:
        self._token_path = Path(token_path)
        self._ca_path = Path(ca_path)
        self._lock = threading.Lock()
        self._token: tuple[_Version, str] | None = None
        self._context: tuple[_Version, ssl.SSLContext] | None = None

    def token(self) -> str:
        """The current token.

        Raises:
            OSError: the file cannot be read.
        """
        version = _version(self._token_path)
        with self._lock:
            if self._token is None or self._token[0] != version:
                self._token = (version, self._token_path.read_text().strip())
            return self._token[1]

    def tls_context(self) -> ssl.SSLContext:
        """A context that trusts only the agents' CA; a new object when the CA file has changed.

        Raises:
            OSError: the file cannot be read or holds no certificate (``ssl.SSLError`` is an OSError).
        """
        version = _version(self._ca_path)
        with self._lock:
            if self._context is None or self._context[0] != version:
                context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self._ca_path)
                context.minimum_version = ssl.TLSVersion.TLSv1_2
                self._context = (version, context)
            return self._context[1]

    def certificate_name(self, node: str) -> str:
        """The node's name; without a node, the name that all agents share."""
        return agent_certificate_name(node) if node else AGENT_TLS_SERVER_NAME


def _version(path: Path) -> _Version:
    status = path.stat()
    return _Version(status.st_ino, status.st_mtime_ns, status.st_size)


@dataclass(frozen=True)
class Timeouts:
    """How long to wait. ``read_seconds`` is per read from the socket, not for a whole file.

    ``retry_deadline_seconds``: no new attempt starts later than this after the first; 0 = one attempt.
    """

    connect_seconds: float = 5.0
    read_seconds: float = 60.0
    retry_deadline_seconds: float = 30.0


@dataclass(frozen=True)
class Request:
    """``open_body`` opens the body for each attempt; every request of the agents' API may be repeated.

    ``read_seconds`` replaces ``Timeouts.read_seconds`` for requests that take an agent long.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    open_body: Callable[[], bytes | BinaryIO] | None = None
    read_seconds: float | None = None


class Transport:
    """Sends requests to one agent over pooled connections. Safe to share between threads.

    Args:
        urls: called for every attempt; if one address does not answer, the next is used.
        credentials: token and CA.
        timeouts: how long to wait and to retry.
        pool_size: idle connections kept.
        node: the agent's, which its certificate has to name; empty = any agent's.
        sleep: waits so many seconds.

    Raises:
        ValueError: an address that cannot be an agent's.
    """

    def __init__(
        self,
        urls: Urls,
        credentials: CallerCredentials,
        timeouts: Timeouts,
        pool_size: int,
        node: str = "",
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._urls = urls
        self._turn = 0
        self._node = node
        self._credentials = credentials
        self._timeouts = timeouts
        self._pool_size = pool_size
        self._sleep = sleep
        self._lock = threading.Lock()
        self._pool: urllib3.HTTPSConnectionPool | None = None
        self._pool_made_for: tuple[object, str, str] | None = None
        check_url(self.url)

    @property
    def url(self) -> str:
        """Where the next attempt goes."""
        known = self._urls()
        return known[self._turn % len(known)].rstrip("/")

    def send(self, request: Request, accepted: Iterable[int]) -> urllib3.BaseHTTPResponse:
        """The answer, its body not yet read; the caller must release the connection.

        Raises:
            AgentError: the agent answered with a status that is not accepted.
            Unreachable: no answer within the deadline.
        """
        return self._repeat(lambda: self._attempt(request, frozenset(accepted)))

    def send_for_body(self, request: Request, accepted: Iterable[int]) -> tuple[int, Mapping[str, str], bytes]:
        """(status, headers, whole body) of the answer; errors as for ``send``."""
        return self._repeat(lambda: self._attempt_with_body(request, frozenset(accepted)))

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            if self._pool is not None:
                self._pool.close()
            self._pool = None

    def _repeat(self, attempt: Callable[[], Outcome]) -> Outcome:
        started = time.monotonic()
        delay, attempts = FIRST_DELAY_SECONDS, 1
        while True:
            try:
                return attempt()
            except AgentError as error:
                passed = time.monotonic() - started
                self._turn += error.may_pass
                if not error.may_pass or passed + delay > self._timeouts.retry_deadline_seconds:
                    if attempts > 1:
                        error.message += f"; asked {attempts} times in {passed:.0f} s"
                    raise
            attempts += 1
            self._sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, MAX_DELAY_SECONDS)

    def _attempt_with_body(self, request: Request, accepted: frozenset[int]) -> tuple[int, Mapping[str, str], bytes]:
        response = self._attempt(request, accepted)
        try:
            return response.status, response.headers, response.read(decode_content=False)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(f"{request.method} {request.target}: {error}") from error
        finally:
            response.release_conn()

    def _attempt(self, request: Request, accepted: frozenset[int]) -> urllib3.BaseHTTPResponse:
        response = self._open(request)
        if response.status in accepted:
            return response
        try:
            body = response.read(MAX_ERROR_BODY_BYTES, decode_content=False)
        except (urllib3.exceptions.HTTPError, OSError):
            body = b""  # the status is enough
        finally:
            response.close()
        raise error_of_response(response.status, body)

    def _open(self, request: Request) -> urllib3.BaseHTTPResponse:
        try:
            authorization = f"Bearer {self._credentials.token()}"
            url = self.url
            pool = self._current_pool(url)
        except OSError as error:
            raise Unauthorized(
                401, "NoCredentials", f"cannot read the token or the agents' CA: {error}; mount them as the chart does"
            ) from error
        body = request.open_body() if request.open_body else None
        try:
            return pool.urlopen(
                request.method,
                request.target,
                body=body,
                headers={"Authorization": authorization, **self._addressee, **request.headers},
                timeout=urllib3.Timeout(
                    connect=self._timeouts.connect_seconds, read=request.read_seconds or self._timeouts.read_seconds
                ),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(f"{request.method} {url}{request.target}: {error}") from error
        finally:
            if body is not None and not isinstance(body, bytes):
                body.close()

    @property
    def _addressee(self) -> dict[str, str]:
        return {AGENT_NODE_HEADER: self._node} if self._node else {}

    def _current_pool(self, url: str) -> urllib3.HTTPSConnectionPool:
        """The pool for the current address, CA and name; a change of one of them makes new connections."""
        context, name = self._credentials.tls_context(), self._credentials.certificate_name(self._node)
        with self._lock:
            if self._pool is None or self._pool_made_for != (context, url, name):
                host, port = check_url(url)
                self._pool_made_for = (context, url, name)
                self._pool = urllib3.HTTPSConnectionPool(
                    host,
                    port,
                    maxsize=self._pool_size,
                    ssl_context=context,
                    server_hostname=name,
                    assert_hostname=name,
                    blocksize=SEND_BLOCK_BYTES,
                    socket_options=_SOCKET_OPTIONS,
                )
            return self._pool


def check_url(url: str) -> tuple[str, int]:
    """Host and port of an agent's address.

    Raises:
        ValueError: it is none; tokens never go over plain HTTP.
    """
    parsed = urllib3.util.parse_url(url)
    if parsed.scheme != "https" or parsed.host is None:
        raise ValueError(f"agent URL {url!r} is not allowed; it must be https://<node's or pod's IP>:<port>")
    return parsed.host, parsed.port or 443
