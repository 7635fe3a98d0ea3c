"""Dropped tables as their groups remember them, the tables that bring them back, and which manifests are live."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..model.agent import TableReference
from ..model.group import RecycledTable
from .objects import ObservedGroup, ObservedTable

Records = Mapping[str, tuple[RecycledTable, ObservedGroup]]
"""Uid of each dropped table -> what is remembered of it, and the group that does."""


def recycled_records(groups: Iterable[ObservedGroup]) -> dict[str, tuple[RecycledTable, ObservedGroup]]:
    """Uid of each dropped table -> what is remembered of it, and the group that does."""
    return {record.uid: (record, group) for group in groups for record in group.status.recycled}


def reference_of(table: ObservedTable, records: Records) -> TableReference:
    """The table as agents are asked about it: one that is brought back, with the manifest that it is to have."""
    found = record_of(table, records)
    return as_recovered(table, found[0]).reference if found and table.is_recovering else table.reference


def live_manifests(table: ObservedTable, records: Records) -> tuple[str, ...]:
    """All manifests of the table whose files stay: the committed one, or that which is brought back; the retained ones.

    Whatever asks an agent to delete files of the table names these. Empty: it is not known which files are wanted
    (nothing is committed, whatever the history says, or the status is not readable): nothing of it may be deleted.
    """
    reference = reference_of(table, records)
    return () if table.status_error or reference.manifest is None else reference.live_manifests


def record_of(table: ObservedTable, records: Records) -> tuple[RecycledTable, ObservedGroup] | None:
    """The dropped table that this one brings back, and the group that remembers it.

    Only a table of the same namespace and name takes over a dropped one's files, whatever its annotation says.
    """
    found = records.get(table.recovers or "")
    return found if found and is_heir(table, found[0]) else None


def is_heir(table: ObservedTable, record: RecycledTable) -> bool:
    """Whether the table was made to bring back this dropped one."""
    identity = table.identity
    return (table.recovers, identity.namespace, identity.name) == (record.uid, record.namespace, record.name)


def as_recovered(table: ObservedTable, record: RecycledTable) -> ObservedTable:
    """The table as it will be once it has its files back."""
    return replace(table, status=table.status.model_copy(update={"snapshot": record.snapshot}))
