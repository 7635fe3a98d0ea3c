"""GET, HEAD and PUT of a file."""

import asyncio
import errno
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterable

from aiohttp import web

from colocation.model.agent import MAX_BYTES_AT_ONCE, FilePublished, FilesRequest
from colocation.model.content_digest import content_digest, sha256_of_content_digest
from colocation.model.file_frames import content_frame, failure_frame
from colocation.model.table_manifest import MAX_MANIFEST_BYTES
from colocation.storage.errors import FileCorrupt, NotHeld, StorageError
from colocation.storage.folders import UNREADABLE_MEDIUM
from colocation.storage.hashing import FileChanged
from colocation.storage.incoming import IncomingFile
from colocation.storage.ledger import LedgerEntry
from colocation.storage.paths import TablePath, sha256_of_manifest_path
from colocation.storage.publish import is_published, publish_once, wanted_content
from colocation.storage.root import UPLOADS
from colocation.storage.verification import UNREADABLE, content_of

from .bodies import parsed_body
from .errors import Refusal, refusal_of
from .node import NodeState
from .targets import FileTarget, byte_range, file_target

BLOCK_BYTES = 1 << 20
"""Large blocks: a thread switch and a TLS record set per block, not per 64 KiB."""
CACHED_BLOCK_BYTES = 1 << 19
"""Of a file that is in memory: such a block is sent without a switch of threads, and what encrypts it finds it in the
processor's cache (measured: a third less processor time per byte than blocks of 1 MiB from threads)."""
NOT_IN_MEMORY = frozenset({errno.EAGAIN, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
"""Of a read that shall not wait: it would have to, or the file system or the kernel has no such reads."""
UPLOAD_IDLE_SECONDS = 60.0


async def get_file(node: NodeState, request: web.Request, target: FileTarget) -> web.StreamResponse:
    """The file's bytes or a range of them; HEAD answers alike without them."""
    descriptor, entry = await node.run(_open_verified, node, target)
    try:
        file_bytes = entry.identity.bytes
        wanted = byte_range(request.headers.get("Range"), file_bytes)
        start, end = wanted or (0, file_bytes)
        headers = {"Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
        if wanted is None:
            headers["Content-Digest"] = content_digest(entry.sha256)
        else:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{file_bytes}"
        response = web.StreamResponse(status=200 if wanted is None else 206, headers=headers)
        response.content_length = end - start
        with node.transfer():
            await response.prepare(request)
            if request.method == "GET":
                try:
                    await _send(node, response, descriptor, start, end)
                except ReadFailed:
                    await node.run_work(node.inventory.table(target.table).check, target.path)
                    raise
        await response.write_eof()
        return response
    finally:
        os.close(descriptor)


async def get_files(
    node: NodeState, request: web.Request, table: TablePath, check: Callable[[Iterable[str]], None]
) -> web.StreamResponse:
    """Several small files in one answer. One that cannot be given is said so in its place.

    ``check`` refuses files that the caller may not have although they may have the table.
    """
    asked = await parsed_body(request, FilesRequest)
    check(asked.paths)
    targets = [file_target((*table, *path.split("/"))) for path in asked.paths]
    response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
    with node.transfer():
        await response.prepare(request)
        while targets:
            block = await node.run(_frames, node, targets)
            await response.write(block)
            node.metrics.served_bytes.inc(len(block))
    await response.write_eof()
    return response


async def put_file(node: NodeState, request: web.Request, target: FileTarget) -> web.Response:
    """Receive, verify and publish a file."""
    max_bytes = node.settings.max_file_bytes
    if sha256_of_manifest_path(target.path) is not None:
        max_bytes = min(max_bytes, MAX_MANIFEST_BYTES)
    length = _announced_length(request, max_bytes)
    sha256 = _announced_digest(request)
    with node.transfer(), node.room_for(length):
        if await node.run_write(is_published, node.root, target.table, target.path, sha256):
            async for _ in _received_blocks(request, length):
                pass  # read to its end, so that the connection can be used again
            created = False
        else:
            created = await _receive(node, request, target, length, sha256)
    answer = FilePublished(path=target.path, bytes=length, sha256=sha256)
    return web.json_response(text=answer.model_dump_json(by_alias=True), status=201 if created else 200)


def _frames(node: NodeState, targets: list[FileTarget]) -> bytes:
    """The frames of the next files, as many as make a block; they are taken off the list."""
    frames: list[bytes] = []
    frames_bytes = taken = 0
    for target in targets:
        if frames_bytes >= CACHED_BLOCK_BYTES:
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
    descriptor, entry = _open_verified(node, target)
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


def _open_verified(node: NodeState, target: FileTarget) -> tuple[int, LedgerEntry]:
    """A descriptor of a file and what it holds; a file known to be wrong is not served."""
    try:
        descriptor = node.root.open_file(*target)
    except OSError as error:
        if error.errno not in UNREADABLE_MEDIUM:
            raise
        raise _corrupt(node, target, UNREADABLE) from error
    try:
        entry = content_of(node.root, target.table, target.path, descriptor)
        wanted = wanted_content(target.table, target.path, node.inventory.expected_sha256)
        if entry.sha256 == UNREADABLE or (wanted is not None and wanted != entry.sha256):
            raise _corrupt(node, target, entry.sha256)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, entry


def _corrupt(node: NodeState, target: FileTarget, sha256: str) -> FileCorrupt:
    """The answer to a request for a damaged file, which is out of the readers' way from now on."""
    node.inventory.table(target.table).set_aside_if_damaged(target.path)
    return FileCorrupt(f"{target.path} is damaged: its content is {sha256}; ask another replica")


class ReadFailed(ConnectionAbortedError):
    """The disk failed in the middle of an answer."""


async def _send(node: NodeState, response: web.StreamResponse, descriptor: int, start: int, end: int) -> None:
    """Send a range of an open file. A disk that fails halfway ends the connection: the caller sees a cut answer."""
    while start < end:
        try:
            block = await _block(node, descriptor, start, min(BLOCK_BYTES, end - start))
        except OSError as error:
            raise ReadFailed(f"reading failed at byte {start}: {error.strerror}") from error
        if not block:
            raise ConnectionAbortedError(f"the file became shorter than {end} bytes while it was sent")
        await response.write(block)
        node.metrics.served_bytes.inc(len(block))
        start += len(block)


async def _block(node: NodeState, descriptor: int, start: int, most_bytes: int) -> bytes | memoryview:
    """A block of an open file, empty at its end: at once when it is in memory, else read by a thread."""
    block = bytearray(min(CACHED_BLOCK_BYTES, most_bytes))
    try:
        read_bytes = os.preadv(descriptor, [block], start, os.RWF_NOWAIT)
    except OSError as error:
        if error.errno not in NOT_IN_MEMORY:
            raise
        return await node.run(os.pread, descriptor, most_bytes, start)
    return memoryview(block)[:read_bytes]


async def _receive(node: NodeState, request: web.Request, target: FileTarget, length: int, sha256: str) -> bool:
    """Receive into ``.incoming`` and publish; whether the file is new."""
    incoming = await node.run_write(IncomingFile, node.root, UPLOADS, uuid.uuid4().hex)
    published = False
    with incoming:
        try:
            async for block in _received_blocks(request, length):
                await node.run_write(incoming.write, block)
                node.metrics.received_bytes.inc(len(block))
            published = await node.run_write(
                publish_once, node.root, target.table, target.path, incoming, sha256, node.inventory.expected_sha256
            )
        finally:
            await node.run_write(incoming.discard)
    return published


async def _received_blocks(request: web.Request, length: int) -> AsyncIterator[bytes]:
    """The body in large blocks."""
    buffer = bytearray()
    received = 0
    while True:
        try:
            async with asyncio.timeout(UPLOAD_IDLE_SECONDS):
                piece = await request.content.readany()
        except TimeoutError as error:
            silence = f"nothing arrived for {UPLOAD_IDLE_SECONDS:.0f} s after {received} of {length} bytes"
            raise Refusal(408, "UploadIdle", f"{silence}; send the file again") from error
        buffer += piece
        received += len(piece)
        if len(buffer) >= BLOCK_BYTES or (not piece and buffer):
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
