"""GET and HEAD of a file: decides whether the caller may have it; the front sends it.

Executors request many ranges of the same files, and each waits for an answer from here. So this bypasses aiohttp: the
front sends a short head over a unix socket, and an answer whose parts are known costs one stat.
"""

import asyncio
import errno
import hashlib
import json
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote

from colocation.model.file_transfer import content_digest
from colocation.model.names import AGENT_NODE_HEADER
from colocation.storage.ledger import FileIdentity, LedgerEntry, identity_of
from colocation.storage.paths import TablePath

from .access import Gate
from .front_configuration import COLD_PREFIX, DISK_PREFIX, PEER_HEADER, REQUEST_HEADER
from .http_messages import EXPECTED_ERRORS, FileTarget, Refusal, byte_range, decoded_segments, file_target, refusal_of
from .node_state import NodeState

GRANT_SECONDS = 1.0
"""A granted right to read a table is cached for so long."""
MAX_GRANTS = 4096
MAX_KNOWN_FILES = 16384
MAX_KNOWN_TARGET_BYTES = 1024
KNOWN_SECONDS = 60.0
"""A file that looks the same is not looked up again for so long, unless it was found damaged."""
MAX_HEAD_BYTES = 1 << 18
NOT_IN_MEMORY = frozenset({errno.EAGAIN})

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReadRequest:
    """A request as the front passes it on; ``raw_target`` as the client wrote it."""

    method: str
    raw_target: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class _KnownFile:
    """``path`` is below the data root, ``place`` is the front's name of it."""

    target: FileTarget
    path: str
    identity: FileIdentity
    sha256: str
    place: str
    known_until: float


def request_of(head: bytes) -> ReadRequest:
    """Parse a head as the front writes it."""
    first, *lines = head.decode("utf-8", "surrogateescape").split("\r\n")
    method, _, rest = first.partition(" ")
    return ReadRequest(method, rest.rpartition(" ")[0], dict(line.split(": ", 1) for line in lines))


class ReadRequests:
    """Answers the front's requests. Used on the event loop only."""

    def __init__(self, node: NodeState, gate: Gate) -> None:
        self._node = node
        self._gate = gate
        self._grants: OrderedDict[tuple[bytes, str, str], tuple[float, str]] = OrderedDict()
        self._files: OrderedDict[str, _KnownFile] = OrderedDict()
        node.root.damage_listeners.append(self._forget_files)

    def connection(self) -> asyncio.Protocol:
        """For ``loop.create_unix_server``."""
        return _Connection(self, self._node)

    def quick_answer(self, request: ReadRequest) -> bytes | None:
        """The answer if all its parts are known, else None."""
        known = self._files.get(request.raw_target)
        if known is None:
            return None
        now = time.monotonic()
        grant = self._grants.get(_grant_key(request, known.target.table))
        if grant is None or now > grant[0] or now > known.known_until or not self._looks_the_same(known):
            return None
        try:
            self._gate.check_node(request.headers.get(AGENT_NODE_HEADER))
            return self._allowed(request, grant[1], known, known.place)
        except Refusal as refusal:
            return self._refused("get", refusal)

    async def answer(self, request: ReadRequest) -> bytes:
        """The answer to any request."""
        verb = "none"
        try:
            identity = await self._gate.identity(
                request.headers.get("Authorization", ""), request.headers.get(PEER_HEADER, "")
            )
            target = file_target(decoded_segments(request.raw_target)[2:])
            verb = "get"
            await self._gate.check(identity, verb, target.table)
            self._gate.check_node(request.headers.get(AGENT_NODE_HEADER))
            self._gate.check_clone(identity, target.table, (target.path,))
            self._node.reads.check(identity.user)
            entry, in_memory = await self._node.reading.run(self._looked_up, target)
            known = self._remembered(request, target, entry)
            if self._gate.is_clone(identity):
                await self._node.clone_pace.wait(_sent_bytes(request, known))
            else:  # a clone's rights differ from file to file
                grant = (time.monotonic() + GRANT_SECONDS, identity.user)
                _remember(self._grants, _grant_key(request, target.table), grant, MAX_GRANTS)
            place = known.place if in_memory else COLD_PREFIX + known.place.removeprefix(DISK_PREFIX)
            return self._allowed(request, identity.user, known, place)
        except Refusal as refusal:
            return self._refused(verb, refusal)
        except EXPECTED_ERRORS as error:
            return self._refused(verb, refusal_of(error))
        except OSError as error:
            _log.error("%s %s failed", request.method, request.raw_target, exc_info=error)
            return self._refused(verb, Refusal(500, "StorageFailed", f"the node's disk failed: {error.strerror}"))
        except Exception:  # noqa: BLE001 - the front waits for an answer, and a bug must fail only this request
            _log.exception("%s %s failed", request.method, request.raw_target)
            return self._refused(verb, Refusal(500, "InternalError", "the agent failed; see its log"))

    def _forget_files(self, _table: TablePath, _path: str) -> None:
        self._files = OrderedDict()  # a new one: other threads call this

    def turned_away(self) -> bytes:
        """The answer of an agent that is being stopped."""
        return self._refused("none", self._gate.stopping())

    def _looked_up(self, target: FileTarget) -> tuple[LedgerEntry, bool]:
        """In a thread: the file's entry, and whether its beginning is in memory."""
        descriptor, entry = self._node.inventory.open_verified(*target)
        try:
            return entry, _is_in_memory(descriptor)
        finally:
            os.close(descriptor)

    def _remembered(self, request: ReadRequest, target: FileTarget, entry: LedgerEntry) -> _KnownFile:
        now = time.monotonic()
        segments = (*target.table, *target.path.split("/"))
        place = DISK_PREFIX + "/".join(quote(segment, safe="") for segment in segments)
        known = _KnownFile(target, "/".join(segments), entry.identity, entry.sha256, place, now + KNOWN_SECONDS)
        if len(request.raw_target) <= MAX_KNOWN_TARGET_BYTES:
            _remember(self._files, request.raw_target, known, MAX_KNOWN_FILES)
        return known

    def _looks_the_same(self, known: _KnownFile) -> bool:
        """Stat the file, which a recent request has brought into memory. The front follows no links, whatever the path
        is now.
        """
        try:
            status = os.stat(known.path, dir_fd=self._node.root.descriptor, follow_symlinks=False)
        except OSError:
            return False
        return identity_of(status) == known.identity

    def _allowed(self, request: ReadRequest, user: str, known: _KnownFile, place: str) -> bytes:
        """Let the front send the file.

        Raises:
            Refusal: a range that is not allowed, or too many reads of the account.
        """
        self._node.reads.check(user)
        wanted = byte_range(request.headers.get("Range"), known.identity.bytes)
        self._node.reads.begin(request.headers.get(REQUEST_HEADER, ""), user)
        code = "200" if wanted is None else "206"
        self._node.metrics.requests.labels("get", code).inc()
        digest = f"Content-Digest: {content_digest(known.sha256)}\r\n" if wanted is None else ""
        return f"HTTP/1.1 200 OK\r\nX-Accel-Redirect: {place}\r\n{digest}Content-Length: 0\r\n\r\n".encode()

    def _refused(self, verb: str, refusal: Refusal) -> bytes:
        self._node.metrics.requests.labels(verb, str(refusal.status)).inc()
        content = json.dumps({"error": refusal.reason, "message": refusal.message}).encode()
        headers = {"Content-Type": "application/json; charset=utf-8", "Content-Length": str(len(content))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in (headers | refusal.headers).items())
        return f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}\r\n{lines}\r\n".encode() + content


class _Connection(asyncio.Protocol):
    """One connection of the front, which sends one request after the other."""

    def __init__(self, requests: ReadRequests, node: NodeState) -> None:
        self._requests = requests
        self._node = node
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio.Protocol``."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, _exception: Exception | None) -> None:
        """See ``asyncio.Protocol``."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """See ``asyncio.Protocol``."""
        self._buffer += data
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if not end:
            if len(self._buffer) > MAX_HEAD_BYTES and self._transport is not None:
                self._transport.abort()
            return
        self._buffer = rest
        if self._node.turns_away:
            self._write(self._requests.turned_away(), request=None)
            return
        request = request_of(head)
        answer = self._requests.quick_answer(request)
        if answer is None:
            self._task = asyncio.create_task(self._answer(request))
        else:
            self._write(answer, request)

    async def _answer(self, request: ReadRequest) -> None:
        with self._node.request():
            self._write(await self._requests.answer(request), request)

    def _write(self, answer: bytes, request: ReadRequest | None) -> None:
        if self._transport is None:
            return
        if request is not None and request.method == "HEAD" and b"X-Accel-Redirect" not in answer:
            answer = answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        self._transport.write(answer)


def _sent_bytes(request: ReadRequest, known: _KnownFile) -> int:
    """How many bytes the answer will have.

    Raises:
        Refusal: a range that is not allowed.
    """
    file_bytes = known.identity.bytes
    start, end = byte_range(request.headers.get("Range"), file_bytes) or (0, file_bytes)
    return 0 if request.method == "HEAD" else end - start


def _grant_key(request: ReadRequest, table: TablePath) -> tuple[bytes, str, str]:
    token = request.headers.get("Authorization", "")
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest(), *table


def _remember(known: OrderedDict, key: object, value: object, most: int) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > most:
        known.popitem(last=False)


def _is_in_memory(descriptor: int) -> bool:
    try:
        os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except OSError as error:
        return error.errno not in NOT_IN_MEMORY
    return True
