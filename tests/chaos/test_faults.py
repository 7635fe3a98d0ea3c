"""What a fault does to its target, where that follows from the die."""

from random import Random

import pytest

from .fault_kinds import BY_NAME
from .faults import LEAST_STEP_SECONDS, MOST_AHEAD_SECONDS, MOST_BEHIND_SECONDS, Faults, clock_step
from .targets import CannotNow


@pytest.mark.parametrize("name", BY_NAME)
def test_each_kind_of_fault_can_be_made(name: str) -> None:
    """None is only a line of the table."""
    assert callable(Faults(None, None)._action(name))  # type: ignore[arg-type]


def test_a_clock_is_stepped_ahead_and_behind_within_its_limits() -> None:
    """No further behind than certificates of an old CA allow."""
    steps = [clock_step(Random(seed), 86400.0) for seed in range(200)]
    assert all(abs(step) >= LEAST_STEP_SECONDS for step in steps)
    assert -MOST_BEHIND_SECONDS <= min(steps) < -MOST_AHEAD_SECONDS < MOST_AHEAD_SECONDS / 2 < max(steps)
    assert max(steps) <= MOST_AHEAD_SECONDS


def test_a_clock_goes_to_no_time_before_the_agents_authority() -> None:
    """It is a fresh one in a fresh cluster; a younger one than the least step leaves only the way ahead."""
    assert min(clock_step(Random(seed), 150.0) for seed in range(200)) >= -150
    ahead = next(seed for seed in range(200) if clock_step(Random(seed), 150.0) > 0)
    behind = next(seed for seed in range(200) if clock_step(Random(seed), 150.0) < 0)
    assert clock_step(Random(ahead), 30.0) > 0
    with pytest.raises(CannotNow, match="CA is 30 s old"):
        clock_step(Random(behind), 30.0)
