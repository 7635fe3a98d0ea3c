"""State that the agent's request handlers share: data root, inventory, conversation, quotas, threads."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from aiohttp import web

from colocation.common.waiting import set_within
from colocation.model.agent import AgentReport
from colocation.model.conditions import is_disk_usable
from colocation.storage.disk_health import DiskHealth
from colocation.storage.inventory import Inventory
from colocation.storage.memory_limits import ManifestRoom
from colocation.storage.paths import TablePath
from colocation.storage.root import DataRoot

from .conversation import Conversation
from .inventory_answers import Answers, Bell
from .metrics import Metrics
from .quotas import CloneReadBudget, RunningReads, Turns, UploadRoom
from .settings import Settings

_log = logging.getLogger(__name__)

READ_THREADS = 16
WRITE_THREADS = 8
WORK_THREADS = 4
"""For work that may take minutes: performing deletions, and checks of single files."""
VERIFY_THREADS = 4
MAX_UPLOADS_OF_ACCOUNT, MAX_WAITING_UPLOADS, UPLOAD_WAIT_SECONDS = 64, 512, 20.0
MAX_UPLOADS_TO_NAMESPACE, MAX_WAITING_TO_NAMESPACE = 256, 1024
"""Of all accounts that send to one namespace: a tenant with many accounts gets no more."""
MAX_BATCHES_OF_ACCOUNT, MAX_WAITING_BATCHES, BATCH_WAIT_SECONDS = 32, 128, 20.0
MAX_VERIFICATIONS_OF_ACCOUNT, MAX_WAITING_VERIFICATIONS, VERIFICATION_WAIT_SECONDS = 4, 64, 600.0
MAX_DEEP_VERIFICATIONS, MAX_WAITING_DEEP_VERIFICATIONS = 1, 4
"""Of all accounts together: one reads the whole table."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class NamespaceFolders:
    """Makes the folders of namespaces before Spark's pods mount them: a pod does not see one that is made later.

    Used in one thread at a time.

    Args:
        root: the data root.
        health: of its disk.
    """

    def __init__(self, root: DataRoot, health: DiskHealth) -> None:
        self._root = root
        self._health = health
        self._ready: set[str] = set()

    def prepare(self, tables: Iterable[str]) -> None:
        """Make the folders of the namespaces of these tables (``<namespace>/<directory>``).

        Does nothing on a failing disk; the first file written makes the folder then.
        """
        fault = self._health.fault
        if fault and not is_disk_usable(fault.reason):
            return
        for namespace in sorted({table.partition("/")[0] for table in tables} - self._ready):
            try:
                self._root.own_namespace(namespace)
            except OSError as error:
                _log.warning("the folder of namespace %s was not made: %s", namespace, error)
            else:
                self._ready.add(namespace)


class Threads:
    """Threads for one kind of work, so that it delays no other kind. ``count`` functions run at a time."""

    def __init__(self, name: str, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, name)

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Call a function in one of the threads."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: function(*args, **kwargs))

    def close(self) -> None:
        """Wait for the running functions, and cancel the others."""
        self._pool.shutdown(cancel_futures=True)


class NodeState:
    """What the handlers share. File I/O runs in threads, never on the event loop.

    Threads by kind of work: ``reading``; ``writing`` uploads, so that a disk with slow writes delays no read;
    ``working`` for what may take minutes; ``verifying`` tables, and ``verifying_deeply``; ``reporting``, one thread, so
    that reports wait for each other and not for transfers.
    """

    def __init__(self, settings: Settings, root: DataRoot, metrics: Metrics) -> None:
        self.settings = settings
        self.root = root
        self.metrics = metrics
        memory = ManifestRoom(settings.memory_bytes)
        self.strays = memory.strays
        self.inventory = Inventory(root, memory)
        self.conversation = Conversation(root.monotonic)
        self.health = DiskHealth(root, settings.node, settings.require_mount_point)
        self.folders = NamespaceFolders(root, self.health)
        self.answers = Answers(settings.node, root, self.inventory, self.conversation, self.health)
        self.bell = Bell()
        self.answered_at = 0.0
        self.stopping = False
        self.turns_away = False
        self._running_requests = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._other_transfers = 0
        self.reads = RunningReads(metrics, self._note_running)
        self.clone_pace = CloneReadBudget(settings.clone_mib_per_second)
        self.reading = Threads("read", READ_THREADS)
        self.writing = Threads("write", WRITE_THREADS)
        self.working = Threads("work", WORK_THREADS)
        self.verifying = Threads("verify", VERIFY_THREADS)
        self.verifying_deeply = Threads("deep", MAX_DEEP_VERIFICATIONS)
        self.reporting = Threads("report", 1)
        self.room = UploadRoom(settings.node, root, settings.disk_headroom_fraction)
        self.uploads = Turns("uploads", MAX_UPLOADS_OF_ACCOUNT, MAX_WAITING_UPLOADS, UPLOAD_WAIT_SECONDS)
        self.uploads_to_namespace = Turns(
            "uploads", MAX_UPLOADS_TO_NAMESPACE, MAX_WAITING_TO_NAMESPACE, UPLOAD_WAIT_SECONDS
        )
        self.batches = Turns("requests for files", MAX_BATCHES_OF_ACCOUNT, MAX_WAITING_BATCHES, BATCH_WAIT_SECONDS)
        self.verifications = Turns(
            "verifications", MAX_VERIFICATIONS_OF_ACCOUNT, MAX_WAITING_VERIFICATIONS, VERIFICATION_WAIT_SECONDS
        )
        self.deep_verifications = Turns(
            "deep verifications", MAX_DEEP_VERIFICATIONS, MAX_WAITING_DEEP_VERIFICATIONS, VERIFICATION_WAIT_SECONDS
        )
        root.change_listeners.append(self.bell.ring)

    def close(self) -> None:
        """Wait for the threads' running calls."""
        for threads in (
            self.reading, self.writing, self.working, self.verifying, self.verifying_deeply, self.reporting
        ):  # fmt: skip
            threads.close()

    def stop_holding(self) -> None:
        """Answer the held questions, and hold no more."""
        self.stopping = True
        self.bell.ring()

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Counts a request that is being served."""
        self._running_requests += 1
        self._note_running()
        try:
            yield
        finally:
            self._running_requests -= 1
            self._note_running()

    @property
    def active_transfers(self) -> int:
        """Files being sent or received now."""
        return self._other_transfers + len(self.reads)

    async def finish(self, seconds: float) -> None:
        """Refuse new requests, and wait until the running ones have ended, at most so long."""
        self.turns_away = True
        self.stop_holding()
        await set_within(self._idle, seconds)

    @contextlib.contextmanager
    def transfer(self) -> Iterator[None]:
        """Counts a file being received, or files sent without the front."""
        self._other_transfers += 1
        self._note_running()
        try:
            yield
        finally:
            self._other_transfers -= 1
            self._note_running()

    def _note_running(self) -> None:
        self.metrics.active_transfers.set(self.active_transfers)
        if self._running_requests or self.reads:
            self._idle.clear()
        else:
            self._idle.set()

    def status(self) -> AgentReport:
        """The report without tables."""
        report = self.answers.unasked((), with_tables=False)
        return report.model_copy(update={"active_transfers": self.active_transfers})


@dataclass(frozen=True)
class TableRequest:
    """A request on one table by the account ``user``."""

    node: NodeState
    http: web.Request
    user: str
    table: TablePath
