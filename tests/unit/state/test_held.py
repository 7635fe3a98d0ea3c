"""What the nodes hold of a group, over all its tables."""

from dataclasses import replace

import pytest

from colocation.model.table import TableSnapshot
from colocation.state.held import TableReports, held_of_group
from colocation.state.observation import Observation

from .objects import MANIFEST, NOW, seconds, table, table_report, view

ORDERS, LINES = table("orders"), table("lines")
EVERYWHERE = {0: 50, 1: 50}


def held(views: dict[str, object], tables=(ORDERS, LINES), known: bool = True):  # type: ignore[no-untyped-def]
    sizes = {("shop", one.directory, MANIFEST): EVERYWHERE for one in tables} if known else {}
    observation = Observation(NOW, tables=tables, agent_views=views, bucket_bytes=sizes)  # type: ignore[arg-type]
    return held_of_group(observation, TableReports(observation), tables, 2)[:2]


@pytest.mark.parametrize(
    ("orders", "lines", "combined"),
    [
        ("complete", "complete", "complete"),
        ("complete", "partial", "partial"),
        ("complete", None, "partial"),
        (None, None, None),
        ("corrupt", "complete", "corrupt"),
        ("corrupt", None, "corrupt"),
        ("partial", None, "partial"),
    ],
)
def test_bucket_is_as_good_as_its_tables(orders: str | None, lines: str | None, combined: str | None) -> None:
    """All complete -> complete; any corrupt -> corrupt; none held -> absent; else partial."""
    _, found = held({"node-1": view(table_report(ORDERS, {0: orders}), table_report(LINES, {0: lines}))})
    assert found == ({"node-1": {0: combined}} if combined else {})


def test_table_that_wants_nothing_of_a_bucket_does_not_count() -> None:
    """A bucket without files of a table is complete when the other tables' files are there."""
    observation = Observation(
        NOW,
        agent_views={"node-1": view(table_report(ORDERS, {0: "complete"}))},
        bucket_bytes={("shop", ORDERS.directory, MANIFEST): {0: 50}, ("shop", LINES.directory, MANIFEST): {1: 70}},
    )
    sizes, found = held_of_group(observation, TableReports(observation), (ORDERS, LINES), 2)[:2]
    assert sizes == (50, 70)
    assert found == {"node-1": {0: "complete"}}


def test_report_on_an_older_snapshot_proves_nothing_whole() -> None:
    """After a commit, an agent that has not answered about it holds at best a part."""
    old = table_report(ORDERS, {0: "complete", 1: None}, manifest="b" * 64)
    _, found = held({"node-1": view(old)}, tables=(ORDERS,))
    assert found == {"node-1": {0: "partial"}}


@pytest.mark.parametrize("claim", [{"files": 0}, {"bytes": 10**18, "files": 10**12}], ids=["none", "too many"])
def test_data_whose_whereabouts_are_unknown_are_still_wanted(claim: dict[str, int]) -> None:
    """No agent with the manifest has answered: the group must not look empty, whatever a loader wrote of the size."""
    assert ORDERS.status.snapshot
    status = ORDERS.status.model_copy(update={"snapshot": ORDERS.status.snapshot.model_copy(update=claim)})
    assert held({}, tables=(replace(ORDERS, status=status),), known=False) == ((1, 1), {})


def test_table_without_a_snapshot_wants_nothing() -> None:
    """Before the first load every live node is complete."""
    assert held({}, tables=(table("empty", files=None),), known=False) == ((0, 0), {})


def test_manifest_without_files_wants_nothing() -> None:
    """By the agents' word, not by the status."""
    sizes = {("shop", ORDERS.directory, MANIFEST): dict[int, int]()}
    observation = Observation(NOW, tables=(ORDERS,), bucket_bytes=sizes)
    assert held_of_group(observation, TableReports(observation), (ORDERS,), 2).bucket_bytes == (0, 0)


OLDER = TableSnapshot(id=0, manifest=f"sha256:{'b' * 64}", committed_at="2026-11-20T00:00:00Z")
RETAINING = replace(ORDERS, status=ORDERS.status.model_copy(update={"history": (OLDER,)}))


@pytest.mark.parametrize(
    ("rows", "node_1", "state"),
    [
        pytest.param((("node-1",),), {}, "partial", id="outside of the map, and another node has them"),
        pytest.param((("node-1", "node-2"),), {}, "complete", id="in the map"),
        pytest.param(None, {}, "complete", id="where no map is to change"),
        pytest.param((("node-1",),), {"lacking": True}, "complete", id="nobody has them"),
        pytest.param((("node-1",),), {"silent": True}, "complete", id="no agent that answers has them"),
    ],
)
def test_what_is_to_succeed_a_replica_has_retained_files_too(
    rows: tuple[tuple[str, ...], ...] | None, node_1: dict[str, bool], state: str
) -> None:
    """Node 2 lacks them: what it would replace is deleted then, and they with it."""
    lacking = replace(table_report(RETAINING, {0: "complete"}), retained_missing=(0,))
    told = lacking if node_1.get("lacking") else replace(lacking, retained_missing=())
    views = {"node-1": view(told, silent_since=NOW - seconds(1) if node_1.get("silent") else None)}
    views["node-2"] = view(lacking)
    sizes = {("shop", RETAINING.directory, MANIFEST): {0: 50}}
    observation = Observation(NOW, tables=(RETAINING,), agent_views=views, bucket_bytes=sizes)
    found = held_of_group(observation, TableReports(observation), (RETAINING,), 1, rows).held
    assert found["node-2"] == {0: state}
