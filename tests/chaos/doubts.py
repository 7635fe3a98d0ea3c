"""Commands whose outcome no one knows, until nothing can come of them any more."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from colocation.model.names import RECOVER_PREFIX

QUIET_SECONDS = 60.0
"""An API server gives a request up after so long, whatever its client did meanwhile."""
JsonObject = Mapping[str, Any]


@dataclass
class Doubts:
    """Numbers of operations -> the table of each and when its client ended, by ``clock`` (seconds)."""

    clock: Callable[[], float] = time.monotonic
    _open: dict[int, tuple[str, float]] = field(default_factory=dict)
    _quiet_since: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, number: int, table: str) -> None:
        """The client of this command has ended, and it is not known what it did. ``table``: empty = of none."""
        with self._lock:
            self._open[number] = (table, self.clock())

    def api_was_away(self) -> None:
        """What the API server was asked before may be done by those that it informs, once they hear of it."""
        with self._lock:
            self._quiet_since = self.clock()

    def settled(self, groups: Iterable[JsonObject], tables: Iterable[JsonObject], is_fresh: bool) -> list[int]:
        """Commands of which all has come that will, each once: it is long over, API server and operator (``is_fresh``)
        have been there since, no one waits for a dropped table, and theirs is accepted or is not there at all.
        """
        asked = [name for group in groups for name in group["metadata"].get("annotations", {})]
        with self._lock:
            if not is_fresh or any(name.startswith(RECOVER_PREFIX) for name in asked):
                self._quiet_since = self.clock()
                return []
            moving = {one["metadata"]["name"] for one in tables if not _is_at_rest(one)}
            over = sorted(
                number for number, (table, ended) in self._open.items()
                if table not in moving and self.clock() - max(ended, self._quiet_since) > QUIET_SECONDS
            )  # fmt: skip
            for number in over:
                del self._open[number]
        return over


def _is_at_rest(table: JsonObject) -> bool:
    is_going = "deletionTimestamp" in table["metadata"]
    return bool(table.get("status", {}).get("accepted")) and not is_going
