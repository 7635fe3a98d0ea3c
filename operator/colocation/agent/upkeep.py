"""The agent's background work: hashing, looking, sweeping, scrubbing, purging, probing the disk."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from colocation.common.logs import audit
from colocation.storage import incoming, recycling
from colocation.storage.bandwidth import MIB, Pace, Stopped
from colocation.storage.disk_health import PROBE_SECONDS, DiskHealth
from colocation.storage.errors import StorageError, all_attempted
from colocation.storage.inventory import (
    SCRUB_BATCH_FILES,
    Inventory,
    hash_unverified,
    look,
    scrub_backlog,
    scrub_batch,
    sweep,
)
from colocation.storage.paths import TablePath
from colocation.storage.quarantine import QuarantinePurge

from .metrics import Metrics
from .settings import Settings

HASH_PAUSE_SECONDS = 1.0
SCRUB_PAUSE_SECONDS = 1.0
CLEANING_PAUSE_SECONDS = 60.0
BACKLOG_SECONDS = 60.0
"""The scrub's backlog is counted so often: the ledger answers no other query meanwhile."""
LOOK_PAUSE_SECONDS = 2.0
LOOK_PAUSE_FACTOR = 100
"""After a look or a sweep the next one waits a hundred times as long as it took, so each costs at most one percent of a
processor, and manual changes on nodes with very many partitions are noticed minutes later. Clones announce what they
publish, and this process knows its own changes.
"""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """A step, and the pause after it: at least ``pause_seconds``, and ``pause_factor`` times the duration of the step.

    ``delay_seconds``: before the first step.
    """

    name: str
    step: Callable[[], object]
    pause_seconds: float
    pause_factor: float = 0.0
    delay_seconds: float = 0.0

    def pause_after(self, seconds: float) -> float:
        """How long to wait after a step that took so long."""
        return max(self.pause_seconds, self.pause_factor * seconds)


class Upkeep:
    """Runs each background step in a thread of its own: a scrub takes days, a sweep less.

    A failed step is logged and repeated when it is next due. ``is_wanted``: see ``recycling.Purge``.
    """

    def __init__(
        self,
        settings: Settings,
        inventory: Inventory,
        metrics: Metrics,
        is_wanted: Callable[[TablePath], bool],
        health: DiskHealth,
    ) -> None:
        self.scanned = threading.Event()
        root = self._root = inventory.root
        self._inventory = inventory
        self._metrics = metrics
        self._purge = recycling.Purge(root, is_wanted)
        self._stop = threading.Event()
        self._quarantine = QuarantinePurge(root, inventory.live_digests, Pace(None, self._stop))
        self._hash_pace = Pace(None, self._stop)
        self._look_pace = Pace(None, self._stop)
        self._sweep_pace = Pace(None, self._stop)
        self._backlog_counted_at = -BACKLOG_SECONDS
        self._scrub_interval_seconds = settings.scrub_interval_seconds
        self._scrub_pace = Pace(settings.scrub_mib_per_second * MIB, self._stop)
        self.tasks = (
            Task("sweep", self._sweep, settings.sweep_interval_seconds, LOOK_PAUSE_FACTOR),
            Task("look", self._look, LOOK_PAUSE_SECONDS, LOOK_PAUSE_FACTOR),
            Task("hash", self._hash, HASH_PAUSE_SECONDS),
            Task("scrub", self._scrub, SCRUB_PAUSE_SECONDS),
            Task("clean", self._clean, CLEANING_PAUSE_SECONDS),
            Task("probe", health.probe, PROBE_SECONDS, delay_seconds=PROBE_SECONDS),
        )
        for task in self.tasks:
            metrics.upkeep_failures.labels(task.name)  # from 0 on: increase() would not count the first one
        self._threads = [
            threading.Thread(target=self._repeat, args=(task,), name=task.name, daemon=True) for task in self.tasks
        ]

    def start(self) -> None:
        """Start the threads; ``scanned`` is set once every table was swept."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Abandon the running steps and wait for the threads."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def ended_threads(self) -> list[str]:
        """Threads that ended although they were not stopped: a bug."""
        return [thread.name for thread in self._threads if not thread.is_alive() and not self._stop.is_set()]

    def _repeat(self, task: Task) -> None:
        self._stop.wait(task.delay_seconds)
        while not self._stop.is_set():
            started = time.monotonic()
            try:
                task.step()
            except Stopped:
                return
            except (OSError, StorageError):
                _log.exception("%s failed; it will be repeated", task.name)
                self._metrics.upkeep_failures.labels(task.name).inc()
            self._stop.wait(task.pause_after(time.monotonic() - started))

    def _clean(self) -> None:
        self._root.ages.save()
        with all_attempted() as attempt:
            with attempt("to remove stale uploads and clones"):
                incoming.remove_stale(self._root)
            with attempt("to purge the quarantine"):
                self._quarantine.run()
            with attempt("to purge the recycle bin"):
                self._empty_bin()

    def _empty_bin(self) -> None:
        for table in self._purge.run():
            audit(_log, "purge", namespace=table.namespace, directory=table.directory, outcome="done", user="agent")

    def _hash(self) -> None:
        hash_unverified(self._inventory, self._hash_pace)

    def _scrub(self) -> None:
        while True:
            scrubbed = scrub_batch(self._inventory, self._scrub_interval_seconds, self._scrub_pace)
            self._metrics.scrubbed_bytes.inc(scrubbed.bytes)
            self._count_backlog()
            if scrubbed.files < SCRUB_BATCH_FILES:
                return

    def _count_backlog(self) -> None:
        now = self._root.monotonic()
        if now - self._backlog_counted_at < BACKLOG_SECONDS:
            return
        self._backlog_counted_at = now
        backlog = scrub_backlog(self._inventory, self._scrub_interval_seconds)
        self._metrics.scrub_backlog_files.set(backlog.files)
        self._metrics.scrub_backlog_bytes.set(backlog.bytes)

    def _look(self) -> None:
        if self.scanned.is_set():  # the first sweep covers everything
            look(self._inventory, self._look_pace)

    def _sweep(self) -> None:
        sweep(self._inventory, self._sweep_pace)
        self.scanned.set()
