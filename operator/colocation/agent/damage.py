"""Damage that readers report: the agent reads the file itself, and believes nobody.

A false report costs one read of one file. Checks wait for each other, few may wait, fewer of one namespace, and a file
that was just checked is not read again.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from colocation.model.agent import DamageAnswer, DamageRequest
from colocation.storage.paths import TablePath, file_segments

from .bodies import answer_of, parsed_body
from .errors import Refusal
from .node import NodeState

MAX_WAITING = 8
MAX_WAITING_OF_NAMESPACE = 2
"""Both count the running check, too."""
REMEMBERED_SECONDS = 60.0
MAX_REMEMBERED = 1000


class DamageChecks:
    """One per agent; used on its event loop only."""

    def __init__(self, node: NodeState) -> None:
        self._node = node
        self._one_at_a_time = asyncio.Lock()
        self._waiting: Counter[str] = Counter()
        self._known: OrderedDict[tuple[TablePath, str], tuple[float, bool]] = OrderedDict()

    async def report(self, request: web.Request, table: TablePath) -> web.Response:
        """Whether the file is damaged here; if so it is not served any more.

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
        """The disk failed while a file was sent; as a report, but dropped when too many checks wait."""
        if self._has_room(table.namespace):
            await self._checked_in_turn(table, path)

    def _has_room(self, namespace: str) -> bool:
        """Whoever reports without end keeps out nobody of another namespace."""
        return self._waiting.total() < MAX_WAITING and self._waiting[namespace] < MAX_WAITING_OF_NAMESPACE

    async def _checked_in_turn(self, table: TablePath, path: str) -> bool:
        """The oldest first, as asyncio's locks are given."""
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
        damaged = await self._node.run_work(self._check, table, path)
        self._known[table, path] = (time.monotonic(), damaged)
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)
        return damaged

    def _check(self, table: TablePath, path: str) -> bool:
        inventory = self._node.inventory.table_here(table)
        return inventory is not None and inventory.check(path)
