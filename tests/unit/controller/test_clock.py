"""The operator's clock, and the API server's."""

from datetime import UTC, datetime, timedelta

import pytest

from colocation.controller.clock import SteadyClock
from colocation.kube.server_clock import ServerClock

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
TOMORROW = NOON + timedelta(days=1)


def test_stepping_the_wall_clock_moves_nothing() -> None:
    """Only the start is read from it."""
    walls, seconds = iter([NOON, NOON - timedelta(hours=2)]), iter([100.0, 160.0])
    clock = SteadyClock(lambda: next(walls), lambda: next(seconds))
    assert clock.now() == NOON + timedelta(seconds=60)


def test_time_of_day_that_is_known_later_is_set_once() -> None:
    """By whom it was asked for."""
    walls, seconds = iter([TOMORROW, NOON]), iter([100.0, 160.0, 165.0])
    clock = SteadyClock(lambda: next(walls), lambda: next(seconds))
    clock.set()
    assert clock.now() == NOON + timedelta(seconds=5)


def test_api_servers_clock_goes_on_between_its_answers() -> None:
    """Whatever the node's own shows."""
    seconds = iter([100.0, 107.5])
    clock = ServerClock(lambda: TOMORROW, lambda: next(seconds))
    clock.hear({"date": "Sat, 21 Nov 2026 12:00:00 GMT"})
    assert clock.now() == NOON + timedelta(seconds=7.5)


@pytest.mark.parametrize("headers", [{}, {"Date": ""}, {"Date": "noon"}, {"Date": "Sat, 21 Nov 99999 12:00:00 GMT"}])
def test_answer_without_a_time_changes_nothing(headers: dict[str, str]) -> None:
    """Until one has told it, the node's own clock is all there is."""
    clock = ServerClock(lambda: NOON, lambda: 0.0)
    clock.hear(headers)
    assert clock.now() == NOON
    clock.hear({"Date": "Sun, 22 Nov 2026 12:00:00 GMT"})
    clock.hear(headers)
    assert clock.now() == TOMORROW
