"""A file that is known to be right, opened; and several small files in one answer."""

import os
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from colocation.model.agent import MAX_BYTES_AT_ONCE, FilesRequest
from colocation.model.file_frames import content_frame, failure_frame
from colocation.storage.errors import FileCorrupt, NotHeld, StorageError
from colocation.storage.folders import UNREADABLE_MEDIUM
from colocation.storage.hashing import FileChanged
from colocation.storage.ledger import LedgerEntry
from colocation.storage.paths import TablePath
from colocation.storage.publish import wanted_content
from colocation.storage.verification import UNREADABLE, content_of

from .bodies import parsed_body
from .errors import Refusal, refusal_of
from .node import NodeState
from .targets import FileTarget, file_target

BLOCK_BYTES = 1 << 19
"""Of several small files in one answer."""


async def get_files(
    node: NodeState,
    request: web.Request,
    user: str,
    table: TablePath,
    check: Callable[[Iterable[str]], None],
    pace: Callable[[int], Awaitable[None]] | None = None,
) -> web.StreamResponse:
    """Several small files in one answer. One that cannot be given is said so in its place.

    ``check`` refuses files that the caller may not have although they may have the table; ``pace`` waits until so many
    bytes may be sent.
    """
    asked = await parsed_body(request, FilesRequest)
    check(asked.paths)
    targets = [file_target((*table, *path.split("/"))) for path in asked.paths]
    response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
    async with node.batches.turn(user):
        with node.transfer():
            await _send_frames(node, request, response, user, targets, pace)
    await response.write_eof()
    return response


async def _send_frames(
    node: NodeState,
    request: web.Request,
    response: web.StreamResponse,
    user: str,
    targets: list[FileTarget],
    pace: Callable[[int], Awaitable[None]] | None,
) -> None:
    await response.prepare(request)
    while targets:
        block = await node.run(_frames, node, targets)
        if pace is not None:
            await pace(len(block))
        await response.write(block)
        node.metrics.count_sent(user, len(block))


def _frames(node: NodeState, targets: list[FileTarget]) -> bytes:
    """The frames of the next files, as many as make a block; they are taken off the list."""
    frames: list[bytes] = []
    frames_bytes = taken = 0
    for target in targets:
        if frames_bytes >= BLOCK_BYTES:
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
    descriptor, entry = open_verified(node, target)
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


def open_verified(node: NodeState, target: FileTarget) -> tuple[int, LedgerEntry]:
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
