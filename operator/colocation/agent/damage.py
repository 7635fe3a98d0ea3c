"""Damage that readers report: the agent reads the file itself, and believes nobody.

A false report costs one read of one file. Checks wait for each other, few may wait, and a file that was just checked is
not read again.
"""

import asyncio
import time
from collections import OrderedDict

from aiohttp import web

from colocation.model.agent import DamageAnswer, DamageRequest
from colocation.storage.paths import TablePath, file_segments

from .bodies import answer_of, parsed_body
from .errors import Refusal
from .node import NodeState

MAX_WAITING = 8
REMEMBERED_SECONDS = 60.0
MAX_REMEMBERED = 1000


class DamageChecks:
    """One per agent; used on its event loop only."""

    def __init__(self, node: NodeState) -> None:
        self._node = node
        self._one_at_a_time = asyncio.Lock()
        self._waiting = 0
        self._known: OrderedDict[tuple[TablePath, str], tuple[float, bool]] = OrderedDict()

    async def report(self, request: web.Request, table: TablePath) -> web.Response:
        """Whether the file is damaged here; if so it is not served any more.

        Raises:
            Refusal: 429, too many checks wait.
            InvalidPath: the path is not allowed.
        """
        path = (await parsed_body(request, DamageRequest)).path
        file_segments(path)
        if self._waiting >= MAX_WAITING:
            raise Refusal(429, "Busy", f"{MAX_WAITING} checks are waiting; read from another replica, report later")
        self._waiting += 1
        try:
            async with self._one_at_a_time:
                damaged = await self._checked(table, path)
        finally:
            self._waiting -= 1
        return answer_of(DamageAnswer(path=path, damaged=damaged))

    async def suspect(self, table: TablePath, path: str) -> None:
        """The disk failed while a file was sent; as a report, but dropped when too many checks wait."""
        if self._waiting < MAX_WAITING:
            self._waiting += 1
            try:
                async with self._one_at_a_time:
                    await self._checked(table, path)
            finally:
                self._waiting -= 1

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
