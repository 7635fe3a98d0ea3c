"""Decides what to say of tables, and which groups to make for them."""

from collections.abc import Iterator

from ..kube.actions import Action, CreateGroup, PostEvent, WriteTableStatus
from ..kube.membership import GroupKey, Membership
from ..kube.observation import Observation, ObservedGroup, ObservedTable
from ..model.conditions import ConditionType, Reason
from ..model.names import TABLE_KIND
from ..model.schema_check import Refusal, schema_of
from ..model.table import ColocatedTableStatus
from .conditions import Verdict, conditions
from .group_id import group_id


def missing_groups(membership: Membership) -> Iterator[CreateGroup]:
    """The groups that tables name and that are missing, each from the first table that says enough.

    Source: seed 000: a table that names a group which does not exist is its parent table.
    """
    for (namespace, name), tables in membership.orphans.items():
        schemas = (schema_of(table.spec) for table in tables if table.spec)
        schema = next((schema for schema in schemas if schema), None)
        if schema:
            yield CreateGroup(namespace, name, schema)


def table_actions(observation: Observation, membership: Membership, table: ObservedTable) -> Iterator[Action]:
    """Write the table's status if it changes, and tell about it."""
    group = _group_of(observation, membership, table)
    refusal = membership.refusals.get(table.identity.uid) or _refusal_of_orphan(membership, table)
    if group is None and refusal is None:
        return  # its group is being made
    status = _status(observation, table, group, refusal)
    before = table.status
    if status == before:
        return
    fields = {"observed_generation", "accepted", "group_id", "conditions"}
    yield WriteTableStatus(table.identity, status.model_dump(mode="json", by_alias=True, include=fields))
    reasons = [_accepted_reason(before), _accepted_reason(status)]
    if before.accepted is not status.accepted or reasons[0] != reasons[1]:
        yield _event(table, group, refusal)


def _group_of(observation: Observation, membership: Membership, table: ObservedTable) -> ObservedGroup | None:
    """The group that takes the table."""
    if table.spec is None or table.identity.uid in membership.refusals:
        return None
    key: GroupKey = (table.identity.namespace, table.spec.colocate_with)
    return next((group for group in observation.groups if group.key == key), None)


def _refusal_of_orphan(membership: Membership, table: ObservedTable) -> Refusal | None:
    """A table whose group is missing and cannot be made from any of the tables that name it."""
    if table.spec is None:
        return None
    orphans = membership.orphans.get((table.identity.namespace, table.spec.colocate_with), ())
    if not orphans or any(orphan.spec and schema_of(orphan.spec) for orphan in orphans):
        return None
    message = (
        f"group {table.spec.colocate_with} does not exist, and no table says what it should be; "
        "give buckets and replicas, or make the group"
    )
    return Refusal(reason=Reason.NO_GROUP, message=message)


def _status(
    observation: Observation, table: ObservedTable, group: ObservedGroup | None, refusal: Refusal | None
) -> ColocatedTableStatus:
    if refusal:
        accepted = Verdict(ConditionType.ACCEPTED, False, refusal.reason, refusal.message)
        ready = Verdict(ConditionType.READY, False, refusal.reason, refusal.message)
    else:
        name = group.identity.name if group else ""
        accepted = Verdict(ConditionType.ACCEPTED, True, Reason.ACCEPTED, f"the table is in group {name}")
        ready = _ready(name, group)
    before = table.status
    return before.model_copy(
        update={
            "observed_generation": table.identity.generation,
            "accepted": refusal is None,
            "group_id": group_id(observation, group) if group and not refusal else None,
            "conditions": conditions(
                before.conditions, (ready, accepted), table.identity.generation, observation.now
            ),
        }
    )


def _ready(name: str, group: ObservedGroup | None) -> Verdict:
    """A table can be loaded once its group has a map."""
    if group and group.status.backends_per_bucket_seq:
        return Verdict(ConditionType.READY, True, Reason.RECONCILED, f"group {name} has a map")
    return Verdict(ConditionType.READY, False, Reason.NO_MAP, f"group {name} has no map yet")


def _accepted_reason(status: ColocatedTableStatus) -> str | None:
    return next((one.reason for one in status.conditions if one.type == ConditionType.ACCEPTED), None)


def _event(table: ObservedTable, group: ObservedGroup | None, refusal: Refusal | None) -> PostEvent:
    if refusal:
        return PostEvent(TABLE_KIND, table.identity, "Warning", "TableRefused", f"{refusal.reason}: {refusal.message}")
    name = group.identity.name if group else ""
    return PostEvent(TABLE_KIND, table.identity, "Normal", "TableAccepted", f"the table is in group {name}")
