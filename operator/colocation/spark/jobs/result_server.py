"""The driver's side of a statement's result: one reader fetches it, chunk by chunk, through a port-forward.

No row is printed, and at most one chunk is held. The job ends if the reader does not come, or stops coming.
"""

import sys
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from colocation.model.driver_output import RESULT_PORT, chunk_path, is_token

READER_SECONDS = 600.0
"""How long the driver keeps a chunk that is not fetched: a reader whose output is a pager may be slow."""
FAREWELL_SECONDS = 10.0
"""How long the driver waits until the reader confirms the last chunk."""
HOLD_SECONDS = 1.0
"""How long a request waits for its chunk; then the reader asks again, and sees in between how the job goes on."""
IDLE_SECONDS = 60.0
"""How long a connection may be silent; the reader makes another one."""


class NoReader(Exception):
    """The result is not fetched."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    result: "ResultServer"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader whose connection breaks asks again: in the driver's log a traceback would look like its failure."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class ResultServer:
    """Serves one result to the holder of the token, on this machine's loopback: ``with ResultServer(digest) as …``.

    Raises:
        OSError: the port is taken.
    """

    def __init__(
        self, digest: str, *, port: int = RESULT_PORT, reader_seconds: float = READER_SECONDS,
        farewell_seconds: float = FAREWELL_SECONDS, hold_seconds: float = HOLD_SECONDS,
    ) -> None:  # fmt: skip
        self.digest = digest
        self._reader_seconds, self._farewell_seconds = reader_seconds, farewell_seconds
        self._hold_seconds = hold_seconds
        self._changed = threading.Condition()
        self._number = -1
        self._chunk = b""
        self._asked = 0
        """The number that the reader asked for last: everything before it has arrived."""
        self._served = -1
        self._heard_seconds = time.monotonic()
        self._ended = False
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.result = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def __enter__(self) -> "ResultServer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def send(self, chunks: Iterable[bytes]) -> None:
        """Hand out the chunks in order; returns when the last one has arrived, as far as can be known.

        Raises:
            NoReader: a chunk was not fetched in time.
        """
        waiting: bytes | None = None
        for chunk in chunks:
            if waiting is not None:
                self._offer(waiting)
            waiting = chunk
        if waiting is not None:
            self._offer(waiting, is_last=True)

    def _offer(self, chunk: bytes, *, is_last: bool = False) -> None:
        with self._changed:
            self._number += 1
            self._chunk, number = chunk, self._number
            self._changed.notify_all()
            offered_seconds = time.monotonic()
            while self._asked <= number:
                farewell = is_last and self._served == number
                allowed_seconds = self._farewell_seconds if farewell else self._reader_seconds
                left_seconds = max(self._heard_seconds, offered_seconds) + allowed_seconds - time.monotonic()
                if left_seconds <= 0 and not farewell:
                    raise NoReader(
                        f"the result was not fetched for {self._reader_seconds:g} s: `colocation sql` ended or lost "
                        "its connection; the rows are not printed anywhere"
                    )
                if left_seconds <= 0:
                    break
                self._changed.wait(left_seconds)
            self._ended = is_last
            self._changed.notify_all()

    def fetch(self, number: int) -> tuple[HTTPStatus, bytes]:
        """The answer to a reader that asks for chunk ``number``."""
        with self._changed:
            self._heard_seconds = time.monotonic()
            if number not in (self._asked, self._asked + 1) or number > self._served + 1:
                return HTTPStatus.CONFLICT, b"this chunk was fetched before, or comes later\n"
            self._asked = number
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._number >= number or self._ended, self._hold_seconds)
            self._heard_seconds = time.monotonic()
            if self._number == number:
                self._served = number
                return HTTPStatus.OK, self._chunk
            return (HTTPStatus.NO_CONTENT if self._ended else HTTPStatus.ACCEPTED), b""


class _Handler(BaseHTTPRequestHandler):
    """``GET /v1/result/<number>`` with the token: 200 the chunk, 202 not yet, 204 there is none after it."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        """Answer one request."""
        result = self.server.result
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if not is_token(token, result.digest):
            self._answer(HTTPStatus.UNAUTHORIZED, b"the result is for the one who asked for it\n")
            return
        number = self.path.rpartition("/")[2]
        if not (number.isascii() and number.isdecimal()) or self.path != chunk_path(int(number)):
            self._answer(HTTPStatus.NOT_FOUND, b"")
            return
        self._answer(*result.fetch(int(number)))

    def _answer(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """The log is for what goes wrong."""
