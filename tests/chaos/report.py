"""``build/chaos/report.json``, and what a failed run says."""

import json
from pathlib import Path
from typing import Any

from demo.shell import REPOSITORY

from .checker import Verdict, timeline
from .history import INVOKE, Event
from .plan import Plan

FOLDER = REPOSITORY / "build" / "chaos"
LONGEST_TIMELINE = 60


def history_path(plan: Plan) -> Path:
    """Where a run's history goes."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    return FOLDER / f"history-{plan.seed}.jsonl"


def figures(plan: Plan, events: list[Event], verdict: Verdict) -> dict[str, Any]:
    """The report's fields."""
    made: dict[str, int] = {}
    for event in events:
        if event.process == "faults" and event.kind == "ok" and event.name not in ("heal", "save-etcd"):
            made[event.name] = made.get(event.name, 0) + 1
    return {
        "seed": plan.seed,
        "minutes": plan.minutes,
        "steps": sum(event.process == "work" and event.kind == INVOKE for event in events),
        "faults": made,
        "queries": verdict.queries,
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
        f"fewer faults: make chaos SHRINK={plan.seed} MINUTES={plan.minutes:g}",
    ])  # fmt: skip
