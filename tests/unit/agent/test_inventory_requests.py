"""The operator's conversation with an agent over HTTPS: full and partial answers, held ones, and refusals."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from colocation.agent import inventory_answers
from colocation.agentclient import StaleTerm, UnknownQuestion, calls
from colocation.model.agent import (
    AgentReport,
    AskedTable,
    CloneProgress,
    DiskReport,
    InventoryRequest,
    TableReference,
)
from colocation.storage.clone_reports import write_progress
from colocation.storage.root import DataRoot, Disk
from tests.support.agent_caller import AgentCaller
from tests.support.waiting import until
from tests.unit.storage.tables import UID, Table, damage, data_path, make_table, on_disk, publish_table

from .harness import AgentThread, FakeAuthorizer, Operator

TABLE = make_table({data_path(bucket): b"content" for bucket in (0, 1)})
OTHER = make_table({data_path(0): b"other"}, name="lines")
NEXT = make_table(TABLE.contents | {data_path(0, load="2"): b"more"}, snapshot=2)
LONG_SECONDS = 60.0
"""No test waits so long: what it waits for wakes the request."""


def put(client: AgentCaller, table: Table) -> None:
    """Publish a table as a load does."""
    for path, content in table.contents.items():
        client.put_file(*table.path, path, content)
    client.put_manifest(*table.path, table.stored, table.manifest)


@pytest.fixture
def client(agent: AgentThread) -> Iterator[AgentCaller]:
    """A client of an agent that holds ``TABLE``."""
    with agent.client() as opened:
        put(opened, TABLE)
        yield opened


@pytest.fixture
def operator(client: AgentCaller) -> Operator:
    """An operator that asked that agent about ``TABLE`` and has all news."""
    operator = Operator(client)
    operator.ask(TABLE.asked)
    return operator


class Held(NamedTuple):
    """The outcome of a held question."""

    answer: list[AgentReport | None]
    errors: list[Exception]


@contextmanager
def held(operator: Operator) -> Iterator[Held]:
    """Hold the operator's question for long; leaving waits for its answer."""
    outcome = Held([], [])

    def wait() -> None:
        try:
            outcome.answer.append(operator.wait(LONG_SECONDS))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
            outcome.errors.append(error)

    thread = threading.Thread(target=wait)
    started = time.monotonic()
    thread.start()
    yield outcome
    thread.join(LONG_SECONDS)
    assert time.monotonic() - started < LONG_SECONDS / 2


def states(report: AgentReport | None) -> dict[str, dict[int, str | None]]:
    """The state of every bucket of every table in a report."""
    assert report is not None
    return {
        table.directory: {bucket: found.state for bucket, found in table.buckets.items()} for table in report.tables
    }


WHOLE = {TABLE.path.directory: {0: "complete", 1: "complete"}}


def test_the_first_question_is_answered_in_full(client: AgentCaller) -> None:
    """With the agent's process, its uptime and the operator's term."""
    operator = Operator(client, term=3)
    report = operator.ask(TABLE.asked)
    assert (report.is_full, report.term, states(report)) == (True, 3, WHOLE)
    assert report.revision.startswith(f"{report.instance}-")
    assert 0 < report.uptime_seconds < LONG_SECONDS


def test_nothing_new_is_304(operator: Operator) -> None:
    """Immediately without a wait, at its end with one."""
    assert operator.wait(0) is None
    started = time.monotonic()
    assert operator.wait(0.2) is None
    assert time.monotonic() - started >= 0.2


def test_later_answers_contain_only_changes(agent: AgentThread, client: AgentCaller, operator: Operator) -> None:
    """A table that is new in the question, a changed table, not the quiet one; unknown folders are always complete."""
    publish_table(agent.running.node.root, OTHER)
    report = operator.change(OTHER.asked)
    assert (report.is_full, states(report)) == (False, {OTHER.path.directory: {0: "complete"}})
    put(client, NEXT)
    report = operator.change(NEXT.asked, removed=(str(OTHER.path),))
    assert (report.is_full, states(report)) == (False, WHOLE)
    assert (report.tables[0].manifest, report.unknown_directories) == (NEXT.manifest, (str(OTHER.path),))


@pytest.mark.parametrize("revision", ["0123456789abcdef-1", "nonsense", "-1", "{}-999999", "{}-x"])
def test_a_foreign_revision_gets_everything(operator: Operator, revision: str) -> None:
    """One of the agent before its restart, or an invented one."""
    report = operator.ask(TABLE.asked, revision=revision.format(operator.report.instance))
    assert (report.is_full, states(report)) == (True, WHOLE)


def test_a_question_with_only_a_new_map_is_confirmed_immediately(operator: Operator) -> None:
    """The agent confirms with 304 that it knows the new map version; it does not wait for news."""
    moved = TABLE.asked.model_copy(update={"map_version": 8})
    request = InventoryRequest(
        term=1, session="first", number=2, base=1, changed=(moved,), wait_seconds=LONG_SECONDS
    )
    started = time.monotonic()
    assert operator.client.inventory(request, operator.revision) is None
    assert time.monotonic() - started < LONG_SECONDS / 2


def test_a_question_may_come_twice(operator: Operator) -> None:
    """Its answer was lost; the second time it is the same question."""
    moved = TABLE.asked.model_copy(update={"map_version": 8})
    request = InventoryRequest(term=1, session="first", number=2, base=1, changed=(moved,))
    for _ in range(2):
        assert operator.client.inventory(request, None).is_full
    with pytest.raises(UnknownQuestion, match="question 1 is not remembered, the newest is 2"):
        operator.client.inventory(request.model_copy(update={"changed": (TABLE.asked,)}))


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(InventoryRequest(term=1, session="other", number=2, base=1), id="another session"),
        pytest.param(InventoryRequest(term=1, session="first", number=3, base=2), id="an unknown base"),
        pytest.param(InventoryRequest(term=1, session="first", number=0), id="an older question that comes late"),
    ],
)
def test_unknown_questions(operator: Operator, request_: InventoryRequest) -> None:
    """409, and the remembered question stays."""
    with pytest.raises(UnknownQuestion):
        operator.client.inventory(request_)
    assert operator.wait(0) is None


def test_a_replaced_operator_is_refused(operator: Operator) -> None:
    """The answer to an older term names the newer one, and changes nothing."""
    newer = Operator(operator.client, "second", term=5)
    newer.ask(TABLE.asked)
    with pytest.raises(StaleTerm, match="another operator leads") as caught:
        operator.wait(0)
    assert caught.value.term == 5
    assert newer.wait(0) is None


Act = Callable[[AgentThread, AgentCaller], object]


def touch_free_space(agent: AgentThread, _client: AgentCaller) -> None:
    """Simulate another program that takes two percent of the disk."""
    disk = agent.running.node.root.disk()
    taken = Disk(disk.capacity_bytes, disk.free_bytes - disk.capacity_bytes // 50)
    agent.running.node.root.disk = lambda: taken


def advance_clone(agent: AgentThread, _client: AgentCaller) -> None:
    """A clone Job begins."""
    progress = CloneProgress(namespace="shop", group="sales", bucket=1, bytes_done=0, bytes_total=9, updated_at="")
    write_progress(agent.running.node.root, progress)


def publish_as_a_clone(agent: AgentThread, _client: AgentCaller) -> None:
    """Another process replaces a damaged file."""
    program = """
import sys
from pathlib import Path
from colocation.storage.incoming import IncomingFile
from colocation.storage.paths import table_path
from colocation.storage.publish import replace_published
from colocation.storage.root import UPLOADS, DataRoot
root = DataRoot(Path(sys.argv[1]))
with IncomingFile(root, UPLOADS, "new") as incoming:
    incoming.write(b"new")
    replace_published(root, table_path("shop", sys.argv[2]), sys.argv[3], incoming, incoming.settle())
"""
    agent.running.upkeep.scanned.clear()  # no look at the folders interferes
    arguments = [str(agent.settings.data_root), TABLE.path.directory, data_path(0, load="clone")]
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, timeout=60)


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda _agent, client: client.put_file(*TABLE.path, data_path(2), b"x"), id="a file is published"),
        pytest.param(lambda agent, _client: publish_table(agent.running.node.root, OTHER), id="a folder appears"),
        pytest.param(
            lambda agent, _client: on_disk(agent.settings.data_root, TABLE.path, data_path(0)).unlink(),
            id="a file goes by hand",
        ),
        pytest.param(advance_clone, id="a clone begins"),
        pytest.param(publish_as_a_clone, id="another process publishes"),
        pytest.param(touch_free_space, id="much room was taken"),
        pytest.param(lambda agent, _client: agent.running.node.stop_holding(), id="the agent stops"),
    ],
)
def test_what_wakes_a_held_question(agent: AgentThread, client: AgentCaller, operator: Operator, act: Act) -> None:
    """Every part of a report does, within seconds."""
    with held(operator) as outcome, agent.client() as other:
        act(agent, other)
    assert outcome.errors == []
    assert len(outcome.answer) == 1


def test_damage_that_a_reader_finds_wakes_a_held_question(
    agent: AgentThread, client: AgentCaller, operator: Operator
) -> None:
    """The replica is reported corrupt once any reader has read it."""
    damage(on_disk(agent.settings.data_root, TABLE.path, data_path(0)))
    with held(operator) as outcome, agent.client() as other, pytest.raises(Exception, match="ReplicaCorrupt"):
        other.get_file(*TABLE.path, data_path(0))
    assert states(outcome.answer[0])[TABLE.path.directory][0] == "corrupt"


def test_a_small_change_of_room_wakes_no_question(agent: AgentThread, operator: Operator) -> None:
    """A change of half a percent is sent with the next answer."""
    node = agent.running.node
    disk = node.root.disk()
    taken = Disk(disk.capacity_bytes, disk.free_bytes - disk.capacity_bytes // 200)
    node.root.disk = lambda: taken
    assert operator.wait(0) is None
    assert operator.ask(TABLE.asked).free_bytes == taken.free_bytes


def test_a_clone_that_only_advances_is_reported_every_two_seconds(tmp_path: Path) -> None:
    """Its begin and end are reported immediately."""
    now = [100.0]
    root = DataRoot(tmp_path)
    node_answers = inventory_answers.Answers("node-1", root, None, None, None, clock=lambda: now[0])
    before = inventory_answers.NodePart(Disk(100, 50), DiskReport(), (), (), (clone(1),))
    node_answers._sent, node_answers._sent_at = before, 100.0
    advanced = inventory_answers.NodePart(Disk(100, 50), DiskReport(), (), (), (clone(2),))
    ended = inventory_answers.NodePart(Disk(100, 50), DiskReport(), (), (), ())
    assert (node_answers._is_news(advanced), node_answers._is_news(ended)) == (False, True)
    now[0] = 102.0
    assert node_answers._is_news(advanced)
    root.close()


def clone(bytes_done: int) -> CloneProgress:
    """A clone's progress."""
    return CloneProgress(
        namespace="shop", group="sales", bucket=0, bytes_done=bytes_done, bytes_total=9, updated_at=""
    )


def test_a_newer_question_ends_a_held_one_of_its_session(agent: AgentThread, operator: Operator) -> None:
    """With 304: nothing had changed at the last check, and the next answer is to the newer question."""
    looked = looks_of(agent)
    newer = Operator(operator.client)
    newer.number = 1
    with held(operator) as outcome, agent.client() as other:
        until(looked.is_set)
        newer.client = other
        newer.ask(TABLE.asked, OTHER.asked)
    assert outcome == Held([None], [])


def test_a_question_replaced_before_a_check_is_not_confirmed(
    agent: AgentThread, operator: Operator
) -> None:
    """304 would confirm everything; the caller might count a file that is gone."""
    conversation, newer = agent.running.node.conversation, Operator(operator.client)
    before, newer.number = conversation.question, 1
    agent.running.node.answered_at = time.monotonic() + LONG_SECONDS / 4
    with held(operator) as outcome, agent.client() as other:
        until(lambda: conversation.question is not before)
        newer.client = other
        newer.ask(TABLE.asked, OTHER.asked)
    assert (outcome.answer, [type(one) for one in outcome.errors]) == ([], [UnknownQuestion])


def looks_of(agent: AgentThread) -> threading.Event:
    """Set once the agent has checked for news and found none."""
    looked = threading.Event()
    answer = agent.running.node.answers.answer

    def seen(*question: object) -> AgentReport | None:
        report = answer(*question)
        if report is None:
            looked.set()
        return report

    agent.running.node.answers.answer = seen
    return looked


@pytest.mark.parametrize(
    ("term", "error"), [pytest.param(1, UnknownQuestion, id="same term"), pytest.param(2, StaleTerm, id="newer term")]
)
def test_another_session_ends_a_held_question(
    agent: AgentThread, operator: Operator, term: int, error: type[Exception]
) -> None:
    """One operator at a time is answered."""
    conversation = agent.running.node.conversation
    before = conversation.question
    with held(operator) as outcome, agent.client() as other:
        until(lambda: conversation.question is not before)
        Operator(other, "second", term).ask(TABLE.asked)
    assert (outcome.answer, [type(one) for one in outcome.errors]) == ([], [error])


def test_a_busy_load_is_reported_once_a_second(agent: AgentThread, operator: Operator) -> None:
    """A question that may be held is not answered again within the second, however much is published."""
    started = time.monotonic()
    with agent.client() as other:
        for number in range(3):
            other.put_file(*TABLE.path, data_path(3, load=str(number)), b"x")
            assert operator.wait(LONG_SECONDS) is not None
    assert time.monotonic() - started >= 2.0


def test_a_ringing_bell_causes_five_checks_a_second(
    agent: AgentThread, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables that no question names may change a thousand times a second at the same cost."""
    node, looks = agent.running.node, []
    answer = node.answers.answer
    monkeypatch.setattr(node.answers, "answer", lambda *question: (looks.append(1), answer(*question))[1])
    ended = threading.Event()

    def ring() -> None:
        while not ended.wait(0.001):
            node.bell.ring()

    ringing = threading.Thread(target=ring)
    ringing.start()
    assert operator.wait(2.0) is None  # the first second is the pause after the answer before
    ended.set()
    ringing.join()
    assert 2 <= len(looks) <= 11


BAD = TableReference(namespace="..", directory="x", manifest="not hex", retained_manifests=("../..",))
BAD_DIGEST = TABLE.reference.model_copy(update={"manifest": "x", "retained_manifests": ("y",)})


@pytest.mark.parametrize(
    "bad", [pytest.param(BAD, id="directory"), pytest.param(BAD_DIGEST.model_copy(update={"directory": f"l-{UID}"}),
                                                            id="digest")]
)  # fmt: skip
@pytest.mark.parametrize("old", [True, False], ids=["old form", "conversation"])
def test_one_bad_reference_affects_no_other(
    agent: AgentThread, client: AgentCaller, bad: TableReference, old: bool
) -> None:
    """A tenant's status reached the question unchecked: nothing of that table is here; the rest is answered."""
    tables = (AskedTable(reference=bad, uid="x"), TABLE.asked)
    report = old_form(agent, bad, TABLE.reference) if old else Operator(client).ask(*tables)
    wrong, right = report.tables
    assert (wrong.manifest_present, wrong.retained_present, wrong.buckets) == (False, False, {})
    assert {bucket: found.state for bucket, found in right.buckets.items()} == {0: "complete", 1: "complete"}


def old_form(
    agent: AgentThread, *references: TableReference, revision: str | None = None
) -> AgentReport | None:
    """The answer to an operator of the release before sessions."""
    call = calls.old_inventory_call(references, revision)
    headers = {**call.headers, "Content-Length": str(len(call.body))}
    raw = agent.raw_request(call.method, call.target, headers, call.body)
    assert raw.status in call.accepted
    return calls.parsed(AgentReport, raw.body) if raw.status == 200 else None


def test_the_old_form_is_answered_in_full(agent: AgentThread, operator: Operator) -> None:
    """During an upgrade: immediately, with its own revision, and without an effect on the current conversation."""
    first = old_form(agent, TABLE.reference)
    assert (first.is_full, states(first), first.unknown_directories) == (True, WHOLE, ())
    assert until(lambda: old_form(agent, TABLE.reference, revision=old_form(agent, TABLE.reference).revision) is None)
    assert old_form(agent, revision=first.revision).unknown_directories == (str(TABLE.path),)
    on_disk(agent.settings.data_root, TABLE.path, data_path(0)).unlink()

    def reports_that_it_is_gone() -> bool:
        second = old_form(agent, TABLE.reference, revision=first.revision)
        return second is not None and states(second)[TABLE.path.directory][0] is None

    assert until(reports_that_it_is_gone)
    assert operator.wait(0) is not None


def test_a_restarted_agent_is_another_instance(agent: AgentThread, operator: Operator) -> None:
    """It remembers no question, and no revision of its predecessor."""
    before = operator.report
    agent.stop()
    again = AgentThread(agent.settings.data_root, agent.pki, FakeAuthorizer()).start()
    try:
        with again.client() as client:
            operator.client = client
            with pytest.raises(UnknownQuestion):
                operator.wait(0)
            report = operator.ask(TABLE.asked, revision=before.revision)
    finally:
        again.stop()
    assert report.is_full
    assert report.instance != before.instance


def test_a_question_makes_the_folders_of_its_namespaces(agent: AgentThread) -> None:
    """Before the first file: a Spark pod that starts then mounts the folder that the files will be in."""
    elsewhere = make_table({data_path(0): b"x"}, namespace="lake")
    with agent.client() as client:
        operator = Operator(client)
        operator.ask(TABLE.asked)
        operator.change(elsewhere.asked)
    found = {path.name for path in agent.settings.data_root.iterdir() if path.is_dir() and path.name[0] != "."}
    assert found == {"shop", "lake"}
