"""A limit on bytes per second that also notices, between two blocks, that the work shall stop."""

import threading
import time
from collections.abc import Callable
from typing import Protocol

MIB = 1 << 20
BURST_SECONDS = 0.5
"""Unused allowance is kept for so long: a short pause is made up for, a long one is not."""


class Stopped(Exception):
    """The work shall stop; it can be taken up again later."""


class Schedule(Protocol):
    """A token bucket: when the next bytes may go. Safe to share between threads.

    Within any time, as much is allowed as the rate gives in that time and ``BURST_SECONDS``, and one block more. Nobody
    waits while nothing is reserved.
    """

    def reserve(self, now: float, seconds: float) -> float:
        """Take the next ``seconds`` of the rate; how many seconds from ``now`` on they begin."""


class OwnSchedule:
    """The schedule of one process."""

    def __init__(self, now: float) -> None:
        self._due_at = now
        self._lock = threading.Lock()

    def reserve(self, now: float, seconds: float) -> float:
        """See ``Schedule``."""
        with self._lock:
            wait_seconds, self._due_at = reserved(self._due_at, now, seconds)
        return wait_seconds


def reserved(due_at: float, now: float, seconds: float) -> tuple[float, float]:
    """How long to wait for what is reserved now, and when the next bytes are due after it."""
    due_at = max(due_at, now - BURST_SECONDS)
    return max(due_at - now, 0.0), due_at + seconds


class Pace:
    """Keeps to a rate. Safe to share between threads: each waits for its own bytes, and all keep to one limit.

    Args:
        bytes_per_second: the limit; None = none.
        stop: when set, the next call raises; None = it never does.
        clock: monotonic seconds.
        schedule: shared with others that keep to the same limit; None = its own.
    """

    def __init__(
        self,
        bytes_per_second: float | None,
        stop: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
        schedule: Schedule | None = None,
    ) -> None:
        self._stop = stop or threading.Event()
        self._bytes_per_second = bytes_per_second
        self._clock = clock
        self._schedule = schedule or OwnSchedule(clock())

    def __call__(self, count: int) -> None:
        """Wait until ``count`` more bytes are allowed.

        Raises:
            Stopped: ``stop`` is set, before or while waiting.
        """
        wait_seconds = 0.0
        if self._bytes_per_second is not None:
            wait_seconds = self._schedule.reserve(self._clock(), count / self._bytes_per_second)
        if self._stop.wait(wait_seconds):
            raise Stopped
