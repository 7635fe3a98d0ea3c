"""The operator's clock: it starts at the wall clock's time and goes on at its own pace.

Whatever depends on "how long" (silence, grace, evidence, back-off) is decided from this clock, so stepping the wall
clock while the operator runs changes nothing. Times that are shown, or kept for after a restart, come from this clock
too: after a step they are off by the step until the operator starts again.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


def wall_clock() -> datetime:
    """The wall clock: read once at the start, and for what only people read."""
    return datetime.now(UTC)


class SteadyClock:
    """Times that never jump.

    Args:
        wall: the wall clock, asked once.
        monotonic: seconds that never go back.
    """

    def __init__(
        self, wall: Callable[[], datetime] = wall_clock, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._monotonic = monotonic
        self._started = monotonic()
        self._wall_at_start = wall()

    def now(self) -> datetime:
        """The time, in UTC."""
        return self._wall_at_start + timedelta(seconds=self._monotonic() - self._started)
