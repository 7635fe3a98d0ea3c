"""Which group places a table, and what its group remembers of it, and of tables that were dropped.

Tenants may write a table's status, so the status alone proves nothing. ``status.members`` of a group is written by the
operator only, and decides. The table's own status counts where no other group is concerned: between the write of the
table's status and that of its group's.

Safety invariant: whatever is in a table's status, no group places it that neither remembers it nor is named by its
spec, and the placement of every other table stays as it is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..model.agent import TableReference
from ..model.group import GroupMember, RecycledTable
from ..model.names import group_reference
from ..model.table import TableSnapshot, columns_digest
from .memo import Memo
from .objects import ObservedGroup, ObservedTable

GroupKey = tuple[str, str]
Records = Mapping[str, tuple[RecycledTable, ObservedGroup]]
"""Uid of each dropped table -> what is remembered of it, and the group that does."""
Groups = Mapping[GroupKey, ObservedGroup]
Memories = tuple[tuple[ObservedGroup, GroupMember], ...]
"""The groups whose status remembers a table, and what they remember."""


@dataclass(frozen=True, slots=True)
class TableMemory:
    """What only a group's status remembers of a table; None and "" = nothing.

    ``replicas`` and ``columns_digest`` are of the spec that it took last, ``snapshot`` is the committed one.
    """

    replicas: int | None
    columns_digest: str
    snapshot: TableSnapshot | None


@dataclass(frozen=True, slots=True)
class Placement:
    """One table with what its groups remember of it.

    ``table``: its status holds what the operator knows to be so, not what others wrote. ``group``: places it, None =
    none does. ``is_remembered``: a group's status names it, as in ``memory``. ``columns_are_known``: whether
    ``table.status.columns`` are those that were accepted. ``wanted``: see ``wanted_key``.
    """

    table: ObservedTable
    group: ObservedGroup | None
    is_remembered: bool
    memory: TableMemory
    wanted: GroupKey | None
    columns_are_known: bool = True


class Claim(NamedTuple):
    """All that places a table.

    ``memories``: of the groups that remember a table of this uid. ``named``: the group that the table's status names,
    if it exists.
    """

    table: ObservedTable
    memories: Memories
    named: ObservedGroup | None


def placements(groups: Groups, tables: Iterable[ObservedTable], memo: Memo) -> dict[str, Placement]:
    """Uid of each table -> where it is placed."""
    memories: dict[str, Memories] = {}
    for _, group in sorted(groups.items()):
        for member in group.status.members:
            memories[member.uid] = (*memories.get(member.uid, ()), (group, member))
    found: dict[str, Placement] = {}
    for table in tables:
        uid, named = table.identity.uid, table.status_group
        claim = Claim(table, memories.get(uid, ()), groups.get(named) if named else None)
        found[uid] = memo.of(("placement", uid), claim, placement)
    return found


def placement(claim: Claim) -> Placement:
    """Where the table is placed, and as what its group remembers it."""
    table = claim.table
    own = tuple(one for one in claim.memories if _is_of(one[1], table))
    group = _group(table, own, claim.named)
    known = _memory_in(group, own)
    if known is None:
        nothing = TableMemory(table.status.replicas, "", None)
        is_remembered = group is not None and _remembers_dropped(group, table)
        return Placement(table, group, is_remembered, nothing, wanted_key(table, group))
    return _remembered(table, group, known)


def _group(table: ObservedTable, memories: Memories, claimed: ObservedGroup | None) -> ObservedGroup | None:
    """By the first of these rules that finds one.

    1. The group that remembers the table as staying.
    2. The group that the table claims: it has arrived, is new, or came back, and no group remembers it yet.
    3. The group that remembers the table as leaving.
    """
    named = table.status_group
    staying = [group for group, member in memories if not member.leaving]
    if staying:
        return _valid(next((group for group in staying if group.key == named), staying[0]))
    if claimed is not None and claims(claimed, table):
        return claimed
    return _valid(memories[0][0]) if memories else None


def _memory_in(group: ObservedGroup | None, memories: Memories) -> GroupMember | None:
    """What the group remembers; of a table that has just arrived, what its last group does."""
    if not memories:
        return None
    return next((member for found, member in memories if group and found.key == group.key), memories[0][1])


def _remembered(table: ObservedTable, group: ObservedGroup | None, member: GroupMember) -> Placement:
    """The table as its group remembers it. What an older operator did not remember comes from the status."""
    memory = TableMemory(member.replicas or table.status.replicas, member.columns_digest, member.snapshot)
    update: dict[str, object] = {"replicas": memory.replicas}
    if group is not None and group.spec is not None:
        update["group"] = group_reference(table.identity.namespace, group.key)
        update["buckets"] = group.spec.buckets
    columns_are_known = _columns_are_known(table, memory)
    if table.spec and table.spec.columns_digest == memory.columns_digest:
        update["columns"] = table.spec.columns
    if any(getattr(table.status, name) != value for name, value in update.items()):
        table = replace(table, status=table.status.model_copy(update=update))
    return Placement(table, group, True, memory, wanted_key(table, group), columns_are_known)


def _columns_are_known(table: ObservedTable, memory: TableMemory) -> bool:
    """Whether status.columns, or else the spec's, are those that were accepted last.

    The operator writes them and the group's memory one after the other, and may die between the two. A commit that the
    group does not remember yet may have written them.
    """
    if table.spec is None or not memory.columns_digest or table.status.columns == table.spec.columns:
        return True
    if memory.snapshot is not None and table.status.snapshot not in (None, memory.snapshot):
        return True
    return memory.columns_digest in (table.spec.columns_digest, columns_digest(table.status.columns))


def _valid(group: ObservedGroup) -> ObservedGroup | None:
    return group if group.spec is not None else None


def _is_of(member: GroupMember, table: ObservedTable) -> bool:
    return (member.namespace, member.name) == (table.identity.namespace, table.identity.name)


def claims(group: ObservedGroup, table: ObservedTable) -> bool:
    """Whether a table that no group remembers belongs to this one because its status names it.

    Its spec names the group too, or the group remembers the dropped table that this one brought back.
    """
    if table.status_group != group.key:
        return False
    return fits(group, table) and (table.spec_group == group.key or _remembers_dropped(group, table))


def _remembers_dropped(group: ObservedGroup, table: ObservedTable) -> bool:
    return any(is_heir(table, record) for record in group.status.recycled)


def allows(group: ObservedGroup, namespace: str) -> bool:
    """Whether tables of this namespace may be in the group."""
    if group.identity.namespace == namespace:
        return True
    return group.spec is not None and not {"*", namespace}.isdisjoint(group.spec.allowed_namespaces)


def fits(group: ObservedGroup, table: ObservedTable) -> bool:
    """Whether the group's map can hold the table's files: not when the group was created again with another schema."""
    if group.spec is None or not allows(group, table.identity.namespace):
        return False
    if table.status.buckets not in (None, group.spec.buckets):
        return False
    return table.spec is None or table.spec.bucket_key_types == group.spec.bucket_key


def wanted_key(table: ObservedTable, group: ObservedGroup | None) -> GroupKey | None:
    """The group that the spec names; for a table in no group its private one; None when the spec is not valid.

    ``group``: places the table.
    """
    if group is not None and group.private and table.spec is not None and not table.spec.colocate_with:
        return group.key
    return table.spec_group


def member_of(table: ObservedTable, leaving: bool, memory: TableMemory | None = None) -> GroupMember:
    """What is remembered of a table; without ``memory``, by its own status."""
    memory = memory or TableMemory(table.status.replicas, "", table.status.snapshot)
    settings: dict[str, object] = {}
    if table.spec is not None:
        settings = {
            "recycle_after_seconds": table.spec.recycle_after_seconds,
            "retention": table.spec.retention,
            "compaction": table.spec.compaction,
        }
    identity = table.identity
    return GroupMember(
        namespace=identity.namespace,
        name=identity.name,
        uid=identity.uid,
        snapshot=_without_change(memory.snapshot),
        replicas=memory.replicas,
        columns_digest=memory.columns_digest,
        leaving=leaving,
        **settings,
    )


_CHANGE: dict[str, object] = {
    "operation": "", "rows_inserted": None, "rows_updated": None, "rows_deleted": None, "files_added": None,
    "files_removed": None,
}  # fmt: skip
"""What a snapshot records of the commit that made it."""


def _without_change(snapshot: TableSnapshot | None) -> TableSnapshot | None:
    """The snapshot without its change: a group's object has room for a thousand tables, and for no more."""
    if snapshot is None or all(getattr(snapshot, name) == empty for name, empty in _CHANGE.items()):
        return snapshot
    return snapshot.model_copy(update=_CHANGE)


def recycled_records(groups: Iterable[ObservedGroup]) -> dict[str, tuple[RecycledTable, ObservedGroup]]:
    """Uid of each dropped table -> what is remembered of it, and the group that does."""
    return {record.uid: (record, group) for group in groups for record in group.status.recycled}


def reference_of(table: ObservedTable, records: Records) -> TableReference:
    """The table as agents are asked about it: one that is brought back, with the manifest that it is to have."""
    found = record_of(table, records)
    return as_recovered(table, found[0]).reference if found and table.is_recovering else table.reference


def record_of(table: ObservedTable, records: Records) -> tuple[RecycledTable, ObservedGroup] | None:
    """The dropped table that this one brings back, and the group that remembers it.

    Only a table of the same namespace and name takes over a dropped one's files, whatever its annotation names.
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
