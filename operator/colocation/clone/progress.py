"""How far the clone is, written where the node's agent finds it."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from colocation.model.agent import CloneProgress
from colocation.model.clone import CloneSpec
from colocation.storage.clone_progress import write_progress
from colocation.storage.root import DataRoot

INTERVAL_SECONDS = 1.0


class Progress:
    """Counts bytes and steps, and writes them at most once a second. Safe to share between threads.

    ``bytes_total`` is known once the clone has looked at everything.
    """

    def __init__(
        self, root: DataRoot, spec: CloneSpec, bytes_total: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._root = root
        self._spec = spec
        self._bytes_total = bytes_total
        self._bytes_done = 0
        self._steps = 0
        self._clock = clock
        self._due_at = clock()
        self._lock = threading.Lock()
        self.add(0)

    def add(self, count: int) -> None:
        """Count bytes as done; negative when received bytes turned out to be useless."""
        with self._lock:
            self._bytes_done += count
            self._write_when_due()

    def expect(self, bytes_total: int) -> None:
        """So many bytes are to be copied."""
        with self._lock:
            self._bytes_total = bytes_total

    def step(self, _bytes: int = 0) -> None:
        """Something was looked at that need not be copied."""
        with self._lock:
            self._steps += 1
            self._write_when_due()

    def _write_when_due(self) -> None:
        if self._clock() >= self._due_at:
            self._due_at = self._clock() + INTERVAL_SECONDS
            write_progress(self._root, self._current())

    def _current(self) -> CloneProgress:
        return CloneProgress(
            namespace=self._spec.namespace,
            group=self._spec.group,
            bucket=self._spec.bucket,
            bytes_done=min(self._bytes_done, self._bytes_total),
            bytes_total=self._bytes_total,
            steps=self._steps,
            updated_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        )
