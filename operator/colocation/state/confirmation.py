"""Finds agents that have not reported on a table, replicas that are not confirmed since a commit, and tables whose
manifest no agent has.

For ``CONFIRMATION_GRACE`` after a commit the last verdict stands for the replicas of which no agent has reported since:
agents answer within a moment, and joins should not shuffle for the sake of it. No deletion and no change of a map rests
on such a replica (``GroupState.unconfirmed``), and none stands for longer.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from ..model.conditions import Reason
from ..model.group import BucketSequence, ColocationGroupStatus
from ..model.schema_check import Refusal
from .agent_view import AgentView
from .held import Pending, TableFiles
from .objects import ObservedGroup, ObservedTable
from .observation import Observation

CONFIRMATION_GRACE = timedelta(seconds=30)


def is_recent(moment: datetime | None, now: datetime) -> bool:
    """Whether the grace that begins at this moment is not over."""
    return moment is not None and now - moment < CONFIRMATION_GRACE


def unheard(observation: Observation, table: ObservedTable) -> Iterator[str]:
    """Nodes whose agent answers and has not yet reported what it has of the table."""
    for node, url in observation.agent_urls.items():
        view = observation.agent_views.get(node)
        if url and view and view.silent_since is None and not has_heard(observation, view, table):
            yield node


def has_heard(observation: Observation, view: AgentView, table: ObservedTable) -> bool:
    """Whether it is known what this agent has of the table, as it is wanted now.

    It was asked about it; or it was asked about anything since the table is known here, and does not say that the
    table's folder is there.
    """
    asked = view.asked.get((table.identity.namespace, table.directory))
    if asked is not None:
        return asked.reference == table.reference
    seen_at = observation.tables_seen_at.get(table.identity.uid) or observation.started_at
    if view.report is None or seen_at is None or not view.is_newer_than(seen_at):
        return False
    return f"{table.identity.namespace}/{table.directory}" not in view.report.unknown_directories


def fault_of(
    files: TableFiles, group: ObservedGroup | None, refusal: Refusal | None, agents: Mapping[str, AgentView]
) -> Refusal | None:
    """Why nothing can be made of what the table's status claims. ``group``: places it; ``agents``: by node."""
    table = files.table
    if table.status_error:
        if refusal is not None and refusal.reason == Reason.INVALID_STATUS:
            return refusal
        return Refusal(reason=Reason.INVALID_STATUS, message=table.status_error)
    if group is None or table.status.snapshot is None or files.has_manifest:
        return None
    rows = group.status.backends_per_bucket_seq or ()
    nodes = sorted({node for row in rows for node in row})
    return _missing(table, nodes) if _is_manifest_missing(agents, table, nodes) else None


def _missing(table: ObservedTable, nodes: Iterable[str]) -> Refusal:
    message = (
        f"no node has the manifest {table.reference.manifest} that status.snapshot names; "
        f"asked: {', '.join(nodes)}. Nothing of the table is deleted; load it again, or commit a manifest that is there"
    )
    return Refusal(reason=Reason.MANIFEST_MISSING, message=message)


def _is_manifest_missing(agents: Mapping[str, AgentView], table: ObservedTable, nodes: Iterable[str]) -> bool:
    """Whether all nodes of the map that answer were asked about this very manifest, and none has it."""
    answering = [view for node in nodes if (view := agents.get(node)) and _answers(view)]
    return bool(answering) and all(_is_asked(view, table) for view in answering)


def _answers(view: AgentView) -> bool:
    return view.report is not None and view.silent_since is None


def _is_asked(view: AgentView, table: ObservedTable) -> bool:
    """Whether the agent's newest report is about the table's committed manifest of now."""
    asked = view.asked.get((table.identity.namespace, table.directory))
    return asked is not None and asked.reference.manifest == table.reference.manifest


def doubtful_nodes(
    fresh: Iterable[TableFiles], rows: BucketSequence | None, agents: Mapping[str, AgentView]
) -> dict[str, frozenset[str]]:
    """Uid of each table whose commit is recent -> nodes of the map whose agents answer and have not reported on it.

    ``fresh``: these tables. An agent that lacks the manifest counts too while none has it: it is not known yet whether
    any does.
    """
    doubtful: dict[str, frozenset[str]] = {}
    for files in fresh:
        named = {node for row in rows or () for node in row}
        answering = {node: view for node in named if (view := agents.get(node)) and _answers(view)}
        nodes = (node for node, view in answering.items() if not (files.has_manifest and _is_asked(view, files.table)))
        doubtful[files.table.identity.uid] = frozenset(nodes)
    return doubtful


def confirmed_by_verdict(status: ColocationGroupStatus) -> frozenset[int]:
    """The buckets that the group's last verdict calls stable."""
    rows = status.backends_per_bucket_seq or ()
    if status.stable is None or (status.unstable_bucket_count or 0) > len(status.unstable_buckets):
        return frozenset()
    return frozenset(range(len(rows))) - {one.bucket for one in status.unstable_buckets}


def unconfirmed_replicas(status: ColocationGroupStatus, pending: Pending) -> dict[str, tuple[int, ...]]:
    """Node of the map -> the buckets there that were complete by the last verdict, and wait for the agent's report.

    ``pending``: those that are complete but for tables of which the agent has not spoken since their commit.
    """
    if not pending:
        return {}
    rows = status.backends_per_bucket_seq or ()
    found: dict[str, list[int]] = {}
    for bucket in sorted(confirmed_by_verdict(status)):
        for node in rows[bucket]:
            if bucket in pending.get(node, ()):
                found.setdefault(node, []).append(bucket)
    return {node: tuple(buckets) for node, buckets in found.items()}
