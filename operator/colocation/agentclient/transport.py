"""Connections, retries and errors of requests to one agent."""

import random
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import BinaryIO

import urllib3

from colocation.model.names import AGENT_TLS_SERVER_NAME

from .credentials import Credentials
from .errors import RETRIABLE_STATUSES, AgentError, Unauthorized, Unreachable, error_of_response

SEND_BLOCK_BYTES = 1 << 20
MAX_ERROR_BODY_BYTES = 1 << 16
FIRST_DELAY_SECONDS = 0.2
MAX_DELAY_SECONDS = 5.0

_SOCKET_OPTIONS = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
]
"""A node that vanishes is noticed within a minute, also where an answer may take an hour."""


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
    """``open_body`` gives the body anew for each attempt; every request of the agents' API may be repeated.

    ``read_seconds`` replaces ``Timeouts.read_seconds`` for requests that an agent works on for long.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    open_body: Callable[[], bytes | BinaryIO] | None = None
    read_seconds: float | None = None


class Transport:
    """Sends requests to one agent over pooled connections; safe to share between threads."""

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        timeouts: Timeouts,
        pool_size: int,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parsed = urllib3.util.parse_url(url)
        if parsed.scheme != "https" or parsed.host is None:
            raise ValueError(f"agent URL {url!r} is not allowed; it must be https://<pod IP>:<port>")
        self._host = parsed.host
        self._port = parsed.port or 443
        self._url = url.rstrip("/")
        self._credentials = credentials
        self._timeouts = timeouts
        self._pool_size = pool_size
        self._sleep = sleep
        self._lock = threading.Lock()
        self._pool: urllib3.HTTPSConnectionPool | None = None
        self._pool_context: object = None

    def send(self, request: Request, accepted: Iterable[int]) -> urllib3.BaseHTTPResponse:
        """The answer, its body not yet read; the caller must release the connection.

        Raises:
            AgentError: the agent answered with another status than those accepted.
            Unreachable: no answer within the deadline.
        """
        started = time.monotonic()
        delay = FIRST_DELAY_SECONDS
        while True:
            try:
                return self._attempt(request, frozenset(accepted))
            except AgentError as error:
                if error.status and error.status not in RETRIABLE_STATUSES:
                    raise
                if time.monotonic() - started + delay > self._timeouts.retry_deadline_seconds:
                    raise
            self._sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, MAX_DELAY_SECONDS)

    def send_for_body(self, request: Request, accepted: Iterable[int]) -> tuple[int, Mapping[str, str], bytes]:
        """(status, headers, whole body) of the answer; errors as for ``send``."""
        response = self.send(request, accepted)
        try:
            return response.status, response.headers, response.read(decode_content=False)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(f"{request.method} {self._url}{request.target}: {error}") from error
        finally:
            response.release_conn()

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            if self._pool is not None:
                self._pool.close()
            self._pool = None

    def _attempt(self, request: Request, accepted: frozenset[int]) -> urllib3.BaseHTTPResponse:
        response = self._open(request)
        if response.status in accepted:
            return response
        try:
            body = response.read(MAX_ERROR_BODY_BYTES, decode_content=False)
        except (urllib3.exceptions.HTTPError, OSError):
            body = b""  # the status alone says enough
        finally:
            response.close()
        raise error_of_response(response.status, body)

    def _open(self, request: Request) -> urllib3.BaseHTTPResponse:
        try:
            authorization = f"Bearer {self._credentials.token()}"
            pool = self._current_pool()
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
                headers={"Authorization": authorization, **request.headers},
                timeout=urllib3.Timeout(
                    connect=self._timeouts.connect_seconds, read=request.read_seconds or self._timeouts.read_seconds
                ),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(f"{request.method} {self._url}{request.target}: {error}") from error
        finally:
            if body is not None and not isinstance(body, bytes):
                body.close()

    def _current_pool(self) -> urllib3.HTTPSConnectionPool:
        """The pool for the CA as it stands now: a renewed CA gets new connections."""
        context = self._credentials.tls_context()
        with self._lock:
            if self._pool is None or self._pool_context is not context:
                self._pool_context = context
                self._pool = urllib3.HTTPSConnectionPool(
                    self._host,
                    self._port,
                    maxsize=self._pool_size,
                    ssl_context=context,
                    server_hostname=AGENT_TLS_SERVER_NAME,
                    assert_hostname=AGENT_TLS_SERVER_NAME,
                    blocksize=SEND_BLOCK_BYTES,
                    socket_options=_SOCKET_OPTIONS,
                )
            return self._pool
