"""Decides which clone Jobs to start and to remove, from the plan."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from ..manifests.clone_job import clone_job_name
from ..model.agent import TableReference
from ..model.clone import CloneSource, CloneSpec, fitting
from ..model.conditions import EventReason
from ..model.names import GROUP_KIND
from ..model.plan import Move
from ..model.snapshot import Clone, Limits, Node, Snapshot
from ..state.agent_view import AgentView
from ..state.clone_jobs import EndedClone, is_settled, overdue_cause
from ..state.objects import ObservedCloneJob, ObservedGroup
from ..state.observation import Observation
from .actions import Action, PostEvent, RemoveClone, StartClone
from .group_status import GroupFacts

COUNTING_GRACE = timedelta(seconds=60)
"""So long a Job that is given up waits for its group's status to count it."""


def clone_actions(facts: GroupFacts, snapshot: Snapshot, agents: Observation) -> Iterator[Action]:
    """End the Jobs that are not wanted or have ended, start those that the plan starts."""
    now = snapshot.now
    cancelled = {_job_name(facts, snapshot.clones[number]) for number in facts.plan.cancel}
    jobs = {job.identity.name: job for job in facts.view.jobs}
    for name, job in jobs.items():
        is_over = is_settled(job, facts.state, now) or is_given_up(job, facts.group, now, snapshot.limits)
        if name in cancelled or is_over:
            yield RemoveClone(job.identity)
    yield from _ended_events(facts)
    for number in facts.plan.start_now:
        move = facts.plan.moves[number]
        name = clone_job_name(facts.group.identity.uid, move.bucket, move.to)
        last = jobs.get(name)
        if last is None or last.phase == "failed":
            yield from _start(facts, move, last, snapshot, agents)


def ends_of(jobs: Iterable[ObservedCloneJob], now: datetime, limits: Limits) -> dict[str, EndedClone]:
    """Uid of each Job that has ended, or is given up, -> how that came out; those that ended first come first."""
    ends: dict[str, EndedClone] = {}
    for job in sorted(jobs, key=lambda job: (job.finished_at or now, job.identity.name)):
        overdue = overdue_cause(job, now, limits.clone_deadline_seconds)
        if overdue or job.phase == "failed":
            ends[job.identity.uid] = EndedClone(job.target, overdue or job.message or "the Job failed")
        elif job.phase == "succeeded":
            ends[job.identity.uid] = EndedClone(job.target, None)
    return ends


def is_given_up(job: ObservedCloneJob, group: ObservedGroup, now: datetime, limits: Limits) -> bool:
    """Whether to end a Job that does not begin or does not advance: once its group has counted that as a failure.

    A status that cannot be written delays that for a moment only.
    """
    if overdue_cause(job, now, limits.clone_deadline_seconds) is None:
        return False
    is_counted = group.status.clones is not None and job.identity.uid in group.status.clones.counted
    return is_counted or overdue_cause(job, now - COUNTING_GRACE, limits.clone_deadline_seconds) is not None


def _job_name(facts: GroupFacts, clone: Clone) -> str:
    return clone_job_name(facts.group.identity.uid, clone.bucket, clone.to)


def _start(
    facts: GroupFacts, move: Move, last: ObservedCloneJob | None, snapshot: Snapshot, agents: Observation
) -> Iterator[Action]:
    failures = last.failures if last else 0
    tables = _tables(facts, move, agents)
    sources = _sources(facts, move, failures, tables, snapshot, agents)
    if not sources:
        return  # the sources' agents have no address at the moment
    bandwidth = snapshot.limits.clone_bandwidth
    spec = CloneSpec(
        namespace=facts.group.identity.namespace,
        group=facts.group.identity.name,
        bucket=move.bucket,
        target=move.to,
        tables=tables,
        sources=sources,
        max_bandwidth_mib_per_second=bandwidth.of_clone(facts.state.spec.balancing),
        max_node_bandwidth_mib_per_second=bandwidth.per_node_mib_per_second,
        disk_id=next((node.disk_id for node in snapshot.nodes if node.name == move.to), ""),
    )
    name = clone_job_name(facts.group.identity.uid, move.bucket, move.to)
    spec = fitting(spec)
    yield StartClone(name, spec, move.source, failures, last.identity if last else None)
    attempt = f", attempt {failures + 1}" if failures else ""
    rate = spec.max_bandwidth_mib_per_second
    pace = f", at most {rate:g} MiB/s" if rate is not None else ""
    message = f"bucket {move.bucket} to node {move.to} ({move.kind}: {move.reason}, {move.bytes} bytes{pace}){attempt}"
    yield PostEvent(GROUP_KIND, facts.group.identity, "Normal", EventReason.CLONE_STARTED, message)


def _tables(facts: GroupFacts, move: Move, agents: Observation) -> tuple[TableReference, ...]:
    """All that the bucket is to have, those first that the target lacks: a Job may get only a part of them."""
    agent = agents.agent_views.get(move.to)
    reports = agent.tables if agent else {}
    wanted = [one for view in facts.view.sound if (one := view.reference).manifest]

    def is_there(one: TableReference) -> bool:
        report = reports.get((one.namespace, one.directory))
        held = report.buckets.get(move.bucket) if report and report.manifest == one.manifest else None
        return held is not None and held.state == "complete"

    return tuple(sorted(wanted, key=is_there))


def _sources(
    facts: GroupFacts,
    move: Move,
    failures: int,
    tables: Iterable[TableReference],
    snapshot: Snapshot,
    agents: Observation,
) -> tuple[CloneSource, ...]:
    """Ready nodes that hold the bucket: complete ones first, the least busy of them first; then those that have
    manifests which none of these has.

    After a failure the order is turned, so that the next attempt begins with another replica.
    """
    urls = agents.readers_urls

    def rank(node: Node) -> tuple[bool, int, str]:
        agent = agents.agent_views.get(node.name)
        transfers = agent.report.active_transfers if agent and agent.report else 0
        return facts.state.held[node.name][move.bucket] != "complete", transfers, node.name

    holders = [
        node
        for node in snapshot.nodes
        if node.ready and node.name != move.to and move.bucket in facts.state.held.get(node.name, {})
    ]
    shared = agents.shared_certificate_nodes

    def sources_on(nodes: Iterable[str]) -> list[CloneSource]:
        found = ((node, urls.get(node)) for node in nodes)
        return [CloneSource(node=node, url=url, shares_certificate=node in shared) for node, url in found if url]

    sources = sources_on(node.name for node in sorted(holders, key=rank))
    if not sources:
        return ()
    others = [node.name for node in snapshot.nodes if node.ready and node not in holders and node.name != move.to]
    more = sources_on(_givers_of_manifests(agents.agent_views, [one.node for one in sources], others, tables))
    turn = failures % len(sources)
    return (*sources[turn:], *sources[:turn], *more)


def _givers_of_manifests(
    views: Mapping[str, AgentView], holders: Iterable[str], others: Iterable[str], tables: Iterable[TableReference]
) -> list[str]:
    """One of the others for each manifest that no holder has: a node that was away at a load which touched none of its
    buckets lacks that manifest, and nothing is missing there.
    """

    def has(node: str, table: TableReference) -> bool:
        report = views[node].tables.get((table.namespace, table.directory)) if node in views else None
        return report is not None and report.manifest_present and report.manifest == table.manifest

    holders, others = tuple(holders), tuple(others)
    lacking = [table for table in tables if not any(has(node, table) for node in holders)]
    givers = (next((node for node in others if has(node, table)), None) for table in lacking)
    return list(dict.fromkeys(node for node in givers if node))


def _ended_events(facts: GroupFacts) -> Iterator[Action]:
    """One Event for each end, by the same count that the status keeps."""
    for job in facts.view.jobs:
        end = facts.new_ends.get(job.identity.uid)
        where = f"bucket {job.bucket} to node {job.target}"
        if end and end.cause is None:
            yield PostEvent(GROUP_KIND, facts.group.identity, "Normal", EventReason.CLONE_SUCCEEDED, where)
        elif end:
            attempt = job.failures if job.phase == "failed" else job.failures + 1
            message = f"{where}: attempt {attempt} failed: {end.cause}"
            yield PostEvent(GROUP_KIND, facts.group.identity, "Warning", EventReason.CLONE_FAILED, message)
