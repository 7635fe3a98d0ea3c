"""Decides what is deleted, and when: only what is not wanted any more, and only once that is safe."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from ..model.plan import Drop
from ..state.agent_view import AgentView, TableKey
from ..state.clone_jobs import group_uids, is_current
from ..state.held import TableReports, holds_any, nodes_without_retained
from ..state.index import TableIndex
from ..state.membership import GroupKey
from ..state.objects import ObservedGroup, ObservedTable
from ..state.observation import Observation
from ..state.parse import parse_time
from .actions import CollectGarbage, DeleteGroup, DropBucket, RemoveClone, TableDrop
from .group_status import GroupFacts
from .proofs import proof_of_table


def drop_actions(
    index: TableIndex, reports: TableReports, facts: GroupFacts, grace_seconds: int
) -> Iterator[DropBucket]:
    """Delete the replicas that the plan calls safe to delete, against the map as it is now."""
    map_version = facts.group.status.map_version
    if map_version is None:
        return
    observation = index.observation
    urls = observation.agent_urls
    leaving = {member.uid for member in (*facts.members, *facts.group.status.members) if member.leaving}
    staying = [table for table in facts.tables if table.identity.uid not in leaving]
    for drop in facts.plan.drops:
        url = urls.get(drop.node)
        if url is None or (leaving and not holds_any(reports, staying, drop.node, drop.bucket)):
            continue  # what lies there is of tables that are on their way to another group
        tables = tuple(_table_drops(index, facts.group, staying, drop.node))
        if tables and not _holds_last_retained(observation, reports, facts, drop):
            yield DropBucket(facts.group.identity, map_version, drop.node, url, drop.bucket, tables, grace_seconds)


def _table_drops(
    index: TableIndex, group: ObservedGroup, tables: Iterable[ObservedTable], node: str
) -> Iterator[TableDrop]:
    """Those of which the node has something, and which its agent knows to be placed by the map as it is now."""
    view = index.observation.agent_views.get(node, AgentView())
    epoch = (group.identity.uid, group.status.map_version)
    for table in tables:
        key, manifests = (table.identity.namespace, table.directory), index.live_manifests(table)
        proof = proof_of_table(index.observation, view, table)
        if manifests and proof and key in view.tables and (proof.group_uid, proof.map_version) == epoch:
            yield TableDrop(*key, manifests, proof)


def _holds_last_retained(observation: Observation, reports: TableReports, facts: GroupFacts, drop: Drop) -> bool:
    """Whether no node of the map has what the node has of retained snapshots: a move must not lose them."""
    row = facts.state.map[drop.bucket] if facts.state.map and drop.bucket < len(facts.state.map) else ()
    for table in facts.tables:
        without = nodes_without_retained(observation, reports, table).get(drop.bucket, frozenset())
        if row and without and drop.node not in without and without.issuperset(row):
            return True
    return False


Leftover = tuple[str, ObservedTable]
"""A node that has files of a table, and not its committed manifest: it cannot tell which of them are garbage."""


def leftovers(index: TableIndex) -> Mapping[GroupKey, list[Leftover]]:
    """By the group that places the table."""
    places, found = index.membership.places, dict[GroupKey, list[Leftover]]()
    for node, view in index.observation.agent_views.items():
        for key, report in view.tables.items():
            has_files = report.surplus_bytes > 0 or report.unnamed_buckets
            table = index.by_folder.get(key) if has_files and not report.manifest_present else None
            if table is not None and table.identity.uid in places:
                found.setdefault(places[table.identity.uid], []).append((node, table))
    return found


def leftover_drops(
    index: TableIndex, facts: GroupFacts, found: Iterable[Leftover], ready: Collection[str], grace_seconds: int
) -> Iterator[DropBucket]:
    """Delete what lies on nodes that the map does not name any more, of buckets that the map's nodes have whole.

    Not of a table that is being brought back: its files lie where the dropped table's map had them. Not of a disk that
    nobody accepted: what lies there was never looked through.
    """
    rows, map_version = facts.group.status.backends_per_bucket_seq or (), facts.group.status.map_version
    named = {node for row in rows for node in row} | {move.to for move in facts.plan.moves}
    named |= {job.target for job in facts.jobs}
    leaving = {member.uid for member in (*facts.members, *facts.group.status.members) if member.leaving}
    for node, table in found:
        url = index.observation.agent_urls.get(node)
        if map_version is None or url is None or node in named or table.identity.uid in leaving:
            continue
        if node in index.disks_missing or not _is_settled(index.observation, table, grace_seconds):
            continue
        drops = tuple(_table_drops(index, facts.group, (table,), node))
        for bucket, row in enumerate(rows):
            if drops and all(one in ready and _has_all(index, facts, table, one, bucket) for one in row):
                yield DropBucket(facts.group.identity, map_version, node, url, bucket, drops, grace_seconds)


def _has_all(index: TableIndex, facts: GroupFacts, table: ObservedTable, node: str, bucket: int) -> bool:
    """Whether a node of the map has the bucket whole, with what retained snapshots have of the table."""
    view = index.observation.agent_views.get(node, AgentView())
    report = view.tables.get((table.identity.namespace, table.directory))
    if report is None or not report.manifest_present or not report.retained_present:
        return False
    state = facts.state
    is_whole = not state.bytes_of(bucket) or state.held.get(node, {}).get(bucket) == "complete"
    return is_whole and bucket not in report.retained_missing


def delete_group(facts: GroupFacts, now: datetime) -> Iterator[DeleteGroup]:
    """Source: Doris' manual, "Delete": with the last table of a group, after its recycle time, the group is deleted."""
    delete_after = parse_time(facts.group.status.delete_after)
    if delete_after is not None and now >= delete_after and facts.delete_after and not facts.members:
        yield DeleteGroup(facts.group.identity)


def stray_clones(observation: Observation) -> Iterator[RemoveClone]:
    """Clone Jobs of groups that are gone or have been made anew."""
    uids = group_uids(observation)
    for job in observation.clone_jobs:
        if not job.identity.deleting and not is_current(uids, job):
            yield RemoveClone(job.identity)


def collect_actions(index: TableIndex, reports: TableReports, grace_seconds: int) -> Iterator[CollectGarbage]:
    """Files that no live manifest names: left by loads that did not commit, or by snapshots that are replaced.

    Safety: of a table whose live snapshot is not whole on the nodes that answer, nothing is collected. After a restore
    of etcd to an older copy, what looks like garbage may be all that is left of the table.
    """
    observation = index.observation
    for key, nodes in _garbage(index).items():
        table = index.by_folder[key]
        manifests = index.live_manifests(table)
        if not (manifests and _is_settled(observation, table, grace_seconds) and is_whole(index, reports, table)):
            continue
        for node, url in nodes:
            view = observation.agent_views[node]
            proof = proof_of_table(observation, view, table)
            if proof and view.asked[key].reference.live_manifests == manifests:
                yield CollectGarbage(node, url, *key, manifests, grace_seconds, proof)


def _garbage(index: TableIndex) -> dict[TableKey, list[tuple[str, str]]]:
    """Table -> (node, its agent's URL) of all that have files which they can tell from the committed ones."""
    found: dict[TableKey, list[tuple[str, str]]] = {}
    for node, view in index.observation.agent_views.items():
        url = index.observation.agent_urls.get(node)
        for key, held in view.tables.items() if url else ():
            is_told = held.surplus_bytes > 0 and held.manifest_present and key in index.by_folder
            if url and is_told and node not in index.disks_missing:
                found.setdefault(key, []).append((node, url))
    return found


def _is_settled(observation: Observation, table: ObservedTable, grace_seconds: int) -> bool:
    """Whether its live manifests are known to be those that are wanted.

    A table that is being brought back may get a snapshot that was never committed, or that is not whole; once it has
    it, somebody needs time to look at the rows.
    """
    if table.is_recovering:
        return False
    is_made_again = table.recovers is not None or bool(table.adopts)
    age = observation.now - table.identity.created_at
    return not is_made_again or age.total_seconds() >= grace_seconds


def is_whole(index: TableIndex, reports: TableReports, table: ObservedTable) -> bool:
    """Whether the agents that answer have verified, together, every file of the committed snapshot, and one has its
    manifest.
    """
    observation, manifest = index.observation, table.reference.manifest
    sizes = observation.bucket_bytes.get((table.identity.namespace, table.directory, manifest or ""), {})
    lacking = {bucket: -1 for bucket, size in sizes.items() if size > 0}  # -1: all bits
    is_known = False
    for node, report in reports.of(table):
        answers = observation.agent_views[node].silent_since is None and node not in index.disks_missing
        if answers and report.manifest_present and report.manifest == manifest:
            is_known = True
            for bucket, held in report.buckets.items():
                if held.files_wanted > 0:
                    lacking[bucket] = lacking.get(bucket, -1) & held.lacking
    return is_known and not any(lacking.values())
