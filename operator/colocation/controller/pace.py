"""How long an operator waits between passes when nothing happens."""

from .reconciler import PassResult

BUSY_SECONDS = 2.0
"""While something is under way."""
WRITTEN_SECONDS = 1.0
"""After a pass that wrote something: the next step may follow from it."""
MAX_FAILURE_SECONDS = 30.0
"""Between passes that do not happen, as the cluster cannot be observed."""

MAX_DOUBLINGS = 10


class Pace:
    """What always fails for one object does not slow the steps of all others, and is tried again as often as anything
    is looked at.

    Args:
        quiet_seconds: while nothing is under way.
    """

    def __init__(self, quiet_seconds: float) -> None:
        self._quiet_seconds = quiet_seconds
        self._failed_in_a_row = 0

    def interval(self, result: PassResult | None) -> float:
        """Seconds until the next pass, unless something happens before. ``result`` None: the pass did not happen."""
        if result is not None and result.has_advanced:
            self._failed_in_a_row = 0
            return WRITTEN_SECONDS
        if result is None or result.has_failed:
            self._failed_in_a_row += 1
            longest = MAX_FAILURE_SECONDS if result is None else min(self._quiet_seconds, MAX_FAILURE_SECONDS)
            return min(BUSY_SECONDS * 2 ** min(self._failed_in_a_row - 1, MAX_DOUBLINGS), longest)
        self._failed_in_a_row = 0
        return BUSY_SECONDS if result.is_busy else self._quiet_seconds
