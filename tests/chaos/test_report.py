"""What a run leaves, what a failed one reports, and when its faults are made and healed."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from . import report
from .checker import judge
from .faults import Faults
from .histories import ONE, TWO, Script, begun
from .history import FAIL, OK
from .plan import Plan, Step
from .runner import COPY_BEFORE_SECONDS, Runner

PLAN = Plan(17, 5, (), (Step(1, 20, -1, "partition", 0.5, 30), Step(2, 40, -1, "agent-killed", 0.5),
                        Step(3, 100, -1, "etcd-restored", 0.5)))  # fmt: skip
FIELDS = {
    "seed", "minutes", "steps", "faults", "faults_not_made", "queries", "wrong_answers", "lost_rows",
    "false_stable_seconds", "errors_allowed", "errors_not_allowed", "leftovers",
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(report, "FOLDER", tmp_path)
    return tmp_path


def lossy() -> Script:
    """A committed batch is gone."""
    script = begun()
    script.fault("partition", 30)
    script.write("append", TWO)
    script.query(ONE)
    return script.finish()


def test_the_report_has_the_promised_fields() -> None:
    """What happened, counted."""
    events = lossy().history.events
    shown = json.loads(report.write(PLAN, events, judge(events)).read_text())
    assert set(shown) >= FIELDS
    assert (shown["seed"], shown["steps"], shown["faults"], shown["queries"]) == (17, 3, {"partition": 1}, 1)
    assert (shown["lost_rows"], shown["wrong_answers"], shown["errors_not_allowed"]) == (1, 0, 0)


def test_a_fault_that_could_not_be_made_is_reported_and_not_counted() -> None:
    """What was never done proves nothing."""
    script = lossy()
    number = script.history.invoke("faults", "disk-read-only", plan=7)
    script.history.note("faults", FAIL, "disk-read-only", number, why="the mount is busy")
    number = script.history.invoke("faults", "node-deleted", plan=8)
    script.history.note("faults", OK, "node-deleted", number, what="node-2, killed only: refused", holds=False)
    events = script.history.events
    shown = report.figures(PLAN, events, judge(events))
    assert (shown["faults"], shown["faults_not_made"]) == (
        {"partition": 1, "node-deleted (killed only)": 1}, {"disk-read-only": ["the mount is busy"]}
    )  # fmt: skip
    assert report.summary(events).splitlines() == [
        "faults made: node-deleted (killed only) 1, partition 1", "not made: disk-read-only (the mount is busy)"
    ]  # fmt: skip


def test_a_failure_reports_how_it_came_and_what_runs_it_again() -> None:
    """Seed, timeline, history, logs, commands."""
    events = lossy().history.events
    text = report.failure(PLAN, events, judge(events), Path("/logs"))
    for words in ("SEED=17", "partition", "append", "RowsLost", "/logs", "history-17.jsonl",
                  "make chaos SEED=17 MINUTES=5", "make chaos SHRINK=17"):  # fmt: skip
        assert words in text


def test_a_run_that_wants_fewer_faults_keeps_the_history_that_failed(folder: Path) -> None:
    """Each try has a history of its own, and the hint repeats what the run was asked for."""
    wanted = replace(PLAN, kinds=("partition", "agent-killed"), queries=50)
    paths = {report.history_path(one) for one in (wanted, wanted.only([1]), wanted.only([2]), wanted.only([]))}
    assert len(paths) == 4 and folder / "history-17.jsonl" in paths
    assert wanted.shrinking == "make chaos SHRINK=17 MINUTES=5 FAULTS=partition,agent-killed QUERIES=50"


def test_faults_are_made_in_the_order_of_time() -> None:
    """The copy of etcd is taken before it is restored."""
    entries = Runner(PLAN)._timetable()
    assert [at_seconds for at_seconds, _ in entries] == sorted([20, 40, max(1, 100 - COPY_BEFORE_SECONDS), 100])


def test_a_fault_that_took_longer_to_make_than_it_was_to_last_is_healed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that had to wait for another node's start once stayed until the end of the run."""
    done: list[str] = []
    healed = threading.Event()

    def make(_: Faults, step: Step) -> None:
        healed.wait(0.2)  # anyone who heals by the plan's time does it now
        done.append(f"made {step.number}")

    def heal(_: Faults, number: int) -> None:
        done.append(f"healed {number}")
        healed.set()

    monkeypatch.setattr(Faults, "make", make)
    monkeypatch.setattr(Faults, "heal", heal)
    Runner(Plan(17, 0, (), (Step(1, 0, -1, "partition", 0.5, 0.01),)))._play_faults()
    assert done == ["made 1", "healed 1"]
