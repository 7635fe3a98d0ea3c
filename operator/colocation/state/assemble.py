"""Observation -> ClusterView: gathers for each table and group all that a decision about it needs.

A view whose parts are the same objects as in the last pass is the last pass's view.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from ..model.conditions import Reason
from ..model.group import RecycledTable
from ..model.schema_check import Refusal
from .clone_jobs import group_uids, is_current, transfer_name
from .confirmation import fault_of, is_recent
from .containment import Containment, table_scope
from .disks import nodes_without_their_disk
from .dropped import GoneTables
from .held import NOT_REPORTED, ReportsByTable, TableFiles
from .membership import Membership, memberships
from .memo import Memo
from .objects import ObservedCloneJob, ObservedGroup, ObservedTable
from .observation import Observation
from .placement import GroupKey
from .recycled import Records, is_heir, record_of, recycled_records
from .views import ClusterView, DroppedView, GroupView, TableView


def assemble(
    observation: Observation, memo: Memo | None = None, containment: Containment | None = None
) -> ClusterView:
    """The views of one pass.

    ``memo``: of earlier passes. ``containment``: takes what reports about a single table provoke.
    """
    memo, membership = memo or Memo(), memberships(observation, memo)
    records = recycled_records(observation.groups)
    tables = _Tables(observation, membership, records, memo).views(containment or Containment())
    heirs: dict[str, tuple[TableView, ...]] = {}
    for view in tables.values():
        if view.table.recovers:
            heirs[view.table.recovers] = (*heirs.get(view.table.recovers, ()), view)
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

    def views(self, containment: Containment) -> dict[str, TableView]:
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
                containment.errors.setdefault(table_scope(table), error)
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
        found = record_of(table, self._records) if table.recovers else None
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
        if manifest is None and table.recovers and (found := record_of(table, self._records)):
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
        heirs: dict[str, tuple[TableView, ...]],
    ) -> None:
        self._observation, self._membership = observation, membership
        self._tables, self._heirs = tables, heirs
        self._gone = GoneTables(observation, tables)
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
            namespace_uid=self._observation.namespace_uids.get(group.identity.namespace),
        )

    def _views_of(self, tables: Iterable[ObservedTable]) -> tuple[TableView, ...]:
        return tuple(self._tables[table.identity.uid] for table in tables)

    def _departed(self, group: ObservedGroup) -> Iterator[TableView]:
        for member in group.status.members:
            view = self._tables.get(member.uid)
            if view is None or view.group is None or view.group is group:
                continue
            if all(one.uid != member.uid for one in view.group.status.members):
                yield view

    def _dropped(self, record: RecycledTable) -> DroppedView:
        heirs = tuple(view for view in self._heirs.get(record.uid, ()) if is_heir(view.table, record))
        last_seen = self._observation.dropped_tables.get(record.uid)
        return DroppedView(record, record.uid in self._tables, heirs, last_seen)

    def _jobs_of(self, view: TableView) -> Iterable[ObservedCloneJob]:
        """Those that copy a table to its next group."""
        identity = view.table.identity
        return self._jobs.get((identity.namespace, transfer_name(identity.uid)), ())


def _jobs_by_group(observation: Observation) -> dict[GroupKey, list[ObservedCloneJob]]:
    """The clone Jobs of groups, and of tables that move, as they exist now."""
    jobs: dict[GroupKey, list[ObservedCloneJob]] = {}
    uids = group_uids(observation)
    for job in observation.clone_jobs:
        if is_current(uids, job) and not job.identity.deleting:
            jobs.setdefault((job.group_namespace, job.group), []).append(job)
    return jobs
