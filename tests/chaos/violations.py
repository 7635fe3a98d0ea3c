"""What a checker finds, and which faults were in force when something happened."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from .fault_kinds import BY_NAME, FaultKind
from .history import FAIL, INVOKE, OK, Event

HEAL = "heal"


@dataclass(frozen=True)
class Violation:
    """``check``: which promise is broken; ``about``: the tables and groups concerned."""

    check: str
    at_seconds: float
    message: str
    about: tuple[str, ...] = ()
    number: int = 0

    def __str__(self) -> str:
        return f"{self.check} at {self.at_seconds:.1f} s: {self.message}"


@dataclass
class _Interval:
    kind: FaultKind
    began: float
    ended: float | None = None


@dataclass
class FaultsInForce:
    """From when to when each fault was in force, its aftermath included, as far as the history was read."""

    _intervals: dict[int, _Interval] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """An event of the process ``faults``: a fault is made (``invoke``, then ``ok`` or ``fail``), or healed.

        A failure that is ``untouched`` excuses nothing: nothing was done.
        """
        if event.name == HEAL and event.kind == OK:
            self._end(int(event.detail["fault"]), event.at_seconds)
        elif event.detail.get("untouched"):
            del self._intervals[event.number]
        elif event.name in BY_NAME and event.kind == INVOKE:
            self._intervals[event.number] = _Interval(BY_NAME[event.name], event.at_seconds)
        elif event.name in BY_NAME and (event.kind == FAIL or not event.detail.get("holds")):
            self._end(event.number, event.at_seconds)

    def _end(self, number: int, at_seconds: float) -> None:
        interval = self._intervals[number]
        if interval.ended is None:
            interval.ended = at_seconds + interval.kind.aftermath_seconds

    def during(self, began: float, ended: float) -> Iterable[FaultKind]:
        """The kinds of which one was in force at some time from ``began`` to ``ended``."""
        return {
            interval.kind.name: interval.kind
            for interval in self._intervals.values()
            if interval.began <= ended and (interval.ended is None or interval.ended >= began)
        }.values()

    def unsettling(self, at_seconds: float) -> bool:
        """Whether a fault because of which groups may be unstable is in force, its aftermath not included."""
        return any(
            interval.kind.unstable
            and interval.began <= at_seconds
            and (interval.ended is None or at_seconds <= interval.ended - interval.kind.aftermath_seconds)
            for interval in self._intervals.values()
        )

    def names(self, began: float, ended: float) -> list[str]:
        """The same as names, for messages."""
        return sorted(kind.name for kind in self.during(began, ended))
