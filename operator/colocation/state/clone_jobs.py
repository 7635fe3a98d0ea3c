"""Clone Jobs and their agents' progress -> the planner's clones."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from ..manifests.clone_job import clone_job_name
from ..model.agent import CloneProgress
from ..model.snapshot import Clone, GroupState
from .objects import ObservedCloneJob
from .observation import Observation
from .views import ClusterView

FIRST_RETRY_SECONDS = 10
MAX_RETRY_SECONDS = 300
TRANSFER_PREFIX = "table_"
PENDING_DEADLINE_SECONDS = 120
"""A Job whose pod has not started by then is ended: another attempt, or another node, may do better."""
SETTLE_SECONDS = 30
"""How long a clone that has succeeded counts as under way: the agent has to find its files."""


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
    return uid is not None and job.identity.name == clone_job_name(uid, job.bucket, job.target)


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
    if job.phase not in ("pending", "running") or job.advanced_at is None:
        return None
    since_seconds = (now - job.advanced_at).total_seconds()
    if job.phase == "pending" and since_seconds >= PENDING_DEADLINE_SECONDS:
        return (
            f"its pod has not started within {PENDING_DEADLINE_SECONDS} s: no room for it on the node, or its image "
            f"cannot be pulled (kubectl describe job -n {job.identity.namespace} {job.identity.name})"
        )
    if job.phase == "running" and since_seconds >= clone_deadline_seconds:
        return f"it has not advanced for {clone_deadline_seconds} s"
    return None


def progress_of(observation: Observation, job: ObservedCloneJob) -> CloneProgress | None:
    """What the target's agent reports of the clone."""
    view = observation.agent_views.get(job.target)
    if view is None or view.report is None:
        return None
    wanted = (job.group_namespace, job.group, job.bucket)
    return next((one for one in view.report.clones if (one.namespace, one.group, one.bucket) == wanted), None)


def _clone(observation: Observation, job: ObservedCloneJob, bytes_total: int = 0) -> Clone:
    progress = progress_of(observation, job)
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
