"""A limit on bytes per second that also notices, between two blocks, that the work shall stop."""

import threading
import time
from collections.abc import Callable

MIB = 1 << 20
BURST_SECONDS = 0.5
"""Unused allowance is kept for so long: a short pause is made up for, a long one is not."""


class Stopped(Exception):
    """The work shall stop; it can be taken up again later."""


class Pace:
    """A token bucket. Safe to share between threads: each waits for its own bytes, and all keep to one limit.

    Args:
        bytes_per_second: the limit; None = none.
        stop: when set, the next call raises; None = it never does.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        bytes_per_second: float | None,
        stop: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stop = stop or threading.Event()
        self._bytes_per_second = bytes_per_second
        self._clock = clock
        self._due_at = clock()
        self._lock = threading.Lock()

    def __call__(self, count: int) -> None:
        """Wait until ``count`` more bytes are allowed.

        Raises:
            Stopped: ``stop`` is set, before or while waiting.
        """
        wait_seconds = 0.0
        if self._bytes_per_second is not None:
            with self._lock:
                now = self._clock()
                self._due_at = max(self._due_at, now - BURST_SECONDS)
                wait_seconds = max(self._due_at - now, 0.0)
                self._due_at += count / self._bytes_per_second
        if self._stop.wait(wait_seconds):
            raise Stopped
