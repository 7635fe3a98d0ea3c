"""Which tables are in which group, and which move to another: decided from the objects, so every pass decides alike.

A table is placed by the group that its status names, whatever its spec says by now: a spec that is refused, or that is
not carried out yet, never makes its files homeless. Source: seed 000, "Modifying Table Group Properties".
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ..model.conditions import Reason
from ..model.members import MAX_TABLES
from ..model.names import group_key, private_group_name
from ..model.schema_check import Refusal, check_columns, check_member, check_newcomer, check_schema
from .observation import Observation, ObservedGroup, ObservedTable

GroupKey = tuple[str, str]
Groups = Mapping[GroupKey, ObservedGroup]


@dataclass(frozen=True)
class Membership:
    """``members``: (namespace, group) -> the tables that the group places.

    ``refusals``: table uid -> why its spec is not carried out; such a table stays where it is.
    ``arriving``: group -> the tables that move to it and are placed by another one until their files are here.
    ``orphans``: (namespace, group) that does not exist -> the tables that name it, the first made first.
    ``wanted``: table uid -> the group that its spec names, whether it exists or not.
    """

    members: Mapping[GroupKey, tuple[ObservedTable, ...]]
    arriving: Mapping[GroupKey, tuple[ObservedTable, ...]]
    refusals: Mapping[str, Refusal]
    orphans: Mapping[GroupKey, tuple[ObservedTable, ...]]
    wanted: Mapping[str, GroupKey]

    @property
    def places(self) -> dict[str, GroupKey]:
        """Table uid -> the group that places it."""
        return {table.identity.uid: key for key, tables in self.members.items() for table in tables}

    @property
    def leaving(self) -> frozenset[str]:
        """Uids of the tables that move to another group."""
        return frozenset(table.identity.uid for tables in self.arriving.values() for table in tables)


def memberships(observation: Observation) -> Membership:
    """Sort all tables into members, arriving and refused ones, and those whose group is missing."""
    groups = {group.key: group for group in observation.groups}
    members: dict[GroupKey, list[ObservedTable]] = {key: [] for key in groups}
    arriving: dict[GroupKey, list[ObservedTable]] = {}
    orphans: dict[GroupKey, list[ObservedTable]] = {}
    refusals: dict[str, Refusal] = {}
    wanted: dict[str, GroupKey] = {}
    places = {table.identity.uid: _placed_by(groups, table) for table in observation.tables}
    taken = Counter(current.key for current in places.values() if current is not None)
    for table in sorted(observation.tables, key=_age):
        uid, current = table.identity.uid, places[table.identity.uid]
        key = _wanted_key(groups, table)
        if key is not None:
            wanted[uid] = key
        refusal = _refusal(groups, table, current, key)
        if refusal is None and key in groups and (current is None or current.key != key):
            refusal = _refusal_by_full_group(key, taken[key])
            taken[key] += refusal is None
        if refusal is not None:
            refusals[uid] = refusal
        elif key is not None and key not in groups:
            orphans.setdefault(key, []).append(table)
        elif key is not None and current is not None and current.key != key:
            arriving.setdefault(key, []).append(table)
        if current is not None:
            members[current.key].append(table)
        elif refusal is None and key in members:
            members[key].append(table)
    return Membership(_by_name(members), _by_name(arriving), refusals, _frozen(orphans), wanted)


def _by_name(tables: Mapping[GroupKey, list[ObservedTable]]) -> dict[GroupKey, tuple[ObservedTable, ...]]:
    def name(table: ObservedTable) -> tuple[str, str]:
        return table.identity.name, table.identity.namespace

    return {key: tuple(sorted(found, key=name)) for key, found in tables.items()}


def _frozen(tables: Mapping[GroupKey, list[ObservedTable]]) -> dict[GroupKey, tuple[ObservedTable, ...]]:
    return {key: tuple(found) for key, found in tables.items()}


def _age(table: ObservedTable) -> tuple[object, ...]:
    """The first made first: two operators find the same parent table."""
    return table.identity.created_at, table.identity.namespace, table.identity.name


def _placed_by(groups: Groups, table: ObservedTable) -> ObservedGroup | None:
    """The group that the status names, unless it is gone or was made anew with another schema."""
    if table.status.group is None:
        return None
    group = groups.get(group_key(table.identity.namespace, table.status.group))
    if group is None or group.spec is None or table.status.buckets not in (None, group.spec.buckets):
        return None
    same_key = table.spec is None or table.spec.bucket_key_types == group.spec.bucket_key
    return group if same_key else None


def _wanted_key(groups: Groups, table: ObservedTable) -> GroupKey | None:
    """The group that the spec names; for a table in no group its private one; None when the spec is not valid."""
    if table.spec is None:
        return None
    namespace, name = table.identity.namespace, table.identity.name
    if table.spec.colocate_with:
        return group_key(namespace, table.spec.colocate_with)
    current = _placed_by(groups, table)
    if current is not None and current.private:
        return current.key
    return namespace, private_group_name(name, table.identity.uid)


def _refusal(
    groups: Groups, table: ObservedTable, current: ObservedGroup | None, key: GroupKey | None
) -> Refusal | None:
    if table.spec is None or key is None:
        return Refusal(reason=Reason.INVALID_SPEC, message=f"{table.spec_error}; correct the spec")
    if table.is_recovering:
        return _refusal_of_recovery(groups, table)
    if table.status.snapshot and table.status.columns:
        refused = check_columns(table.status.columns, table.spec.columns)
        if refused:
            return refused
    group = groups.get(key)
    if group is None:
        return _refusal_of_foreign(table, key)
    return refusal_by_group(group, table, is_member=current is not None and current.key == key)


def refusal_by_group(group: ObservedGroup, table: ObservedTable, is_member: bool) -> Refusal | None:
    """Why a group does not take a table; the seeds' checks come last."""
    name, spec = group.identity.name, table.spec
    if group.spec is None or spec is None:
        message = f"the spec of group {name} is not valid ({group.spec_error}); correct the group"
        return Refusal(reason=Reason.INVALID_SPEC, message=message)
    namespace = table.identity.namespace
    if group.identity.namespace != namespace and not {"*", namespace} & set(group.spec.allowed_namespaces):
        message = (
            f"group {group.identity.namespace}/{name} allows namespaces [{', '.join(group.spec.allowed_namespaces)}], "
            f"and the table is in {namespace}; add it to allowedNamespaces of the group"
        )
        return Refusal(reason=Reason.NAMESPACE_NOT_ALLOWED, message=message)
    if group.private and not is_member and spec.colocate_with:
        message = f"group {name} is of one table that is in no group; name another group in colocateWith"
        return Refusal(reason=Reason.PRIVATE_GROUP, message=message)
    if is_member:
        return check_member(name, group.spec, spec, table.status)
    if table.status.group is not None:
        return check_newcomer(name, group.spec, spec, table.status)
    return check_schema(name, group.spec, spec)


def _refusal_by_full_group(key: GroupKey, tables: int) -> Refusal | None:
    """A group takes no more tables than its status can remember; those that it has stay."""
    if tables < MAX_TABLES:
        return None
    message = f"group {key[1]} has {tables} tables, and a group can have {MAX_TABLES}; name another in colocateWith"
    return Refusal(reason=Reason.GROUP_FULL, message=message)


def _refusal_of_foreign(table: ObservedTable, key: GroupKey) -> Refusal | None:
    """Nobody makes a group in another namespace by naming it."""
    if key[0] == table.identity.namespace:
        return None
    message = (
        f"group {'/'.join(key)} does not exist, and is not made from a table of another namespace; "
        f"make it, with {table.identity.namespace} in allowedNamespaces"
    )
    return Refusal(reason=Reason.NO_GROUP, message=message)


def _refusal_of_recovery(groups: Groups, table: ObservedTable) -> Refusal:
    """While its files are brought back nobody may load the table."""
    if any(record.uid == table.recovers for group in groups.values() for record in group.status.recycled):
        message = "its files are brought back from the recycle bin; wait"
        return Refusal(reason=Reason.RECOVERING, message=message)
    message = "the dropped table that it was to bring back is purged; delete this table, and make it anew"
    return Refusal(reason=Reason.PURGED, message=message)
