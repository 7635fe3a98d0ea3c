"""One node's state in the agent: data root, inventory, threads, and the reports made of them."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from colocation.model.agent import AgentReport
from colocation.storage.disk_health import DiskHealth
from colocation.storage.errors import NoRoom
from colocation.storage.inventory import Inventory
from colocation.storage.root import DataRoot

from .answers import Answers
from .bell import Bell
from .conversation import Conversation
from .folders import NamespaceFolders
from .metrics import Metrics
from .settings import Settings

READ_THREADS = 16
WRITE_THREADS = 8
WORK_THREADS = 4
"""For what may take minutes: verifying a table, and carrying out deletions."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class NodeState:
    """What the handlers share. File I/O runs in threads, never on the event loop."""

    def __init__(self, settings: Settings, root: DataRoot, metrics: Metrics) -> None:
        self.settings = settings
        self.root = root
        self.metrics = metrics
        self.inventory = Inventory(root)
        self.conversation = Conversation(root.monotonic)
        self.health = DiskHealth(root, settings.node, settings.require_mount_point)
        self.folders = NamespaceFolders(root, self.health)
        self.answers = Answers(settings.node, root, self.inventory, self.conversation, self.health)
        self.bell = Bell()
        self.active_transfers = 0
        self.answered_at = 0.0
        self.stopping = False
        self.turns_away = False
        self._running_requests = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._read_threads = ThreadPoolExecutor(READ_THREADS, "read")
        self._write_threads = ThreadPoolExecutor(WRITE_THREADS, "write")
        self._work_threads = ThreadPoolExecutor(WORK_THREADS, "work")
        self._report_thread = ThreadPoolExecutor(1, "report")
        self._announced_bytes = 0
        root.change_listeners.append(self.bell.ring)

    def close(self) -> None:
        """Wait for the threads' running calls."""
        for threads in (self._read_threads, self._write_threads, self._work_threads, self._report_thread):
            threads.shutdown(cancel_futures=True)

    def stop_holding(self) -> None:
        """Answer the questions that are held, and hold no more."""
        self.stopping = True
        self.bell.ring()

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Counts a request that is being served."""
        self._running_requests += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._running_requests -= 1
            if not self._running_requests:
                self._idle.set()

    async def finish(self, seconds: float) -> None:
        """Take no new requests, and wait until those that are being served have ended, at most so long."""
        self.turns_away = True
        self.stop_holding()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), seconds)

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Call a function that reads files, in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._read_threads, lambda: function(*args, **kwargs))

    async def run_write(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """As ``run``, for uploads: a disk that is slow to write delays no read."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._write_threads, lambda: function(*args, **kwargs))

    async def run_work(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """As ``run``, for what may take minutes: it delays neither reads nor uploads."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._work_threads, lambda: function(*args, **kwargs))

    async def run_report(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """As ``run``, in the one thread that makes reports: they wait for each other and not for transfers."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._report_thread, lambda: function(*args, **kwargs))

    @contextlib.contextmanager
    def transfer(self) -> Iterator[None]:
        """Counts a file being sent or received."""
        self.active_transfers += 1
        self.metrics.active_transfers.set(self.active_transfers)
        try:
            yield
        finally:
            self.active_transfers -= 1
            self.metrics.active_transfers.set(self.active_transfers)

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
        report = self.answers.unasked((), with_tables=False)
        return report.model_copy(update={"active_transfers": self.active_transfers})
