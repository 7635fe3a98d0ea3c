"""Decides about each table: its status, and orders to nodes that have folders of it elsewhere."""

from collections.abc import Iterator
from datetime import datetime

from ..model.conditions import Reason
from ..model.schema_check import Refusal
from ..state.containment import Containment, table_scope
from ..state.memo import Memo
from ..state.views import TableView
from .actions import Action, RestoreTable, Scope, each
from .findings import Findings
from .recovery import folders_taken_over, lacks_manifest
from .tables import TableFacts, fault_actions, table_actions
from .transfers import Transfer


def table_scopes(found: Findings, memo: Memo, containment: Containment) -> Iterator[Scope]:
    """What is done about all tables. One that cannot be decided about reports that, and nothing else is done."""
    moving = {transfer.view.uid: transfer for transfer in found.transfers}
    for uid, view in found.cluster.tables.items():
        if view.table.identity.deleting:
            continue
        name = table_scope(view.table)
        scopes: tuple[Scope, ...] | None = None
        if name not in containment.errors:
            scopes = containment.run(name, _decide, name, view, moving.get(uid), found, memo)
        yield from (_failed(view, found, containment),) if scopes is None else scopes


def _failed(view: TableView, found: Findings, containment: Containment) -> Scope:
    name = table_scope(view.table)
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
    written = _status(facts, memo, now)
    return (Scope(name, written), *each("restore", orders)) if written or orders else ()


def _folder_orders(view: TableView, found: Findings) -> tuple[Action, ...]:
    """To nodes that have a folder whose files are this table's; where nothing waits for it, now and then only."""
    seen = found.cluster.observation
    urgent: list[RestoreTable] = []
    others: list[RestoreTable] = []
    for order in folders_taken_over(view.table, found.cluster, found.bins, found.lying):
        (urgent if lacks_manifest(seen, view.table, order.node) else others).append(order)
    return (*urgent, *found.evidence.not_asked_lately(others, seen.now))


def _status(facts: TableFacts, memo: Memo, now: datetime) -> tuple[Action, ...]:
    """The write of the status. The clock has a part in what changes, and in which snapshots are retained; none in what
    stays as it is.
    """
    is_settled = facts.group and not (facts.transfer or facts.recovery or facts.is_history_over)

    def written(facts: TableFacts) -> tuple[Action, ...]:
        return tuple(table_actions(facts, now))

    return memo.of(("status", facts.view.uid), facts, written, lambda actions: bool(is_settled and not actions))
