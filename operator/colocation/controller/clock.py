"""The operator's clock: it starts at the API server's time and goes on at its own pace.

Whatever depends on "how long" (silence, grace, evidence, back-off) is decided from this clock, so stepping a wall clock
while the operator runs changes nothing, and the clock of the operator's own node never counts. Times that are shown, or
kept for after a restart, come from this clock too. An API server whose clock is stepped has shown a wrong time, then or
now: an operator that sees that for minutes ends, to be started again with the right one.
"""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

MOST_OFF_SECONDS = 60.0
OFF_FOR_SECONDS = 120.0
"""API servers may differ, and take turns."""


class ClockStepped(Exception):
    """The time of day is not what this clock has made of it."""


class SteadyClock:
    """Times that never jump, but once by ``set``.

    Args:
        wall: the time of day, asked at the start, by ``set``, and by ``check``.
        monotonic: seconds that never go back.
    """

    def __init__(self, wall: Callable[[], datetime], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self.set()

    def set(self) -> None:
        """Start at the time of day: for when that is known better than at the start, and nothing was decided yet."""
        self._started = self._monotonic()
        self._wall_at_start = self._wall()
        self._off: tuple[bool, float] | None = None

    def now(self) -> datetime:
        """The time, in UTC."""
        return self._wall_at_start + timedelta(seconds=self._monotonic() - self._started)

    def check(self) -> None:
        """To be asked all the time.

        Raises:
            ClockStepped: the time of day has been ahead, or behind, of this clock for minutes.
        """
        off_seconds = (self._wall() - self.now()).total_seconds()
        if abs(off_seconds) <= MOST_OFF_SECONDS:
            self._off = None
            return
        is_ahead, now = off_seconds > 0, self._monotonic()
        if self._off is None or self._off[0] is not is_ahead:
            self._off = is_ahead, now
        if now - self._off[1] >= OFF_FOR_SECONDS:
            raise ClockStepped(
                f"the API server's clock differs by {off_seconds:+.0f} s from what it showed when this operator started"
            )
