"""How ended clone Jobs came out, and how much room a change of groups may take."""

from dataclasses import replace

import pytest

from colocation.model.snapshot import Limits
from colocation.reconcile.clones import ends_of
from colocation.reconcile.transfers import reserve
from colocation.state.clone_jobs import EndedClone

from ..state.objects import NOW, clone_job


@pytest.mark.parametrize(("message", "expected"), [("disk full", "disk full"), ("", "the Job failed")])
def test_a_failed_job_always_has_a_cause(message: str, expected: str) -> None:
    """A cause makes it a failure of its target."""
    job = replace(clone_job("failed", finished_at=NOW), message=message)
    assert ends_of([job], NOW, Limits()) == {job.identity.uid: EndedClone("node-3", expected)}


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
