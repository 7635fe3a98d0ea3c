"""The agent's background work: hashing, sweeping, scrubbing, purging; it stops at once when told."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from colocation.logs import audit
from colocation.storage import incoming, recycling, upkeep
from colocation.storage.errors import StorageError
from colocation.storage.inventory import Inventory
from colocation.storage.pace import MIB, Pace, Stopped
from colocation.storage.root import DataRoot

from .metrics import Metrics
from .settings import Settings

HASH_PAUSE_SECONDS = 1.0
SCRUB_PAUSE_SECONDS = 1.0
CLEANING_PAUSE_SECONDS = 60.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Task:
    """A step and the pause after it (seconds)."""

    name: str
    step: Callable[[], object]
    pause_seconds: float


class Upkeep:
    """Runs the steps of ``colocation.storage.upkeep``, each in a thread of its own: a scrub takes days, a sweep less.

    A step that fails is logged and done again when it is next due.
    """

    def __init__(self, settings: Settings, root: DataRoot, inventory: Inventory, metrics: Metrics) -> None:
        self.scanned = threading.Event()
        self._root = root
        self._inventory = inventory
        self._metrics = metrics
        self._purge = recycling.Purge(root)
        self._stop = threading.Event()
        self._hash_pace = Pace(None, self._stop)
        self._scrub_interval_seconds = settings.scrub_interval_seconds
        self._scrub_pace = Pace(settings.scrub_mib_per_second * MIB, self._stop)
        tasks = (
            _Task("sweep", self._sweep, settings.sweep_interval_seconds),
            _Task("hash", self._hash, HASH_PAUSE_SECONDS),
            _Task("scrub", self._scrub, SCRUB_PAUSE_SECONDS),
            _Task("clean", self._clean, CLEANING_PAUSE_SECONDS),
        )
        self._threads = [
            threading.Thread(target=self._repeat, args=(task,), name=task.name, daemon=True) for task in tasks
        ]

    def start(self) -> None:
        """Begin; ``scanned`` is set once every table was looked at."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Give up the running steps and wait for the threads."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def ended_threads(self) -> list[str]:
        """Threads that ended although nobody told them to: a fault of ours."""
        return [thread.name for thread in self._threads if not thread.is_alive() and not self._stop.is_set()]

    def _repeat(self, task: _Task) -> None:
        while not self._stop.is_set():
            try:
                task.step()
            except Stopped:
                return
            except (OSError, StorageError):
                _log.exception("%s failed; it is tried again", task.name)
            self._stop.wait(task.pause_seconds)

    def _clean(self) -> None:
        incoming.remove_stale(self._root)
        for table in self._purge.run():
            audit(_log, "purge", namespace=table.namespace, directory=table.directory, outcome="done", user="agent")

    def _hash(self) -> None:
        upkeep.hash_unverified(self._inventory, self._hash_pace)

    def _scrub(self) -> None:
        scrubbed = upkeep.scrub_batch(self._root, self._inventory, self._scrub_interval_seconds, self._scrub_pace)
        self._metrics.scrubbed_bytes.inc(scrubbed.bytes)

    def _sweep(self) -> None:
        upkeep.sweep(self._inventory)
        self.scanned.set()
