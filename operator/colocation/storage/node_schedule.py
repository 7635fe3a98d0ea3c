"""One budget for all clone Jobs that write to a node: a schedule in a file below ``.incoming``.

Each Job is a pod of its own; the data root is all that they share. The file has one line: the id of the kernel's boot,
and when the next bytes are due on its monotonic clock, which all pods of a node read alike. A Job that runs alone has
the whole budget, and one that is killed holds nobody up.
"""

import fcntl
import math
import os
import threading
from pathlib import Path

from colocation.model.names import INCOMING_DIRECTORY

from .folders import FILE_MODE
from .pace import reserved
from .root import DataRoot

SCHEDULE_FILE = "clones.due"
MAX_WAIT_SECONDS = 60.0
"""However wrong the file is, nobody waits longer; a clone that does not advance is given up after minutes."""
_LINE = "{:<40} {:032.9f}\n"
_LINE_BYTES = len(_LINE.format("", 0.0))


class NodeSchedule:
    """See ``pace.Schedule``; ``now`` has to be the kernel's monotonic clock.

    Args:
        root: the data root of the node.
        boot: the id of the kernel's boot; a clock of another boot counts for nothing.
    """

    def __init__(self, root: DataRoot, boot: str | None = None) -> None:
        self._boot = boot_id() if boot is None else boot
        self._lock = threading.Lock()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with root.folder((INCOMING_DIRECTORY,), create=True) as folder:
            self._descriptor = os.open(SCHEDULE_FILE, flags, FILE_MODE, dir_fd=folder)

    def close(self) -> None:
        """Release the file; nothing can be reserved any more."""
        with self._lock:
            os.close(self._descriptor)
            self._descriptor = -1  # the number may soon be another file's, and threads may still run

    def reserve(self, now: float, seconds: float) -> float:
        """See ``Schedule``.

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
        """What the file says; now, when it says nothing of this boot."""
        boot, _, text = os.pread(self._descriptor, _LINE_BYTES, 0).decode(errors="replace").partition(" ")
        try:
            due_at = float(text)
        except ValueError:
            return now
        return due_at if boot == self._boot and math.isfinite(due_at) else now


def boot_id() -> str:
    """Of the running kernel; empty where it tells none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
