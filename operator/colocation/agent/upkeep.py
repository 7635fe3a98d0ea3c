"""The agent's background work: one thread that hashes, sweeps, scrubs and purges, and stops at once when told."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from colocation.storage import incoming, removal, upkeep
from colocation.storage.inventory import Inventory
from colocation.storage.pace import MIB, Pace, Stopped
from colocation.storage.root import DataRoot

from .metrics import Metrics
from .settings import Settings

TICK_SECONDS = 1.0
CLEANING_INTERVAL_SECONDS = 60.0

_log = logging.getLogger(__name__)


@dataclass
class _Task:
    """A step, how often it is due (seconds), and when it was last begun (monotonic seconds)."""

    step: Callable[[], object]
    interval_seconds: float
    begun_at: float = float("-inf")


class Upkeep:
    """Runs the steps of ``colocation.storage.upkeep``. A step that fails is logged and done again when next due."""

    def __init__(self, settings: Settings, root: DataRoot, inventory: Inventory, metrics: Metrics) -> None:
        self.scanned = threading.Event()
        self._root = root
        self._inventory = inventory
        self._stop = threading.Event()
        free_pace = Pace(None, self._stop)
        self._metrics = metrics
        self._scrub_interval_seconds = settings.scrub_interval_seconds
        self._scrub_pace = Pace(settings.scrub_mib_per_second * MIB, self._stop)
        self._tasks = (
            _Task(self._clean, CLEANING_INTERVAL_SECONDS),
            _Task(self._sweep, settings.sweep_interval_seconds),
            _Task(lambda: upkeep.hash_unverified(inventory, free_pace), TICK_SECONDS),
            _Task(self._scrub, TICK_SECONDS),
        )
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def start(self) -> None:
        """Begin; ``scanned`` is set once every table was looked at."""
        self._thread.start()

    def stop(self) -> None:
        """Give up the running step and wait for the thread."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            for task in self._tasks:
                if time.monotonic() - task.begun_at >= task.interval_seconds:
                    task.begun_at = time.monotonic()
                    self._attempt(task.step)
            self._stop.wait(TICK_SECONDS)

    def _attempt(self, step: Callable[[], object]) -> None:
        try:
            step()
        except Stopped:
            _log.info("upkeep stops")
        except OSError:
            _log.exception("upkeep failed; it is tried again")

    def _clean(self) -> None:
        incoming.remove_stale(self._root)
        removal.purge_expired(self._root)

    def _scrub(self) -> None:
        scrubbed = upkeep.scrub_batch(self._root, self._inventory, self._scrub_interval_seconds, self._scrub_pace)
        self._metrics.scrubbed_bytes.inc(scrubbed.bytes)

    def _sweep(self) -> None:
        upkeep.sweep(self._inventory)
        self.scanned.set()
