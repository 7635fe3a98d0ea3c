"""When the next pass is due without any event, and when there is something to wait for."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from colocation.model.group import RecycledTable
from colocation.reconcile.decide import decide, next_deadline
from colocation.reconcile.evidence import Evidence
from colocation.state.objects import RefusedFiles
from colocation.state.observation import Observation
from colocation.state.parse import format_time

from ..state.objects import NOW, seconds
from ..state.test_confirmation import after_commit
from ..state.test_observation import BEFORE, LAST, with_status
from .scenes import POLICY, SETTLED, quiet_observation
from .test_recoveries import coming_back
from .test_recycling import dropped_lately
from .test_transfers import observed

QUIET = quiet_observation("orders")


def recycled(*seconds_left: float) -> dict[str, Any]:
    """Dropped tables that are kept for so long."""
    fields = {"namespace": "shop", "name": "orders", "uid": "old", "deleted_at": format_time(NOW)}
    times = (format_time(NOW + seconds(left)) for left in seconds_left)
    return {"recycled": tuple(RecycledTable(**fields, purge_at=time) for time in times)}


def with_group(**status: Any) -> Observation:
    [group] = QUIET.groups
    return replace(QUIET, groups=(replace(group, status=group.status.model_copy(update=status)),))


RETAINING = with_status(snapshot=LAST.model_copy(update={"committed_at": format_time(NOW)}), history=(BEFORE,))


@pytest.mark.parametrize(
    ("observation", "due"),
    [
        pytest.param(QUIET, None, id="nothing waits"),
        pytest.param(with_group(delete_after=format_time(NOW + seconds(60))), NOW + seconds(60), id="a group goes"),
        pytest.param(with_group(**recycled(90, 30, 60)), NOW + seconds(30), id="the first dropped table is purged"),
        pytest.param(replace(QUIET, tables=(RETAINING,)), NOW + seconds(3600), id="a snapshot goes"),
        pytest.param(replace(QUIET, refused_files={"shop": RefusedFiles("quota", NOW)}), NOW, id="refused files"),
        pytest.param(replace(with_group(**recycled(90)), tables=(RETAINING,)), NOW + seconds(90), id="the first one"),
    ],
)
def test_when_the_clock_alone_makes_a_pass_due(observation: Observation, due: datetime | None) -> None:
    """The first of all that ends."""
    assert next_deadline(observation) == due


@pytest.mark.parametrize(
    ("observation", "is_waiting"),
    [
        pytest.param(QUIET, False, id="nothing"),
        pytest.param(observed(without="node-3"), True, id="a table moves"),
        pytest.param(coming_back(), True, id="a table is brought back"),
        pytest.param(dropped_lately(11), True, id="many tables were dropped"),
        pytest.param(after_commit(), True, id="a commit is not confirmed"),
    ],
)
def test_when_there_is_something_to_wait_for(observation: Observation, is_waiting: bool) -> None:
    """Then passes follow each other sooner."""
    evidence = Evidence().after(replace(observation, now=SETTLED), ())
    assert decide(observation, evidence, POLICY, False).is_waiting is is_waiting
