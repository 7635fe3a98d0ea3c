"""What the planner makes of nodes whose disks are sick: repair elsewhere, and nothing is cloned onto them (D2)."""

from datetime import timedelta

import pytest

from colocation.model.conditions import Reason
from colocation.planner.status import disk_finding
from tests.property.worlds import NOW

from .cases import nodes_of, planned

TOLERANCE = {"relocation": {"downToleranceSeconds": 600}}


def sick(reason: Reason, seconds: int = 600) -> dict[str, object]:
    """Fields of a node whose disk is so for that long."""
    return {"disk_reason": reason, "disk_since": NOW - timedelta(seconds=seconds), "schedulable": False}


@pytest.mark.parametrize(
    ("reason", "stable"), [(Reason.DISK_READ_ONLY, True), (Reason.DISK_FAILING, False)], ids=["read-only", "failing"]
)
def test_replicas_on_a_sick_disk_are_made_again_elsewhere(reason: Reason, stable: bool) -> None:
    """They can be read until their successors are complete; queries go on where nothing is lost."""
    group = planned([*nodes_of(1, 3, 4), *nodes_of(2, **sick(reason))], spec=TOLERANCE)
    assert group.stable is stable
    assert {(move.source, move.to, move.reason) for move in group.moves} == {("node-2", "node-4", reason)}
    assert group.start_now
    if not stable:
        assert group.reason == reason
        assert "the disk of node node-2 is failing since" in group.message


@pytest.mark.parametrize("reason", [Reason.DISK_READ_ONLY, Reason.DISK_FAILING])
def test_a_sick_disk_on_a_drained_node_is_drained(reason: Reason) -> None:
    """The user's mark is the reason, which ends with the mark."""
    group = planned([*nodes_of(1, 3, 4), *nodes_of(2, **sick(reason), drain=True)], spec=TOLERANCE)
    found = {(move.source, move.kind, move.reason) for move in group.moves}
    assert found == {("node-2", "drain", Reason.NODE_DRAINING)}


@pytest.mark.parametrize("reason", [Reason.DISK_READ_ONLY, Reason.DISK_FAILING])
def test_a_short_sickness_moves_nothing(reason: Reason) -> None:
    """Within the tolerance nothing is copied, to the node or from it; damaged files wait."""
    held = {"node-1": {0: "complete", 1: "complete"}, "node-2": {0: "corrupt"}}
    nodes = [*nodes_of(1, 3), *nodes_of(2, **sick(reason, 599))]
    assert planned(nodes, spec=TOLERANCE).moves == ()
    group = planned(nodes, spec=TOLERANCE, held=held)
    assert "node-2" not in {move.to for move in group.moves}


@pytest.mark.parametrize(
    ("reason", "stable"), [(Reason.DISK_READ_ONLY, True), (Reason.DISK_FAILING, False)], ids=["read-only", "failing"]
)
def test_a_quiet_group_is_unstable_as_soon_as_a_disk_fails(reason: Reason, stable: bool) -> None:
    """Also while nothing is to be done: it is complete and even, and the tolerance is not over."""
    group = planned([*nodes_of(1, 3), *nodes_of(2, **sick(reason, 1))], spec=TOLERANCE)
    assert (group.stable, group.moves) == (stable, ())


def test_a_disk_that_has_just_become_sick() -> None:
    """Since when is not known yet: the tolerance has not begun."""
    fields = {**sick(Reason.DISK_FAILING), "disk_since": None, "disk_message": "a write failed"}
    group = planned([*nodes_of(1, 3), *nodes_of(2, **fields)], spec=TOLERANCE)
    assert (group.moves, group.stable) == ((), False)
    assert group.message.endswith("the disk of node node-2 is failing: a write failed")
    assert disk_finding(nodes_of(2)[0]) is None


def test_a_full_disk_keeps_what_it_has() -> None:
    """However long: only nothing new goes there."""
    nodes = [*nodes_of(1, 3), *nodes_of(2, **sick(Reason.DISK_FULL, 10**6))]
    group = planned(nodes, spec=TOLERANCE)
    assert (group.stable, group.moves) == (True, ())


def test_a_missing_disk_is_a_node_that_is_away() -> None:
    """With its own reason, in the verdict and in the moves."""
    fields = {
        "ready": False, "not_ready_since": NOW - timedelta(seconds=601), "not_ready_reason": Reason.DISK_MISSING,
        "not_ready_message": "disk b is there instead of a",
    }  # fmt: skip
    group = planned([*nodes_of(1, 3, 4), *nodes_of(2, **fields)], spec=TOLERANCE)
    assert (group.stable, group.reason) == (False, Reason.DISK_MISSING)
    assert "the disk of node node-2 is not ready" in group.message
    assert {(move.source, move.to, move.reason) for move in group.moves} == {("node-2", "node-4", Reason.DISK_MISSING)}
