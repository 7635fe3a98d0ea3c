"""Decides what is deleted, and when: only what is not wanted any more, and only once that is safe."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from ..model.plan import Drop
from ..state.agent_view import AgentView, TableKey
from ..state.clone_jobs import group_uids, is_current
from ..state.held import TableFiles
from ..state.objects import ObservedGroup, ObservedTable
from ..state.observation import Observation
from ..state.parse import parse_time
from ..state.placement import GroupKey
from ..state.views import ClusterView, TableView
from .actions import CollectGarbage, DeleteGroup, DropBucket, RemoveClone, TableDrop
from .evidence import proof_of_table
from .group_status import GroupFacts

Leftover = tuple[str, TableView]
"""A node that has files of a table without its committed manifest: it cannot tell which of them are garbage."""


def drop_actions(facts: GroupFacts, agents: Observation, grace_seconds: int) -> Iterator[DropBucket]:
    """Delete the replicas that the plan calls safe to delete, against the map as it is now."""
    map_version = facts.group.status.map_version
    if map_version is None:
        return
    leaving = _leaving(facts)
    staying = [view for view in facts.view.tables if view.uid not in leaving]
    for drop in facts.plan.drops:
        url = agents.agent_urls.get(drop.node)
        if url is None or (leaving and not any(view.files.holds_any(drop.node, drop.bucket) for view in staying)):
            continue  # the files there are of tables that are on their way to another group
        tables = tuple(_table_drops(facts.group, staying, drop.node, agents))
        if tables and not _holds_last_retained(facts, drop):
            yield DropBucket(facts.group.identity, map_version, drop.node, url, drop.bucket, tables, grace_seconds)


def _leaving(facts: GroupFacts) -> set[str]:
    """Uids of the tables that move to another group, by the group's status before or after this pass."""
    return {member.uid for member in (*facts.members, *facts.group.status.members) if member.leaving}


def _table_drops(
    group: ObservedGroup, tables: Iterable[TableView], node: str, agents: Observation
) -> Iterator[TableDrop]:
    """Those of which the node has something, and which its agent knows to be placed by the map as it is now."""
    agent = agents.agent_views.get(node, AgentView())
    epoch = (group.identity.uid, group.status.map_version)
    for view in tables:
        manifests, proof = view.live_manifests, proof_of_table(agents, agent, view.table)
        if manifests and proof and view.key in agent.tables and (proof.group_uid, proof.map_version) == epoch:
            yield TableDrop(*view.key, manifests, proof)


def _holds_last_retained(facts: GroupFacts, drop: Drop) -> bool:
    """Whether no node of the map has what the node has of retained snapshots: a move must not lose them."""
    row = facts.state.map[drop.bucket] if facts.state.map and drop.bucket < len(facts.state.map) else ()
    for view in facts.view.tables:
        without = view.files.nodes_without_retained.get(drop.bucket, frozenset())
        if row and drop.node not in without and without.issuperset(row):
            return True
    return False


def leftovers(cluster: ClusterView) -> dict[GroupKey, list[Leftover]]:
    """By the group that places the table."""
    found = dict[GroupKey, list[Leftover]]()
    for node, agent in cluster.observation.agent_views.items():
        for key, report in agent.tables.items():
            has_files = report.surplus_bytes > 0 or report.unnamed_buckets
            view = cluster.by_folder.get(key) if has_files and not report.manifest_present else None
            if view is not None and view.group is not None:
                found.setdefault(view.group.key, []).append((node, view))
    return found


def leftover_drops(
    facts: GroupFacts, found: Iterable[Leftover], ready: Collection[str], cluster: ClusterView, grace_seconds: int
) -> Iterator[DropBucket]:
    """Delete what is stored on nodes that the map does not name any more, of buckets that the map's nodes have whole.

    Not of a table that is being brought back: its files are where the dropped table's map had them. Not of a disk that
    was not accepted: what is stored there was never looked through.
    """
    rows, map_version = facts.group.status.backends_per_bucket_seq or (), facts.group.status.map_version
    named = {node for row in rows for node in row} | {move.to for move in facts.plan.moves}
    named |= {job.target for job in facts.view.jobs}
    leaving, agents = _leaving(facts), cluster.observation
    for node, view in found:
        url = agents.agent_urls.get(node)
        if map_version is None or url is None or node in named or view.uid in leaving:
            continue
        if node in cluster.disks_missing or not _is_settled(view.table, agents.now, grace_seconds):
            continue
        drops = tuple(_table_drops(facts.group, (view,), node, agents))
        for bucket, row in enumerate(rows):
            if drops and all(one in ready and _has_all(facts, view, one, bucket, agents) for one in row):
                yield DropBucket(facts.group.identity, map_version, node, url, bucket, drops, grace_seconds)


def _has_all(facts: GroupFacts, view: TableView, node: str, bucket: int, agents: Observation) -> bool:
    """Whether a node of the map has the bucket whole, with what retained snapshots have of the table."""
    report = agents.agent_views.get(node, AgentView()).tables.get(view.key)
    if report is None or not report.manifest_present or not report.retained_present:
        return False
    state = facts.state
    is_complete = not state.bytes_of(bucket) or state.held.get(node, {}).get(bucket) == "complete"
    return is_complete and bucket not in report.retained_missing


def delete_group(facts: GroupFacts, now: datetime) -> Iterator[DeleteGroup]:
    """Source: Doris' manual, "Delete": with the last table of a group, after its recycle time, the group is deleted."""
    delete_after = parse_time(facts.group.status.delete_after)
    is_due = delete_after is not None and now >= delete_after and facts.delete_after
    if is_due and not facts.members and not facts.etcd_restored:
        yield DeleteGroup(facts.group.identity)


def stray_clones(observation: Observation) -> Iterator[RemoveClone]:
    """Clone Jobs of groups that are gone, or that were deleted and created again."""
    uids = group_uids(observation)
    for job in observation.clone_jobs:
        if not job.identity.deleting and not is_current(uids, job):
            yield RemoveClone(job.identity)


def collect_actions(cluster: ClusterView, grace_seconds: int) -> Iterator[CollectGarbage]:
    """Files that no live manifest names: left by loads that did not commit, or by snapshots that are replaced.

    Safety: of a table whose live snapshot is not whole on the nodes that answer, nothing is collected. After a restore
    of etcd to an older copy, what looks like garbage may be all that is left of the table.
    """
    seen = cluster.observation
    for key, nodes in _garbage(cluster).items():
        view = cluster.by_folder[key]
        manifests = view.live_manifests
        is_settled = manifests and _is_settled(view.table, seen.now, grace_seconds)
        if not (is_settled and is_whole(view.files, cluster.disks_missing)):
            continue
        for node, url in nodes:
            agent = seen.agent_views[node]
            proof = proof_of_table(seen, agent, view.table)
            if proof and agent.asked[key].reference.live_manifests == manifests:
                yield CollectGarbage(node, url, *key, manifests, grace_seconds, proof)


def _garbage(cluster: ClusterView) -> dict[TableKey, list[tuple[str, str]]]:
    """Table -> (node, its agent's URL) of all that have files which they can tell from the committed ones."""
    found: dict[TableKey, list[tuple[str, str]]] = {}
    for node, agent in cluster.observation.agent_views.items():
        url = cluster.observation.agent_urls.get(node)
        if url is None or node in cluster.disks_missing:
            continue
        for key, held in agent.tables.items():
            if held.surplus_bytes > 0 and held.manifest_present and key in cluster.by_folder:
                found.setdefault(key, []).append((node, url))
    return found


def _is_settled(table: ObservedTable, now: datetime, grace_seconds: int) -> bool:
    """Whether its live manifests are known to be those that are wanted.

    A table that is being brought back may get a snapshot that was never committed, or that is not whole; once it has
    it, its users need time to look at the rows.
    """
    if table.is_recovering:
        return False
    is_made_again = table.recovers is not None or bool(table.adopts)
    age = now - table.identity.created_at
    return not is_made_again or age.total_seconds() >= grace_seconds


def is_whole(files: TableFiles, disks_missing: Collection[str]) -> bool:
    """Whether the agents that answer have verified, together, every file of the committed snapshot, and one has its
    manifest.
    """
    lacking = {bucket: -1 for bucket, size in (files.bucket_bytes or {}).items() if size > 0}  # -1: all bits
    is_known = False
    for node, report in files.reports.holding:
        answers = node not in files.silent and node not in disks_missing
        if answers and files.is_committed_snapshot(report):
            is_known = True
            for bucket, held in report.buckets.items():
                if held.files_wanted > 0:
                    lacking[bucket] = lacking.get(bucket, -1) & held.lacking
    return is_known and not any(lacking.values())
