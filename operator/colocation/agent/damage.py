"""Damage that readers report or the front's log shows: the agent reads the file itself and trusts no report.

A false report costs one read of one file. Checks run one at a time, few may wait, fewer of one namespace, and a file
that was just checked is not read again.
"""

import asyncio
import logging
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from colocation.model.agent import DamageAnswer, DamageRequest
from colocation.storage.errors import UNREADABLE_MEDIUM, InvalidPath, StorageError
from colocation.storage.paths import TablePath, file_segments

from .http_messages import Refusal, answer_of, decoded_segments, file_target, parsed_body
from .node_state import NodeState
from .quotas import RunningReads

MAX_WAITING = 8
MAX_WAITING_OF_NAMESPACE = 2
"""Both include the running check."""
REMEMBERED_SECONDS = 60.0
MAX_REMEMBERED = 1000

MAX_LOGGED_AT_ONCE = 20
"""Of the lines that arrive together: a flood of requests must not flood the log."""

_LINE = re.compile(r"\S+ \S+ \[(?P<level>\w+)\] \d+#\d+: (?:\*\d+ )?(?P<message>.*)")
_NUMBERS = "|".join(str(number) for number in sorted(UNREADABLE_MEDIUM))
_SUSPICIOUS = re.compile(
    rf"""(?:
        (?:sendfile|pread|preadv|read|open|openat|fstat|fstatat)\(\)[ ](?:"[^"]*"[ ])?failed[ ]\((?:{_NUMBERS}):[^,]*\)
        |(?:pread|preadv|read)\(\)[ ]read[ ]only[ ]-?\d+[ ]of[ ]\d+[ ]from[ ]"[^"]*"
        |sendfile\(\)[ ]reported[ ]that[ ]"[^"]*"[ ]was[ ]truncated[ ]at[ ]\d+
    ).*,[ ]request:[ ]"GET[ ](?P<target>/v1/files/[^ "]+)[ ]HTTP/""",
    re.VERBOSE,
)
"""The disk fails at this place, or the file is shorter than when it was opened."""
_LEVELS = {"info": logging.INFO, "notice": logging.INFO, "warn": logging.WARNING}
_KILLED = re.compile(r"worker process \d+ exited on signal")

_log = logging.getLogger(__name__)


class DamageChecks:
    """One per agent; used on its event loop only."""

    def __init__(self, node: NodeState) -> None:
        self._node = node
        self._one_at_a_time = asyncio.Lock()
        self._waiting: Counter[str] = Counter()
        self._known: OrderedDict[tuple[TablePath, str], tuple[float, bool]] = OrderedDict()

    async def report(self, request: web.Request, table: TablePath) -> web.Response:
        """Check a file that a reader reported; a damaged one is no longer served.

        Raises:
            Refusal: 429, too many checks wait.
            InvalidPath: the path is not allowed.
        """
        path = (await parsed_body(request, DamageRequest)).path
        file_segments(path)
        if not self._has_room(table.namespace):
            message = (
                f"{MAX_WAITING} checks are waiting, or {MAX_WAITING_OF_NAMESPACE} of namespace {table.namespace}; "
                "read from another replica, report later"
            )
            raise Refusal(429, "Busy", message)
        damaged = await self._checked_in_turn(table, path)
        return answer_of(DamageAnswer(path=path, damaged=damaged))

    async def suspect(self, table: TablePath, path: str) -> None:
        """Check a file whose sending failed on the disk; skipped if too many checks wait."""
        if self._has_room(table.namespace):
            await self._checked_in_turn(table, path)

    def _has_room(self, namespace: str) -> bool:
        """Limits damage reports per namespace."""
        return self._waiting.total() < MAX_WAITING and self._waiting[namespace] < MAX_WAITING_OF_NAMESPACE

    async def _checked_in_turn(self, table: TablePath, path: str) -> bool:
        """Check in order of arrival, which asyncio's locks keep."""
        with self._waits(table.namespace):
            async with self._one_at_a_time:
                return await self._checked(table, path)

    @contextmanager
    def _waits(self, namespace: str) -> Iterator[None]:
        self._waiting[namespace] += 1
        try:
            yield
        finally:
            self._waiting[namespace] -= 1
            if not self._waiting[namespace]:
                del self._waiting[namespace]

    async def _checked(self, table: TablePath, path: str) -> bool:
        known = self._known.get((table, path))
        if known is not None and time.monotonic() < known[0] + REMEMBERED_SECONDS:
            return known[1]
        damaged = await self._node.working.run(self._check, table, path)
        self._known[table, path] = (time.monotonic(), damaged)
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)
        return damaged

    def _check(self, table: TablePath, path: str) -> bool:
        inventory = self._node.inventory.table_here(table)
        return inventory is not None and inventory.check(path)


class FrontErrors:
    """Processes the front's error log: logs it, and checks files that could not be read or ended early.

    Used on the event loop only.
    """

    def __init__(self, reads: RunningReads, damage: DamageChecks) -> None:
        self._reads = reads
        self._damage = damage
        self._checks: set[asyncio.Task[None]] = set()

    def take_lines(self, lines: list[str]) -> None:
        """See ``front.running_front``."""
        matches = [_LINE.fullmatch(line) for line in lines]
        for line, match in zip(lines[:MAX_LOGGED_AT_ONCE], matches, strict=False):
            level = _LEVELS.get(match["level"], logging.ERROR) if match else logging.ERROR
            _log.log(level, "nginx: %s", match["message"] if match else line)
        if len(lines) > MAX_LOGGED_AT_ONCE:
            _log.warning("nginx: %d more lines", len(lines) - MAX_LOGGED_AT_ONCE)
        for match in matches:
            if match is not None:
                self._act_on(match["message"])

    def _act_on(self, message: str) -> None:
        if _KILLED.match(message):
            self._reads.forget()
        suspicious = _SUSPICIOUS.match(message)
        if suspicious is not None:
            check = asyncio.create_task(self._check(suspicious["target"]))
            self._checks.add(check)
            check.add_done_callback(self._checks.discard)

    async def _check(self, raw_target: str) -> None:
        """Check the file itself: a log line is no proof."""
        try:
            target = file_target(decoded_segments(raw_target)[2:])
            await self._damage.suspect(*target)
        except (Refusal, InvalidPath, StorageError, OSError) as error:
            _log.warning("%s was not checked: %s", raw_target, error)
