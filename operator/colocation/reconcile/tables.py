"""Decides about each table: its status, orders to nodes that have folders of it elsewhere, and groups to make."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from ..model.conditions import ConditionType, EventReason, Reason
from ..model.names import ANNOTATION_REPLACES, TABLE_KIND, group_reference
from ..model.schema_check import Refusal, schema_of
from ..model.table import ColocatedTableStatus, retained_history
from ..state.memo import Memo
from ..state.objects import ObservedGroup, ObservedTable
from ..state.placement import GroupKey
from ..state.views import TableView
from .actions import Action, CreateGroup, EventKind, PostEvent, RestoreTable, WriteTableStatus
from .conditions import Verdict, conditions, stalled_event
from .findings import Findings
from .group_status import MAX_SHORT_MESSAGE
from .recovery import Recovery, folders_taken_over, lacks_manifest
from .scopes import Containment, Scope, each
from .transfers import Transfer

WRITTEN_FIELDS = {
    *("observed_generation", "accepted", "group", "group_id"),
    *("buckets", "replicas", "columns", "history", "conditions"),
}
"""What the operator writes; the snapshot is the loaders', but for that of a table that is brought back."""
REPLACED = (
    "its definition is that of a REPLACE TABLE which has not committed its rows; queries read snapshot {} as it was. "
    "If no such statement runs, repeat it; or set spec.columns to status.columns and remove the annotation "
    f"{ANNOTATION_REPLACES}"
)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a pass knows of one table; its status follows from this.

    ``group``: places it after this pass; ``group_id``: of that group. ``refusal``: why it is not accepted.
    ``transfer``: it moves to another group. ``recovery``: it is brought back.
    ``is_history_over``: the retention of a snapshot has ended since the last pass.
    """

    view: TableView
    group: ObservedGroup | None
    group_id: str | None
    refusal: Refusal | None
    transfer: Transfer | None
    recovery: Recovery | None
    is_history_over: bool

    @property
    def table(self) -> ObservedTable:
        """The table itself."""
        return self.view.table


def table_scopes(found: Findings, memo: Memo, containment: Containment) -> Iterator[Scope]:
    """The actions about all tables. If deciding about one fails, a condition reports it, and nothing else is done."""
    moving = {transfer.view.uid: transfer for transfer in found.transfers}
    for uid, view in found.cluster.tables.items():
        if view.table.identity.deleting:
            continue
        name = view.table.scope
        scopes: tuple[Scope, ...] | None = None
        if name not in containment.errors:
            scopes = containment.run(name, _decide, name, view, moving.get(uid), found, memo)
        yield from (_failed(view, found, containment),) if scopes is None else scopes


def _failed(view: TableView, found: Findings, containment: Containment) -> Scope:
    name = view.table.scope
    message = f"deciding about the table failed: {containment.errors.get(name)!r}; the operator's log has more"
    refusal = Refusal(reason=Reason.INTERNAL_ERROR, message=message)
    return Scope(name, tuple(fault_actions(view.table, refusal, found.snapshot.now)))


def _decide(
    name: str, view: TableView, transfer: Transfer | None, found: Findings, memo: Memo
) -> tuple[Scope, ...]:
    now, recovery = found.snapshot.now, found.recoveries.get(view.uid)
    if view.fault and view.fault.reason == Reason.INVALID_STATUS:
        return (Scope(name, tuple(fault_actions(view.table, view.fault, now))),)
    group, refusal, orders = view.group, view.refusal, _folder_orders(view, found)
    if transfer and transfer.is_done:
        group, transfer = transfer.target, None
    if recovery:
        orders = (*orders, *recovery.orders)
        group, refusal = (recovery.group, None) if recovery.is_whole else (None, recovery.refusal)
    ends_at = view.table.history_ends_at
    facts = TableFacts(
        view=view,
        group=group,
        group_id=found.cluster.groups[group.key].id if group else None,
        refusal=refusal,
        transfer=transfer,
        recovery=recovery,
        is_history_over=ends_at is not None and now >= ends_at,
    )
    written = _written(facts, memo, now)
    return (Scope(name, written), *each("restore", orders)) if written or orders else ()


def _folder_orders(view: TableView, found: Findings) -> tuple[Action, ...]:
    """Orders to nodes that hold a folder with files of this table; sent rarely unless something waits for them."""
    seen = found.cluster.observation
    urgent: list[RestoreTable] = []
    others: list[RestoreTable] = []
    for order in folders_taken_over(view.table, found.cluster, found.bins, found.unclaimed):
        (urgent if lacks_manifest(seen, view.table, order.node) else others).append(order)
    return (*urgent, *found.evidence.not_asked_lately(others, seen.now))


def _written(facts: TableFacts, memo: Memo, now: datetime) -> tuple[Action, ...]:
    """The write of the status. The clock has a part in what changes, and in which snapshots are retained; none in what
    stays as it is.
    """
    is_settled = facts.group and not (facts.transfer or facts.recovery or facts.is_history_over)

    def decide(facts: TableFacts) -> tuple[Action, ...]:
        return tuple(table_actions(facts, now))

    return memo.of(("status", facts.view.uid), facts, decide, lambda actions: bool(is_settled and not actions))


def missing_groups(missing: Mapping[GroupKey, tuple[ObservedTable, ...]]) -> Iterator[CreateGroup]:
    """Groups that tables name and that do not exist, each made from the first table that gives buckets and replicas.

    Source: Doris' manual: a table that names a group which does not exist is its parent table.
    """
    for (namespace, name), tables in missing.items():
        for table in tables:
            schema = schema_of(table.spec, table.status) if table.spec else None
            if schema:
                yield CreateGroup(namespace, name, schema, private=table.spec is not None and _is_alone(table))
                break


def _is_alone(table: ObservedTable) -> bool:
    return table.spec is not None and not table.spec.colocate_with


def table_actions(facts: TableFacts, now: datetime) -> Iterator[Action]:
    """Write the table's status if it changes, and post the Events of the change."""
    table, before = facts.table, facts.table.status
    refusal = facts.refusal or _refusal_of_orphan(facts.view)
    if facts.group is None and refusal is None:
        return  # its group is being made
    status = _status(facts, refusal, now)
    if status == before:
        return
    recovered = before.snapshot is None and status.snapshot is not None
    fields = WRITTEN_FIELDS | {"snapshot"} if recovered else WRITTEN_FIELDS
    yield WriteTableStatus(table.identity, status.model_dump(mode="json", by_alias=True, include=fields))
    yield from _events(facts, refusal, status)


def fault_actions(table: ObservedTable, fault: Refusal, now: datetime) -> Iterator[Action]:
    """Report why nothing can be made of the table, and leave the rest of its status as it is."""
    verdicts = (
        Verdict(ConditionType.READY, False, fault.reason, fault.message[:MAX_SHORT_MESSAGE]),
        Verdict(ConditionType.STALLED, True, fault.reason, fault.message[:MAX_SHORT_MESSAGE]),
    )
    before, generation = table.status.conditions, table.identity.generation
    after = conditions(before, verdicts, generation, now)
    accepted = tuple(one for one in before if one.type == ConditionType.ACCEPTED)
    if before != (*after, *accepted):
        status = ColocatedTableStatus(conditions=(*after, *accepted))
        yield WriteTableStatus(table.identity, status.model_dump(mode="json", by_alias=True, include={"conditions"}))
        yield from stalled_event(TABLE_KIND, table.identity, before, after)


def _refusal_of_orphan(view: TableView) -> Refusal | None:
    """A table whose group is missing and cannot be made from any of the tables that name it."""
    key, table, rivals = view.wanted, view.table, view.rivals
    if key is None or table not in rivals or any(one.spec and schema_of(one.spec, one.status) for one in rivals):
        return None
    if _is_alone(table):
        message = (
            "colocateWith is empty, so no group gives the table its buckets and replicas; "
            "give buckets and replicas, or name a group"
        )
    else:
        message = (
            f"group {key[1]} does not exist, and no table gives its buckets and replicas; "
            "give buckets and replicas, or make the group"
        )
    return Refusal(reason=Reason.NO_GROUP, message=message)


def _status(facts: TableFacts, refusal: Refusal | None, now: datetime) -> ColocatedTableStatus:
    table, group, before = facts.table, facts.group, facts.table.status
    update: dict[str, object] = {
        "observed_generation": table.identity.generation,
        "accepted": refusal is None,
        "conditions": conditions(before.conditions, _verdicts(facts, refusal), table.identity.generation, now),
        "group": None,
        "group_id": None,
        "replicas": facts.view.memory.replicas if facts.view.memory else None,
    }
    if refusal is None and table.spec and not table.is_being_replaced:
        update["columns"] = table.spec.columns
    if facts.recovery and facts.recovery.is_whole:
        update["snapshot"] = facts.recovery.record.snapshot
    if before.snapshot and table.spec:
        update["history"] = retained_history(before.snapshot, before.history, table.spec.retention, now)
    if group is not None and group.spec is not None:
        key = (group.identity.namespace, group.identity.name)
        update["group"] = group_reference(table.identity.namespace, key)
        update["group_id"] = facts.group_id or before.group_id
        update["buckets"] = group.spec.buckets
        if refusal is None and table.spec and facts.transfer is None:
            update["replicas"] = table.spec.replicas or group.spec.replicas
    return before.model_copy(update=update)


def _verdicts(facts: TableFacts, refusal: Refusal | None) -> Iterator[Verdict]:
    if refusal:
        if facts.view.is_staying and facts.group and facts.group.status.backends_per_bucket_seq:
            message = f"it stays in group {_name(facts)}, where reads and loads go on"
            yield Verdict(ConditionType.READY, True, Reason.RECONCILED, message)
        else:
            yield Verdict(ConditionType.READY, False, refusal.reason, refusal.message)
        yield Verdict(ConditionType.ACCEPTED, False, refusal.reason, refusal.message)
        return
    name = _name(facts)
    if facts.view.fault:
        yield Verdict(ConditionType.READY, False, facts.view.fault.reason, facts.view.fault.message)
        yield Verdict(ConditionType.STALLED, True, facts.view.fault.reason, facts.view.fault.message)
    elif facts.group and facts.group.status.backends_per_bucket_seq:
        yield Verdict(ConditionType.READY, True, Reason.RECONCILED, f"group {name} has a map")
    else:
        message = f"group {name} has no map yet{_where_the_cause_is(facts)}"
        yield Verdict(ConditionType.READY, False, Reason.NO_MAP, message)
    yield Verdict(ConditionType.ACCEPTED, True, Reason.ACCEPTED, f"the table is in group {name}")
    if facts.transfer:
        reason, message = facts.transfer.reason, facts.transfer.message
        yield Verdict(ConditionType.RECONCILING, True, reason, message)
        if facts.transfer.is_stalled:
            yield Verdict(ConditionType.STALLED, True, reason, message)
    elif facts.table.is_being_replaced and facts.table.status.snapshot:
        message = REPLACED.format(facts.table.status.snapshot.id)
        yield Verdict(ConditionType.RECONCILING, True, Reason.REPLACING, message)


def _name(facts: TableFacts) -> str:
    """The group's name as the table's ``colocateWith`` would give it."""
    if facts.group is None:
        return ""
    key: GroupKey = (facts.group.identity.namespace, facts.group.identity.name)
    return group_reference(facts.table.identity.namespace, key)


def _where_the_cause_is(facts: TableFacts) -> str:
    """The command that shows what a group waits for; empty for a table that no group places."""
    if facts.group is None:
        return ""
    group = facts.group.identity
    return f"; `colocation show {group.name} -n {group.namespace}` shows why"


def _events(facts: TableFacts, refusal: Refusal | None, after: ColocatedTableStatus) -> Iterator[PostEvent]:
    """One Event per change of state."""
    table, before = facts.table, facts.table.status
    reasons = [_accepted_reason(before), _accepted_reason(after)]
    if after.snapshot is not None and before.snapshot is None:
        yield _event(
            table, "Normal", EventReason.TABLE_RECOVERED, f"snapshot {after.snapshot.id}, {after.snapshot.rows} rows"
        )
    if before.group and after.group and before.group != after.group:
        message = f"from group {before.group} to group {after.group}"
        yield _event(table, "Normal", EventReason.TABLE_MOVED, message)
    elif before.accepted is not after.accepted or reasons[0] != reasons[1]:
        if refusal:
            yield _event(table, "Warning", EventReason.TABLE_REFUSED, f"{refusal.reason}: {refusal.message}")
        else:
            yield _event(table, "Normal", EventReason.TABLE_ACCEPTED, f"the table is in group {_name(facts)}")
    moving_before = any(one.type == ConditionType.RECONCILING for one in before.conditions)
    if facts.transfer and not moving_before:
        yield _event(table, "Normal", EventReason.TABLE_MOVE_STARTED, facts.transfer.message)
    yield from stalled_event(TABLE_KIND, table.identity, before.conditions, after.conditions)


def _accepted_reason(status: ColocatedTableStatus) -> str | None:
    return next((one.reason for one in status.conditions if one.type == ConditionType.ACCEPTED), None)


def _event(table: ObservedTable, kind: EventKind, reason: EventReason, message: str) -> PostEvent:
    return PostEvent(TABLE_KIND, table.identity, kind, reason, message)
