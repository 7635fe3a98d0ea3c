"""Which tables are in which group: decided from the specs alone, so every pass decides alike."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..model.conditions import Reason
from ..model.schema_check import Refusal, check_schema
from .observation import Observation, ObservedGroup, ObservedTable

GroupKey = tuple[str, str]


@dataclass(frozen=True)
class Membership:
    """``members``: (namespace, group) -> the tables that the group takes. ``refusals``: table uid -> why not.

    ``orphans``: (namespace, group) that does not exist -> the tables that name it, the first made first.
    """

    members: Mapping[GroupKey, tuple[ObservedTable, ...]]
    refusals: Mapping[str, Refusal]
    orphans: Mapping[GroupKey, tuple[ObservedTable, ...]]


def memberships(observation: Observation) -> Membership:
    """Sort all tables into members, refused ones, and those whose group is missing."""
    groups = {group.key: group for group in observation.groups}
    members: dict[GroupKey, list[ObservedTable]] = {key: [] for key in groups}
    orphans: dict[GroupKey, list[ObservedTable]] = {}
    refusals: dict[str, Refusal] = {}
    for table in sorted(observation.tables, key=_age):
        refusal = _refusal_alone(table)
        if refusal is None and table.spec is not None:
            key = (table.identity.namespace, table.spec.colocate_with)
            group = groups.get(key)
            if group is None:
                orphans.setdefault(key, []).append(table)
                continue
            refusal = _refusal_by_group(group, table)
            if refusal is None:
                members[key].append(table)
                continue
        if refusal is not None:
            refusals[table.identity.uid] = refusal
    return Membership(
        {key: tuple(sorted(tables, key=lambda table: table.identity.name)) for key, tables in members.items()},
        refusals,
        {key: tuple(tables) for key, tables in orphans.items()},
    )


def _age(table: ObservedTable) -> tuple[object, ...]:
    """The first made first: two operators find the same parent table."""
    return table.identity.created_at, table.identity.namespace, table.identity.name


def _refusal_alone(table: ObservedTable) -> Refusal | None:
    if table.spec is None:
        return Refusal(reason=Reason.INVALID_SPEC, message=f"{table.spec_error}; correct the spec")
    if not table.spec.colocate_with:
        message = "colocateWith is empty, so the table is in no group and has no place; name a group to load it"
        return Refusal(reason=Reason.NO_GROUP, message=message)
    return None


def _refusal_by_group(group: ObservedGroup, table: ObservedTable) -> Refusal | None:
    name = group.identity.name
    if group.spec is None:
        message = f"the spec of group {name} is not valid ({group.spec_error}); correct the group"
        return Refusal(reason=Reason.INVALID_SPEC, message=message)
    return check_schema(name, group.spec, table.spec) if table.spec else None
