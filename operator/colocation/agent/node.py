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
from .metrics import Metrics
from .settings import Settings

FILE_THREADS = 16

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
        self.answers = Answers(settings.node, root, self.inventory, self.conversation, self.health)
        self.bell = Bell()
        self.active_transfers = 0
        self.answered_at = 0.0
        self.stopping = False
        self._threads = ThreadPoolExecutor(FILE_THREADS, "files")
        self._report_thread = ThreadPoolExecutor(1, "report")
        self._announced_bytes = 0
        root.change_listeners.append(self.bell.ring)

    def close(self) -> None:
        """Wait for the threads' running calls."""
        self._threads.shutdown(cancel_futures=True)
        self._report_thread.shutdown(cancel_futures=True)

    def stop_holding(self) -> None:
        """Answer the questions that are held, and hold no more."""
        self.stopping = True
        self.bell.ring()

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Call a function that does file I/O, in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))

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
