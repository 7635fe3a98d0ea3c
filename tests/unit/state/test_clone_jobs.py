"""Clone Jobs as the planner sees them."""

from dataclasses import replace

import pytest

from colocation.model.agent import CloneProgress
from colocation.model.group import ColocationGroupSpec
from colocation.model.snapshot import GroupState
from colocation.state.assemble import assemble
from colocation.state.clone_jobs import (
    clones_of,
    group_uids,
    is_current,
    is_settled,
    overdue_cause,
    retry_at,
    transfer_clones,
    transfer_name,
)
from colocation.state.objects import ObservedCloneJob
from colocation.state.observation import Observation

from .objects import MANIFEST, NOW, clone_job, group, seconds, table, view

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
    assert retry_at(clone_job("succeeded", 1, NOW)) is None
    assert retry_at(clone_job("failed", 1)) is None, "it is not known when it failed"


@pytest.mark.parametrize(
    ("job", "state", "settled"),
    [
        pytest.param(clone_job(), ARRIVED, False, id="runs"),
        pytest.param(clone_job("succeeded", finished_at=NOW), EMPTY, False, id="its agent has not seen the files yet"),
        pytest.param(clone_job("succeeded", finished_at=NOW), ARRIVED, True, id="its agent reports the bucket whole"),
        pytest.param(clone_job("succeeded", finished_at=NOW - seconds(29)), EMPTY, False, id="its agent needs time"),
        pytest.param(clone_job("succeeded", finished_at=NOW - seconds(30)), EMPTY, True, id="its agent had the time"),
        pytest.param(clone_job("succeeded"), EMPTY, True, id="it is not known when it ended"),
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


NOT_STARTED = "its pod has not started within 120 s"
NOT_ADVANCED = "it has not advanced for 600 s"


@pytest.mark.parametrize(
    ("phase", "seconds_ago", "cause"),
    [
        ("pending", 119, None),
        ("pending", 120, NOT_STARTED),
        ("pending", 600, NOT_STARTED),
        ("running", 599, None),
        ("running", 600, NOT_ADVANCED),
        ("running", None, None),
        ("succeeded", 9999, None),
        ("failed", 9999, None),
    ],
)
def test_a_job_that_does_not_advance_is_given_up(phase: str, seconds_ago: float | None, cause: str | None) -> None:
    """The cause of one that does not begin has a command that shows why."""
    advanced_at = None if seconds_ago is None else NOW - seconds(seconds_ago)
    job = replace(clone_job(phase), advanced_at=advanced_at)
    found = overdue_cause(job, NOW, 600)
    assert (found is None) is (cause is None)
    assert (found or "").startswith(cause or "")
    assert ("kubectl get events -n shop --field" in (found or "")) is (cause == NOT_STARTED)


def test_the_cause_of_a_job_that_does_not_begin_is_what_its_pod_waits_for() -> None:
    """And which events have more: they outlive the pod, which ends with the Job."""
    job = replace(clone_job("pending"), advanced_at=NOW - seconds(120), message="ImagePullBackOff: no such image")
    assert overdue_cause(job, NOW, 600) == (
        "its pod has not started within 120 s (kubectl get events -n shop --field-selector type=Warning): "
        "ImagePullBackOff: no such image"
    )


def test_clones_of_moving_tables_take_up_their_nodes() -> None:
    """Those that are under way, with the bytes of the bucket."""
    orders = table("orders", "sales")
    moving = transfer_name(orders.identity.uid)
    assert moving == f"table_{orders.identity.uid[:8]}"
    jobs = [replace(clone_job(phase), group=moving) for phase in ("running", "pending", "succeeded", "failed")]
    empty, gone = replace(jobs[0], bucket=1), replace(jobs[0], group="table_gone")
    sizes = {("shop", orders.directory, MANIFEST): {0: 50}}
    seen = observation(*jobs, empty, gone, clone_job(), tables=(orders,), bucket_bytes=sizes)
    found = transfer_clones(assemble(seen))
    assert {one.group for one in found} == {moving}
    assert [(one.bucket, one.bytes_total) for one in found] == [(0, 50), (0, 50), (1, 0)]
    assert group_uids(seen) == {("shop", "sales"): group().identity.uid, ("shop", moving): orders.identity.uid}


def test_job_of_a_predecessor_is_nobodys() -> None:
    """A group that was made again has another uid, and its Jobs other names."""
    job = clone_job()
    stray = replace(job, identity=replace(job.identity, name=job.identity.name.replace("deadbeef", "00000000")))
    seen = observation(stray)
    assert clones_of(seen, (EMPTY,)) == ()
    assert not is_current(group_uids(seen), stray)
    assert is_current(group_uids(seen), job)
