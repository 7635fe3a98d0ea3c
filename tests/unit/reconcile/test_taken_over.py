"""Which folders are handed to a table: its own in the bin, that of the table that it came from, one that it adopts."""

from dataclasses import replace

import pytest

from colocation.model.agent import DiskReport
from colocation.model.conditions import Reason
from colocation.model.names import table_directory
from colocation.reconcile.actions import RestoreTable
from colocation.state.objects import ObservedTable
from colocation.state.observation import Observation

from .scenes import NODES, actions_of, agent_view, decided, held_by, observe, on_disk, settled_group, settled_table

ORDERS = settled_table("orders")
OTHER = table_directory("orders", "77777777-lost")
ADOPTING = replace(ORDERS, adopts="77777777")


def seen(table: ObservedTable, unknown: tuple[str, ...] = (), recycled: tuple[str, ...] = ()) -> Observation:
    """The table is whole on its nodes; each also has these folders, in their place or in its bin."""
    group = settled_group((table,))
    views = {}
    for name in NODES:
        paths = tuple(f"shop/{one}" for one in unknown)
        view = agent_view(group, (table,), [held_by(name, table)], paths)
        assert view.report is not None
        bins = {"recycled_directories": tuple(f"shop/{one}" for one in recycled)}
        views[name] = replace(view, report=view.report.model_copy(update=bins))
    return observe(group, (table,), views)


def orders_of(observation: Observation) -> set[tuple[str, str, str]]:
    found = actions_of(decided(observation), RestoreTable)
    return {(one.node, one.directory, one.successor) for one in found}


@pytest.mark.parametrize(
    ("observation", "directory"),
    [
        pytest.param(seen(ADOPTING, unknown=(OTHER,)), OTHER, id="the folder that it adopts"),
        pytest.param(seen(ADOPTING, recycled=(OTHER,)), OTHER, id="the folder that it adopts, in the bin"),
        pytest.param(seen(replace(ORDERS, recovers="77777777-lost"), unknown=(OTHER,)), OTHER,
                     id="that of the table that it has brought back"),
        pytest.param(seen(ORDERS, recycled=(ORDERS.directory,)), ORDERS.directory,
                     id="its own: etcd has undone its drop"),
        pytest.param(seen(ORDERS, unknown=(OTHER,)), None, id="not one that an administrator has not named"),
        pytest.param(seen(ADOPTING, unknown=(table_directory("lines", "77777777-lost"),)), None,
                     id="not one of another name"),
        pytest.param(seen(ADOPTING), None, id="none is there"),
    ],
)  # fmt: skip
def test_a_table_gets_the_folders_whose_files_are_its_own(observation: Observation, directory: str | None) -> None:
    """From every node that has one."""
    wanted = {(node, directory, ORDERS.directory) for node in NODES} if directory else set()
    assert orders_of(observation) == wanted


@pytest.mark.parametrize(
    ("reason", "takes"),
    [
        pytest.param("", True, id="well"),
        pytest.param(Reason.DISK_FULL, True, id="full: a rename needs no room"),
        pytest.param(Reason.DISK_READ_ONLY, False, id="read-only"),
        pytest.param(Reason.DISK_FAILING, False, id="failing"),
    ],
)
def test_only_a_disk_that_takes_writes_is_asked(reason: str, takes: bool) -> None:
    """An order that cannot be carried out would be repeated for ever."""
    observation = seen(ADOPTING, unknown=(OTHER,))
    known = observation.agent_views["node-2"]
    assert known.report is not None
    view = replace(known, report=known.report.model_copy(update={"disk": DiskReport(id="0" * 16, reason=reason)}))
    found = orders_of(replace(observation, agent_views={**observation.agent_views, "node-2": view}))
    assert ("node-2" in {node for node, _, _ in found}) == takes


def test_another_disk_than_the_nodes_is_asked_nothing() -> None:
    """An administrator has not accepted it."""
    found = orders_of(on_disk(seen(ADOPTING, unknown=(OTHER,)), "node-3", "1" * 16))
    assert {node for node, _, _ in found} == {"node-1", "node-2"}
