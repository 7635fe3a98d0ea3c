"""AgentClient: the agents' API as methods; see ARCHITECTURE.md, "Agent API"."""

import contextlib
import hashlib
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from colocation.model.agent import (
    AgentReport,
    CollectRequest,
    FilePublished,
    InventoryRequest,
    RecycledSchema,
    RecycleRequest,
    Removed,
    RestoreRequest,
    TableReport,
    VerifyRequest,
)
from colocation.model.content_digest import content_digest, sha256_of_content_digest
from colocation.model.table_manifest import manifest_path

from .credentials import Credentials
from .errors import AgentError
from .stream import FileStream
from .transport import Request, Timeouts, Transport

HASHING_SECONDS = 3600.0
"""How long an agent may hash before it answers."""

Answer = TypeVar("Answer", bound=BaseModel)


class FileHead(NamedTuple):
    """``sha256`` is 64 hex digits."""

    bytes: int
    sha256: str | None


class AgentClient(contextlib.AbstractContextManager["AgentClient"]):
    """One node's agent. Every call may be repeated, and is, until ``Timeouts.retry_deadline_seconds`` have passed.

    Safe to share between threads. All methods raise ``AgentError`` or one of its subclasses.

    Args:
        url: ``https://<pod IP>:<port>``.
        credentials: token and CA; may be shared by many clients.
        timeouts: how long to wait and to retry.
        pool_size: idle connections kept.
    """

    def __init__(
        self, url: str, credentials: Credentials, timeouts: Timeouts | None = None, pool_size: int = 8
    ) -> None:
        self.url = url
        self._transport = Transport(url, credentials, timeouts or Timeouts(), pool_size)

    def get_file(
        self, namespace: str, directory: str, path: str, start: int | None = None, end: int | None = None
    ) -> FileStream:
        """A file's bytes from ``start`` up to but without ``end``; None = from the beginning, to the end.

        ``path`` is relative to the table's folder: ``data/…`` or ``manifests/…``.

        Raises:
            NotFound: the agent does not hold the file.
            RangeNotSatisfiable: ``start`` is at or after the file's end.
        """
        headers = {}
        if start is not None or end is not None:
            headers["Range"] = f"bytes={start or 0}-{'' if end is None else end - 1}"
        response = self._transport.send(Request("GET", _file_target(namespace, directory, path), headers), {200, 206})
        length = int(response.headers["Content-Length"])
        content_range = response.headers.get("Content-Range")
        total_bytes = int(content_range.rpartition("/")[2]) if content_range else length
        return FileStream(response, length, total_bytes, _sha256_of(response.headers.get("Content-Digest")))

    def head_file(self, namespace: str, directory: str, path: str) -> FileHead:
        """Size and digest of a file; NotFound when the agent does not hold it."""
        request = Request("HEAD", _file_target(namespace, directory, path), {})
        _, headers, _ = self._transport.send_for_body(request, {200})
        return FileHead(int(headers["Content-Length"]), _sha256_of(headers.get("Content-Digest")))

    def put_file(
        self, namespace: str, directory: str, path: str, content: bytes | Path, sha256: str | None = None
    ) -> FilePublished:
        """Publish a file: bytes, or the local file at a Path. ``sha256`` (64 hex digits) is computed when not given.

        Putting the same content again changes nothing.

        Raises:
            Conflict: another content is published under this path.
            DigestMismatch: what arrived does not have the digest.
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
            _file_target(namespace, directory, path),
            headers,
            lambda: content.open("rb") if isinstance(content, Path) else content,
        )
        _, _, body = self._transport.send_for_body(request, {200, 201})
        return _parse(FilePublished, body)

    def put_manifest(self, namespace: str, directory: str, stored: bytes, sha256: str) -> FilePublished:
        """Publish a manifest as ``encode_manifest`` gave it."""
        return self.put_file(namespace, directory, manifest_path(sha256), stored, sha256)

    def verify(self, namespace: str, directory: str, manifest: str, deep: bool = False) -> TableReport:
        """What the agent holds of the manifest (64 hex digits). ``deep`` hashes every file again: minutes.

        Raises:
            NotFound: the agent does not hold the manifest.
        """
        content = VerifyRequest(manifest=manifest, deep=deep)
        body = self._post(_table_target(namespace, directory, "verify"), content, HASHING_SECONDS)
        return _parse(TableReport, body)

    def inventory(self, request: InventoryRequest, revision: str | None = None) -> AgentReport | None:
        """All that the agent holds of these tables; None when nothing changed since ``revision``."""
        headers = {"Content-Type": "application/json"}
        if revision is not None:
            headers["If-None-Match"] = f'"{revision}"'
        content = request.model_dump_json(by_alias=True).encode()
        status, _, body = self._transport.send_for_body(
            Request("POST", "/v1/inventory", headers, lambda: content), {200, 304}
        )
        return None if status == 304 else _parse(AgentReport, body)

    def status(self) -> AgentReport:
        """Disk, transfers and clones; no tables."""
        _, _, body = self._transport.send_for_body(Request("GET", "/v1/status", {}), {200})
        return _parse(AgentReport, body)

    def drop_bucket(
        self, namespace: str, directory: str, bucket: int, manifests: tuple[str, ...], grace_seconds: int
    ) -> Removed:
        """Delete a table's files of one bucket, but for those younger than the grace that none of the manifests names:
        a load may yet commit them. Nothing there is no error.
        """
        content = CollectRequest(manifests=manifests, grace_seconds=grace_seconds)
        return _parse(Removed, self._post(_table_target(namespace, directory, f"buckets/{bucket}/drop"), content))

    def collect(self, namespace: str, directory: str, manifests: tuple[str, ...], grace_seconds: int) -> Removed:
        """Delete files that none of these live manifests names and that are older than the grace."""
        content = CollectRequest(manifests=manifests, grace_seconds=grace_seconds)
        return _parse(Removed, self._post(_table_target(namespace, directory, "collect"), content))

    def recycle(self, namespace: str, directory: str, keep_seconds: int) -> None:
        """Move a dropped table's folder aside; the agent purges it after ``keep_seconds``."""
        self._post(_table_target(namespace, directory, "recycle"), RecycleRequest(keep_seconds=keep_seconds))

    def restore(self, namespace: str, directory: str, successor: str) -> None:
        """Make a dropped table's folder that of ``successor``, a directory of a table of the same name."""
        self._post(_table_target(namespace, directory, "restore"), RestoreRequest(directory=successor))

    def recycled_schema(self, namespace: str, directory: str, manifest: str) -> RecycledSchema:
        """The schema of a dropped table.

        Raises:
            NotFound: the table, or this manifest of it, is not in the agent's recycle bin.
        """
        target = f"/v1/recycled/{quote(namespace, safe='')}/{quote(directory, safe='')}/{manifest}"
        _, _, body = self._transport.send_for_body(Request("GET", target, {}), {200})
        return _parse(RecycledSchema, body)

    def close(self) -> None:
        """Close the idle connections."""
        self._transport.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _post(self, target: str, content: BaseModel, read_seconds: float | None = None) -> bytes:
        body = content.model_dump_json(by_alias=True).encode()
        request = Request("POST", target, {"Content-Type": "application/json"}, lambda: body, read_seconds)
        return self._transport.send_for_body(request, {200})[2]


def _file_target(namespace: str, directory: str, path: str) -> str:
    segments = [namespace, directory, *path.split("/")]
    return "/v1/files/" + "/".join(quote(segment, safe="") for segment in segments)


def _table_target(namespace: str, directory: str, action: str) -> str:
    return f"/v1/tables/{quote(namespace, safe='')}/{quote(directory, safe='')}/{action}"


def _sha256_of(header: str | None) -> str | None:
    return sha256_of_content_digest(header) if header else None


def _sha256(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _parse(kind: type[Answer], body: bytes) -> Answer:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise AgentError(200, "UnexpectedAnswer", f"the agent's answer is no {kind.__name__}: {error}") from error
