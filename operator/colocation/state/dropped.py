"""Which dropped tables concern a group: those that it remembers, and those that are gone without its having noticed."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import chain
from typing import NamedTuple

from ..model.group import GroupMember
from ..model.names import group_key
from .objects import DroppedTable, ObservedGroup, ObservedTable
from .observation import Observation
from .placement import GroupKey, claims, member_of

NEWS = timedelta(seconds=60)
"""How long a deleted table counts as one that its group has not noticed yet."""


class GoneTable(NamedTuple):
    """A table that its group has not recorded as dropped yet. ``member``: as the group remembers it."""

    member: GroupMember
    last_seen: DroppedTable | None


class GoneTables:
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
            table = dropped.table
            if table.status.group:
                key = group_key(table.identity.namespace, table.status.group)
                self._by_group.setdefault(key, []).append(dropped)

    def of(self, group: ObservedGroup) -> tuple[GoneTable, ...]:
        """Those of one group. A table that was leaving it comes back from its next group, once that remembers it."""
        recorded = {record.uid for record in group.status.recycled}
        last_seen = self._observation.dropped_tables
        return tuple(
            GoneTable(member, last_seen.get(member.uid))
            for member in chain(group.status.members, self._unnoticed(group))
            if member.uid not in self._tables
            and member.uid not in recorded
            and not (member.leaving and self._is_remembered_elsewhere(group, member.uid))
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

    def _is_remembered_elsewhere(self, group: ObservedGroup, uid: str) -> bool:
        return any(
            any(member.uid == uid and not member.leaving for member in (*other.status.members, *self._unnoticed(other)))
            or any(record.uid == uid for record in other.status.recycled)
            for other in self._observation.groups
            if other.key != group.key
        )
