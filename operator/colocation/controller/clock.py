"""The operator's clock: it starts at the API server's time and goes on at its own pace.

Whatever depends on "how long" (silence, grace, evidence, back-off) is decided from this clock, so stepping a wall clock
while the operator runs changes nothing, and the clock of the operator's own node never counts. Times that are shown, or
kept for after a restart, come from this clock too: after a step of the API server's they are off by the step until the
operator starts again.
"""

import time
from collections.abc import Callable
from datetime import datetime, timedelta


class SteadyClock:
    """Times that never jump, but once by ``set``.

    Args:
        wall: the time of day, asked at the start, and by ``set``.
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

    def now(self) -> datetime:
        """The time, in UTC."""
        return self._wall_at_start + timedelta(seconds=self._monotonic() - self._started)
