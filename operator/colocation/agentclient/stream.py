"""The body of a GET as it arrives: large files never lie in memory as a whole."""

import contextlib
import hashlib
from collections.abc import Iterator
from types import TracebackType

import urllib3

from .errors import DigestMismatch, Unreachable

CHUNK_BYTES = 1 << 20


class FileStream(contextlib.AbstractContextManager["FileStream"]):
    """One file, or a range of it. Use it as a context manager: leaving it early closes the connection.

    Attributes:
        length: bytes of this answer.
        total_bytes: bytes of the whole file.
        sha256: digest of the whole file as the agent verified it, 64 hex digits; None on ranges.
    """

    def __init__(self, response: urllib3.BaseHTTPResponse, length: int, total_bytes: int, sha256: str | None) -> None:
        self._response = response
        self.length = length
        self.total_bytes = total_bytes
        self.sha256 = sha256

    def chunks(self, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
        """The content in pieces of at most ``chunk_bytes``. Whoever takes them for the whole file checks its digest.

        Raises:
            Unreachable: the connection was cut before the end; the pieces so far are good, ask for the rest by range.
        """
        received = 0
        try:
            for chunk in self._response.stream(chunk_bytes, decode_content=False):
                received += len(chunk)
                yield chunk
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(f"cut off after {received} of {self.length} bytes: {error}") from error

    def read(self) -> bytes:
        """The whole answer.

        Raises:
            Unreachable: the connection was cut before the end.
            DigestMismatch: a whole file became another one after the agent had looked at it.
        """
        content = b"".join(self.chunks())
        if self.sha256 is not None:
            check_digest(hashlib.sha256(content).hexdigest(), self.sha256)
        return content

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back to the pool if the answer was read to its end, else close it."""
        if self._response.length_remaining:
            self._response.close()
        self._response.release_conn()


def check_digest(sha256: str, wanted: str) -> None:
    """Whether what arrived is the file that was wanted.

    Raises:
        DigestMismatch: it is not; another attempt, or another replica, may give it.
    """
    if sha256 != wanted:
        raise DigestMismatch(0, "DigestMismatch", f"the content that arrived is {sha256} instead of {wanted}")
