"""How ended clone Jobs came out, and how much room a change of groups may take."""

from dataclasses import replace
from datetime import timedelta

import pytest

from colocation.model.group import CloneCounts, ColocationGroupStatus
from colocation.model.snapshot import Limits
from colocation.reconcile.clones import COUNTING_GRACE, ends_of, is_given_up
from colocation.reconcile.transfers import reserve
from colocation.state.clone_jobs import EndedClone

from ..state.objects import NOW, clone_job, group, seconds


@pytest.mark.parametrize(("message", "expected"), [("disk full", "disk full"), ("", "the Job failed")])
def test_a_failed_job_always_has_a_cause(message: str, expected: str) -> None:
    """A cause makes it a failure of its target."""
    job = replace(clone_job("failed", finished_at=NOW), message=message)
    assert ends_of([job], NOW, Limits()) == {job.identity.uid: EndedClone("node-3", expected)}


def test_ends_come_in_their_order() -> None:
    """The last one decides how many failures in a row a node has."""
    overdue = replace(clone_job("pending"), advanced_at=NOW - seconds(999), message="a message")
    jobs = {
        "d": clone_job("failed", finished_at=NOW - seconds(9)),
        "c": clone_job("succeeded", finished_at=NOW - seconds(8)),
        "a": clone_job("failed", finished_at=NOW - seconds(7)),
        "b": clone_job("failed", finished_at=NOW - seconds(7)),
        "e": overdue,
        "running": clone_job(),
    }
    named = [replace(one, identity=replace(one.identity, uid=name, name=name)) for name, one in jobs.items()]
    for order in (named, named[::-1]):
        found = ends_of(order, NOW, Limits())
        assert list(found) == ["d", "c", "a", "b", "e"]
        assert [end.cause for end in found.values()][:4] == ["the Job failed", None, "the Job failed", "the Job failed"]
        assert (found["e"].cause or "").startswith("its pod has not started")


HOUR = seconds(3600)


@pytest.mark.parametrize(
    ("idle", "counted", "is_over"),
    [
        pytest.param(HOUR - seconds(1), True, False, id="it has some time left"),
        pytest.param(HOUR, False, False, id="its group has yet to count it"),
        pytest.param(HOUR, True, True, id="its group has counted it"),
        pytest.param(HOUR + COUNTING_GRACE - seconds(1), False, False, id="its group's status is not written"),
        pytest.param(HOUR + COUNTING_GRACE, False, True, id="its group's status cannot be written"),
        pytest.param(HOUR, None, False, id="its group has counted none"),
    ],
)
def test_a_job_that_hangs_ends_once_it_is_counted(idle: timedelta, counted: bool | None, is_over: bool) -> None:
    """Else an operator that starts then would not know of the failure."""
    job = replace(clone_job(), advanced_at=NOW - idle)
    uids = (job.identity.uid,) if counted else ("other",)
    made = group(status=ColocationGroupStatus(clones=None if counted is None else CloneCounts(counted=uids)))
    assert is_given_up(job, made, NOW, Limits(clone_deadline_seconds=3600)) is is_over


def test_the_last_byte_of_room_is_taken() -> None:
    """Nothing is taken of any node when one of them is short."""
    room: dict[str, float] = {"a": 10, "b": 5}
    shortage = reserve(room, {"a": 10, "b": 6}, 0)
    assert shortage is not None
    assert shortage.startswith("node b is to take 6 bytes and has room for 5")
    assert reserve(room, {"a": 10, "b": 5}, 0) is None
    assert room == {"a": 0, "b": 0}
    assert reserve(room, {"a": 0, "c": 0}, 0) is None, "nothing is wanted, also of a node that is not known"


@pytest.mark.parametrize(("headroom", "words"), [(0.1, " (10 % of a disk stays free)"), (0, "")])
def test_a_user_reads_which_disks_are_short(headroom: float, words: str) -> None:
    """Of a disk that is fuller than it should be, none is left."""
    room = {"b": 5.9, "a": -3.5, "d": 100.0}
    assert reserve(room, {"b": 6, "c": 1, "a": 1, "d": 1}, headroom) == (
        "node a is to take 1 bytes and has room for 0, node b is to take 6 bytes and has room for 5, "
        f"node c is to take 1 bytes and has room for 0{words}; add nodes or disks, or take the change back"
    )
