"""For how long files have been seen unneeded. A restart, a lost ledger or a stepped clock makes them younger only.

An agent sees in a pass which files of a place are unneeded. The ledger keeps since when it has seen each of them so,
without a break and unchanged: one row per file, written when it is first seen. "Since when" is a reading of the node's
own clock, which goes on only while an agent runs: the ledger keeps its last reading, too, and a process adds its
monotonic time to that. No wall clock and no modification time decides anything. Where two agents overlap, the later one
goes on with the clock, and the earlier one does not count what the later one saw. While no agent runs no file grows
old, and what is not known to have been seen before was first seen now.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from .ledger import FileIdentity, Ledger, Sighting

_CLOCK = ("", "clock")
"""Place and path of the row that holds the clock's last reading."""
_NO_FILE = FileIdentity(0, 0, 0)

Item = TypeVar("Item")


def compared(
    known: Mapping[Item, Sighting], seen: Mapping[Item, FileIdentity], now: float, agent: int = 0
) -> tuple[dict[Item, float], dict[Item, Sighting]]:
    """For how many seconds each has been seen, and the sightings that are new. Pure.

    One that looks different than before, or that a later agent saw, is new.
    """
    new = {
        item: Sighting(identity, now, agent)
        for item, identity in seen.items()
        if (before := known.get(item)) is None or before.identity != identity or before.agent > agent
    }
    return {item: 0.0 if item in new else now - known[item].since for item in seen}, new


class Ages:
    """Safe to share between threads. Of one place one thread at a time may ask.

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
        """The reading of the node's clock: how long agents have run here, as far as was written down."""
        return self._before_seconds + self._monotonic() - self._started

    def save(self) -> None:
        """Write down the clock's reading. What passes after the last time is lost with the process."""
        clock = self._clock()
        if clock is None or clock.agent <= self._agent:
            self._save()

    def _save(self) -> None:
        self._ledger.record_sightings(_CLOCK[0], {_CLOCK[1]: Sighting(_NO_FILE, self.now, self._agent)})

    def of(self, place: str, seen: Mapping[str, FileIdentity], is_all: bool = True) -> dict[str, float]:
        """For how many seconds each of these files has been seen unneeded, those that are first seen now for none.

        ``is_all``: these are all that are unneeded in this place; what was seen before and is not among them is needed
        again, or gone, and is forgotten.
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
        """These are needed: their time begins again when they are next seen unneeded."""
        self._ledger.forget_sightings(place, paths)


def older(ages: Mapping[Item, float], seconds: float) -> Collection[Item]:
    """Those that have been seen unneeded for so long."""
    return {item for item, age in ages.items() if age >= seconds}
