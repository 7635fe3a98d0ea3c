"""Decides what a group remembers of its tables, so that one that is dropped at any time waits in the recycle bin.

A table that was remembered and no longer exists was dropped, whether the operator was there or not.
"""

import math
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from ..model.group import MAX_RECYCLED_TABLES, ColocationGroupSpec, GroupMember, RecycledTable
from ..model.names import group_reference
from ..model.table import TableSnapshot
from ..state.held import TableReports
from ..state.index import TableIndex
from ..state.objects import ObservedGroup, ObservedTable
from ..state.observation import Observation
from ..state.parse import format_time, parse_time
from ..state.placement import TableMemory, claims
from ..state.recycled import is_heir
from .recovery import is_lost

NEWS = timedelta(seconds=60)
"""So long after its deletion a table is remembered of which the group had not taken notice yet."""
LAST_OF_A_SECOND = timedelta(microseconds=999_999)
"""Times are written in whole seconds; what is kept until then goes no moment too early."""
RECYCLED_MARK = "*"
"""Behind a dropped table's name; source: Doris' and StarRocks' SHOW PROC '/colocation_group'."""


def next_members(index: TableIndex, group: ObservedGroup) -> tuple[GroupMember, ...]:
    """The tables that the group places; and those that have just left, until their next group remembers them."""
    memories = index.membership.memories
    members = [
        member_of(table, table.identity.uid in index.leaving, memories.get(table.identity.uid))
        for table in index.membership.members[group.key]
    ]
    known = {member.uid for member in members}
    for before in group.status.members:
        place, table = index.places.get(before.uid), index.by_uid.get(before.uid)
        if before.uid in known or table is None or place is None:
            continue
        if all(member.uid != before.uid for member in index.groups[place].status.members):
            members.append(member_of(table, True, memories.get(before.uid)))
    return tuple(sorted(members, key=lambda member: (member.name, member.namespace)))


def member_of(table: ObservedTable, leaving: bool, memory: TableMemory | None = None) -> GroupMember:
    """What is remembered of a table; without ``memory``, what its status says."""
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
        snapshot=_without_operation(memory.snapshot),
        replicas=memory.replicas,
        columns_digest=memory.columns_digest,
        leaving=leaving,
        **settings,
    )


def _without_operation(snapshot: TableSnapshot | None) -> TableSnapshot | None:
    """A group's object has room for a thousand tables, and for nothing that can be done without."""
    return snapshot.model_copy(update={"operation": ""}) if snapshot and snapshot.operation else snapshot


def next_recycled(index: TableIndex, reports: TableReports, group: ObservedGroup) -> tuple[RecycledTable, ...]:
    """The group's dropped tables, the last dropped one last."""
    kept = [
        _as_kept(record, index)
        for record in group.status.recycled
        if record.uid not in index.by_uid and _is_kept(index, reports, group, record)
    ]
    dropped = [_recycled(member, index.observation) for member in _dropped(index, group)]
    now = index.observation.now
    waiting = [record for record in dropped if not _is_over(record, now)]
    records = [record for record in (*kept, *waiting) if not _went_on(record, (*kept, *waiting), index.observation)]
    return tuple(records[-MAX_RECYCLED_TABLES:])


def _went_on(record: RecycledTable, records: Iterable[RecycledTable], observation: Observation) -> bool:
    """Whether the table came back and was dropped again before its group saw that: its files are those of the later
    record.
    """
    later = (observation.dropped_tables.get(one.uid) for one in records)
    heirs = (one.table for one in later if one and is_heir(one.table, record))
    return any(heir.status.snapshot is not None for heir in heirs)


def _dropped(index: TableIndex, group: ObservedGroup) -> Iterator[GroupMember]:
    """Tables of the group that have gone since it was written; of one that was leaving it, its next group's record
    counts: from there it comes back.
    """
    known = {record.uid for record in group.status.recycled}
    for member in (*group.status.members, *_unnoticed(index, group)):
        if member.uid in index.by_uid or member.uid in known:
            continue
        if not (member.leaving and _is_remembered_elsewhere(index, group, member.uid)):
            yield member


def _is_remembered_elsewhere(index: TableIndex, group: ObservedGroup, uid: str) -> bool:
    return any(
        any(member.uid == uid and not member.leaving for member in (*other.status.members, *_unnoticed(index, other)))
        or any(record.uid == uid for record in other.status.recycled)
        for other in index.groups.values()
        if other.key != group.key
    )


def _unnoticed(index: TableIndex, group: ObservedGroup) -> Iterator[GroupMember]:
    """Tables that were placed here and dropped before the group had taken notice of them."""
    known = {member.uid for member in group.status.members}
    for dropped in index.dropped_from(group.key):
        table = dropped.table
        if table.identity.uid in known or index.has_returned(table):
            continue  # it was noticed
        if index.observation.now - dropped.dropped_at <= NEWS and claims(group, table):
            yield member_of(table, leaving=False)


def _is_kept(index: TableIndex, reports: TableReports, group: ObservedGroup, record: RecycledTable) -> bool:
    """Until it is purged or has come back; for as long as it can come back when it is just doing so."""
    heirs = index.heirs_of(record)
    if any(heir.status.snapshot is not None for heir in heirs):
        return False
    if heirs:
        return not is_lost(index, reports, group, record, heirs)
    return not _is_over(record, index.observation.now)


def _is_over(record: RecycledTable, now: datetime) -> bool:
    purge_at = parse_time(record.purge_at)
    return purge_at is not None and now >= purge_at


def _as_kept(record: RecycledTable, index: TableIndex) -> RecycledTable:
    """With those that were made from it. Until then, the drop may have been heard of before the last commit."""
    if heirs := index.heirs_of(record):
        uids = dict.fromkeys((*record.recovery_uids, *(heir.identity.uid for heir in heirs)))
        return record.model_copy(update={"recovery_uids": tuple(uids)})
    known = index.observation.dropped_tables.get(record.uid)
    last = member_of(known.table, leaving=False).snapshot if known else None
    if last is None or (record.snapshot is not None and record.snapshot.id >= last.id):
        return record
    return record.model_copy(update={"snapshot": last})


def _recycled(member: GroupMember, observation: Observation) -> RecycledTable:
    """As it was last seen: the operator may have heard of a load since it wrote the group's status."""
    known = observation.dropped_tables.get(member.uid)
    last = member_of(known.table, leaving=False) if known else member
    deleted_at = known.dropped_at if known else observation.now
    return RecycledTable(
        **{name: getattr(last, name) for name in GroupMember.model_fields if name != "leaving"},
        deleted_at=format_time(deleted_at),
        purge_at=format_time(deleted_at + timedelta(seconds=last.recycle_after_seconds) + LAST_OF_A_SECOND),
    )


def listed_tables(
    group: ObservedGroup, tables: tuple[ObservedTable, ...], recycled: tuple[RecycledTable, ...]
) -> tuple[str, ...]:
    """The group's tables by name, the dropped ones marked."""
    namespace = group.identity.namespace
    live = [group_reference(namespace, (one.identity.namespace, one.identity.name)) for one in tables]
    dropped = {group_reference(namespace, (one.namespace, one.name)) + RECYCLED_MARK for one in recycled}
    return (*live, *sorted(dropped))


def delete_after(
    index: TableIndex, group: ObservedGroup, spec: ColocationGroupSpec, recycled: tuple[RecycledTable, ...]
) -> str | None:
    """When a ``WithLastTable`` group goes: with the last of its tables, once that is purged; None while it is used.

    Source: Doris' manual, "Delete".
    """
    before, now = group.status, format_time(index.observation.now)
    is_used = bool(index.membership.members[group.key]) or group.key in index.wanted_groups
    if spec.deletion_policy != "WithLastTable" or is_used:
        return None
    if recycled:
        return max(record.purge_at for record in recycled)
    if before.delete_after and before.delete_after <= now:
        return before.delete_after
    return now if before.tables or before.members or group.private else None


def keep_seconds_of(record: RecycledTable, now: datetime) -> int:
    """How much longer a dropped table's files are kept."""
    purge_at = parse_time(record.purge_at)
    return max(0, math.ceil((purge_at - now).total_seconds())) if purge_at else 0
