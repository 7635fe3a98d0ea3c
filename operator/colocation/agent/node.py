"""One node's state in the agent: data root, inventory, threads, and the reports made of them."""

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from pydantic import BaseModel

from colocation.model.agent import AgentReport, InventoryRequest, TableReport
from colocation.storage.clone_progress import read_progress
from colocation.storage.errors import NoRoom
from colocation.storage.inventory import Inventory
from colocation.storage.recycling import recycled_tables
from colocation.storage.root import DataRoot

from .metrics import Metrics
from .settings import Settings

FILE_THREADS = 16
FREE_BYTES_STEP = 64 << 20
"""Free space is reported in such steps, rounded down: else other programs' writes would change every revision."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class NodeState:
    """What the handlers share. File I/O runs in threads, never on the event loop."""

    def __init__(self, settings: Settings, root: DataRoot, metrics: Metrics) -> None:
        self.settings = settings
        self.root = root
        self.metrics = metrics
        self.inventory = Inventory(root)
        self._threads = ThreadPoolExecutor(FILE_THREADS, "files")
        self._digests: dict[tuple[str, str], tuple[TableReport, str]] = {}
        self._digests_lock = threading.Lock()
        self._active_transfers = 0
        self._announced_bytes = 0

    def close(self) -> None:
        """Wait for the threads' running calls."""
        self._threads.shutdown(cancel_futures=True)

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Call a function that does file I/O, in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))

    @contextlib.contextmanager
    def transfer(self) -> Iterator[None]:
        """Counts a file being sent or received."""
        self._active_transfers += 1
        self.metrics.active_transfers.set(self._active_transfers)
        try:
            yield
        finally:
            self._active_transfers -= 1
            self.metrics.active_transfers.set(self._active_transfers)

    @contextlib.contextmanager
    def room_for(self, content_bytes: int) -> Iterator[None]:
        """Keeps room for an upload while it arrives.

        Raises:
            NoRoom: with the uploads under way the disk would fall below its headroom.
        """
        disk = self.root.disk()
        headroom_bytes = int(disk.capacity_bytes * self.settings.disk_headroom_fraction)
        available_bytes = disk.free_bytes - headroom_bytes - self._announced_bytes
        if content_bytes > available_bytes:
            raise NoRoom(
                f"{content_bytes} bytes announced, {max(available_bytes, 0)} available on node {self.settings.node} "
                f"({disk.free_bytes} free, {headroom_bytes} kept as headroom, {self._announced_bytes} being received); "
                "free space or add nodes"
            )
        self._announced_bytes += content_bytes
        try:
            yield
        finally:
            self._announced_bytes -= content_bytes

    def status(self) -> AgentReport:
        """The report without tables."""
        return self._report(InventoryRequest(), with_tables=False)

    def report(self, request: InventoryRequest) -> AgentReport:
        """The report on the wanted tables.

        Raises:
            InvalidPath: a reference names a folder that is not allowed.
        """
        return self._report(request, with_tables=True)

    def _report(self, request: InventoryRequest, with_tables: bool) -> AgentReport:
        disk = self.root.disk()
        # In the order in which a folder can move meanwhile, so that it is told of at least once.
        unknown = self.inventory.unknown_directories(request.tables) if with_tables else ()
        recycled = tuple(sorted({str(one.table) for one in recycled_tables(self.root)}))
        report = AgentReport(
            node=self.settings.node,
            revision="",
            capacity_bytes=disk.capacity_bytes,
            free_bytes=disk.free_bytes // FREE_BYTES_STEP * FREE_BYTES_STEP,
            tables=self.inventory.report(request.tables) if with_tables else (),
            unknown_directories=unknown,
            recycled_directories=recycled,
            clones=read_progress(self.root),
        )
        update = {"revision": self._revision(report), "active_transfers": self._active_transfers}
        return report.model_copy(update=update)

    def _revision(self, report: AgentReport) -> str:
        """A digest of all but momentary figures. Tables are digested again only when their report is another object."""
        with self._digests_lock:
            known, self._digests = self._digests, {}
            for table in report.tables:
                key = (table.namespace, table.directory)
                before = known.get(key)
                same = before is not None and before[0] is table
                self._digests[key] = before if before is not None and same else (table, _digest(table))
            digests = [digest for _, digest in self._digests.values()]
        node_digest = _digest(report.model_copy(update={"tables": ()}))
        return hashlib.sha256("".join([node_digest, *digests]).encode()).hexdigest()


def _digest(content: BaseModel) -> str:
    return hashlib.sha256(content.model_dump_json().encode()).hexdigest()
