"""Folders that no group remembers: which they are, and which table gets what its snapshots name from them."""

from dataclasses import replace

import pytest

from colocation.model.agent import DiskReport
from colocation.model.conditions import Reason
from colocation.model.group import RecycledTable
from colocation.model.names import table_directory
from colocation.reconcile.actions import RestoreTable
from colocation.reconcile.bins import lying_of
from colocation.reconcile.recovery import Recovery
from colocation.reconcile.strays import stray_orders, strays_of
from colocation.state.held import TableReports
from colocation.state.index import TableIndex
from colocation.state.membership import memberships
from colocation.state.observation import Observation

from ..state.objects import bucket
from .scenes import NODES, actions_of, agent_view, decided, held_by, observe, on_disk, settled_group, settled_table

ORDERS = replace(settled_table("orders"), recovers="88888888-old")
STRAY = table_directory("orders", "77777777-stray")
OF_ORIGIN = table_directory("orders", "88888888-old")
OF_MEMBER = table_directory("lines", settled_table("lines").identity.uid)
OF_RECORD = table_directory("parts", "66666666-gone")


def lacking(*unknown: str, damaged: bool = True) -> Observation:
    """No node has bucket 0 of a table whole; agents have these folders besides."""
    group = settled_group((ORDERS, settled_table("lines")))
    record = RecycledTable(
        namespace="shop", name="parts", uid="66666666-gone", deleted_at="2026-11-21T00:00:00Z",
        purge_at="2099-11-22T00:00:00Z",
    )  # fmt: skip
    group = replace(group, status=group.status.model_copy(update={"recycled": (record,)}))
    state = bucket(None if damaged else "complete")
    views = {}
    for name in NODES:
        told = held_by(name, ORDERS)
        told = replace(told, buckets={number: state if number == 0 else one for number, one in told.buckets.items()})
        views[name] = agent_view(group, (ORDERS,), [told], tuple(f"shop/{directory}" for directory in unknown))
    return observe(group, (ORDERS,), views)


def orders_of(observation: Observation) -> list[RestoreTable]:
    """Of what lies in the stray folder."""
    return [one for one in actions_of(decided(observation), RestoreTable) if one.directory == STRAY]


def test_a_stray_folder_is_one_that_nothing_explains() -> None:
    """Not a table's own, a member's of a group, one that a table came from, or that a record names."""
    observation = lacking(STRAY, ORDERS.directory, OF_ORIGIN, OF_MEMBER, OF_RECORD)
    index = TableIndex(observation, memberships(observation))
    assert strays_of(index, lying_of(observation)) == {("shop", "orders"): [STRAY]}


def test_a_table_that_lacks_files_gets_them_from_every_node_with_such_a_folder() -> None:
    """Its own snapshots, and those of the table that it brought back; nothing while it lacks nothing."""
    uids = {ORDERS.identity.uid, "88888888-old"}
    assert {(one.node, one.uid) for one in orders_of(lacking(STRAY))} == {(n, uid) for n in NODES for uid in uids}
    assert orders_of(lacking(STRAY, damaged=False)) == []


@pytest.mark.parametrize(
    ("reason", "takes"),
    [
        pytest.param("", True, id="well"),
        pytest.param(Reason.DISK_FULL, True, id="full: links need no room"),
        pytest.param(Reason.DISK_READ_ONLY, False, id="read-only"),
        pytest.param(Reason.DISK_FAILING, False, id="failing"),
    ],
)
def test_only_a_disk_that_takes_writes_is_asked(reason: str, takes: bool) -> None:
    """An order that cannot be carried out would be repeated for ever."""
    observation = lacking(STRAY)
    told = observation.agent_views["node-2"]
    assert told.report is not None
    disk = DiskReport(id="0" * 16, reason=reason)
    view = replace(told, report=told.report.model_copy(update={"disk": disk}))
    found = orders_of(replace(observation, agent_views={**observation.agent_views, "node-2": view}))
    assert ("node-2" in {one.node for one in found}) == takes


def test_another_disk_than_the_nodes_is_asked_nothing() -> None:
    """Nobody accepted it."""
    assert {one.node for one in orders_of(on_disk(lacking(STRAY), "node-3", "1" * 16))} == {"node-1", "node-2"}


def test_a_table_that_comes_back_takes_any_folder_with_the_snapshot_that_its_group_remembers() -> None:
    """The record is the operator's own: the manifest need not be of the table's uid. Not before the record knows it."""
    group = settled_group(())
    record = RecycledTable(
        namespace="shop", name="orders", uid="88888888-old", deleted_at="2026-11-21T00:00:00Z",
        purge_at="2099-11-22T00:00:00Z", snapshot=ORDERS.status.snapshot, recovery_uids=(ORDERS.identity.uid,),
    )  # fmt: skip
    recovery = Recovery(ORDERS, record, group, (), (), (0,), (), is_coming=False)
    observation = lacking(STRAY)
    index, lying = TableIndex(observation, memberships(observation)), lying_of(observation)
    strays, reports = strays_of(index, lying), TableReports(observation)
    found = list(stray_orders(index, reports, lying, strays, ORDERS, recovery))
    assert {(one.node, one.uid) for one in found} == {(node, "") for node in NODES}
    for change in ({"homeless": ()}, {"unheard": ("node-1",)}, {"awaited": (found[0],)},
                   {"record": record.model_copy(update={"recovery_uids": ()})}):  # fmt: skip
        assert list(stray_orders(index, reports, lying, strays, ORDERS, replace(recovery, **change))) == []
