"""Tables found by uid, folder, name and group: made once per pass, as a search per group costs groups x tables."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import chain

from ..model.agent import TableReference
from ..model.group import RecycledTable
from ..model.names import group_key
from ..model.schema_check import Refusal
from .agent_view import TableKey
from .disks import nodes_without_their_disk
from .membership import GroupKey, Membership
from .memo import Memo
from .objects import DroppedTable, ObservedGroup, ObservedTable
from .observation import Observation
from .recycled import Records, is_heir, live_manifests, recycled_records, reference_of


class TableIndex:
    """One observation's tables, with the groups that place them.

    Args:
        observation: the cluster.
        membership: which tables are in which group.
        faults: table uid -> why nothing can be made of what its status says.
        memo: of earlier decisions.
    """

    def __init__(
        self,
        observation: Observation,
        membership: Membership,
        faults: Mapping[str, Refusal] | None = None,
        memo: Memo | None = None,
    ) -> None:
        self.observation = observation
        self.memo = memo or Memo()
        self.membership = membership
        self.faults: Mapping[str, Refusal] = faults or {}
        self.groups: Mapping[GroupKey, ObservedGroup] = {group.key: group for group in observation.groups}
        self.by_uid: Mapping[str, ObservedTable] = {table.identity.uid: table for table in observation.tables}
        self.places: Mapping[str, GroupKey] = membership.places
        self.leaving: frozenset[str] = membership.leaving
        self.wanted_groups: frozenset[GroupKey] = frozenset(membership.wanted.values())

    @cached_property
    def by_folder(self) -> Mapping[TableKey, ObservedTable]:
        """(namespace, directory) -> the table."""
        return {(table.identity.namespace, table.directory): table for table in self.observation.tables}

    @cached_property
    def by_name(self) -> Mapping[tuple[str, str], ObservedTable]:
        """(namespace, name) -> the table."""
        return {(table.identity.namespace, table.identity.name): table for table in self.observation.tables}

    @cached_property
    def disks_missing(self) -> frozenset[str]:
        """Nodes whose disk is not the one that the groups know: nothing that lies there is deleted."""
        return nodes_without_their_disk(self.observation)

    @cached_property
    def records(self) -> Records:
        """Uid of each dropped table -> what is remembered of it, and the group that does."""
        return recycled_records(self.observation.groups)

    @cached_property
    def _adopting(self) -> Mapping[GroupKey, list[ObservedTable]]:
        found: dict[GroupKey, list[ObservedTable]] = {}
        for table in self.observation.tables:
            key = self.membership.wanted.get(table.identity.uid)
            if table.adopts and key:
                found.setdefault(key, []).append(table)
        return found

    def adopting(self, key: GroupKey) -> Iterable[ObservedTable]:
        """The tables that take over files of lost ones, and are to be in the group."""
        return self._adopting.get(key, ())

    @cached_property
    def _heirs(self) -> Mapping[str, list[ObservedTable]]:
        found: dict[str, list[ObservedTable]] = {}
        for table in self.observation.tables:
            if table.recovers:
                found.setdefault(table.recovers, []).append(table)
        return found

    def heirs_of(self, record: RecycledTable) -> list[ObservedTable]:
        """The tables that bring a dropped one back, or have done so."""
        return [table for table in self._heirs.get(record.uid, ()) if is_heir(table, record)]

    def has_returned(self, table: ObservedTable) -> bool:
        """Whether a table, also one that is dropped since, brings this dropped one back or has brought it back."""
        return (table.identity.uid, table.identity.namespace, table.identity.name) in self._returned

    @cached_property
    def _returned(self) -> frozenset[tuple[str, str, str]]:
        last_seen = chain(self.observation.tables, (one.table for one in self.observation.dropped_tables.values()))
        return frozenset(
            (one.recovers, one.identity.namespace, one.identity.name) for one in last_seen if one.recovers
        )

    @cached_property
    def _dropped(self) -> Mapping[GroupKey, list[DroppedTable]]:
        found: dict[GroupKey, list[DroppedTable]] = {}
        for dropped in self.observation.dropped_tables.values():
            table = dropped.table
            if table.status.group:
                found.setdefault(group_key(table.identity.namespace, table.status.group), []).append(dropped)
        return found

    def dropped_from(self, key: GroupKey) -> Iterable[DroppedTable]:
        """The tables that the group placed when this operator saw them deleted."""
        return self._dropped.get(key, ())

    def reference(self, table: ObservedTable) -> TableReference:
        """The table as agents are asked about it."""
        return reference_of(table, self.records)

    def live_manifests(self, table: ObservedTable) -> tuple[str, ...]:
        """All manifests of the table whose files stay; empty: nothing of it may be deleted."""
        return () if table.identity.uid in self.faults else live_manifests(table, self.records)

    def sound(self, tables: Iterable[ObservedTable]) -> tuple[ObservedTable, ...]:
        """Those that are not at fault: what counts for their group's state."""
        return tuple(table for table in tables if table.identity.uid not in self.faults)
