"""The cluster as one frozen record for each table and group, with all that a decision about it needs.

`assemble` makes them, once for each pass. A view that equals the one of the last pass is the same object, and what was
decided from it then holds. The clock is in a view only as the answer to a question, such as whether a commit is recent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ..model.agent import TableReference
from ..model.group import GroupMember, RecycledTable
from ..model.schema_check import Refusal
from ..model.snapshot import FailingTarget
from .agent_view import TableKey
from .held import TableFiles
from .objects import DroppedTable, ObservedCloneJob, ObservedGroup, ObservedTable
from .observation import Observation
from .placement import GroupKey, Records, TableMemory, as_recovered


class TableView(NamedTuple):
    """A table, where it is placed, what is held of it, and what is wrong with it.

    ``group``: places it, None = no group does. ``memory``: what its group is to remember of it. ``wanted``: the group
    that its spec names, whether that exists or not; None = that one is closed to it. ``rivals``: all tables that name
    this group, when it does not exist, the oldest first. ``refusal``: why its spec is not carried out; the table stays
    where it is. ``is_staying``: it may not move to the group that it names, and fits the one that places it.
    ``is_leaving``: it moves to another group. ``dropped``: the dropped table that it brings back, ``dropped_by``: the
    group that remembers that one. ``is_fresh``: its last commit is recent. ``fault``: why nothing can be made of what
    its status claims: nothing of it is deleted, copied or counted.
    """

    table: ObservedTable
    group: ObservedGroup | None
    memory: TableMemory | None
    wanted: GroupKey | None
    rivals: tuple[ObservedTable, ...]
    refusal: Refusal | None
    is_staying: bool
    is_leaving: bool
    dropped: RecycledTable | None
    dropped_by: ObservedGroup | None
    files: TableFiles
    is_fresh: bool
    fault: Refusal | None

    @property
    def uid(self) -> str:
        """The table's uid."""
        return self.table.identity.uid

    @property
    def key(self) -> TableKey:
        """(namespace, directory)."""
        return self.table.identity.namespace, self.table.directory

    @property
    def as_recovered(self) -> ObservedTable:
        """The table as it is to be: with the snapshot that it brings back."""
        return as_recovered(self.table, self.dropped) if self.dropped else self.table

    @property
    def reference(self) -> TableReference:
        """The table as agents are asked about it: one that is brought back, with the manifest that it is to have."""
        return self.as_recovered.reference if self.table.is_recovering else self.table.reference

    @property
    def recovered_files(self) -> TableFiles:
        """What is held of the table as it is to be."""
        return self.files._replace(table=self.as_recovered)

    @property
    def live_manifests(self) -> tuple[str, ...]:
        """All manifests of the table whose files stay; whatever asks an agent to delete files of it names them.

        Empty = it is not known which files are wanted: nothing of the table may be deleted.
        """
        reference = self.reference
        has_none = self.fault is not None or self.table.status_error or reference.manifest is None
        return () if has_none else reference.live_manifests


class DroppedView(NamedTuple):
    """A dropped table as its group remembers it.

    ``exists``: a table of its uid is there. ``heir``: the table that brings it back, or has done so. ``last_seen``:
    when it was deleted while this operator watched.
    """

    record: RecycledTable
    exists: bool
    heir: TableView | None
    last_seen: DroppedTable | None


class GoneTable(NamedTuple):
    """A table that its group has not recorded as dropped yet. ``member``: as the group remembers it."""

    member: GroupMember
    last_seen: DroppedTable | None


@dataclass(frozen=True)
class GroupView:
    """A group with its tables.

    ``tables``: those that it places. ``arriving``: those that move to it, and that another group places until then.
    ``departed``: tables that its status remembers, and that are placed by a group which does not remember them yet.
    ``dropped``: its recycle bin. ``gone``: tables that are to go there. ``adopting``: tables that take over files
    of lost ones, and are to be in the group. ``is_wanted``: a table names it. ``jobs``: its clone Jobs, ended ones too;
    ``arriving_jobs``: those of the tables that move to it. ``failing_targets``: by name, nodes on which clones of the
    group failed again and again. ``namespace_uid``: None = not known yet.
    """

    group: ObservedGroup
    tables: tuple[TableView, ...] = ()
    arriving: tuple[TableView, ...] = ()
    departed: tuple[TableView, ...] = ()
    dropped: tuple[DroppedView, ...] = ()
    gone: tuple[GoneTable, ...] = ()
    adopting: tuple[TableView, ...] = ()
    is_wanted: bool = False
    jobs: tuple[ObservedCloneJob, ...] = ()
    arriving_jobs: tuple[ObservedCloneJob, ...] = ()
    failing_targets: Mapping[str, FailingTarget] = field(default_factory=dict)
    namespace_uid: str | None = None

    @property
    def key(self) -> GroupKey:
        """(namespace, name)."""
        return self.group.key

    @cached_property
    def sound(self) -> tuple[TableView, ...]:
        """The tables without a fault: those that count for the group's state."""
        return tuple(view for view in self.tables if view.fault is None)

    @cached_property
    def id(self) -> str | None:
        """``<first 8 hex digits of the namespace's uid>.<number from the group's uid>``; None = not known yet.

        The number follows from the uid, so that it needs no counter: two operators give a group one id, and a group of
        the same name that is created later gets another.
        """
        if self.namespace_uid is None:
            return None
        return f"{self.namespace_uid[:8]}.{int(self.group.identity.uid.replace('-', '')[:8], 16)}"

    @cached_property
    def namespaces(self) -> frozenset[str]:
        """Its own and those of its tables: Spark pods run there that read its tables."""
        return frozenset((self.group.identity.namespace, *(view.table.identity.namespace for view in self.tables)))


@dataclass(frozen=True)
class ClusterView:
    """All tables by uid and all groups by key, and what concerns no single one of them.

    ``arrivals``: the groups to which tables move. ``missing_groups``: key of each group that tables name and that does
    not exist -> these tables, the oldest first. ``records``: all dropped tables by uid, with the group that remembers
    each. ``heirs``: (namespace, name, uid) of a dropped table -> the table that brings it back, or has done so.
    ``disks_missing``: nodes whose disk is not the one that the groups know: what agents report of it is not about the
    node's replicas.
    """

    observation: Observation
    tables: Mapping[str, TableView]
    groups: Mapping[GroupKey, GroupView]
    arrivals: tuple[GroupView, ...]
    missing_groups: Mapping[GroupKey, tuple[ObservedTable, ...]]
    records: Records
    heirs: Mapping[tuple[str, str, str], TableView]
    disks_missing: frozenset[str]

    @cached_property
    def by_folder(self) -> Mapping[TableKey, TableView]:
        """(namespace, directory) -> the table."""
        return {view.key: view for view in self.tables.values()}

    @cached_property
    def known_folders(self) -> frozenset[TableKey]:
        """(namespace, directory) of every table, and of every dropped one that a group remembers."""
        dropped = ((one.namespace, directory) for one, _ in self.records.values() for directory in one.directories)
        return frozenset((*self.by_folder, *dropped))

    @cached_property
    def by_name(self) -> Mapping[tuple[str, str], ObservedTable]:
        """(namespace, name) -> the table."""
        return {(one.identity.namespace, one.identity.name): one for one in self.observation.tables}
