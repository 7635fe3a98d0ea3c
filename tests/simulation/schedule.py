"""One thread of control: coroutines of operators run until their next request, and the schedule says whose turn it is.

No event loop and no wall clock: whatever happens follows from the seed.
"""

from collections.abc import Coroutine, Generator
from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2026, 11, 21, tzinfo=UTC)


class Clock:
    """Virtual time."""

    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class Turn:
    """Awaited before each request: everything else may happen here."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class Process:
    """A coroutine that is run from one request to the next, and may be killed in between."""

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._coroutine = coroutine

    def step(self) -> None:
        self._coroutine.send(None)

    def kill(self) -> None:
        self._coroutine.close()
