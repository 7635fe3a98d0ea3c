"""Clone Jobs as the planner sees them."""

from dataclasses import replace

import pytest

from colocation.model.agent import CloneProgress
from colocation.model.group import ColocationGroupSpec
from colocation.model.snapshot import GroupState
from colocation.state.clone_jobs import clones_of, group_uids, is_current, is_settled, retry_at
from colocation.state.objects import ObservedCloneJob
from colocation.state.observation import Observation

from .objects import NOW, clone_job, group, seconds, view

SPEC = ColocationGroupSpec(bucket_key=("bigint",), buckets=2, replicas=2)
EMPTY = GroupState(namespace="shop", name="sales", spec=SPEC)
ARRIVED = EMPTY.model_copy(update={"held": {"node-3": {0: "complete"}}})


def observation(*jobs: ObservedCloneJob, **more: object) -> Observation:
    return Observation(NOW, groups=(group(),), clone_jobs=jobs, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("failures", "delay_seconds"), [(1, 10), (2, 20), (3, 40), (6, 300), (50, 300)]
)
def test_back_off_doubles(failures: int, delay_seconds: int) -> None:
    """After each failure twice as long, up to five minutes."""
    assert retry_at(clone_job("failed", failures, NOW)) == NOW + seconds(delay_seconds)


def test_running_clone_has_no_retry_time() -> None:
    """The planner tells clones under way from those that wait by it."""
    assert retry_at(clone_job()) is None


@pytest.mark.parametrize(
    ("job", "state", "settled"),
    [
        pytest.param(clone_job(), ARRIVED, False, id="runs"),
        pytest.param(clone_job("succeeded", finished_at=NOW), EMPTY, False, id="its agent has not seen the files yet"),
        pytest.param(clone_job("succeeded", finished_at=NOW), ARRIVED, True, id="its agent reports the bucket whole"),
        pytest.param(clone_job("succeeded", finished_at=NOW - seconds(31)), EMPTY, True, id="its agent had the time"),
        pytest.param(clone_job("failed", 1, NOW), ARRIVED, False, id="failed"),
    ],
)
def test_clone_is_settled(job: ObservedCloneJob, state: GroupState, settled: bool) -> None:
    """Until then it counts as under way, so that the planner does not start it again."""
    assert is_settled(job, state, NOW) is settled


def test_clone_advances_with_its_progress() -> None:
    """``since`` is when it last advanced: that is how a stalled clone differs from a slow one."""
    advanced = NOW - seconds(5)
    progress = CloneProgress(
        namespace="shop", group="sales", bucket=0, bytes_done=7, bytes_total=10, updated_at="2999-01-01T00:00:00Z"
    )
    job = replace(clone_job(), advanced_at=advanced)
    found = clones_of(observation(job, agent_views={"node-3": view(clones=(progress,))}), (EMPTY,))
    assert [(clone.bytes_done, clone.since) for clone in found] == [(7, advanced)], "by the operator's own clock"
    [without] = clones_of(observation(clone_job()), (EMPTY,))
    assert (without.bytes_done, without.since, without.source, without.to) == (0, NOW - seconds(30), "node-1", "node-3")


def test_job_of_a_predecessor_is_nobodys() -> None:
    """A group that was made again has another uid, and its Jobs other names."""
    job = clone_job()
    stray = replace(job, identity=replace(job.identity, name=job.identity.name.replace("deadbeef", "00000000")))
    seen = observation(stray)
    assert clones_of(seen, (EMPTY,)) == ()
    assert not is_current(group_uids(seen), stray)
    assert is_current(group_uids(seen), job)
