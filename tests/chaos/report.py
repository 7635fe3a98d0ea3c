"""``build/chaos/report.json``, and what a failed run reports."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from demo.shell import REPOSITORY

from .checker import Verdict, timeline
from .fault_kinds import BY_NAME
from .history import FAIL, INVOKE, OK, Event
from .plan import Plan

FOLDER = REPOSITORY / "build" / "chaos"
LONGEST_TIMELINE = 60
LESS = ("half made", "killed only", "none of")
"""What ``faults`` reports of one of which not all was done."""


def history_path(plan: Plan) -> Path:
    """Where a run's history goes; with fewer faults than its seed has, next to that of all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    only = f"-only-{hashlib.sha256(plan.command.encode()).hexdigest()[:8]}" if plan.is_shrunk else ""
    return FOLDER / f"history-{plan.seed}{only}.jsonl"


def faults_not_made(events: list[Event]) -> dict[str, list[str]]:
    """Why a fault could not be made, each time: ``{name: [why]}``. One that never is would prove nothing."""
    whys: dict[str, list[str]] = {}
    for event in _of_faults(events, FAIL):
        whys.setdefault(event.name, []).append(str(event.detail["why"]))
    return whys


def _made(events: list[Event]) -> dict[str, int]:
    return dict(Counter(_how(event) for event in _of_faults(events, OK)))


def _how(event: Event) -> str:
    """A fault's name, and in what it was less than that."""
    less = next((words for words in LESS if words in str(event.detail.get("what", ""))), "")
    return f"{event.name} ({less})" if less else event.name


def _of_faults(events: list[Event], kind: str) -> Iterator[Event]:
    return (event for event in events if event.process == "faults" and event.kind == kind and event.name in BY_NAME)


def summary(events: list[Event]) -> str:
    """Which faults a run made how often, and which it could not make, and why."""
    made = ", ".join(f"{name} {times}" for name, times in sorted(_made(events).items())) or "none"
    not_made = [f"not made: {name} ({why[:200]})" for name, whys in faults_not_made(events).items() for why in whys]
    return "\n".join([f"faults made: {made}", *not_made])


def figures(plan: Plan, events: list[Event], verdict: Verdict) -> dict[str, Any]:
    """The report's fields."""
    return {
        "seed": plan.seed,
        "minutes": plan.minutes,
        "steps": sum(event.process == "work" and event.kind == INVOKE for event in events),
        "faults": _made(events),
        "faults_not_made": faults_not_made(events),
        "queries": verdict.queries,
        "unchecked_answers": verdict.unchecked,
        "wrong_answers": verdict.count("WrongAnswer", "RowsFromNowhere", "FailedWriteHappened", "ForeignFiles"),
        "lost_rows": verdict.count("RowsLost"),
        "false_stable_seconds": verdict.false_stable_seconds,
        "errors_allowed": verdict.errors_allowed,
        "errors_not_allowed": verdict.count("ErrorNotAllowed"),
        "leftovers": list(verdict.leftovers),
        "violations": [str(one)[:2000] for one in verdict.violations],
        "replay": plan.command,
    }


def write(plan: Plan, events: list[Event], verdict: Verdict) -> Path:
    """Write the report whole or not at all."""
    path = FOLDER / "report.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(figures(plan, events, verdict), indent=2) + "\n")
    partial.rename(path)
    return path


def failure(plan: Plan, events: list[Event], verdict: Verdict, logs: Path) -> str:
    """Seed, shortest timeline, where to look, what to run."""
    first = verdict.violations[0]
    lines = timeline(events, first)[-LONGEST_TIMELINE:]
    others = [f"also: {str(one)[:300]}" for one in verdict.violations[1:6]]
    return "\n".join([
        f"SEED={plan.seed} failed: {len(verdict.violations)} violations", *lines, *others,
        f"history: {history_path(plan)}", f"logs: {logs}", f"replay: {plan.command}",
        f"fewer faults: {plan.shrinking}",
    ])  # fmt: skip
