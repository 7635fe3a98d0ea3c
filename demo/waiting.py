"""Waiting for a state of the cluster, with a deadline and a message with what was last seen."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class DeadlinePassed(RuntimeError):
    """The awaited state did not come in time."""


def wait_until(what: str, look: Callable[[], T | None], *, deadline_seconds: float, interval_seconds: float = 0.5) -> T:
    """The first value other than None and False that ``look`` returns.

    Raises:
        DeadlinePassed: with ``what``, when there was none within the deadline.
    """
    end = time.monotonic() + deadline_seconds
    while True:
        value = look()
        if value:
            return value
        if time.monotonic() > end:
            raise DeadlinePassed(f"{what}: not within {deadline_seconds:.0f} s")
        time.sleep(interval_seconds)
