"""How old files are at least, whatever the wall clock does.

A file's modification time is what the wall clock said when it was written, and that clock may be stepped: forward, and
the files of a load under way look older than the grace; back and forth, and they look as old as the step was wide. So
age is measured on a steady clock (the wall clock at the process's start plus monotonic time), and from the lowest that
the wall clock was ever seen to be behind it: a file cannot have been written earlier than that. What was written before
the process started has no age that can be trusted; it is as old as the process at least. The error is always to the
young side: a step costs disk space until the agent's next restart, never a file.
"""

import threading
from collections.abc import Callable


class Ages:
    """Safe to share between threads.

    Args:
        wall: seconds since the epoch; may jump.
        monotonic: seconds that never go back.
    """

    def __init__(self, wall: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._started = monotonic()
        self._wall_at_start = wall()
        self._least_offset_seconds = 0.0

    def note(self) -> None:
        """Take note of how far the wall clock is off. Call it whenever a file gets its modification time."""
        steady = self._wall_at_start + self._monotonic() - self._started
        offset_seconds = self._wall() - steady
        with self._lock:
            self._least_offset_seconds = min(self._least_offset_seconds, offset_seconds)

    def is_older(self, modified_at: float, seconds: float) -> bool:
        """Whether a file that was modified then (seconds since the epoch) is certainly older than so many seconds.

        Zero seconds = every file is.
        """
        if seconds <= 0:
            return True
        self.note()
        uptime_seconds = self._monotonic() - self._started
        earliest_now = self._wall_at_start + uptime_seconds + self._least_offset_seconds
        return uptime_seconds >= seconds and earliest_now - modified_at >= seconds
