"""Decides which clone Jobs to start and to remove, from the plan."""

from collections.abc import Iterator

from ..manifests.clone_job import clone_job_name
from ..model.clone import CloneSource, CloneSpec
from ..model.names import GROUP_KIND
from ..model.plan import Move
from ..model.snapshot import Clone, Node, Snapshot
from ..state.clone_jobs import is_settled
from ..state.index import TableIndex
from ..state.observation import Observation, ObservedCloneJob
from .actions import Action, PostEvent, RemoveClone, StartClone
from .group_status import GroupFacts


def clone_actions(index: TableIndex, snapshot: Snapshot, facts: GroupFacts) -> Iterator[Action]:
    """End the Jobs that are not wanted or have ended, start those that the plan starts."""
    observation = index.observation
    cancelled = {_job_name(facts, snapshot.clones[number]) for number in facts.plan.cancel}
    jobs = {job.identity.name: job for job in facts.jobs}
    for name, job in jobs.items():
        if name in cancelled or is_settled(job, facts.state, observation.now):
            yield RemoveClone(job.identity)
    yield from _ended_events(facts)
    for number in facts.plan.start_now:
        move = facts.plan.moves[number]
        name = clone_job_name(facts.group.identity.uid, move.bucket, move.to)
        last = jobs.get(name)
        if last is None or last.phase == "failed":
            yield from _start(index, snapshot, facts, move, last)


def _job_name(facts: GroupFacts, clone: Clone) -> str:
    return clone_job_name(facts.group.identity.uid, clone.bucket, clone.to)


def _start(
    index: TableIndex, snapshot: Snapshot, facts: GroupFacts, move: Move, last: ObservedCloneJob | None
) -> Iterator[Action]:
    failures = last.failures if last else 0
    sources = _sources(index.observation, snapshot, facts, move, failures)
    if not sources:
        return  # the sources' agents have no address at the moment
    limit = facts.spec.balancing.max_bandwidth_mib_per_second
    spec = CloneSpec(
        namespace=facts.group.identity.namespace,
        group=facts.group.identity.name,
        bucket=move.bucket,
        target=move.to,
        tables=tuple(wanted for table in index.sound(facts.tables) if (wanted := index.reference(table)).manifest),
        sources=sources,
        max_bandwidth_mib_per_second=limit / facts.spec.balancing.max_concurrent_clones if limit else None,
    )
    name = clone_job_name(facts.group.identity.uid, move.bucket, move.to)
    yield StartClone(name, spec, move.source, failures, last.identity if last else None)
    attempt = f", attempt {failures + 1}" if failures else ""
    message = f"bucket {move.bucket} to node {move.to} ({move.kind}: {move.reason}, {move.bytes} bytes){attempt}"
    yield PostEvent(GROUP_KIND, facts.group.identity, "Normal", "CloneStarted", message)


def _sources(
    observation: Observation, snapshot: Snapshot, facts: GroupFacts, move: Move, failures: int
) -> tuple[CloneSource, ...]:
    """Ready nodes that hold the bucket: complete ones first, the least busy of them first.

    After a failure the order is turned, so that the next attempt begins with another replica.
    """
    urls = observation.agent_urls

    def rank(node: Node) -> tuple[bool, int, str]:
        view = observation.agent_views.get(node.name)
        transfers = view.report.active_transfers if view and view.report else 0
        return facts.state.held[node.name][move.bucket] != "complete", transfers, node.name

    holders = [
        node
        for node in snapshot.nodes
        if node.ready and node.name != move.to and move.bucket in facts.state.held.get(node.name, {})
    ]
    sources = [
        CloneSource(node=node.name, url=url) for node in sorted(holders, key=rank) if (url := urls.get(node.name))
    ]
    turn = failures % len(sources) if sources else 0
    return tuple(sources[turn:] + sources[:turn])


def _ended_events(facts: GroupFacts) -> Iterator[Action]:
    """Told once, by the same count that the status keeps."""
    counted = facts.group.status.clones.counted if facts.group.status.clones else ()
    for job in facts.jobs:
        if job.identity.uid in counted:
            continue
        where = f"bucket {job.bucket} to node {job.target}"
        if job.phase == "succeeded":
            yield PostEvent(GROUP_KIND, facts.group.identity, "Normal", "CloneSucceeded", where)
        elif job.phase == "failed":
            message = f"{where}: attempt {job.failures} failed: {job.message}"
            yield PostEvent(GROUP_KIND, facts.group.identity, "Warning", "CloneFailed", message)
