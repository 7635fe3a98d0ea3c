"""The operator's clock."""

from datetime import UTC, datetime, timedelta

from colocation.controller.clock import SteadyClock

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_stepping_the_wall_clock_moves_nothing() -> None:
    """Only the start is read from it."""
    walls, seconds = iter([NOON, NOON - timedelta(hours=2)]), iter([100.0, 160.0])
    clock = SteadyClock(lambda: next(walls), lambda: next(seconds))
    assert clock.now() == NOON + timedelta(seconds=60)
