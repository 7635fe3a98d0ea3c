"""Which tables are in which group, and which move to another: decided from the objects, so every pass decides alike.

A table stays in the group that places it (see ``placement``), even after its spec names another one: a spec that is
refused, or not carried out yet, never makes its files homeless.

Source: Doris' manual, "Modifying Table Group Properties".
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ..model.conditions import Reason
from ..model.group import MAX_TABLES, RecycledTable
from ..model.schema_check import Refusal, check_table
from .memo import Memo
from .objects import ObservedGroup, ObservedTable
from .observation import Observation
from .placement import GroupKey, Groups, Placement, TableMemory, allows, placements, record_of, recycled_records


@dataclass(frozen=True)
class Membership:
    """``members``: (namespace, group) -> the tables that the group places.

    ``refusals``: table uid -> why its spec is not carried out; such a table stays where it is.
    ``staying``: uids of the tables that may not move to the group that they name, and fit the one that places them:
    reads and loads go on there.
    ``arriving``: group -> the tables that move to it and are placed by another one until their files are here.
    ``orphans``: (namespace, group) that does not exist -> the tables that name it, the first made first.
    ``wanted``: table uid -> the group that its spec names, whether it exists or not; not one that is closed to it.
    ``memories``: table uid -> what its group is to remember of it.
    """

    members: Mapping[GroupKey, tuple[ObservedTable, ...]]
    arriving: Mapping[GroupKey, tuple[ObservedTable, ...]]
    refusals: Mapping[str, Refusal]
    staying: frozenset[str]
    orphans: Mapping[GroupKey, tuple[ObservedTable, ...]]
    wanted: Mapping[str, GroupKey]
    memories: Mapping[str, TableMemory]

    @property
    def places(self) -> dict[str, GroupKey]:
        """Table uid -> the group that places it."""
        return {table.identity.uid: key for key, tables in self.members.items() for table in tables}

    @property
    def leaving(self) -> frozenset[str]:
        """Uids of the tables that move to another group."""
        return frozenset(table.identity.uid for tables in self.arriving.values() for table in tables)


def memberships(observation: Observation, memo: Memo | None = None) -> Membership:
    """Sort all tables into members, arriving and refused ones, and those whose group is missing."""
    memo = memo or Memo()
    groups = {group.key: group for group in observation.groups}
    placed = placements(groups, observation.tables, memo)
    sorting = _Sorting(groups, placed, memo)
    for table in sorted(observation.tables, key=_age):
        sorting.take(table, placed[table.identity.uid])
    return Membership(
        members=_by_name(sorting.members),
        arriving=_by_name(sorting.arriving),
        refusals=sorting.refusals,
        staying=frozenset(sorting.staying),
        orphans={key: tuple(found) for key, found in sorting.orphans.items()},
        wanted=sorting.wanted,
        memories=sorting.memories,
    )


class Application(NamedTuple):
    """A table that is to be in a group: all that decides whether the group takes it.

    ``group``: None = it does not exist. ``is_remembered``: a group remembers the table that it is to bring back.
    """

    placed: Placement
    key: GroupKey | None
    group: ObservedGroup | None
    is_remembered: bool


class _Outcome(NamedTuple):
    """What became of a table. ``group``: it is in this one, and not on its way there."""

    placed: Placement
    table: ObservedTable
    group: ObservedGroup | None
    is_accepted: bool


class _Sorting:
    """Takes the tables one by one, the oldest first."""

    def __init__(self, groups: Groups, placed: Mapping[str, Placement], memo: Memo) -> None:
        self._groups = groups
        self._memo = memo
        self._taken = Counter(one.group.key for one in placed.values() if one.group and one.is_remembered)
        self.members: dict[GroupKey, list[ObservedTable]] = {key: [] for key in groups}
        self.arriving: dict[GroupKey, list[ObservedTable]] = {}
        self.orphans: dict[GroupKey, list[ObservedTable]] = {}
        self.refusals: dict[str, Refusal] = {}
        self.staying: list[str] = []
        self.wanted: dict[str, GroupKey] = {}
        self.memories: dict[str, TableMemory] = {}

    def take(self, table: ObservedTable, placed: Placement) -> None:
        """Find the table's place."""
        uid, key = table.identity.uid, placed.wanted
        group = None if key is None else self._groups.get(key)
        refusal = self._refusal(placed, key, group)
        current = placed.group if refusal is None or placed.is_remembered else None
        if key is not None and _is_open(group, key, table):
            self.wanted[uid] = key
        place = current.key if current else key if refusal is None else None
        if (refusal is not None or group is None) and self._fits_where_it_is(placed, key):
            self.staying.append(uid)
        if refusal is not None:
            self.refusals[uid] = refusal
        elif key is not None and group is None:
            self.orphans.setdefault(key, []).append(table)
        elif key is not None and place != key:
            self.arriving.setdefault(key, []).append(table)
        if place in self.members:
            self.members[place].append(table)
        outcome = _Outcome(placed, table, group if key is not None and key == place else None, refusal is None)
        self.memories[uid] = self._memo.of(("memory", uid), outcome, _memory)

    def _refusal(self, placed: Placement, key: GroupKey | None, group: ObservedGroup | None) -> Refusal | None:
        application = self._application(placed, key, group)
        refusal = self._memo.of(("refusal", placed.table.identity.uid), application, refusal_of)
        current = placed.group
        is_counted = placed.is_remembered and current is not None and current.key == key
        if refusal is None and key is not None and group is not None and not is_counted:
            refusal = _refusal_by_full_group(key, self._taken[key])
            self._taken[key] += refusal is None
        return refusal

    def _application(self, placed: Placement, key: GroupKey | None, group: ObservedGroup | None) -> Application:
        table = placed.table
        is_remembered = table.is_recovering and record_of(table, self._records) is not None
        return Application(placed, key, group, is_remembered)

    def _fits_where_it_is(self, placed: Placement, wanted: GroupKey | None) -> bool:
        """Whether only the group that the spec names is against it: the columns are those accepted last, too."""
        table, current = placed.table, placed.group
        if not placed.is_remembered or current is None or current.key == wanted or table.spec is None:
            return False
        is_known = table.status.columns == table.spec.columns
        return is_known and refusal_of(self._application(placed, current.key, current)) is None

    @cached_property
    def _records(self) -> dict[str, tuple[RecycledTable, ObservedGroup]]:
        return recycled_records(self._groups.values())


def _is_open(group: ObservedGroup | None, key: GroupKey, table: ObservedTable) -> bool:
    """Whether the group is open to the table. A table that names such a group keeps it from being deleted."""
    namespace = table.identity.namespace
    return key[0] == namespace if group is None else allows(group, namespace)


def _memory(outcome: _Outcome) -> TableMemory:
    """What the group is to remember. The snapshot of before stays while the status cannot be read."""
    known, table, group = outcome.placed.memory, outcome.table, outcome.group
    snapshot = table.status.snapshot or (known.snapshot if table.status_error else None)
    if not outcome.is_accepted or table.spec is None:
        return TableMemory(known.replicas, known.columns_digest, snapshot)
    replicas = table.spec.replicas or group.spec.replicas if group and group.spec else known.replicas
    columns_digest = known.columns_digest if table.is_being_replaced else table.spec.columns_digest
    return TableMemory(replicas, columns_digest, snapshot)


def _by_name(tables: Mapping[GroupKey, list[ObservedTable]]) -> dict[GroupKey, tuple[ObservedTable, ...]]:
    def name(table: ObservedTable) -> tuple[str, str]:
        return table.identity.name, table.identity.namespace

    return {key: tuple(sorted(found, key=name)) for key, found in tables.items()}


def _age(table: ObservedTable) -> tuple[object, ...]:
    """The first made first: two operators find the same parent table."""
    return table.identity.created_at, table.identity.namespace, table.identity.name


def refusal_of(application: Application) -> Refusal | None:
    """Why the group does not take the table. Doris' and StarRocks' checks come last."""
    placed, key, group, is_remembered = application
    table = placed.table
    if table.spec is None or key is None:
        return Refusal(reason=Reason.INVALID_SPEC, message=f"{table.spec_error}; correct the spec")
    forbidden = _refusal_of_namespace(group, table) if group else _refusal_of_foreign(table, key)
    if forbidden is not None:
        return forbidden
    if table.status_error:
        return _refusal_of_status(placed)
    if table.is_recovering:
        return _refusal_of_recovery(table, is_remembered)
    has_files = table.status.snapshot is not None and not table.is_being_replaced
    if has_files and not placed.columns_are_known:
        return _refusal_of_unknown_columns()
    is_member = placed.group is not None and placed.group.key == key
    columns = table.status.columns if has_files and table.status.columns else None
    wrong = check_table(key[1], group.spec if group else None, table.spec, table.status, is_member, columns)
    return wrong.columns or (_refusal_by_group(group, table, is_member) if group else None) or wrong.schema


def _refusal_of_unknown_columns() -> Refusal:
    message = (
        "spec.columns was changed, and status.columns is not what the operator wrote, so it is not known whether the "
        "table's files fit; set spec.columns as it was, wait for Accepted, then change it"
    )
    return Refusal(reason=Reason.INVALID_STATUS, message=message)


def _refusal_of_status(placed: Placement) -> Refusal:
    """A status that cannot be read: nothing of the table is touched until it can."""
    known = placed.memory.snapshot
    remembered = f"; its group remembers snapshot {known.id}, manifest {known.manifest}" if known else ""
    message = (
        f"{placed.table.status_error}; load the table again with mode overwrite, or correct the status by "
        f"kubectl edit --subresource=status{remembered}"
    )
    return Refusal(reason=Reason.INVALID_STATUS, message=message)


def _refusal_by_group(group: ObservedGroup, table: ObservedTable, is_member: bool) -> Refusal | None:
    """Why a group takes no table like this, whatever its schema."""
    name, spec = group.identity.name, table.spec
    if group.spec is None or spec is None:
        message = f"the spec of group {name} is not valid ({group.spec_error}); correct the group"
        return Refusal(reason=Reason.INVALID_SPEC, message=message)
    if group.private and not is_member and spec.colocate_with:
        message = f"group {name} is of one table that is in no group; name another group in colocateWith"
        return Refusal(reason=Reason.PRIVATE_GROUP, message=message)
    is_taken = not group.private or any(member.uid != table.identity.uid for member in group.status.members)
    if is_taken and not is_member and not spec.colocate_with:
        message = (
            f"a table in no group gets a group of its own, named {name}, and a group of that name is there for others; "
            "delete that group, or name a group in colocateWith"
        )
        return Refusal(reason=Reason.PRIVATE_GROUP, message=message)
    return None


def _refusal_of_namespace(group: ObservedGroup, table: ObservedTable) -> Refusal | None:
    """A group takes tables of other namespaces only if its spec allows them."""
    namespace = table.identity.namespace
    if group.spec is None or allows(group, namespace):
        return None
    message = (
        f"group {group.identity.namespace}/{group.identity.name} allows namespaces "
        f"[{', '.join(group.spec.allowed_namespaces)}], and the table is in {namespace}; "
        "add it to allowedNamespaces of the group"
    )
    return Refusal(reason=Reason.NAMESPACE_NOT_ALLOWED, message=message)


def _refusal_by_full_group(key: GroupKey, tables: int) -> Refusal | None:
    """A group takes no more tables than its status can remember; those that it has stay."""
    if tables < MAX_TABLES:
        return None
    message = f"group {key[1]} has {tables} tables, and a group can have {MAX_TABLES}; name another in colocateWith"
    return Refusal(reason=Reason.GROUP_FULL, message=message)


def _refusal_of_foreign(table: ObservedTable, key: GroupKey) -> Refusal | None:
    """Naming a group in another namespace does not create it."""
    if key[0] == table.identity.namespace:
        return None
    message = (
        f"group {'/'.join(key)} does not exist, and is not made from a table of another namespace; "
        f"make it, with {table.identity.namespace} in allowedNamespaces"
    )
    return Refusal(reason=Reason.NO_GROUP, message=message)


def _refusal_of_recovery(table: ObservedTable, is_remembered: bool) -> Refusal:
    """No load is accepted while the table's files are brought back."""
    if table.adopts and table.recovers is None:
        message = "`colocation adopt` has not committed its snapshot yet; wait, or run the command again"
        return Refusal(reason=Reason.RECOVERING, message=message)
    if is_remembered:
        message = "its files are brought back from the recycle bin; wait"
        return Refusal(reason=Reason.RECOVERING, message=message)
    message = "the dropped table that it was to bring back is purged; delete this table, and create it again"
    return Refusal(reason=Reason.PURGED, message=message)
