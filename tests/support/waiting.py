"""Waiting for what other threads and processes do: by time, since a busy machine is slow."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Truth = TypeVar("Truth")


def until(condition: Callable[[], Truth], seconds: float = 100.0) -> Truth:
    """The first true value of ``condition``, asked ever more seldom, as asking costs time; fails after so many."""
    started = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - started
        assert waited < seconds, f"not true within {seconds} s"
        threading.Event().wait(min(0.01 + waited / 20, 0.5))
    return value
