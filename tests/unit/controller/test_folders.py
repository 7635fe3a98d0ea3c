"""What the operator finds in the folders of lost tables and of tables that may lack commits."""

from dataclasses import replace

import pytest

from colocation.agentclient import AgentError, Forbidden, NotFound
from colocation.controller.folders import folder_paths, folders_of
from colocation.model.agent import DiskReport, FolderManifests, ManifestSummary, RecycledSchema, TableReport
from colocation.model.group import RecycledTable
from colocation.model.table import Column
from colocation.state.agent_view import AgentView
from colocation.state.assemble import assemble
from colocation.state.observation import Observation

from ..reconcile.scenes import NODES, agent_view, held_by, observe, settled_group, settled_table
from ..state.objects import NOW, agent, bucket

SCHEMA = RecycledSchema(columns=(Column(name="k", type="bigint"),), bucketed_by=("k",), buckets=2)
UID = "0a1b2c3d-0000"
FOLDER = "shop/orders-0a1b2c3d"
TIME = "2026-11-21T00:00:00Z"


def summary(number: int, digit: str, uid: str = UID, table: str = "orders") -> ManifestSummary:
    return ManifestSummary(
        sha256=digit * 64, table=table, uid=uid, snapshot_id=number, partitions=1, files=2, rows=10, bytes=100,
        modified_at=TIME, table_schema=SCHEMA,
    )  # fmt: skip


class Agent:
    """Answers with its manifests, and with what it has of them: sha256 -> bucket -> state."""

    def __init__(
        self, held: dict[str, dict[int, str | None]], *manifests: ManifestSummary, refuses: bool = False
    ) -> None:
        self.held, self.summaries, self.refuses = held, manifests, refuses
        self.verified: list[str] = []
        self.closed = False

    def manifests(self, namespace: str, directory: str) -> FolderManifests:
        if not self.summaries:
            raise AgentError(500, "Broken", "disk")
        return FolderManifests(manifests=self.summaries)

    def verify(self, namespace: str, directory: str, manifest: str) -> TableReport:
        self.verified.append(manifest[0])
        if self.refuses:
            raise Forbidden(403, "Forbidden", "it may not")
        if manifest not in self.held:
            raise NotFound(404, "NotFound", "no such manifest")
        states = {number: bucket(state) for number, state in self.held[manifest].items()}
        return TableReport(
            namespace=namespace, directory=directory, manifest=manifest, manifest_present=True, buckets=states
        )

    def close(self) -> None:
        self.closed = True


def lying(records: tuple[RecycledTable, ...] = (), silent: str = "") -> dict[str, dict[str, str]]:
    return folder_paths(assemble(observation(records, silent)))


def observation(records: tuple[RecycledTable, ...] = (), silent: str = ""):  # type: ignore[no-untyped-def]
    """A folder that no one knows is on every node, next to that of a table."""
    table = settled_table("lines")
    group = settled_group((table,), records)
    unknown = (FOLDER, f"shop/{table.directory}")
    views: dict[str, AgentView] = {name: agent_view(group, (table,), (), unknown) for name in NODES}
    if silent:
        views[silent] = replace(views[silent], silent_since=NOW)
    agents = tuple(agent(name, f"10.0.0.{number}") for number, name in enumerate(NODES, start=1))
    return observe(group, (table,), views, agents=agents)


def test_folders_that_no_table_has_and_no_group_remembers_are_looked_into() -> None:
    """Not those of tables, nor those that a group remembers as dropped; agents that are silent are not asked."""
    assert {path: set(agents) for path, agents in lying().items()} == {FOLDER: set(NODES)}
    assert set(lying(silent="node-2")[FOLDER]) == {"node-1", "node-3"}
    record = RecycledTable(namespace="shop", name="orders", uid=UID, deleted_at=TIME, purge_at=TIME)
    assert lying((record,)) == {}


async def test_newest_snapshot_that_is_whole_is_chosen() -> None:
    """Over all nodes together; what is older is listed, and not looked at."""
    newest, whole, old = summary(3, "c"), summary(2, "b"), summary(1, "a")
    agents = {
        "https://10.0.0.1:8440": Agent(
            {"c" * 64: {0: "complete", 1: None}, "b" * 64: {0: "complete", 1: None}}, old, newest, whole
        ),
        "https://10.0.0.2:8440": Agent({"b" * 64: {0: "complete", 1: "complete"}}, whole, old),
        "https://10.0.0.3:8440": Agent({}),
    }
    [folder] = (await folders_of(observation(), agents.__getitem__)).folders  # type: ignore[arg-type]
    assert (folder.namespace, folder.table, folder.nodes) == ("shop", "orders", NODES)
    assert [(one.snapshot.id, one.missing_buckets, one.copies) for one in folder.snapshots] == [
        (3, (1,), 1),
        (2, (), 2),
        (1, None, 0),
    ]
    assert folder.chosen is not None and folder.chosen.snapshot.id == 2
    assert "node node-3: 500 Broken" in folder.problem
    assert all(one.closed for one in agents.values())


async def test_agents_that_give_no_answer_are_named() -> None:
    """And not asked again; a folder that is in the recycle bin there is no failure."""
    refusing = Agent({}, summary(2, "b"), summary(1, "a"), refuses=True)
    agents = {"https://10.0.0.1:8440": refusing}
    agents |= {f"https://10.0.0.{number}:8440": Agent({}, summary(2, "b")) for number in (2, 3)}
    [folder] = (await folders_of(observation(), agents.__getitem__)).folders  # type: ignore[arg-type]
    assert (folder.problem, folder.is_checked) == ("node node-1: 403 Forbidden: it may not", False)
    assert [one.missing_buckets for one in folder.snapshots] == [None, None] and refusing.verified == ["b"]


async def test_snapshots_are_verified_until_one_is_whole() -> None:
    """However many newer ones lack files."""
    found = [summary(number, f"{number:x}") for number in range(12, 0, -1)]
    held = {one.sha256: {0: "complete", 1: "complete" if one.snapshot_id == 2 else None} for one in found}
    agents = {f"https://10.0.0.{number}:8440": Agent(held, *found) for number in (1, 2, 3)}  # type: ignore[arg-type]
    [folder] = (await folders_of(observation(), agents.__getitem__)).folders  # type: ignore[arg-type]
    assert folder.chosen is not None and folder.chosen.snapshot.id == 2 and folder.is_checked


async def test_manifest_of_another_table_is_not_taken() -> None:
    """A loader may put any manifest into a folder; only those of the folder's own table count."""
    agents = {f"https://10.0.0.{number}:8440": Agent({}, summary(9, "f", table="lines")) for number in (1, 2, 3)}
    [folder] = (await folders_of(observation(), agents.__getitem__)).folders  # type: ignore[arg-type]
    assert folder.snapshots == () and "no manifest in it can be read" in folder.problem


async def test_it_reports_on_which_nodes_a_folder_is_in_the_bin() -> None:
    """Not those that have it in its place too."""
    seen = observation()
    report = seen.agent_views["node-3"].report
    assert report is not None
    moved = report.model_copy(update={"unknown_directories": (), "recycled_directories": (FOLDER,)})
    views = {**seen.agent_views, "node-3": replace(seen.agent_views["node-3"], report=moved)}
    agents = {f"https://10.0.0.{number}:8440": Agent({}, summary(1, "a")) for number in (1, 2, 3)}
    seen = replace(seen, agent_views=views)
    [folder] = (await folders_of(seen, agents.__getitem__)).folders  # type: ignore[arg-type]
    assert (folder.nodes, folder.recycled_nodes) == (NODES, ("node-3",))


@pytest.mark.parametrize(("reason", "is_listed"), [("DiskFull", True), ("DiskReadOnly", False), ("DiskFailing", False)])
def test_a_disk_that_takes_no_writes_hands_over_nothing(reason: str, is_listed: bool) -> None:
    """The command would wait for it."""
    seen = observation()
    known = seen.agent_views["node-2"]
    assert known.report is not None
    view = replace(known, report=known.report.model_copy(update={"disk": DiskReport(id="0" * 16, reason=reason)}))
    paths = folder_paths(assemble(replace(seen, agent_views={**seen.agent_views, "node-2": view})))
    assert ("node-2" in paths[FOLDER]) is is_listed


LINES = settled_table("lines")
OF_LINES = f"shop/{LINES.directory}"


def with_lines(adopts: str = "", committed: bool = True) -> Observation:
    """Table ``lines`` is on all nodes, and may be one that the command has created."""
    table = replace(LINES, adopts=adopts)
    if not committed:
        table = replace(table, status=table.status.model_copy(update={"snapshot": None}))
    group = settled_group((table,))
    views = {name: agent_view(group, (table,), [held_by(name, table)]) for name in NODES}
    agents = tuple(agent(name, f"10.0.0.{number}") for number, name in enumerate(NODES, start=1))
    return observe(group, (table,), views, agents=agents)


def test_tables_are_looked_into_where_they_may_lack_commits() -> None:
    """After a restore of etcd all of them; else the ones that the command creates."""
    assert folder_paths(assemble(with_lines())) == {}
    assert folder_paths(assemble(with_lines(adopts="0a1b2c3d"))) == {}
    assert set(folder_paths(assemble(replace(with_lines(), etcd_restored=True)))) == {OF_LINES}
    assert set(folder_paths(assemble(with_lines(adopts="0a1b2c3d", committed=False)))) == {OF_LINES}


async def test_only_snapshots_after_the_committed_one_are_verified() -> None:
    """Of a thousand tables most have none; the table's own files count as in their place."""
    committed = LINES.status.snapshot
    assert committed is not None
    held: dict[int, str | None] = {0: "complete", 1: "complete"}
    newer, own = summary(committed.id + 1, "e", table="lines"), summary(committed.id, "d", table="lines")
    manifests = {"e" * 64: held, "d" * 64: held}
    agents = {f"https://10.0.0.{number}:8440": Agent(manifests, own, newer) for number in (1, 2, 3)}
    found = await folders_of(replace(with_lines(), etcd_restored=True), agents.__getitem__)  # type: ignore[arg-type]
    [folder], [table] = found.folders, found.tables
    assert [(one.snapshot.id, one.is_whole) for one in folder.snapshots] == [
        (committed.id + 1, True), (committed.id, False),
    ]  # fmt: skip
    assert (folder.nodes_in_place, table.snapshot, table.is_whole) == (NODES, committed, True)
    assert found.etcd_restored and all(one.verified == ["e"] for one in agents.values())


async def test_a_table_without_later_snapshots_is_not_verified() -> None:
    """Agents would hash for nothing."""
    committed = LINES.status.snapshot
    assert committed is not None
    own = summary(committed.id, "d", table="lines")
    agents = {f"https://10.0.0.{number}:8440": Agent({"d" * 64: {0: "complete"}}, own) for number in (1, 2, 3)}
    await folders_of(replace(with_lines(), etcd_restored=True), agents.__getitem__)  # type: ignore[arg-type]
    assert not any(one.verified for one in agents.values())


async def test_a_table_that_comes_back_is_reported_with_the_snapshot_that_its_group_remembers() -> None:
    """Of which no node has a file: it may take over a folder of its name."""
    lost = replace(LINES, recovers=UID, status=LINES.status.model_copy(update={"snapshot": None}))
    record = RecycledTable(namespace="shop", name="lines", uid=UID, deleted_at=TIME, purge_at=TIME,
                           snapshot=LINES.status.snapshot)  # fmt: skip
    group = settled_group((), (record,))
    folder = "shop/lines-77777777"
    views = {name: agent_view(group, (lost,), (), (folder,)) for name in NODES}
    agents = tuple(agent(name, f"10.0.0.{number}") for number, name in enumerate(NODES, start=1))
    answering = {f"https://10.0.0.{number}:8440": Agent({}, summary(1, "a", table="lines")) for number in (1, 2, 3)}
    found = await folders_of(observe(group, (lost,), views, agents=agents), answering.__getitem__)  # type: ignore[arg-type]
    assert [(one.snapshot, one.is_whole, one.adopts) for one in found.tables] == [(record.snapshot, False, "")]


@pytest.mark.parametrize(("retained_present", "is_whole"), [(True, True), (False, False)])
async def test_a_table_whose_retained_snapshots_are_not_known_lacks_files(
    retained_present: bool, is_whole: bool
) -> None:
    """They may be in a folder of another uid, which would go as soon as deletions go on (found by the simulation)."""
    seen = with_lines()
    [table] = seen.tables
    older = LINES.status.snapshot
    assert older is not None
    table = replace(table, status=table.status.model_copy(update={"history": (older.model_copy(update={"id": 1}),)}))
    views = {}
    for name, view in seen.agent_views.items():
        reports = {key: replace(one, retained_present=retained_present) for key, one in view.tables.items()}
        assert view.report is not None
        unknown = view.report.model_copy(update={"unknown_directories": ("shop/lines-77777777",)})
        views[name] = replace(view, tables=reports, report=unknown)
    agents = {f"https://10.0.0.{number}:8440": Agent({}, summary(1, "a", table="lines")) for number in (1, 2, 3)}
    found = await folders_of(replace(seen, tables=(table,), agent_views=views), agents.__getitem__)  # type: ignore[arg-type]
    assert [one.is_whole for one in found.tables] == [is_whole]
