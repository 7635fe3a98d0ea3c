"""Virtual time: an event loop that jumps to the next timer, one thread of control, and clocks that can be stepped.

Operators, agents, loaders and users are ordinary coroutines on this loop, so the real code runs unchanged: its sleeps,
timeouts and thread pools too. Whatever happens follows from the seed.
"""

import asyncio
import functools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

START = datetime(2026, 11, 21, tzinfo=UTC)
Answer = TypeVar("Answer")


class DeadLock(Exception):
    """Nothing is to run and no timer is set: the simulation waits for ever."""


class _Jump:
    """In the place of a selector: instead of waiting for sockets, time goes on."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise DeadLock("nothing is left to run")
        if timeout > 0:
            self._loop.elapsed += timeout
        return []

    def close(self) -> None:
        """Nothing is open."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without sockets, threads or waiting. ``elapsed``: virtual seconds since it began."""

    def __init__(self) -> None:
        super().__init__()
        self.elapsed = 0.0
        self._selector = _Jump(self)
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self.elapsed

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, function: Callable[..., Answer], *args: Any
    ) -> "asyncio.Future[Answer]":
        """As a thread would: the function runs at one later moment, and its answer arrives later still.

        It runs even if no one waits for it any more: a request that is sent cannot be called back.
        """
        future: asyncio.Future[Answer] = self.create_future()
        way = _way_of(function, args)
        self.call_later(way(), self._run_far_away, future, way, function, args)
        return future

    def _run_far_away(
        self, future: "asyncio.Future[Answer]", way: Callable[[], float], function: Callable[..., Answer], args: Any
    ) -> None:
        try:
            answer = function(*args)
        except Exception as error:  # noqa: BLE001 - a thread's error is its future's, whatever it is
            self.call_later(way(), _settle, future, None, error)
        else:
            self.call_later(way(), _settle, future, answer, None)

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """No one sleeps who would have to be woken."""


def _way_of(function: Callable[..., Any], args: Any) -> Callable[[], float]:
    """How long the way is to what the call is about (its ``way_seconds``); no time when nothing of it is far away."""
    while isinstance(function, functools.partial):
        args = (*function.args, *args)
        function = function.func
    for one in (getattr(function, "__self__", None), *args):
        if hasattr(one, "way_seconds"):
            return one.way_seconds
    return lambda: 0.0


def _settle(future: "asyncio.Future[Any]", answer: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
        future.exception()  # looked at: no one may be waiting for it any more
    else:
        future.set_result(answer)


class WallClock:
    """A machine's wall clock: it goes right, but for the steps that somebody or NTP makes it take."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.step_seconds = 0.0

    def now(self) -> datetime:
        """What the clock shows."""
        return START + timedelta(seconds=self._loop.elapsed + self.step_seconds)

    def seconds(self) -> float:
        """The same in seconds, as file systems count."""
        return self._loop.elapsed + self.step_seconds
