"""What a fault does to its target, where that follows from the die."""

from random import Random

import pytest

from demo.shell import CommandFailed

from .fault_kinds import BY_NAME
from .faults import LEAST_STEP_SECONDS, MOST_AHEAD_SECONDS, MOST_BEHIND_SECONDS, Faults, clock_step
from .targets import CannotNow, start


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


def test_node_whose_object_cannot_be_deleted_is_healed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its programs are dead already, and while the API server is away they cannot be started (seed 11251744)."""

    def refused(*_words: str) -> str:
        raise CommandFailed("The connection to the server was refused")

    monkeypatch.setattr(Faults, "_node_killed", lambda _self, _random: ("node-3", start))
    monkeypatch.setattr("tests.chaos.faults.kubectl", refused)
    said, heal = Faults(None, None)._action("node-deleted")(Random(1))  # type: ignore[arg-type]
    assert (said, heal) == ("node-3", start)
