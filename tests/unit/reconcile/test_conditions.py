"""When the time of a condition moves."""

from datetime import UTC, datetime, timedelta

import pytest

from colocation.model.conditions import ConditionType
from colocation.reconcile.conditions import Verdict, conditions

THEN = datetime(2026, 11, 26, tzinfo=UTC)


@pytest.mark.parametrize(
    ("before", "after", "moves"),
    [
        pytest.param(True, True, False, id="its status stays, for another reason"),
        pytest.param(True, False, True, id="it becomes false"),
        pytest.param(False, True, True, id="it becomes true"),
    ],
)
def test_the_time_of_a_condition_moves_with_its_status(before: bool, after: bool, moves: bool) -> None:
    """As the kstatus convention has it."""
    first = conditions((), [Verdict(ConditionType.READY, before, "One", "")], 1, THEN)
    (second,) = conditions(first, [Verdict(ConditionType.READY, after, "Other", "")], 2, THEN + timedelta(hours=1))
    assert (second.last_transition_time != first[0].last_transition_time) is moves
    assert (second.reason, second.observed_generation) == ("Other", 2)
