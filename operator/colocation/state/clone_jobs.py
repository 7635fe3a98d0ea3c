"""Clone Jobs and their agents' progress -> the planner's clones; nodes on which the clones of a group fail.

A node on which they fail again and again is left out for a growing time, which the group's status remembers.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..manifests.clone_job import CLONE_UID_DIGITS
from ..model.group import FailingTargetStatus
from ..model.snapshot import Clone, FailingTarget, GroupState
from .objects import ObservedCloneJob
from .observation import Observation
from .parse import format_time, parse_time
from .views import ClusterView

FIRST_RETRY_SECONDS = 10
MAX_RETRY_SECONDS = 300
TRANSFER_PREFIX = "table_"
PENDING_DEADLINE_SECONDS = 120
"""A Job whose pod has not started by then is ended: another attempt, or another node, may do better."""
SETTLE_SECONDS = 30
"""How long a clone that has succeeded counts as under way: the agent has to find its files."""
FAILURES_BEFORE_LEFT_OUT = 3
FIRST_LEFT_OUT = timedelta(minutes=1)
LONGEST_LEFT_OUT = timedelta(minutes=60)
FORGOTTEN_AFTER = timedelta(hours=24)
MAX_CAUSE_LENGTH = 300


def clones_of(observation: Observation, groups: Iterable[GroupState]) -> tuple[Clone, ...]:
    """The groups' clones that have not ended: under way, failed and waiting for their next attempt, or not yet seen."""
    uids = group_uids(observation)
    states = {(group.namespace, group.name): group for group in groups}
    return tuple(
        _clone(observation, job)
        for job in observation.clone_jobs
        if (group := states.get((job.group_namespace, job.group)))
        and is_current(uids, job)
        and not is_settled(job, group, observation.now)
    )


def transfer_name(uid: str) -> str:
    """In the place of a group's name: what Jobs are called that copy one table to its next group.

    No group has such a name: it holds an underscore.
    """
    return f"{TRANSFER_PREFIX}{uid[:8]}"


def is_transfer(job: ObservedCloneJob) -> bool:
    """Whether the Job copies one table to its next group."""
    return job.group.startswith(TRANSFER_PREFIX)


def transfer_clones(cluster: ClusterView) -> tuple[Clone, ...]:
    """The clones of tables that move to another group, as far as they take up the nodes."""
    jobs = [job for job in cluster.observation.clone_jobs if is_transfer(job) and job.phase in ("pending", "running")]
    if not jobs:
        return ()
    tables = {transfer_name(uid): view for uid, view in cluster.tables.items()}

    def bytes_of(job: ObservedCloneJob) -> int:
        return tables[job.group].files.wanted_bytes(job.bucket + 1).get(job.bucket, 0)

    return tuple(_clone(cluster.observation, job, bytes_of(job)) for job in jobs if job.group in tables)


def group_uids(observation: Observation) -> dict[tuple[str, str], str]:
    """(namespace, name) -> uid of every group, and of every table under the name of its transfer, if any Job is one."""
    tables: dict[tuple[str, str], str] = {}
    if any(is_transfer(job) for job in observation.clone_jobs):
        tables = {
            (table.identity.namespace, transfer_name(table.identity.uid)): table.identity.uid
            for table in observation.tables
        }
    return {**tables, **{group.key: group.identity.uid for group in observation.groups}}


def is_current(uids: Mapping[tuple[str, str], str], job: ObservedCloneJob) -> bool:
    """Whether a Job belongs to a group as it is now, and not to a predecessor of that name."""
    uid = uids.get((job.group_namespace, job.group))
    return uid is not None and job.owner == uid[:CLONE_UID_DIGITS]


def is_settled(job: ObservedCloneJob, group: GroupState, now: datetime) -> bool:
    """Whether a Job has succeeded and its agent has found the files, or has had the time to."""
    if job.phase != "succeeded":
        return False
    if group.held.get(job.target, {}).get(job.bucket) == "complete" or job.finished_at is None:
        return True
    return now - job.finished_at >= timedelta(seconds=SETTLE_SECONDS)


def retry_at(job: ObservedCloneJob) -> datetime | None:
    """When a failed clone may be tried again: exponential back-off; None for one that has not failed."""
    if job.phase != "failed" or job.finished_at is None:
        return None
    delay = min(FIRST_RETRY_SECONDS * 2 ** (job.failures - 1), MAX_RETRY_SECONDS)
    return job.finished_at + timedelta(seconds=delay)


def overdue_cause(job: ObservedCloneJob, now: datetime, clone_deadline_seconds: int) -> str | None:
    """Why a Job that has not ended is given up: it does not begin, or does not advance. None = it is not."""
    if job.advanced_at is None:
        return None
    since_seconds = (now - job.advanced_at).total_seconds()
    if job.phase == "pending" and since_seconds >= PENDING_DEADLINE_SECONDS:
        why = job.message or "a quota or a policy forbids it, its image is still pulled, or a volume cannot be mounted"
        events = f"kubectl get events -n {job.identity.namespace} --field-selector type=Warning"
        return f"its pod has not started within {PENDING_DEADLINE_SECONDS} s ({events}): {why}"
    if job.phase == "running" and since_seconds >= clone_deadline_seconds:
        return f"it has not advanced for {clone_deadline_seconds} s"
    return None


def _clone(observation: Observation, job: ObservedCloneJob, bytes_total: int = 0) -> Clone:
    progress = observation.clone_progress.get(job.place)
    since = job.advanced_at or job.started_at or job.identity.created_at
    return Clone(
        namespace=job.group_namespace,
        group=job.group,
        bucket=job.bucket,
        source=job.source,
        to=job.target,
        since=min(since, observation.now),
        bytes_done=progress.bytes_done if progress else 0,
        bytes_total=bytes_total,
        failures=job.failures,
        retry_at=retry_at(job),
    )


@dataclass(frozen=True)
class EndedClone:
    """An attempt that has ended on a node. ``cause``: how it failed; None = it succeeded."""

    node: str
    cause: str | None


def failing_targets_of(status: Iterable[FailingTargetStatus], now: datetime) -> dict[str, FailingTarget]:
    """By node, for the planner: those with so many failures in a row that the node is left out, or on probation."""
    found: dict[str, FailingTarget] = {}
    for one in status:
        retry_at = parse_time(one.retry_at)
        if one.failures >= FAILURES_BEFORE_LEFT_OUT and retry_at is not None:
            # A clock that has jumped since must not leave a node out for longer.
            retry_at = min(retry_at, now + LONGEST_LEFT_OUT)
            found[one.node] = FailingTarget(failures=one.failures, retry_at=retry_at, cause=one.message)
    return found


def next_failing_targets(
    before: Sequence[FailingTargetStatus], ended: Iterable[EndedClone], nodes: Container[str], now: datetime
) -> tuple[FailingTargetStatus, ...]:
    """What to remember after these attempts, in their order. ``nodes``: those that exist; others are forgotten."""
    found = {one.node: one for one in before if one.node in nodes and not _is_old(one, now)}
    for clone in ended:
        if clone.cause is None:
            found.pop(clone.node, None)
        elif clone.node in nodes:
            known = found.get(clone.node)
            failures = known.failures + 1 if known else 1
            found[clone.node] = FailingTargetStatus(
                node=clone.node,
                failures=failures,
                retry_at=format_time(now + _left_out(failures)),
                message=clone.cause[:MAX_CAUSE_LENGTH],
            )
    return tuple(found[node] for node in sorted(found))


def _left_out(failures: int) -> timedelta:
    """1, 2, 4, … 60 minutes from the third failure on."""
    doublings = failures - FAILURES_BEFORE_LEFT_OUT
    if doublings < 0:
        return timedelta()
    return min(FIRST_LEFT_OUT * 2 ** min(doublings, 10), LONGEST_LEFT_OUT)


def _is_old(target: FailingTargetStatus, now: datetime) -> bool:
    retry_at = parse_time(target.retry_at)
    return retry_at is None or now - retry_at > FORGOTTEN_AFTER
