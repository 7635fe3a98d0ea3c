"""What the nodes hold of a group, over all its tables."""

from dataclasses import replace
from typing import Any

import pytest

from colocation.model.agent import TableReport
from colocation.model.group import BucketSequence
from colocation.model.table import TableSnapshot
from colocation.state.assemble import assemble
from colocation.state.held import GroupFiles, Held, Holdings, TableReports, holdings
from colocation.state.objects import ObservedTable
from colocation.state.observation import Observation

from .objects import MANIFEST, NOW, seconds, table, table_report, view

ORDERS, LINES = table("orders"), table("lines")
EVERYWHERE = {0: 50, 1: 50}


def holdings_of(observation: Observation, buckets: int = 2, rows: BucketSequence | None = None) -> Holdings:
    """What the nodes hold over all tables of the observation."""
    files = tuple(one.files for one in assemble(observation).tables.values())
    return holdings(GroupFiles(files, buckets, rows))


def held(views: dict[str, object], tables=(ORDERS, LINES), known: bool = True):  # type: ignore[no-untyped-def]
    sizes = {("shop", one.directory, MANIFEST): EVERYWHERE for one in tables} if known else {}
    observation = Observation(NOW, tables=tables, agent_views=views, bucket_bytes=sizes)  # type: ignore[arg-type]
    return holdings_of(observation)[:2]


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
        tables=(ORDERS, LINES),
        agent_views={"node-1": view(table_report(ORDERS, {0: "complete"}))},
        bucket_bytes={("shop", ORDERS.directory, MANIFEST): {0: 50}, ("shop", LINES.directory, MANIFEST): {1: 70}},
    )
    sizes, found = holdings_of(observation)[:2]
    assert sizes == (50, 70)
    assert found == {"node-1": {0: "complete"}}


def test_report_on_an_older_snapshot_proves_nothing_whole() -> None:
    """After a commit, an agent that has not answered about it holds at best a part."""
    old = table_report(ORDERS, {0: "complete", 1: None, 7: "complete"}, manifest="b" * 64)
    _, found = held({"node-1": view(old)}, tables=(ORDERS,))
    assert found == {"node-1": {0: "partial"}}


UNNAMED = replace(table_report(ORDERS, {}), manifest_present=False, unnamed_buckets=(0,))
"""Its node has files of bucket 0, and not the manifest that names them."""


@pytest.mark.parametrize(
    ("other", "found"),
    [
        pytest.param(view(table_report(ORDERS, {0: None})), {0: "partial"}, id="has the manifest"),
        pytest.param(view(table_report(ORDERS, {0: "partial"})), {0: "partial"}, id="has a part"),
        pytest.param(view(table_report(ORDERS, {0: "complete"})), {}, id="has all"),
        pytest.param(view(table_report(ORDERS, {0: "complete"}), silent_since=NOW), {0: "partial"}, id="had all"),
        pytest.param(view(table_report(ORDERS, {0: "complete"}, "b" * 64)), {0: "partial"}, id="had an older snapshot"),
    ],
)
def test_files_that_cannot_be_named_count_where_no_one_has_all(other: object, found: dict[int, str]) -> None:
    """They are worth a clone from all that have something, and from those that have the manifest."""
    _, holdings = held({"node-1": view(UNNAMED), "node-2": other}, tables=(ORDERS,))
    assert holdings.get("node-1", {}) == found
    assert set(holdings["node-2"]) == {0}


def test_of_each_bucket_only_nodes_that_can_give_something_hold_a_part() -> None:
    """Bucket 0 is whole on node 2, which has nothing of bucket 1 but the manifest; node 3 has files of bucket 0."""
    views = {
        "node-1": view(replace(UNNAMED, unnamed_buckets=(0, 1))),
        "node-2": view(table_report(ORDERS, {0: "complete", 1: None})),
        "node-3": view(UNNAMED),
    }
    _, found = held(views, tables=(ORDERS,))
    assert found == {"node-1": {1: "partial"}, "node-2": {0: "complete", 1: "partial"}}


@pytest.mark.parametrize(
    ("doubtful", "found"),
    [
        pytest.param(None, {"node-1": {0: "partial"}, "node-2": {0: "partial"}}, id="long after the commit"),
        pytest.param({ORDERS.identity.uid: frozenset({"node-3"})}, {}, id="node 3 has not reported on it"),
    ],
)
def test_files_that_cannot_be_named_wait_for_reports_on_the_commit(
    doubtful: dict[str, frozenset[str]] | None, found: Held
) -> None:
    """A node that has not reported yet may have the bucket whole."""
    views = {"node-1": view(UNNAMED), "node-2": view(table_report(ORDERS, {0: None}))}
    sizes = {("shop", ORDERS.directory, MANIFEST): {0: 50}}
    observation = Observation(NOW, tables=(ORDERS,), agent_views=views, bucket_bytes=sizes)
    files = tuple(one.files for one in assemble(observation).tables.values())
    assert holdings(GroupFiles(files, 1, (("node-2", "node-3"),), doubtful)).held == found


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
    assert holdings_of(observation).bucket_bytes == (0, 0)


def test_buckets_that_the_group_does_not_have_count_for_nothing() -> None:
    """A manifest may have more of them than the group's map. Nor do those of which it has no file."""
    sizes = {("shop", ORDERS.directory, MANIFEST): {0: 1, 1: 0, 2: 50}}
    views = {"node-1": view(table_report(ORDERS, {0: "complete", 1: "complete", 2: "complete"}))}
    found = holdings_of(Observation(NOW, tables=(ORDERS,), agent_views=views, bucket_bytes=sizes))
    assert (found.bucket_bytes, found.held) == ((1, 0), {"node-1": {0: "complete"}})


OLDER = TableSnapshot(id=0, manifest=f"sha256:{'b' * 64}", committed_at="2026-11-20T00:00:00Z")
RETAINING = replace(ORDERS, status=ORDERS.status.model_copy(update={"history": (OLDER,)}))


@pytest.mark.parametrize(
    ("rows", "node_1", "state"),
    [
        pytest.param((("node-1",),), {}, "partial", id="outside of the map, and another node has them"),
        pytest.param((), {}, "partial", id="outside of a map that has no such bucket"),
        pytest.param((("node-1",),), {"corrupt": True}, "corrupt", id="outside of the map, and damaged"),
        pytest.param((("node-1", "node-2"),), {}, "complete", id="in the map"),
        pytest.param(None, {}, "complete", id="where no map is to change"),
        pytest.param((("node-1",),), {"lacking": True}, "complete", id="no one has them"),
        pytest.param((("node-1",),), {"silent": True}, "complete", id="no agent that answers has them"),
    ],
)
def test_what_is_to_succeed_a_replica_has_retained_files_too(
    rows: tuple[tuple[str, ...], ...] | None, node_1: dict[str, bool], state: str
) -> None:
    """Node 2 lacks them: what it would replace is deleted then, and they with it."""
    lacking = replace(table_report(RETAINING, {0: "complete"}), retained_missing=(0,))
    shown = lacking if node_1.get("lacking") else replace(lacking, retained_missing=())
    views = {"node-1": view(shown, silent_since=NOW - seconds(1) if node_1.get("silent") else None)}
    damaged = table_report(RETAINING, {0: "corrupt"}).buckets
    views["node-2"] = view(replace(lacking, buckets=damaged) if node_1.get("corrupt") else lacking)
    sizes = {("shop", RETAINING.directory, MANIFEST): {0: 50}}
    observation = Observation(NOW, tables=(RETAINING,), agent_views=views, bucket_bytes=sizes)
    found = holdings_of(observation, 1, rows).held
    assert found["node-2"] == {0: state}


HOLDER, BARE = "node-1", "node-2"
ROWS = ((HOLDER,), (HOLDER,))
EMPTIED = replace(table_report(RETAINING, {}), retained_only=(0,))


def held_of_emptied(
    *shown: TableReport,
    rows: BucketSequence | None = ROWS,
    tables: tuple[ObservedTable, ...] = (RETAINING,),
    silent: bool = False,
) -> tuple[tuple[int, ...], Held]:
    """Of a table whose present snapshot has no file, and a retained one has some of bucket 0."""
    known = {("shop", RETAINING.directory, MANIFEST): dict[int, int]()}
    views = {f"node-{number}": view(report) for number, report in enumerate(shown, start=1)}
    if silent:
        views[HOLDER] = replace(views[HOLDER], silent_since=NOW - seconds(1))
    observation = Observation(NOW, tables=tables, agent_views=views, bucket_bytes=known)
    return holdings_of(observation, 2, rows)[:2]


@pytest.mark.parametrize(
    ("bare", "states"),
    [
        pytest.param(replace(EMPTIED, retained_missing=(0,)), {}, id="without the files"),
        pytest.param(replace(EMPTIED, retained_only=(), retained_present=False), {}, id="without the old manifest"),
        pytest.param(
            replace(EMPTIED, retained_only=(), retained_present=False, manifest_present=False), {}, id="without a thing"
        ),
        pytest.param(EMPTIED, {BARE: {0: "complete"}}, id="with the files"),
    ],
)
def test_what_only_retained_snapshots_have_is_moved_by_a_clone(bare: TableReport, states: Held) -> None:
    """A bucket of nothing would be complete everywhere: a drain would leave the last copy behind."""
    assert held_of_emptied(EMPTIED, bare) == ((1, 0), {HOLDER: {0: "complete"}, **states})


def test_it_does_not_decide_stability() -> None:
    """A node of the map serves the present snapshot without it; and who has it keeps it."""
    lacking = replace(EMPTIED, retained_missing=(0,))
    sizes, found = held_of_emptied(lacking, EMPTIED)
    assert (sizes, found) == ((1, 0), {HOLDER: {0: "complete"}, BARE: {0: "complete"}})


@pytest.mark.parametrize(
    ("shown", "options"),
    [
        pytest.param((replace(EMPTIED, retained_missing=(0,)),) * 2, {}, id="no one has it"),
        pytest.param((EMPTIED, replace(EMPTIED, retained_missing=(0,))), {"silent": True}, id="no agent that answers"),
        pytest.param((EMPTIED, replace(EMPTIED, retained_only=())), {"silent": True}, id="not for who answers"),
        pytest.param((EMPTIED, EMPTIED), {"rows": None}, id="no map"),
        pytest.param((EMPTIED, EMPTIED), {"tables": (ORDERS,)}, id="nothing is retained"),
        pytest.param((replace(EMPTIED, retained_only=(-1, 2)),) * 2, {}, id="no such buckets"),
        pytest.param((replace(EMPTIED, manifest="c" * 64),) * 2, {}, id="the reports are on another snapshot"),
    ],
)
def test_it_counts_only_while_it_is_there_to_be_kept(shown: tuple[TableReport, ...], options: dict[str, Any]) -> None:
    """Files that no one has can be waited for in vain."""
    assert held_of_emptied(*shown, **options) == ((0, 0), {})


def test_agents_of_the_release_before_tell_by_what_they_lack() -> None:
    """They do not say which buckets only retained snapshots have."""
    whole = replace(EMPTIED, retained_only=())
    found = held_of_emptied(whole, replace(whole, retained_missing=(0,)))
    assert found == ((1, 0), {HOLDER: {0: "complete"}})


def test_a_bucket_that_another_table_fills_waits_for_it_too() -> None:
    """The other table's files alone are not all that the map's node has."""
    sizes = {("shop", LINES.directory, MANIFEST): {0: 50}}
    full = table_report(LINES, {0: "complete"})
    views = {HOLDER: view(EMPTIED, full), BARE: view(replace(EMPTIED, retained_missing=(0,)), full)}
    known = {("shop", RETAINING.directory, MANIFEST): dict[int, int](), **sizes}
    observation = Observation(NOW, tables=(RETAINING, LINES), agent_views=views, bucket_bytes=known)
    found = holdings_of(observation, 2, ROWS)
    assert (found.bucket_bytes, found.held) == ((51, 0), {HOLDER: {0: "complete"}, BARE: {0: "partial"}})


def test_who_has_nothing_of_a_table_lacks_its_retained_files() -> None:
    """What another node has of them is not deleted then, though the present snapshot has no file."""
    bare = replace(EMPTIED, retained_only=(), retained_present=False, manifest_present=False)
    views = {HOLDER: view(EMPTIED), BARE: view(bare)}
    observation = Observation(NOW, tables=(RETAINING,), agent_views=views)
    [found] = assemble(observation).tables.values()
    assert found.files.nodes_without_retained == {0: {BARE}}


def test_a_report_without_the_manifest_proves_nothing_whole() -> None:
    """The agent has not the list of the files that it would have to hold, whatever else it reports."""
    lacking = replace(table_report(ORDERS, {0: "complete"}), manifest_present=False)
    _, found = held({"node-1": view(lacking), "node-2": view(table_report(ORDERS, {0: "complete"}))}, tables=(ORDERS,))
    assert found == {"node-1": {0: "partial"}, "node-2": {0: "complete"}}


@pytest.mark.parametrize("named", [{"retained_only": (0,)}, {"retained_missing": (0,)}, {"unnamed_buckets": (0,)}])
def test_an_agent_that_names_a_bucket_has_something_to_say(named: dict[str, tuple[int, ...]]) -> None:
    """Also without a manifest and without files of the present snapshot."""
    bare = replace(table_report(ORDERS, {}), manifest_present=False)
    never_loaded = replace(bare, manifest=None, manifest_present=True)
    for nothing in (bare, never_loaded):
        shown = (("node-1", nothing),)
        assert TableReports.of(shown) == (shown, (), frozenset())
    found = (("node-1", replace(bare, **named)),)  # type: ignore[arg-type]
    assert TableReports.of(found).holding == found
