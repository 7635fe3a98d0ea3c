"""Uploads of files, several small files in one answer, and how a file is opened once it is known to be right."""

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable

from aiohttp import web

from colocation.model.agent import MAX_BYTES_AT_ONCE, FilePublished, FilesRequest
from colocation.model.conditions import Reason
from colocation.model.file_transfer import content_frame, failure_frame, sha256_of_content_digest
from colocation.model.table_manifest import MAX_MANIFEST_BYTES
from colocation.storage.errors import FileChanged, NotHeld, StorageError
from colocation.storage.incoming import IncomingFile
from colocation.storage.paths import TablePath, sha256_of_manifest_path
from colocation.storage.publish import is_published, publish_once
from colocation.storage.root import UPLOADS

from .http_messages import FileTarget, Refusal, file_target, parsed_body, refusal_of
from .node_state import NodeState, TableRequest
from .quotas import Reservation

UPLOAD_BLOCK_BYTES = 1 << 20
"""Large blocks: one thread switch per block, not per 64 KiB."""
UPLOAD_IDLE_SECONDS = 60.0
"""Room is reserved for a silent upload for no longer."""
MAX_UNKNOWN_FOLDERS = 1000
"""Of tables of one namespace."""
MIN_BYTES_PER_SECOND = 64 << 10
"""On average, after the first minute: a sender must not hold reserved room for long."""

ANSWER_BLOCK_BYTES = 1 << 19
"""Of several small files in one answer."""


async def put_file(request: TableRequest, path: str) -> web.Response:
    """Receive, verify and publish a file."""
    node, target = request.node, FileTarget(request.table, path)
    _check_disk(node)
    max_bytes = node.settings.max_file_bytes
    if sha256_of_manifest_path(target.path) is not None:
        max_bytes = min(max_bytes, MAX_MANIFEST_BYTES)
    length = _announced_length(request.http, max_bytes)
    sha256 = _announced_digest(request.http)
    namespace = target.table.namespace
    async with node.uploads.turn(request.user), node.uploads_to_namespace.turn(f"namespace {namespace}"):
        question = node.conversation.question
        if question is not None and str(target.table) not in question.tables:
            await node.writing.run(_check_new_folder, node, target.table, question.tables)
        with node.transfer(), node.room.keep(namespace, length) as reservation:
            arriving = _received_blocks(request.http, length)
            if await node.writing.run(is_published, node.root, target.table, target.path, sha256):
                async for _ in arriving:
                    pass  # read to its end, so that the connection can be used again
                created = False
            else:
                _check_strays(node, namespace)
                created = await _receive(node, arriving, reservation, target, sha256)
    answer = FilePublished(path=target.path, bytes=length, sha256=sha256)
    return web.json_response(text=answer.model_dump_json(by_alias=True), status=201 if created else 200)


def _check_disk(node: NodeState) -> None:
    """Refuse uploads while the data root is not on the node's disk.

    Raises:
        Refusal: 507.
    """
    fault = node.health.fault
    if fault is not None and fault.reason == Reason.DISK_MISSING:
        raise Refusal(507, Reason.DISK_MISSING, f"{fault.message}; use another node")


def _check_new_folder(node: NodeState, table: TablePath, asked: Collection[str]) -> None:
    """Refuse a new folder of a table unknown to the operator if its namespace has very many: reports name them all.

    Tables come to nodes outside their group's map while others are away, so some such folders are ordinary; the
    operator asks about them once it learns of them. An agent that was not asked yet knows no table.

    Raises:
        Refusal: 507.
    """
    if node.root.holds(table):
        return
    unknown = sum(one.namespace == table.namespace and str(one) not in asked for one in node.root.tables())
    if unknown >= MAX_UNKNOWN_FOLDERS:
        message = (
            f"namespace {table.namespace} has {unknown} folders here of tables that the operator does not know; "
            f"allowed: {MAX_UNKNOWN_FOLDERS}. Load tables that exist, and wait until the others are recycled"
        )
        raise Refusal(507, "TooManyFolders", message)


def _check_strays(node: NodeState, namespace: str) -> None:
    """Refuse another file of a namespace that has very many unnamed by live manifests: they take the agent's memory.

    Raises:
        Refusal: 507.
    """
    strays, allowed = node.strays.of(namespace), node.strays.allowed(namespace)
    if strays >= allowed:
        message = (
            f"namespace {namespace} has {strays} files here that no committed snapshot names; allowed now: {allowed}. "
            "Commit the loads that are under way, write fewer and larger files, and wait until files of loads that "
            "failed are collected"
        )
        raise Refusal(507, "TooManyFiles", message)


async def _receive(
    node: NodeState, arriving: AsyncIterator[bytes], reservation: Reservation, target: FileTarget, sha256: str
) -> bool:
    """Receive into ``.incoming`` and publish; whether the file is new."""
    incoming = await node.writing.run(IncomingFile, node.root, UPLOADS, uuid.uuid4().hex)
    published = False
    with incoming:
        try:
            async for block in arriving:
                await node.writing.run(incoming.write, block)
                reservation.arrived(len(block))
                node.metrics.received_bytes.inc(len(block))
            published = await node.writing.run(
                publish_once, node.root, target.table, target.path, incoming, sha256, node.inventory.expected_sha256
            )
            if published:
                node.strays.add(target.table)
        finally:
            await node.writing.run(incoming.discard)
    return published


async def _received_blocks(request: web.Request, length: int) -> AsyncIterator[bytes]:
    """The body in large blocks.

    Raises:
        Refusal: 408, nothing arrives, or too little. Time in which the disk writes does not count.
    """
    buffer = bytearray()
    received = 0
    waited_seconds = 0.0
    while True:
        began = time.monotonic()
        try:
            async with asyncio.timeout(UPLOAD_IDLE_SECONDS):
                piece = await request.content.readany()
        except TimeoutError as error:
            silence = f"nothing arrived for {UPLOAD_IDLE_SECONDS:.0f} s after {received} of {length} bytes"
            raise Refusal(408, "UploadIdle", f"{silence}; send the file again") from error
        waited_seconds += time.monotonic() - began
        if waited_seconds > UPLOAD_IDLE_SECONDS + received / MIN_BYTES_PER_SECOND:
            message = f"{received} of {length} bytes arrived in {waited_seconds:.0f} s; send the file again, faster"
            raise Refusal(408, "UploadSlow", message)
        buffer += piece
        received += len(piece)
        if len(buffer) >= UPLOAD_BLOCK_BYTES or (not piece and buffer):
            yield bytes(buffer)
            buffer.clear()
        if not piece:
            return


def _announced_length(request: web.Request, max_bytes: int) -> int:
    if request.content_length is None:
        raise Refusal(411, "LengthRequired", "Content-Length is missing; give the file's size in bytes")
    if request.content_length > max_bytes:
        message = f"{request.content_length} bytes announced; allowed: {max_bytes}; write smaller files"
        raise Refusal(413, "FileTooLarge", message)
    return request.content_length


def _announced_digest(request: web.Request) -> str:
    header = request.headers.get("Content-Digest")
    if header is None:
        raise Refusal(400, "DigestRequired", "Content-Digest is missing; give sha-256=:<base64 of 32 bytes>:")
    try:
        return sha256_of_content_digest(header)
    except ValueError as error:
        raise Refusal(400, "InvalidDigest", str(error)) from error


async def get_files(
    request: TableRequest, check: Callable[[Iterable[str]], None], pace: Callable[[int], Awaitable[None]] | None = None
) -> web.StreamResponse:
    """Send several small files in one answer; a file that cannot be sent is reported in its place.

    ``check`` refuses files that the caller may not have although they may have the table; ``pace`` waits until so many
    bytes may be sent.
    """
    node = request.node
    asked = await parsed_body(request.http, FilesRequest)
    check(asked.paths)
    targets = [file_target((*request.table, *path.split("/"))) for path in asked.paths]
    response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
    async with node.batches.turn(request.user):
        with node.transfer():
            await _send_frames(request, response, targets, pace)
    await response.write_eof()
    return response


async def _send_frames(
    request: TableRequest,
    response: web.StreamResponse,
    targets: list[FileTarget],
    pace: Callable[[int], Awaitable[None]] | None,
) -> None:
    node = request.node
    await response.prepare(request.http)
    while targets:
        block = await node.reading.run(_frames, node, targets)
        if pace is not None:
            await pace(len(block))
        await response.write(block)
        node.metrics.count_sent(request.user, len(block))


def _frames(node: NodeState, targets: list[FileTarget]) -> bytes:
    """The frames of the next files, up to a block; removes them from the list."""
    frames: list[bytes] = []
    frames_bytes = taken = 0
    for target in targets:
        if frames_bytes >= ANSWER_BLOCK_BYTES:
            break
        frames.append(_frame(node, target))
        frames_bytes += len(frames[-1])
        taken += 1
    del targets[:taken]
    return b"".join(frames)


def _frame(node: NodeState, target: FileTarget) -> bytes:
    try:
        return content_frame(target.path, _small_content(node, target))
    except (StorageError, FileChanged, Refusal) as error:
        refusal = error if isinstance(error, Refusal) else refusal_of(error)
        return failure_frame(target.path, refusal.reason, refusal.message)
    except OSError as error:
        return failure_frame(target.path, "StorageFailed", f"the node's disk failed: {error.strerror}")


def _small_content(node: NodeState, target: FileTarget) -> bytes:
    descriptor, entry = node.inventory.open_verified(*target)
    try:
        if entry.identity.bytes > MAX_BYTES_AT_ONCE:
            message = f"{entry.identity.bytes} bytes; at once with others at most {MAX_BYTES_AT_ONCE}; ask for it alone"
            raise Refusal(413, "FileTooLarge", message)
        content = os.pread(descriptor, entry.identity.bytes, 0)
        if len(content) != entry.identity.bytes:
            raise NotHeld(f"{target.path} became shorter while it was read")
        return content
    finally:
        os.close(descriptor)
