"""Decides what a group remembers of its tables, so that one that is dropped at any time waits in the recycle bin.

A table that was remembered and does not exist any more was dropped, whether the operator was there or not.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from ..model.group import ColocationGroupSpec
from ..model.members import MAX_RECYCLED_TABLES, GroupMember, RecycledTable
from ..model.names import group_key, group_reference
from ..state.membership import GroupKey, Membership
from ..state.observation import Observation, ObservedGroup, ObservedTable
from ..state.parse import format_time, parse_time
from .recovery import is_lost

NEWS = timedelta(seconds=60)
"""So long after its deletion a table is remembered of which the group had not taken notice yet."""
LAST_OF_A_SECOND = timedelta(microseconds=999_999)
"""Times are written in whole seconds; what is kept until then goes no moment too early."""
RECYCLED_MARK = "*"
"""Behind a dropped table's name; source: the seeds' SHOW PROC '/colocation_group'."""


def next_members(observation: Observation, membership: Membership, group: ObservedGroup) -> tuple[GroupMember, ...]:
    """The tables that the group places; and those that have just left, until their next group remembers them."""
    leaving = membership.leaving
    members = [member_of(table, table.identity.uid in leaving) for table in membership.members[group.key]]
    known = {member.uid for member in members}
    groups, places = {one.key: one for one in observation.groups}, membership.places
    live = {table.identity.uid: table for table in observation.tables}
    for before in group.status.members:
        place = places.get(before.uid)
        if before.uid in known or before.uid not in live or place is None:
            continue
        if all(member.uid != before.uid for member in groups[place].status.members):
            members.append(member_of(live[before.uid], leaving=True))
    return tuple(sorted(members, key=lambda member: (member.name, member.namespace)))


def member_of(table: ObservedTable, leaving: bool) -> GroupMember:
    """What is remembered of a table."""
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
        snapshot=table.status.snapshot,
        leaving=leaving,
        **settings,
    )


def next_recycled(observation: Observation, group: ObservedGroup) -> tuple[RecycledTable, ...]:
    """The group's dropped tables, the last dropped one last."""
    live = {table.identity.uid for table in observation.tables}
    heirs: dict[str, list[ObservedTable]] = {}
    for table in observation.tables:
        if table.recovers:
            heirs.setdefault(table.recovers, []).append(table)
    kept = [
        _with_heirs(record, heirs.get(record.uid, ()))
        for record in group.status.recycled
        if record.uid not in live and _is_kept(observation, group, record, heirs.get(record.uid, ()))
    ]
    known = {record.uid for record in group.status.recycled}
    dropped = [
        _recycled(member, observation)
        for member in (*group.status.members, *_unnoticed(observation, group))
        if member.uid not in live and member.uid not in known
    ]
    waiting = [record for record in dropped if _is_kept(observation, group, record, ())]
    return tuple([*kept, *waiting][-MAX_RECYCLED_TABLES:])


def _unnoticed(observation: Observation, group: ObservedGroup) -> Iterator[GroupMember]:
    """Tables that were placed here and dropped before the group had taken notice of them."""
    known = {member.uid for member in group.status.members}
    last_seen = (*observation.tables, *(dropped.table for dropped in observation.dropped_tables.values()))
    known |= {table.recovers for table in last_seen if table.recovers}  # it was noticed, and came back
    for uid, dropped in observation.dropped_tables.items():
        table = dropped.table
        if uid in known or not table.status.group or observation.now - dropped.dropped_at > NEWS:
            continue
        if group_key(table.identity.namespace, table.status.group) == group.key:
            yield member_of(table, leaving=False)


def _is_kept(
    observation: Observation, group: ObservedGroup, record: RecycledTable, heirs: Sequence[ObservedTable]
) -> bool:
    """Until it is purged or has come back; for as long as it can come back when it is just doing so."""
    if any(heir.status.snapshot is not None for heir in heirs):
        return False
    if heirs:
        return not is_lost(observation, group, record, heirs)
    purge_at = parse_time(record.purge_at)
    return purge_at is None or observation.now < purge_at


def _with_heirs(record: RecycledTable, heirs: Sequence[ObservedTable]) -> RecycledTable:
    uids = dict.fromkeys((*record.recovery_uids, *(heir.identity.uid for heir in heirs)))
    return record.model_copy(update={"recovery_uids": tuple(uids)})


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
    observation: Observation,
    membership: Membership,
    group: ObservedGroup,
    spec: ColocationGroupSpec,
    recycled: tuple[RecycledTable, ...],
) -> str | None:
    """When a ``WithLastTable`` group goes: with the last of its tables, once that is purged; None while it is used.

    Source: seed 000, "Delete".
    """
    before = group.status
    if spec.deletion_policy != "WithLastTable" or _is_used(membership, group.key):
        return None
    if recycled:
        return max(record.purge_at for record in recycled)
    if before.delete_after and before.delete_after <= format_time(observation.now):
        return before.delete_after
    return format_time(observation.now) if before.tables or before.members or group.private else None


def _is_used(membership: Membership, key: GroupKey) -> bool:
    """Whether the group places a table, or a table names it."""
    return bool(membership.members[key]) or key in membership.wanted.values()


def keep_seconds_by_folder(observation: Observation) -> Mapping[str, int]:
    """'<namespace>/<directory>' of dropped tables -> how much longer their files are kept."""
    found: dict[str, int] = {}
    for group in observation.groups:
        for record in next_recycled(observation, group):
            purge_at = parse_time(record.purge_at)
            left = (purge_at - observation.now).total_seconds() if purge_at else 0.0
            for directory in record.directories:
                found[f"{record.namespace}/{directory}"] = max(0, math.ceil(left))
    return found
