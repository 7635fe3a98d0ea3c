"""The operator's clock, and the API server's."""

from datetime import UTC, datetime, timedelta

import pytest

from colocation.common.server_clock import ServerClock
from colocation.controller.clock import ClockStepped, SteadyClock

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


def checked(steps: list[tuple[float, float]]) -> list[float]:
    """When a clock that started at noon notices steps of the time of day, which are (seconds, off by so many)."""
    seconds, off = [0.0], [0.0]
    clock = SteadyClock(lambda: NOON + timedelta(seconds=seconds[0] + off[0]), lambda: seconds[0])
    found = []
    for seconds[0], off[0] in steps:
        try:
            clock.check()
        except ClockStepped:
            found.append(seconds[0])
    return found


@pytest.mark.parametrize("off", [-86400.0, 86400.0, 61.0])
def test_wrong_time_at_the_start_is_found_out(off: float) -> None:
    """An operator that started just before NTP set the API server's clock ends; it starts with the right one."""
    assert checked([(10, off), (100, off), (130, off)]) == [130]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([(n, 59.0) for n in range(0, 600, 10)], id="by little"),
        pytest.param([(n, 300.0 if n % 40 else 0.0) for n in range(0, 600, 10)], id="API servers take turns"),
        pytest.param([(0, 300), (100, -300), (200, 300)], id="one ahead, one behind"),
    ],
)
def test_clocks_of_api_servers_may_differ(steps: list[tuple[float, float]]) -> None:
    """No one knows which is wrong, and an operator that ends all the time does no work."""
    assert checked(steps) == []


def test_api_servers_clock_goes_on_between_its_answers() -> None:
    """Whatever the node's own shows."""
    seconds = iter([100.0, 107.5])
    clock = ServerClock(lambda: TOMORROW, lambda: next(seconds))
    clock.hear({"date": "Sat, 21 Nov 2026 12:00:00 GMT"})
    assert clock.now() == NOON + timedelta(seconds=7.5)


@pytest.mark.parametrize("headers", [{}, {"Date": ""}, {"Date": "noon"}, {"Date": "Sat, 21 Nov 99999 12:00:00 GMT"}])
def test_answer_without_a_time_changes_nothing(headers: dict[str, str]) -> None:
    """Until one has reported it, the node's own clock is all there is."""
    clock = ServerClock(lambda: NOON, lambda: 0.0)
    clock.hear(headers)
    assert clock.now() == NOON
    clock.hear({"Date": "Sun, 22 Nov 2026 12:00:00 GMT"})
    clock.hear(headers)
    assert clock.now() == TOMORROW
