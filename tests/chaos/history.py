"""Who did what when, and what was seen: events in the order in which the runner learned of them, JSON lines on disk.

An operation is one ``invoke`` and at most one completion with the same number: ``ok`` (it happened), ``fail`` (it did
not), ``info`` (no one knows: it may have happened, or may yet). ``seen`` is an observation without a beginning.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

Kind = Literal["invoke", "ok", "fail", "info", "seen"]
INVOKE: Final = "invoke"
OK: Final = "ok"
FAIL: Final = "fail"
INFO: Final = "info"
SEEN: Final = "seen"


@dataclass(frozen=True)
class Event:
    """One line of a history.

    Attributes:
        at_seconds: since the run began, on the runner's steady clock.
        process: who acted or looked: ``work``, ``queries``, ``faults``, ``watch``, ``runner``.
        kind: see the module.
        name: of the operation or observation, such as ``append``, ``query``, ``node-killed``, ``groups``.
        number: of the operation; an invocation and its completion share it. 0: an observation.
        detail: what it was done with, or what came of it.
    """

    at_seconds: float
    process: str
    kind: Kind
    name: str
    number: int = 0
    detail: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        said = json.dumps(self.detail, default=str, sort_keys=True)
        number = f" #{self.number}" if self.number else ""
        return f"{self.at_seconds:7.1f} s  {self.process:8} {self.kind:6} {self.name}{number} {said}"


class History:
    """All events of a run, for several threads. ``path``: where each is written as it comes."""

    def __init__(self, path: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._clock, self._began_at = clock, clock()
        self._file = path.open("w") if path else None
        self._next = 0
        self.events: list[Event] = []

    def now(self) -> float:
        """Seconds since the run began."""
        return self._clock() - self._began_at

    def note(self, process: str, kind: Kind, name: str, number: int = 0, /, **detail: Any) -> Event:
        """Add an event that happens now."""
        with self._lock:
            event = Event(round(self.now(), 3), process, kind, name, number, detail)
            self.events.append(event)
            if self._file:
                self._file.write(json.dumps(asdict(event), default=str) + "\n")
                self._file.flush()
            return event

    def invoke(self, process: str, name: str, /, **detail: Any) -> int:
        """An operation begins; returns its number."""
        with self._lock:
            self._next += 1
            number = self._next
        self.note(process, "invoke", name, number, **detail)
        return number

    def since(self, number: int) -> list[Event]:
        """The events from this index on."""
        with self._lock:
            return self.events[number:]

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()


def read(path: Path) -> list[Event]:
    """The events of a file; the last line of a runner that was killed may be torn, and is left out.

    Raises:
        ValueError: another line is no event; the message names which.
    """
    return list(_events(path.read_text().split("\n")))


def _events(lines: list[str]) -> Iterator[Event]:
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            yield Event(**json.loads(line))
        except (ValueError, TypeError) as error:
            if number == len(lines):
                return
            raise ValueError(f"line {number} is no event of a history: {error}") from error
