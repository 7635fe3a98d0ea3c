"""Judges a history: what must hold, whatever the faults. See CONTRIBUTING.md."""

from collections.abc import Sequence
from dataclasses import dataclass

from .history import INVOKE, Event
from .judge_end import LAST_WORDS, NAMES, EndJudge, ProgressJudge
from .judge_rows import QUERY, TRESPASS, RowsJudge
from .judge_state import DRAINED, ErrorsJudge, LimitsJudge, StabilityJudge
from .violations import FaultsInForce, Violation


@dataclass(frozen=True)
class Verdict:
    """What the checker reports of a run; ``violations`` in the order of time. ``queries``: answers that were checked;
    ``unchecked``: those that could not be.
    """

    violations: tuple[Violation, ...]
    queries: int
    unchecked: int
    false_stable_seconds: float
    errors_allowed: dict[str, int]
    leftovers: tuple[str, ...]

    def count(self, *checks: str) -> int:
        """How many violations of these checks there are."""
        return sum(one.check in checks for one in self.violations)


def judge(events: Sequence[Event], is_whole: bool = True) -> Verdict:
    """The verdict on a history. ``is_whole``: False = of a run that still goes on: its end is not judged."""
    faults = FaultsInForce()
    rows, limits, progress, end = RowsJudge(), LimitsJudge(), ProgressJudge(), EndJudge()
    errors, stability = ErrorsJudge(faults), StabilityJudge(faults)
    for event in events:
        if event.process == "faults":
            faults.take(event)
            end.take_heal(event)
        if ended := rows.take(event):
            errors.take(ended)
            progress.take(ended)
            if event.name in (QUERY, TRESPASS):
                limits.take_query(ended)
            if event.name == QUERY:
                end.take_query(ended)
        if event.name == "groups":
            stability.take(event)
        elif event.name == "clones":
            limits.take_clones(event)
        elif event.name == "memory":
            limits.take_memory(event)
        elif event.name == DRAINED:
            limits.take_drain(event)
        elif event.name in NAMES:
            errors.all_is_well = errors.all_is_well or event.name == LAST_WORDS
            end.take(event)
    if is_whole and events:
        progress.finish(events[-1].at_seconds)
        end.finish(events[-1].at_seconds)
    found = [one for part in (rows, errors, stability, limits, progress, end) for one in part.violations]
    return Verdict(
        tuple(sorted(found, key=lambda one: one.at_seconds)), rows.queries, rows.unchecked,
        round(stability.false_stable_seconds, 1), dict(errors.allowed), tuple(end.leftovers),
    )  # fmt: skip


def timeline(events: Sequence[Event], violation: Violation) -> list[str]:
    """What led to a violation, as short as it gets: faults, what was done to its tables, and the violation itself."""
    tables = {event.number: event.detail.get("table") for event in events if event.kind == INVOKE}

    def concerns(event: Event) -> bool:
        if event.process == "faults" or (event.number and event.number == violation.number):
            return True
        return event.process == "work" and tables.get(event.number) in violation.about

    chosen = [event for event in events if event.at_seconds <= violation.at_seconds and concerns(event)]
    return [*(str(event)[:400] for event in chosen), str(violation)]
