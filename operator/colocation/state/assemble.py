"""Observation -> ClusterView: gathers for each table and group all that a decision about it needs.

A view whose parts are the same objects as in the last pass is the last pass's view.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import chain

from ..model.conditions import Reason
from ..model.group import GroupMember, RecycledTable
from ..model.schema_check import Refusal
from .clone_jobs import failing_targets_of, group_uids, is_current, transfer_name
from .confirmation import fault_of, is_recent
from .held import NOT_REPORTED, ReportsByTable, TableFiles
from .membership import Membership, memberships
from .memo import Memo
from .nodes import nodes_without_their_disk
from .objects import DroppedTable, ObservedCloneJob, ObservedGroup, ObservedTable
from .observation import Observation
from .placement import GroupKey, Records, claims, member_of, record_of, recycled_records
from .views import ClusterView, DroppedView, GoneTable, GroupView, TableView

Heirs = dict[tuple[str, str, str], TableView]
"""(namespace, name, uid) of a dropped table -> the table of its name that brings it back, or has done so."""
NEWS = timedelta(seconds=60)
"""How long a deleted table counts as one that its group has not noticed yet."""


def assemble(
    observation: Observation, memo: Memo | None = None, errors: dict[str, Exception] | None = None
) -> ClusterView:
    """The views of one pass.

    ``memo``: of earlier passes. ``errors``: takes what reports about a single table provoke, by its scope.
    """
    memo, membership = memo or Memo(), memberships(observation, memo)
    records = recycled_records(observation.groups)
    tables = _Tables(observation, membership, records, memo).views({} if errors is None else errors)
    heirs: Heirs = {}
    for view in tables.values():
        if view.table.recovers:
            identity = view.table.identity
            key = (identity.namespace, identity.name, view.table.recovers)
            heirs[key] = view
    gathered = _Groups(observation, membership, tables, heirs)
    groups = {group.key: memo.same(("group", group.key), gathered.view(group)) for group in observation.groups}
    return ClusterView(
        observation=observation,
        tables=tables,
        groups=groups,
        arrivals=tuple(groups[key] for key in membership.arriving),
        missing_groups=membership.orphans,
        records=records,
        heirs=heirs,
        disks_missing=nodes_without_their_disk(observation),
    )


class _Tables:
    """Makes the views of tables."""

    def __init__(self, observation: Observation, membership: Membership, records: Records, memo: Memo) -> None:
        self._observation, self._membership, self._records, self._memo = observation, membership, records, memo
        self._groups = {group.key: group for group in observation.groups}
        self._places, self._leaving = membership.places, membership.leaving
        self._reports = ReportsByTable(observation, memo)

    def views(self, errors: dict[str, Exception]) -> dict[str, TableView]:
        """By uid."""
        views: dict[str, TableView] = {}
        for table in self._observation.tables:
            uid = table.identity.uid
            place, refusal = self._places.get(uid), self._membership.refusals.get(uid)
            group = self._groups[place] if place else None
            try:
                files = self._files(table)
                fault = fault_of(files, group, refusal, self._observation.agent_views)
            except Exception as error:  # noqa: BLE001 - whatever one object provokes must not reach the others
                errors.setdefault(table.scope, error)
                files = TableFiles(table, NOT_REPORTED, None)
                fault = Refusal(reason=Reason.INTERNAL_ERROR, message=repr(error))
            views[uid] = self._memo.same(("table", uid), self._view(table, group, refusal, files, fault))
        return views

    def _view(
        self,
        table: ObservedTable,
        group: ObservedGroup | None,
        refusal: Refusal | None,
        files: TableFiles,
        fault: Refusal | None,
    ) -> TableView:
        membership, uid = self._membership, table.identity.uid
        wanted = membership.wanted.get(uid)
        found = record_of(table, self._records)
        return TableView(
            table=table,
            group=group,
            memory=membership.memories.get(uid),
            wanted=wanted,
            rivals=membership.orphans.get(wanted, ()) if wanted else (),
            refusal=refusal,
            is_staying=uid in membership.staying,
            is_leaving=uid in self._leaving,
            dropped=found[0] if found else None,
            dropped_by=found[1] if found else None,
            files=files,
            is_fresh=is_recent(self._observation.snapshots_seen_at.get(uid), self._observation.now),
            fault=fault,
        )

    def _files(self, table: ObservedTable) -> TableFiles:
        """What is known of the files of the committed snapshot, or else of the one that the table brings back."""
        reports, silent = self._reports.of(table), self._observation.silent_nodes
        if silent:
            silent = silent.intersection(node for node, _ in reports.asked)
        manifest = table.reference.manifest
        if manifest is None and (found := record_of(table, self._records)):
            manifest = found[0].snapshot.manifest_sha256 if found[0].snapshot else None
        key = (table.identity.namespace, table.directory, manifest or "")
        return TableFiles(table, reports, self._observation.bucket_bytes.get(key), silent)


class _Groups:
    """Makes the views of groups, from those of all tables."""

    def __init__(
        self,
        observation: Observation,
        membership: Membership,
        tables: dict[str, TableView],
        heirs: Heirs,
    ) -> None:
        self._observation, self._membership = observation, membership
        self._tables, self._heirs = tables, heirs
        self._gone = _GoneTables(observation, tables)
        self._jobs = _jobs_by_group(observation)
        self._wanted = frozenset(membership.wanted.values())
        self._adopting: dict[GroupKey, list[TableView]] = {}
        for view in tables.values():
            if view.table.adopts and view.wanted:
                self._adopting.setdefault(view.wanted, []).append(view)

    def view(self, group: ObservedGroup) -> GroupView:
        """Of one group."""
        key, membership = group.key, self._membership
        arriving = self._views_of(membership.arriving.get(key, ()))
        return GroupView(
            group=group,
            tables=self._views_of(membership.members[key]),
            arriving=arriving,
            departed=tuple(self._departed(group)),
            dropped=tuple(self._dropped(record) for record in group.status.recycled),
            gone=self._gone.of(group),
            adopting=tuple(self._adopting.get(key, ())),
            is_wanted=key in self._wanted,
            jobs=tuple(self._jobs.get(key, ())),
            arriving_jobs=tuple(chain.from_iterable(map(self._jobs_of, arriving))),
            failing_targets=failing_targets_of(group.status.failing_targets, self._observation.now),
            namespace_uid=self._observation.namespace_uids.get(group.identity.namespace),
        )

    def _views_of(self, tables: Iterable[ObservedTable]) -> tuple[TableView, ...]:
        return tuple(self._tables[table.identity.uid] for table in tables)

    def _departed(self, group: ObservedGroup) -> Iterator[TableView]:
        for member in group.status.members:
            view = self._tables.get(member.uid)
            if view is None or view.group is None:
                continue
            if all(one.uid != member.uid for one in view.group.status.members):
                yield view

    def _dropped(self, record: RecycledTable) -> DroppedView:
        heir = self._heirs.get((record.namespace, record.name, record.uid))
        last_seen = self._observation.dropped_tables.get(record.uid)
        return DroppedView(record, record.uid in self._tables, heir, last_seen)

    def _jobs_of(self, view: TableView) -> Iterable[ObservedCloneJob]:
        """Those that copy a table to its next group."""
        identity = view.table.identity
        return self._jobs.get((identity.namespace, transfer_name(identity.uid)), ())


class _GoneTables:
    """Finds the tables that have gone since their groups were written.

    Args:
        observation: the cluster.
        tables: all tables that are there, by uid.
    """

    def __init__(self, observation: Observation, tables: Mapping[str, object]) -> None:
        self._observation = observation
        self._tables = tables
        self._by_group: dict[GroupKey, list[DroppedTable]] = {}
        for dropped in observation.dropped_tables.values():
            if dropped.table.status_group:
                self._by_group.setdefault(dropped.table.status_group, []).append(dropped)

    def of(self, group: ObservedGroup) -> tuple[GoneTable, ...]:
        """Those of one group. A table that was leaving it comes back from its next group, once that remembers it."""
        recorded = {record.uid for record in group.status.recycled}
        last_seen = self._observation.dropped_tables
        return tuple(
            GoneTable(member, last_seen.get(member.uid))
            for member in chain(group.status.members, self._unnoticed(group))
            if member.uid not in self._tables
            and member.uid not in recorded
            and not (member.leaving and self._is_remembered_elsewhere(member.uid))
        )

    def _unnoticed(self, group: ObservedGroup) -> Iterator[GroupMember]:
        """Tables that were placed here and deleted before the group's status named them."""
        found = self._by_group.get(group.key)
        if not found:
            return
        known = {member.uid for member in group.status.members}
        for dropped in found:
            table, is_new = dropped.table, self._observation.now - dropped.dropped_at <= NEWS
            is_unknown = table.identity.uid not in known and not self._has_returned(table)
            if is_new and is_unknown and claims(group, table):
                yield member_of(table, leaving=False)

    def _has_returned(self, table: ObservedTable) -> bool:
        """Whether a table, also one that was dropped since, brings this one back or has brought it back."""
        last_seen = chain(self._observation.tables, (one.table for one in self._observation.dropped_tables.values()))
        return any(
            one.recovers == table.identity.uid
            and (one.identity.namespace, one.identity.name) == (table.identity.namespace, table.identity.name)
            for one in last_seen
        )

    def _is_remembered_elsewhere(self, uid: str) -> bool:
        """Of a table that no longer is a group's, and that this one has not recorded."""
        return any(
            any(member.uid == uid and not member.leaving for member in (*other.status.members, *self._unnoticed(other)))
            or any(record.uid == uid for record in other.status.recycled)
            for other in self._observation.groups
        )


def _jobs_by_group(observation: Observation) -> dict[GroupKey, list[ObservedCloneJob]]:
    """The clone Jobs of groups, and of tables that move, as they exist now."""
    jobs: dict[GroupKey, list[ObservedCloneJob]] = {}
    uids = group_uids(observation)
    for job in observation.clone_jobs:
        if is_current(uids, job) and not job.identity.deleting:
            jobs.setdefault((job.group_namespace, job.group), []).append(job)
    return jobs
