"""Decides what is deleted, and when: only what is not wanted any more, and only once that is safe."""

from collections.abc import Iterator
from datetime import datetime

from ..model.plan import Drop
from ..model.table import ColocatedTableSpec
from ..state.clone_jobs import group_uids, is_current
from ..state.held import TableReports, holds_any, nodes_without_retained
from ..state.observation import Observation
from ..state.parse import parse_time
from .actions import (
    CollectGarbage,
    DeleteGroup,
    DropBucket,
    RecycleTable,
    RemoveClone,
)
from .group_status import GroupFacts
from .members import keep_seconds_by_folder

DEFAULT_RECYCLE_SECONDS: int = ColocatedTableSpec.model_fields["recycle_after_seconds"].default
"""Of folders of which no group knows how long they are to be kept."""


def drop_actions(
    observation: Observation, reports: TableReports, facts: GroupFacts, grace_seconds: int
) -> Iterator[DropBucket]:
    """Delete the replicas that the plan calls safe to delete, against the map as it is now."""
    map_version = facts.group.status.map_version
    if map_version is None:
        return
    urls = observation.agent_urls
    leaving = {member.uid for member in (*facts.members, *facts.group.status.members) if member.leaving}
    staying = [table for table in facts.tables if table.identity.uid not in leaving]
    tables = tuple(table.reference for table in staying)
    for drop in facts.plan.drops:
        url = urls.get(drop.node)
        if leaving and not holds_any(reports, staying, drop.node, drop.bucket):
            continue  # what lies there is of tables that are on their way to another group
        if url and not _holds_last_retained(observation, reports, facts, drop):
            yield DropBucket(facts.group.identity, map_version, drop.node, url, drop.bucket, tables, grace_seconds)


def _holds_last_retained(observation: Observation, reports: TableReports, facts: GroupFacts, drop: Drop) -> bool:
    """Whether no node of the map has what the node has of retained snapshots: a move must not lose them."""
    row = facts.state.map[drop.bucket] if facts.state.map and drop.bucket < len(facts.state.map) else ()
    for table in facts.tables:
        without = nodes_without_retained(observation, reports, table).get(drop.bucket, frozenset())
        if row and without and drop.node not in without and without.issuperset(row):
            return True
    return False


def delete_group(facts: GroupFacts, now: datetime) -> Iterator[DeleteGroup]:
    """Source: seed 000, "Delete": with the last table of a group, after its recycle time, the group is deleted."""
    delete_after = parse_time(facts.group.status.delete_after)
    if delete_after is not None and now >= delete_after and facts.delete_after and not facts.members:
        yield DeleteGroup(facts.group.identity)


def stray_clones(observation: Observation) -> Iterator[RemoveClone]:
    """Clone Jobs of groups that are gone or have been made anew."""
    uids = group_uids(observation)
    for job in observation.clone_jobs:
        if not job.identity.deleting and not is_current(uids, job):
            yield RemoveClone(job.identity)


def recycle_actions(observation: Observation) -> Iterator[RecycleTable]:
    """Folders of tables that are gone go to the recycle bin of their node."""
    urls = observation.agent_urls
    known = {f"{table.identity.namespace}/{table.directory}" for table in observation.tables}
    kept_seconds = keep_seconds_by_folder(observation)
    for node, view in observation.agent_views.items():
        url = urls.get(node)
        if url is None or view.report is None or view.silent_since is not None:
            continue
        for path in view.report.unknown_directories:
            if path not in known:
                namespace, _, directory = path.partition("/")
                keep_seconds = kept_seconds.get(path, DEFAULT_RECYCLE_SECONDS)
                yield RecycleTable(node, url, namespace, directory, keep_seconds)


def collect_actions(observation: Observation, grace_seconds: int) -> Iterator[CollectGarbage]:
    """Files that no committed manifest names: left by loads that did not commit, or by snapshots that are replaced."""
    urls = observation.agent_urls
    tables = {(table.identity.namespace, table.directory): table for table in observation.tables}
    for node, view in observation.agent_views.items():
        url = urls.get(node)
        if url is None or view.report is None or view.silent_since is not None:
            continue
        for held in view.report.tables:
            table = tables.get((held.namespace, held.directory))
            if table is not None and held.surplus_bytes > 0:
                manifests = table.reference.live_manifests
                yield CollectGarbage(node, url, held.namespace, held.directory, manifests, grace_seconds)

