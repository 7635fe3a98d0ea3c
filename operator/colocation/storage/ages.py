"""For how long files have been seen unneeded. A restart, a lost ledger or a stepped clock only makes files younger.

On each pass an agent sees which files of a place are unneeded. For each the ledger keeps since when it has been
unneeded without a break and unchanged, as a reading of the node's own clock. This clock runs only while an agent runs:
the ledger keeps its last reading, and a process adds its own monotonic time. Wall clocks and modification times decide
nothing. If two agents overlap, the later one continues the clock, and the earlier one ignores what the later one saw.
While no agent runs, files do not age, and files without a record count as first seen now.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from .ledger import FileIdentity, Ledger, Sighting

_CLOCK = ("", "clock")
"""Place and path of the row with the clock's last reading."""
_NO_FILE = FileIdentity(0, 0, 0)

Item = TypeVar("Item")


def compared(
    known: Mapping[Item, Sighting], seen: Mapping[Item, FileIdentity], now: float, agent: int = 0
) -> tuple[dict[Item, float], dict[Item, Sighting]]:
    """For how many seconds each item has been seen, and the new sightings. Pure.

    An item is new if it looks different than before, or if a later agent recorded it.
    """
    new = {
        item: Sighting(identity, now, agent)
        for item, identity in seen.items()
        if (before := known.get(item)) is None or before.identity != identity or before.agent > agent
    }
    return {item: 0.0 if item in new else now - known[item].since for item in seen}, new


class Ages:
    """Ages of unneeded files. Safe to share between threads; only one thread at a time may ask about a place.

    Args:
        ledger: where sightings are kept.
        monotonic: seconds that never go back.
    """

    def __init__(self, ledger: Ledger, monotonic: Callable[[], float]) -> None:
        self._ledger = ledger
        self._monotonic = monotonic
        self._started = monotonic()
        before = self._clock()
        self._before_seconds, self._agent = (before.since, before.agent + 1) if before else (0.0, 1)
        self._save()

    @property
    def now(self) -> float:
        """The reading of the node's clock: for how long agents have run here, as far as recorded."""
        return self._before_seconds + self._monotonic() - self._started

    def save(self) -> None:
        """Record the clock's reading. Time after the last record is lost with the process."""
        clock = self._clock()
        if clock is None or clock.agent <= self._agent:
            self._save()

    def _save(self) -> None:
        self._ledger.record_sightings(_CLOCK[0], {_CLOCK[1]: Sighting(_NO_FILE, self.now, self._agent)})

    def of(self, place: str, seen: Mapping[str, FileIdentity], is_all: bool = True) -> dict[str, float]:
        """For how many seconds each of these files has been seen unneeded; 0 for those first seen now.

        ``is_all``: these are all unneeded files of the place. Files seen before and missing now are needed again or
        gone, and are forgotten.
        """
        known = self._ledger.sightings(place)
        ages, new = compared(known, seen, self.now, self._agent)
        self._ledger.record_sightings(place, new)
        if is_all:
            self._ledger.forget_sightings(place, known.keys() - seen.keys())
        return ages

    def _clock(self) -> Sighting | None:
        return self._ledger.sightings(_CLOCK[0]).get(_CLOCK[1])

    def forget(self, place: str, paths: Iterable[str]) -> None:
        """Mark files as needed: their age restarts when they are next seen unneeded."""
        self._ledger.forget_sightings(place, paths)


def older(ages: Mapping[Item, float], seconds: float) -> Collection[Item]:
    """Items that have been seen unneeded for at least so long."""
    return {item for item, age in ages.items() if age >= seconds}
