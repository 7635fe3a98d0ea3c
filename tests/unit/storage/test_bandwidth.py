"""The limit on bytes per second, in virtual time."""

import threading

import pytest

from colocation.storage.bandwidth import BURST_SECONDS, NodeSchedule, Pace, Stopped
from colocation.storage.root import DataRoot


class Time(threading.Event):
    """A clock, and the event whose waits move it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        """Let time pass; returns whether the event is set, as an Event does."""
        self.now += timeout or 0.0
        return self.is_set()


def test_keeps_to_the_rate() -> None:
    """A hundred blocks of 10 bytes at 100 bytes per second take ten seconds, less the last block."""
    time = Time()
    pace = Pace(100.0, time, clock=time)
    for _ in range(100):
        pace(10)
    assert time.now == pytest.approx(100.0 + 9.9)


def test_makes_up_only_for_short_pauses() -> None:
    """After a long pause at most half a second's bytes may go immediately."""
    time = Time()
    pace = Pace(100.0, time, clock=time)
    pace(10)
    time.now += 1000.0
    resumed_at = time.now
    for _ in range(100):
        pace(10)
    assert time.now - resumed_at == pytest.approx(9.9 - BURST_SECONDS)


def test_clones_of_a_node_share_one_limit(root: DataRoot) -> None:
    """Whichever has written; a schedule of another boot of the kernel counts for nothing. A closed one refuses."""
    time = Time()
    schedules = [NodeSchedule(root, boot) for boot in ("this", "this", "another")]
    paces = [Pace(100.0, time, time, one) for one in schedules]
    for _ in range(50):
        for pace in paces[:2]:
            pace(10)
    assert time.now == pytest.approx(100.0 + 9.9)
    paces[2](1000)
    assert time.now == pytest.approx(100.0 + 9.9)
    for schedule in schedules:
        schedule.close()
        with pytest.raises(ValueError, match="negative"):
            schedule.reserve(time.now, 1.0)


def test_no_limit_never_waits() -> None:
    """Without a rate there are no waits."""
    time = Time()
    pace = Pace(None, time, clock=time)
    for _ in range(100):
        pace(1 << 30)
    assert time.now == 100.0


def test_stops_before_the_next_block() -> None:
    """Once the event is set the next block is not read, with or without a limit."""
    for rate in (None, 100.0):
        time = Time()
        pace = Pace(rate, time, clock=time)
        pace(10)
        time.set()
        with pytest.raises(Stopped):
            pace(10)
