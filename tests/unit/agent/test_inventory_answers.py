"""Property: combined partial answers equal a full answer; and quiet tables cost nearly nothing."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from colocation.agent import inventory_answers
from colocation.agent.conversation import Conversation, key_of
from colocation.agent.inventory_answers import Answers, Superseded
from colocation.model.agent import AgentReport, AskedTable, InventoryRequest, TableReport
from colocation.model.table_manifest import manifest_path
from colocation.storage import recycling, removal
from colocation.storage.clone_reports import announce
from colocation.storage.disk_health import DiskHealth
from colocation.storage.inventory import Inventory, hash_unverified, look, sweep
from colocation.storage.root import DataRoot
from colocation.storage.verification import unlimited
from tests.unit.storage.tables import damage, data_path, make_table, on_disk, publish, publish_table

TABLES = {
    name: [make_table({data_path(bucket, load=load): load.encode() for bucket in (0, 1)}, name, snapshot=int(load))
           for load in ("1", "2")]
    for name in ("customers", "lines", "orders")
}  # fmt: skip
NAMES = st.sampled_from(sorted(TABLES))
SNAPSHOTS = st.integers(0, 1)


class Node:
    """An agent without its server, and an operator that asks it and keeps the answers."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.root = DataRoot(folder)
        self.inventory = Inventory(self.root)
        self.conversation = Conversation()
        health = DiskHealth(self.root, "node-1")
        health.probe()
        self.answers = Answers("node-1", self.root, self.inventory, self.conversation, health, lambda: self.now)
        self.asked: dict[str, AskedTable] = {}
        self.revision: int | None = None
        self.number = 0
        self.known: dict[str, TableReport] = {}
        self.last: AgentReport | None = None
        self.between_parts: Callable[[], object] = lambda: None

    def ask(self) -> AgentReport | None:
        """Ask in full, and apply the answer."""
        self.number += 1
        changed = tuple(self.asked.values())
        request = InventoryRequest(session="s", number=self.number, changed=changed)
        question = self.conversation.take(request).question
        report = self.answers.answer(question, self.revision)
        self.known = {key: known for key, known in self.known.items() if key in self.asked}
        self.take(report)
        parts = 1
        while report is not None and not report.is_whole:
            self.number, parts = self.number + 1, parts + 1
            request = InventoryRequest(session="s", number=self.number, base=self.number - 1)
            self.between_parts()
            report = self.answers.answer(self.conversation.take(request).question, self.revision)
            assert report is not None, "more was promised"
            assert not report.is_full, "it would start over for ever"
            assert parts <= len(self.asked), "it would never end"
            self.take(report)
        return report

    def take(self, report: AgentReport | None) -> None:
        """Apply an answer."""
        if report is not None:
            self.revision = int(report.revision.rpartition("-")[2])
            changed = {f"{table.namespace}/{table.directory}": table for table in report.tables}
            self.known = changed if report.is_full else self.known | changed
            self.last = report

    def in_all_parts(self) -> tuple[TableReport, ...]:
        """All tables, as an answer would report them now."""
        return tuple(self.inventory.report_on(asked.reference).report for asked in self.asked.values())

    def in_full(self) -> AgentReport:
        """The answer to a caller without a revision."""
        report = self.answers.answer(self.conversation.question, None)
        assert report is not None
        return report


class ConversationMachine(RuleBasedStateMachine):
    """Changes of the disk and of the question, and an operator that asks now and then."""

    @initialize(max_tables_bytes=st.sampled_from([inventory_answers.MAX_TABLES_BYTES, 1000, 0]))
    def start(self, max_tables_bytes: int) -> None:
        """An empty node, which answers with all tables together, some, or one at a time."""
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(inventory_answers, "MAX_TABLES_BYTES", max_tables_bytes)
        self.folder = Path(tempfile.mkdtemp())
        self.node = Node(self.folder)

    @rule(name=NAMES, snapshot=SNAPSHOTS, uid=st.sampled_from(["a", "b"]))
    def want(self, name: str, snapshot: int, uid: str) -> None:
        """Ask about a table, or about another snapshot of it."""
        asked = TABLES[name][snapshot].asked.model_copy(update={"uid": uid})
        self.node.asked[key_of(asked.reference)] = asked

    @rule(name=NAMES)
    def forget(self, name: str) -> None:
        """Stop asking about a table."""
        self.node.asked.pop(str(TABLES[name][0].path), None)

    @rule(name=NAMES, snapshot=SNAPSHOTS)
    def load(self, name: str, snapshot: int) -> None:
        """Publish a snapshot."""
        table = TABLES[name][snapshot]
        if not on_disk(self.node.root, table.path, "data").exists():
            publish_table(self.node.root, table)

    @rule(name=NAMES, snapshot=SNAPSHOTS)
    def publish_manifest(self, name: str, snapshot: int) -> None:
        """Publish a manifest without its files."""
        table = TABLES[name][snapshot]
        publish(self.node.root, table.path, manifest_path(table.manifest), table.stored)

    @rule(name=NAMES, snapshot=SNAPSHOTS)
    def drop(self, name: str, snapshot: int) -> None:
        """Drop a bucket."""
        table = TABLES[name][snapshot]
        live = removal.LiveManifests((table.manifest,), 60)
        removal.delete_bucket(self.node.inventory, table.path, 0, live)

    @rule(name=NAMES)
    def recycle(self, name: str) -> None:
        """Recycle a folder."""
        recycling.recycle(self.node.inventory, TABLES[name][0].path, 60)

    @rule(name=NAMES, announced=st.booleans())
    def change_behind_its_back(self, name: str, announced: bool) -> None:
        """Another process removes a file, with or without an announcement."""
        table = TABLES[name][0].path
        on_disk(self.node.root, table, data_path(0, load="1")).unlink(missing_ok=True)
        if announced:
            announce(self.node.root, table)

    @rule(name=NAMES)
    def damage(self, name: str) -> None:
        """Write to a file in place; the agent's own work finds it."""
        file = on_disk(self.node.root, TABLES[name][0].path, data_path(1, load="1"))
        if file.exists():
            damage(file)
            sweep(self.node.inventory)
            hash_unverified(self.node.inventory, unlimited)

    @rule()
    def look(self) -> None:
        """The agent stats the folders."""
        look(self.node.inventory, unlimited)

    @rule()
    def ask(self) -> None:
        """Ask; without news the answer is empty, twice."""
        self.node.ask()
        assert self.node.ask() is None

    @invariant()
    def knows_what_a_full_answer_reports(self) -> None:
        """Right after asking, the combined answers equal a full answer."""
        if not hasattr(self, "node"):
            return
        node = self.node
        node.ask()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(inventory_answers, "MAX_TABLES_BYTES", 1 << 20)
            full = node.in_full()
        assert full.is_whole
        assert node.known == {f"{table.namespace}/{table.directory}": table for table in full.tables}
        assert node.known == {
            key: node.inventory.report_on(asked.reference).report for key, asked in node.asked.items()
        }
        assert node.last is not None
        assert (node.last.unknown_directories, node.last.recycled_directories) == (
            full.unknown_directories, full.recycled_directories,
        )  # fmt: skip
        assert int(full.revision.rpartition("-")[2]) == node.revision

    def teardown(self) -> None:
        """Remove the data root."""
        if hasattr(self, "node"):
            self.patch.undo()
            self.node.root.close()
            shutil.rmtree(self.folder)


ConversationMachine.TestCase.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)
TestConversation = ConversationMachine.TestCase


@pytest.fixture
def quiet(tmp_path: Path) -> Node:
    """A node that holds a table of each name, and has answered."""
    node = Node(tmp_path)
    for first, _ in TABLES.values():
        publish_table(node.root, first)
        node.asked[str(first.path)] = first.asked
    node.ask()
    return node


def test_a_quiet_node_reads_no_manifest_and_makes_no_report(quiet: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is asked, it stats no folder: looks do that separately, and rarely."""
    monkeypatch.setattr(quiet.inventory, "report_on", lambda _reference: pytest.fail("a report was made"))
    for table in quiet.inventory.tables():
        monkeypatch.setattr(table._contents, "refresh", lambda sweep=False: pytest.fail("a folder was looked at"))
    for _ in range(10):
        quiet.now += 1
        assert quiet.ask() is None


def test_only_changed_tables_are_read(quiet: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """One table among many: announced by a clone, or published here."""
    changed, *others = (first for first, _ in TABLES.values())
    for table in others:
        monkeypatch.setattr(quiet.inventory.table(table.path)._contents, "refresh", lambda sweep=False: pytest.fail())
    on_disk(quiet.root, changed.path, data_path(0, load="1")).unlink()
    announce(quiet.root, changed.path)
    report = quiet.ask()
    assert [table.directory for table in report.tables] == [changed.path.directory]
    assert report.tables[0].buckets[0].state is None
    assert quiet.ask() is None


def test_constantly_changing_tables_do_not_prolong_an_answer(
    quiet: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next answer reports them again; else a tenant's uploads would hide a node from the operator."""
    monkeypatch.setattr(inventory_answers, "MAX_TABLES_BYTES", 0)
    changes = iter(range(1000))

    def publish_to_all() -> None:
        load = f"changed-{next(changes)}"
        for first, _ in TABLES.values():
            publish(quiet.root, first.path, data_path(2, load=load), b"x")

    quiet.between_parts = publish_to_all
    quiet.revision = None
    assert quiet.ask() is not None
    quiet.between_parts = lambda: None
    quiet.ask()
    assert quiet.known == {f"{one.namespace}/{one.directory}": one for one in quiet.in_all_parts()}


def test_a_superseded_question_is_not_answered(quiet: Node) -> None:
    """Its answer would mix two questions."""
    before = quiet.conversation.question
    quiet.ask()
    with pytest.raises(Superseded):
        quiet.answers.answer(before, None)


def test_an_answers_uptime_is_from_before_the_check(quiet: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """An order's deadline counts from there."""
    uptimes = []
    tables = quiet.root.tables
    monkeypatch.setattr(
        quiet.root, "tables", lambda: (uptimes.append(quiet.conversation.uptime_seconds), tables())[1]
    )
    assert quiet.in_full().uptime_seconds <= uptimes[0]


def test_unknown_folders_are_reported_with_their_bytes(tmp_path: Path) -> None:
    """The operator's brake counts them; folders that it asks about are in their own reports."""
    node = Node(tmp_path)
    for name in ("orders", "lines"):
        publish_table(node.root, TABLES[name][0])
    sweep(node.inventory)
    node.asked[key_of(TABLES["lines"][0].asked.reference)] = TABLES["lines"][0].asked
    report = node.ask()
    assert report is not None
    assert report.unknown_bytes == {str(TABLES["orders"][0].path): sum(map(len, TABLES["orders"][0].contents.values()))}
