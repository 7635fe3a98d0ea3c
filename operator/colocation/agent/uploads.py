"""PUT of a file: received into ``.incoming``, verified, published."""

import asyncio
import uuid
from collections.abc import AsyncIterator

from aiohttp import web

from colocation.model.agent import FilePublished
from colocation.model.content_digest import sha256_of_content_digest
from colocation.model.table_manifest import MAX_MANIFEST_BYTES
from colocation.storage.incoming import IncomingFile
from colocation.storage.paths import sha256_of_manifest_path
from colocation.storage.publish import is_published, publish_once
from colocation.storage.root import UPLOADS

from .errors import Refusal
from .node import NodeState
from .targets import FileTarget

BLOCK_BYTES = 1 << 20
"""Large blocks: a thread switch per block, not per 64 KiB."""
UPLOAD_IDLE_SECONDS = 60.0


async def put_file(node: NodeState, request: web.Request, user: str, target: FileTarget) -> web.Response:
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
