"""Nodes on which clones fail again and again are left out for a growing time."""

from datetime import timedelta

import pytest

from colocation.model.group import FailingTargetStatus
from colocation.state.clone_jobs import EndedClone, failing_targets_of, next_failing_targets
from colocation.state.parse import format_time

from .objects import NOW

FAILED, WORKED = EndedClone("node-1", "disk full"), EndedClone("node-1", None)
NODES = ("node-1", "node-2")


def after(*ended: EndedClone, before: tuple[FailingTargetStatus, ...] = ()) -> dict[str, int]:
    return {one.node: one.failures for one in next_failing_targets(before, ended, NODES, NOW)}


@pytest.mark.parametrize(
    ("ended", "failures"),
    [
        pytest.param([FAILED], {"node-1": 1}, id="the first failure"),
        pytest.param([FAILED] * 4, {"node-1": 4}, id="failures in a row add up"),
        pytest.param([FAILED, FAILED, WORKED], {}, id="a success forgets them"),
        pytest.param([FAILED, WORKED, FAILED], {"node-1": 1}, id="and they begin again"),
        pytest.param([FAILED, EndedClone("node-2", "no route")], {"node-1": 1, "node-2": 1}, id="each node for itself"),
        pytest.param([EndedClone("gone", "no route")], {}, id="of a node that is gone"),
    ],
)
def test_failures_are_counted(ended: list[EndedClone], failures: dict[str, int]) -> None:
    """In a row, per node."""
    assert after(*ended) == failures


@pytest.mark.parametrize(
    ("failures", "minutes"),
    [(1, None), (2, None), (3, 1), (4, 2), (5, 4), (8, 32), (9, 60), (100, 60)],
)
def test_left_out_for_a_growing_time(failures: int, minutes: int | None) -> None:
    """1, 2, 4, … 60 minutes from the third failure on; fewer leave no one out."""
    [known] = next_failing_targets((), [FAILED] * failures, NODES, NOW)
    found = failing_targets_of([known], NOW)
    if minutes is None:
        assert found == {} and known.retry_at == format_time(NOW)
        return
    assert (found["node-1"].retry_at, found["node-1"].cause) == (NOW + timedelta(minutes=minutes), "disk full")


def known(node: str, retry_at: timedelta) -> FailingTargetStatus:
    return FailingTargetStatus(node=node, failures=5, retry_at=format_time(NOW + retry_at), message="disk full")


def test_clock_that_has_jumped_leaves_no_one_out_for_longer() -> None:
    """The time was written by another operator, whose clock was ahead."""
    [found] = failing_targets_of([known("node-1", timedelta(days=365))], NOW).values()
    assert found.retry_at == NOW + timedelta(minutes=60)


def test_what_is_old_or_gone_is_forgotten() -> None:
    """The status does not grow."""
    day = timedelta(days=1)
    before = (known("node-2", -day), known("node-1", -day - timedelta(seconds=1)), known("gone", timedelta()))
    assert after(before=before) == {"node-2": 5}


def test_nodes_are_remembered_in_order() -> None:
    """Else the status would be written with each pass."""
    nodes = [f"node-{number}" for number in range(9)]
    found = next_failing_targets((), [EndedClone(name, "boom") for name in reversed(nodes)], nodes, NOW)
    assert [one.node for one in found] == nodes
