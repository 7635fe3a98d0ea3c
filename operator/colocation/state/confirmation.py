"""Finds replicas that their agent has not confirmed since a commit, and tables whose manifest no agent has.

For ``CONFIRMATION_GRACE`` after a commit the last verdict stands for the replicas of which no agent has reported since:
agents answer within a moment, and joins should not shuffle for the sake of it. No deletion and no change of a map rests
on such a replica (``GroupState.unconfirmed``), and none stands for longer.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from ..model.conditions import Reason
from ..model.group import BucketSequence, ColocationGroupStatus
from ..model.schema_check import Refusal
from .agent_view import AgentView
from .held import Pending, TableReports
from .membership import Membership
from .objects import ObservedTable
from .observation import Observation

CONFIRMATION_GRACE = timedelta(seconds=30)


def is_recent(moment: datetime | None, now: datetime) -> bool:
    """Whether the grace that begins at this moment is not over."""
    return moment is not None and now - moment < CONFIRMATION_GRACE


def faults_of(observation: Observation, membership: Membership, reports: TableReports) -> dict[str, Refusal]:
    """Table uid -> why nothing can be made of what its status says: nothing of it is deleted, copied or counted."""
    groups = {group.key: group for group in observation.groups}
    faults: dict[str, Refusal] = {}
    for key, tables in membership.members.items():
        for table in tables:
            if table.status.snapshot and not table.status_error and not reports.has_manifest(table):
                rows = groups[key].status.backends_per_bucket_seq or ()
                nodes = sorted({node for row in rows for node in row})
                if _is_manifest_missing(observation, table, nodes):
                    faults[table.identity.uid] = _missing(table, nodes)
    for table in observation.tables:
        if table.status_error:
            refusal = membership.refusals.get(table.identity.uid)
            said = refusal.message if refusal and refusal.reason == Reason.INVALID_STATUS else table.status_error
            faults[table.identity.uid] = Refusal(reason=Reason.INVALID_STATUS, message=said)
    return faults


def _missing(table: ObservedTable, nodes: Iterable[str]) -> Refusal:
    message = (
        f"no node has the manifest {table.reference.manifest} that status.snapshot names; "
        f"asked: {', '.join(nodes)}. Nothing of the table is deleted; load it again, or commit a manifest that is there"
    )
    return Refusal(reason=Reason.MANIFEST_MISSING, message=message)


def _is_manifest_missing(observation: Observation, table: ObservedTable, nodes: Iterable[str]) -> bool:
    """Whether all nodes of the map that answer were asked about this very manifest: none said that it has it."""
    views = [view for node in nodes if (view := observation.agent_views.get(node)) and _answers(view)]
    return bool(views) and all(_is_asked(view, table) for view in views)


def _answers(view: AgentView) -> bool:
    return view.report is not None and view.silent_since is None


def _is_asked(view: AgentView, table: ObservedTable) -> bool:
    """Whether the agent's last word is about the table's committed manifest of now."""
    asked = view.asked.get((table.identity.namespace, table.directory))
    return asked is not None and asked.reference.manifest == table.reference.manifest


def doubtful_nodes(
    observation: Observation, reports: TableReports, tables: Iterable[ObservedTable], rows: BucketSequence | None
) -> dict[str, frozenset[str]]:
    """Uid of each table whose commit is recent -> nodes of the map whose agents answer, but not of this commit yet.

    An agent that lacks the manifest counts too while nobody has it: whether anybody does is not known yet.
    """
    fresh = [one for one in tables if is_recent(observation.snapshots_seen_at.get(one.identity.uid), observation.now)]
    if not fresh:
        return {}
    views = {node: observation.agent_views.get(node, AgentView()) for row in rows or () for node in row}
    answering = {node: view for node, view in views.items() if _answers(view)}
    doubtful: dict[str, frozenset[str]] = {}
    for table in fresh:
        is_known = reports.has_manifest(table)
        nodes = (node for node, view in answering.items() if not (is_known and _is_asked(view, table)))
        doubtful[table.identity.uid] = frozenset(nodes)
    return doubtful


def confirmed_by_verdict(status: ColocationGroupStatus) -> frozenset[int]:
    """The buckets that the group's last verdict calls stable."""
    rows = status.backends_per_bucket_seq or ()
    if status.stable:
        return frozenset(range(len(rows)))
    if status.stable is None or (status.unstable_bucket_count or 0) > len(status.unstable_buckets):
        return frozenset()
    return frozenset(range(len(rows))) - {one.bucket for one in status.unstable_buckets}


def unconfirmed_replicas(status: ColocationGroupStatus, pending: Pending) -> dict[str, tuple[int, ...]]:
    """Node of the map -> the buckets there that were complete by the last verdict, and wait for the agent's word.

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
