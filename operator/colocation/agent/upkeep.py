"""The agent's background work: one thread that hashes, sweeps, scrubs and purges, and stops at once when told."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from colocation.storage import incoming, removal, upkeep
from colocation.storage.inventory import Inventory
from colocation.storage.root import DataRoot

from .settings import MIB, Settings

TICK_SECONDS = 1.0
CLEANING_INTERVAL_SECONDS = 60.0
MAX_BURST_SECONDS = 0.5

_log = logging.getLogger(__name__)


class Stopped(Exception):
    """The agent is stopping; the step is given up and will be done after the next start."""


class Pace:
    """Keeps reads below a rate, and notices a stop between two blocks."""

    def __init__(self, stop: threading.Event, bytes_per_second: float | None) -> None:
        self._stop = stop
        self._bytes_per_second = bytes_per_second
        self._allowed_at = time.monotonic()

    def __call__(self, count: int) -> None:
        """Wait until ``count`` more bytes may be read.

        Raises:
            Stopped: the agent is stopping.
        """
        now = time.monotonic()
        wait_seconds = 0.0
        if self._bytes_per_second is not None:
            self._allowed_at = max(self._allowed_at, now - MAX_BURST_SECONDS) + count / self._bytes_per_second
            wait_seconds = max(self._allowed_at - now, 0.0)
        if self._stop.wait(wait_seconds):
            raise Stopped


@dataclass
class _Task:
    """A step, how often it is due (seconds), and when it was last begun (monotonic seconds)."""

    step: Callable[[], object]
    interval_seconds: float
    begun_at: float = float("-inf")


class Upkeep:
    """Runs the steps of ``colocation.storage.upkeep``. A step that fails is logged and done again when next due."""

    def __init__(self, settings: Settings, root: DataRoot, inventory: Inventory) -> None:
        self.scanned = threading.Event()
        self._root = root
        self._inventory = inventory
        self._stop = threading.Event()
        free_pace = Pace(self._stop, None)
        scrub_pace = Pace(self._stop, settings.scrub_mib_per_second * MIB)
        self._tasks = (
            _Task(self._clean, CLEANING_INTERVAL_SECONDS),
            _Task(self._sweep, settings.sweep_interval_seconds),
            _Task(lambda: upkeep.hash_unverified(inventory, free_pace), TICK_SECONDS),
            _Task(
                lambda: upkeep.scrub_batch(root, inventory, settings.scrub_interval_seconds, scrub_pace), TICK_SECONDS
            ),
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

    def _sweep(self) -> None:
        upkeep.sweep(self._inventory)
        self.scanned.set()
