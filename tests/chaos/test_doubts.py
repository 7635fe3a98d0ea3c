"""When nothing can come of a command any more whose outcome no one knows."""

from typing import Any

import pytest

from .doubts import QUIET_SECONDS, Doubts

AT_REST = {"metadata": {"name": "t"}, "status": {"accepted": True}}
GOING = {"metadata": {"name": "t", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"accepted": True}}
ASKED_BACK = {"metadata": {"annotations": {"recover.colocation.dev/0a1b2c3d": "demo/t"}}}


@pytest.mark.parametrize(
    ("groups", "tables", "fresh", "seconds", "expected"),
    [
        pytest.param([], [AT_REST], True, QUIET_SECONDS + 1, [7], id="the table is at rest"),
        pytest.param([], [], True, QUIET_SECONDS + 1, [7], id="the table is not there"),
        pytest.param([], [AT_REST], True, QUIET_SECONDS - 1, [], id="the API server may still do it"),
        pytest.param([], [GOING], True, QUIET_SECONDS + 1, [], id="the table is being deleted"),
        pytest.param([], [{"metadata": {"name": "t"}}], True, QUIET_SECONDS + 1, [], id="the table is not accepted"),
        pytest.param([ASKED_BACK], [], True, QUIET_SECONDS + 1, [], id="a dropped table is asked for"),
        pytest.param([], [AT_REST], False, QUIET_SECONDS + 1, [], id="the operator is silent"),
    ],
)
def test_a_command_is_settled_once_all_has_come_of_it_that_will(
    groups: list[Any], tables: list[Any], fresh: bool, seconds: float, expected: list[int]
) -> None:
    """And only once."""
    now = [100.0]
    doubts = Doubts(lambda: now[0])
    doubts.add(7, "t")
    now[0] += seconds
    assert doubts.settled(groups, tables, fresh) == expected
    assert doubts.settled(groups, tables, fresh) == []


def test_the_time_counts_from_when_the_api_server_was_there_again() -> None:
    """A caller that was informed of the command before hears of it then."""
    now = [100.0]
    doubts = Doubts(lambda: now[0])
    doubts.add(7, "t")
    now[0] += QUIET_SECONDS - 1
    doubts.api_was_away()
    now[0] += QUIET_SECONDS - 1
    assert doubts.settled([], [AT_REST], True) == []
    now[0] += 2
    assert doubts.settled([], [AT_REST], True) == [7]
