"""AgentClient: the agents' API as methods; see docs/reference/agent-api.md."""

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import urllib3

from colocation.model.agent import (
    AgentReport,
    DeletionProof,
    FilePublished,
    FolderManifests,
    InventoryRequest,
    RecycledSchema,
    Removed,
    TableReport,
)
from colocation.model.file_transfer import FileFrame, content_digest, file_frames, sha256_of_content_digest

from . import calls
from .calls import Answer
from .errors import AgentError, DigestMismatch, Unreachable
from .transport import CallerCredentials, Request, Timeouts, Transport, Urls

CHUNK_BYTES = 1 << 20

HASHING_SECONDS = 3600.0
"""How long an agent may hash before it answers."""


class FileStream(contextlib.AbstractContextManager["FileStream"]):
    """The body of a GET as it arrives: one file, or a range of it; large files are never in memory as a whole.

    Use it as a context manager: leaving it early closes the connection.

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
        """The content in pieces of at most ``chunk_bytes``. A caller that needs the whole file checks its digest.

        Raises:
            Unreachable: the connection was cut before the end; the pieces so far are good, request the rest by range.
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
            DigestMismatch: the file changed after the agent had verified it.
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
        """Return the connection to the pool if the answer was read to its end, else close it."""
        if self._response.length_remaining:
            self._response.close()
        self._response.release_conn()


def check_digest(sha256: str, wanted: str) -> None:
    """Check that the received content is the wanted file.

    Raises:
        DigestMismatch: it is not; another attempt or another replica may give it.
    """
    if sha256 != wanted:
        raise DigestMismatch(0, "DigestMismatch", f"the content that arrived is {sha256} instead of {wanted}")


class AgentClient(contextlib.AbstractContextManager["AgentClient"]):
    """One node's agent. Calls are idempotent, and retried until ``Timeouts.retry_deadline_seconds`` have passed.

    Safe to share between threads. All methods raise ``AgentError`` or one of its subclasses.

    Args:
        url: ``https://<node's or pod's IP>:<port>``; or a function that looks the addresses up for every attempt.
        credentials: token and CA; may be shared by many clients.
        timeouts: how long to wait and to retry.
        pool_size: idle connections kept.
        node: the agent's. Its certificate has to name it, and another node's agent at this address refuses. Empty = any
            agent of any release.
    """

    def __init__(
        self,
        url: str | Urls,
        credentials: CallerCredentials,
        timeouts: Timeouts | None = None,
        pool_size: int = 8,
        node: str = "",
    ) -> None:
        self._timeouts = timeouts or Timeouts()
        urls: Urls = (lambda: (url,)) if isinstance(url, str) else url
        self._transport = Transport(urls, credentials, self._timeouts, pool_size, node)

    @property
    def url(self) -> str:
        """Where the next request goes."""
        return self._transport.url

    def get_file(
        self, namespace: str, directory: str, path: str, start: int | None = None, end: int | None = None
    ) -> FileStream:
        """A file's bytes from ``start`` up to, not including, ``end``; None = from the beginning, to the end.

        ``path`` is relative to the table's folder: ``data/…`` or ``manifests/…``.

        Raises:
            NotFound: the agent does not hold the file.
            RangeNotSatisfiable: ``start`` is at or after the file's end.
        """
        headers = {}
        if start is not None or end is not None:
            headers["Range"] = f"bytes={start or 0}-{'' if end is None else end - 1}"
        request = Request("GET", calls.file_target(namespace, directory, path), headers)
        response = self._transport.send(request, {200, 206})
        length = int(response.headers["Content-Length"])
        content_range = response.headers.get("Content-Range")
        total_bytes = int(content_range.rpartition("/")[2]) if content_range else length
        return FileStream(response, length, total_bytes, _sha256_of(response.headers.get("Content-Digest")))

    def get_files(self, namespace: str, directory: str, paths: tuple[str, ...]) -> Iterator[FileFrame]:
        """Several small files of a table, in the order of ``paths``, by one request. Read it to its end.

        Raises:
            AgentError: the agent refuses, or does not know this request (404 ``NoSuchRequest`` of an older release).
            Unreachable: the connection was cut before the end; the files so far are good.
        """
        response = self._transport.send(_request(calls.files_call(namespace, directory, paths)), {200})
        is_read = False
        try:
            yield from file_frames(response.stream(CHUNK_BYTES, decode_content=False))
            is_read = True
        except ValueError as error:
            raise AgentError(200, "UnexpectedAnswer", f"the agent's answer holds no files: {error}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(f"cut off within {len(paths)} files: {error}") from error
        finally:
            if not is_read:
                response.close()  # the rest must not be taken for the next answer
            response.release_conn()

    def put_file(
        self, namespace: str, directory: str, path: str, content: bytes | Path, sha256: str | None = None
    ) -> FilePublished:
        """Publish a file: bytes, or the local file at a Path. ``sha256`` (64 hex digits) is computed if not given.

        Putting the same content again changes nothing.

        Raises:
            Conflict: other content is published under this path.
            DigestMismatch: the received content does not have the digest.
            InsufficientStorage: no room on the node.
        """
        length = content.stat().st_size if isinstance(content, Path) else len(content)
        headers = {
            "Content-Digest": content_digest(sha256 or _sha256(content)),
            "Content-Length": str(length),
            "Content-Type": "application/octet-stream",
        }
        request = Request(
            "PUT",
            calls.file_target(namespace, directory, path),
            headers,
            lambda: content.open("rb") if isinstance(content, Path) else content,
        )
        _, _, body = self._transport.send_for_body(request, {200, 201})
        return calls.parsed(FilePublished, body)

    def verify(self, namespace: str, directory: str, manifest: str, deep: bool = False) -> TableReport:
        """What the agent holds of the manifest (64 hex digits). ``deep`` hashes every file again, for minutes.

        Raises:
            NotFound: the agent does not hold the manifest.
        """
        return self._call(calls.verify_call(namespace, directory, manifest, deep), TableReport, HASHING_SECONDS)

    def inventory(self, request: InventoryRequest, revision: str | None = None) -> AgentReport | None:
        """What the agent holds of the question's tables; None if nothing changed since ``revision``.

        With ``request.wait_seconds`` the agent holds the answer for so long, until something changes.

        Raises:
            UnknownQuestion: the agent does not remember ``request.base``, or another session has replaced this one.
            StaleTerm: the agent has heard of an operator with a newer term.
        """
        call = calls.inventory_call(request, revision)
        read_seconds = self._timeouts.read_seconds + request.wait_seconds
        status, _, body = self._transport.send_for_body(_request(call, read_seconds), call.accepted)
        return None if status == calls.NOT_MODIFIED else calls.parsed(AgentReport, body)

    def status(self) -> AgentReport:
        """Disk, transfers and clones; no tables."""
        return self._call(calls.status_call(), AgentReport)

    def drop_bucket(
        self,
        namespace: str,
        directory: str,
        bucket: int,
        manifests: tuple[str, ...],
        grace_seconds: int,
        proof: DeletionProof,
    ) -> Removed:
        """Delete a table's files of one bucket, without those younger than the grace that no manifest names.

        A load may yet commit those. Deleting nothing is no error.

        Raises:
            StaleOrder: a part of the proof does not hold at the agent.
            StaleTerm: the agent has heard of an operator with a newer term.
        """
        call = calls.drop_bucket_call(namespace, directory, bucket, manifests, grace_seconds, proof)
        return self._call(call, Removed)

    def collect(
        self, namespace: str, directory: str, manifests: tuple[str, ...], grace_seconds: int, proof: DeletionProof
    ) -> Removed:
        """Delete files that none of these live manifests has named for the grace.

        Raises:
            StaleOrder, StaleTerm: as for ``drop_bucket``.
        """
        return self._call(calls.collect_call(namespace, directory, manifests, grace_seconds, proof), Removed)

    def recycle(self, namespace: str, directory: str, keep_seconds: int, proof: DeletionProof) -> None:
        """Move a dropped table's folder aside; the agent purges it after ``keep_seconds``.

        Raises:
            StaleOrder, StaleTerm: as for ``drop_bucket``.
        """
        self._send(calls.recycle_call(namespace, directory, keep_seconds, proof))

    def restore(self, namespace: str, directory: str, successor: str, term: int = 0) -> None:
        """Make a dropped table's folder that of ``successor``, a directory of a table of the same name.

        Raises:
            StaleTerm: the agent has heard of an operator with a newer term.
        """
        self._send(calls.restore_call(namespace, directory, successor, term))

    def manifests(self, namespace: str, directory: str) -> FolderManifests:
        """The readable manifests of a table's folder, in its place or in the recycle bin; at most 100, newest first."""
        return self._call(calls.manifests_call(namespace, directory), FolderManifests)

    def recycled_schema(self, namespace: str, directory: str, manifest: str) -> RecycledSchema:
        """The schema of a dropped table.

        Raises:
            NotFound: the table, or this manifest of it, is not in the agent's recycle bin.
        """
        return self._call(calls.recycled_schema_call(namespace, directory, manifest), RecycledSchema)

    def close(self) -> None:
        """Close the idle connections."""
        self._transport.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, call: calls.Call, kind: type[Answer], read_seconds: float | None = None) -> Answer:
        return calls.parsed(kind, self._send(call, read_seconds))

    def _send(self, call: calls.Call, read_seconds: float | None = None) -> bytes:
        return self._transport.send_for_body(_request(call, read_seconds), call.accepted)[2]


def _request(call: calls.Call, read_seconds: float | None = None) -> Request:
    open_body = (lambda: call.body) if call.body else None
    return Request(call.method, call.target, call.headers, open_body, read_seconds)


def _sha256_of(header: str | None) -> str | None:
    return sha256_of_content_digest(header) if header else None


def _sha256(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
