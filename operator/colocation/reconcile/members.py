"""Decides what a group remembers of its tables, so that one that is dropped at any time waits in the recycle bin.

A table that was remembered and no longer exists was dropped, whether the operator was there or not.
"""

from datetime import datetime, timedelta

from ..model.group import MAX_RECYCLED_TABLES, GroupMember, RecycledTable
from ..model.names import group_reference
from ..state.parse import format_time, parse_time
from ..state.placement import is_heir, member_of
from ..state.views import ClusterView, DroppedView, GoneTable, GroupView
from .recovery import is_lost

LAST_OF_A_SECOND = timedelta(microseconds=999_999)
"""Times are written in whole seconds; what is kept until then goes no moment too early."""
RECYCLED_MARK = "*"
"""Behind a dropped table's name; source: Doris' and StarRocks' SHOW PROC '/colocation_group'."""


def next_members(view: GroupView) -> tuple[GroupMember, ...]:
    """The tables that the group places; and those that have just left, until their next group remembers them."""
    members = [member_of(one.table, one.is_leaving, one.memory) for one in view.tables]
    departed = [member_of(one.table, True, one.memory) for one in view.departed]
    return tuple(sorted((*members, *departed), key=lambda member: (member.name, member.namespace)))


def next_recycled(view: GroupView, cluster: ClusterView) -> tuple[RecycledTable, ...]:
    """The group's dropped tables, the last dropped one last.

    Without those that came back and were dropped again before the group's status showed that: their files are those of
    the later record.
    """
    now = cluster.observation.now
    kept = [(_as_kept(one), one.last_seen) for one in view.dropped if not one.exists and _is_kept(one, view, cluster)]
    dropped = [(_recycled(one, now), one.last_seen) for one in view.gone]
    found = [*kept, *((record, last_seen) for record, last_seen in dropped if not _is_over(record, now))]
    heirs = [last_seen.table for _, last_seen in found if last_seen and last_seen.table.status.snapshot]
    records = [record for record, _ in found if not any(is_heir(heir, record) for heir in heirs)]
    return tuple(records[-MAX_RECYCLED_TABLES:])


def _is_kept(dropped: DroppedView, view: GroupView, cluster: ClusterView) -> bool:
    """Until it is purged or has come back; while it is coming back, for as long as it can."""
    heir = dropped.heir
    if heir is not None:
        return heir.table.status.snapshot is None and not is_lost(dropped.record, heir, view, cluster)
    return cluster.observation.etcd_restored or not _is_over(dropped.record, cluster.observation.now)


def _as_kept(dropped: DroppedView) -> RecycledTable:
    """With the tables made from it. Until there is one, the operator may learn of the last commit after the drop."""
    record = dropped.record
    if dropped.heir is not None:
        uids = dict.fromkeys((*record.recovery_uids, dropped.heir.uid))
        return record.model_copy(update={"recovery_uids": tuple(uids)})
    last = member_of(dropped.last_seen.table, leaving=False).snapshot if dropped.last_seen else None
    if last is None or (record.snapshot is not None and record.snapshot.id >= last.id):
        return record
    return record.model_copy(update={"snapshot": last})


def _recycled(gone: GoneTable, now: datetime) -> RecycledTable:
    """As it was last seen: the operator may have heard of a load since it wrote the group's status."""
    last = member_of(gone.last_seen.table, leaving=False) if gone.last_seen else gone.member
    deleted_at = gone.last_seen.dropped_at if gone.last_seen else now
    return RecycledTable(
        **{name: getattr(last, name) for name in GroupMember.model_fields if name != "leaving"},
        deleted_at=format_time(deleted_at),
        purge_at=format_time(deleted_at + timedelta(seconds=last.recycle_after_seconds) + LAST_OF_A_SECOND),
    )


def _is_over(record: RecycledTable, now: datetime) -> bool:
    purge_at = parse_time(record.purge_at)
    return purge_at is not None and now >= purge_at


def listed_tables(view: GroupView, recycled: tuple[RecycledTable, ...]) -> tuple[str, ...]:
    """The group's tables by name, the dropped ones marked."""
    namespace, tables = view.group.identity.namespace, (one.table.identity for one in view.tables)
    live = [group_reference(namespace, (one.namespace, one.name)) for one in tables]
    dropped = {group_reference(namespace, (one.namespace, one.name)) + RECYCLED_MARK for one in recycled}
    return (*live, *sorted(dropped))


def delete_after(view: GroupView, recycled: tuple[RecycledTable, ...], at: datetime) -> str | None:
    """When a ``WithLastTable`` group goes: with the last of its tables, once that is purged; None while it is used.

    Source: Doris' manual, "Delete".
    """
    group, before, now = view.group, view.group.status, format_time(at)
    is_used = bool(view.tables) or view.is_wanted
    if group.spec is None or group.spec.deletion_policy != "WithLastTable" or is_used:
        return None
    if recycled:
        return max(record.purge_at for record in recycled)
    if before.delete_after and before.delete_after <= now:
        return before.delete_after
    return now if before.tables or before.members or group.private else None
