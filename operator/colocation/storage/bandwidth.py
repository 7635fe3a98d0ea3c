"""Limits on bytes per second, for one process or for all clone Jobs that write to a node."""

import fcntl
import math
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from colocation.model.names import INCOMING_DIRECTORY

from .folders import FILE_MODE
from .root import DataRoot

MIB = 1 << 20
BURST_SECONDS = 0.5
"""Unused allowance is kept for so long, so short pauses are made up for and long ones are not."""

SCHEDULE_FILE = "clones.due"
MAX_WAIT_SECONDS = 60.0
"""Longest wait, whatever the file contains; a clone without progress is given up after minutes."""
_LINE = "{:<40} {:032.9f}\n"
_LINE_BYTES = len(_LINE.format("", 0.0))


class Stopped(Exception):
    """The work has to stop; it can be resumed later."""


class Schedule(Protocol):
    """A token bucket: when the next bytes may go. Safe to share between threads.

    In any period it allows what the rate gives in that period and ``BURST_SECONDS``, and one block more.
    """

    def reserve(self, now: float, seconds: float) -> float:
        """Take the next ``seconds`` of the rate; returns in how many seconds from ``now`` they begin."""


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
    """Keeps to a rate. Safe to share between threads: each waits for its own bytes, and all share one limit.

    Args:
        bytes_per_second: the limit; None = none.
        stop: when set, the next call raises; None = never.
        clock: monotonic seconds.
        schedule: shared with others under the same limit; None = its own.
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


class NodeSchedule:
    """The schedule that all clone Jobs of a node share, in a file below ``.incoming``.

    Each Job is a pod of its own and shares only the data root with the others. The file has one line: the id of the
    kernel's boot, and when the next bytes are due by its monotonic clock, which is the same in all pods of a node. A
    Job that runs alone has the whole budget, and a killed one blocks no other.

    Args:
        root: the data root of the node.
        boot: the id of the kernel's boot; readings of another boot's clock are ignored.
    """

    def __init__(self, root: DataRoot, boot: str | None = None) -> None:
        self._boot = boot_id() if boot is None else boot
        self._lock = threading.Lock()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with root.folder((INCOMING_DIRECTORY,), create=True) as folder:
            self._descriptor = os.open(SCHEDULE_FILE, flags, FILE_MODE, dir_fd=folder)

    def close(self) -> None:
        """Close the file; nothing can be reserved afterwards."""
        with self._lock:
            os.close(self._descriptor)
            self._descriptor = -1  # the number may soon be another file's, and threads may still run

    def reserve(self, now: float, seconds: float) -> float:
        """See ``Schedule``; ``now`` has to be the kernel's monotonic clock.

        Raises:
            OSError: the disk failed.
        """
        with self._lock:  # threads of one process share the file's lock
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            try:
                due_at = min(self._due_at(now), now + MAX_WAIT_SECONDS)
                wait_seconds, due_at = reserved(due_at, now, seconds)
                os.pwrite(self._descriptor, _LINE.format(self._boot, due_at).encode(), 0)
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return wait_seconds

    def _due_at(self, now: float) -> float:
        """When the next bytes are due by the file; now, if it has no reading of this boot."""
        boot, _, text = os.pread(self._descriptor, _LINE_BYTES, 0).decode(errors="replace").partition(" ")
        try:
            due_at = float(text)
        except ValueError:
            return now
        return due_at if boot == self._boot and math.isfinite(due_at) else now


def boot_id() -> str:
    """The id of the running kernel's boot; empty if the kernel gives none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
