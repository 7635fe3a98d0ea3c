"""How the runner holds a fault."""

import time
from pathlib import Path

import pytest

from . import report, runner
from .failing import do_nothing
from .plan import Step, make_plan
from .runner import Runner

STEP = Step(7, 0.0, -1, "node-killed", 0.5)


class Stubborn:
    """Faults of which one is healed when it was tried so often."""

    def __init__(self, needed: int) -> None:
        self.left, self.done = needed, list[str]()

    def make(self, step: Step) -> None:
        self.done.append(f"make {step.number}")

    def heal(self, number: int) -> bool:
        self.done.append(f"heal {number}")
        self.left -= 1
        return self.left <= 0


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Runner:
    """A run of a minute that has just begun."""
    monkeypatch.setattr(report, "FOLDER", tmp_path)
    monkeypatch.setattr(runner, "HEAL_PAUSE_SECONDS", 0.0)
    running = Runner(make_plan(1, 1.0, ["none"]))
    running._began_at = time.monotonic()
    return running


@pytest.mark.parametrize(
    ("needed", "seconds_ago", "is_stopped", "expected"),
    [
        pytest.param(1, 0, False, 1, id="healed at once"),
        pytest.param(3, 0, False, 3, id="two heals gave up, as the API server was away for long"),
        pytest.param(3, 100, False, 1, id="the run ends: all that is left is healed then"),
        pytest.param(3, 0, True, 1, id="the run was stopped"),
    ],
)
def test_fault_is_healed_until_it_is_or_the_run_ends(
    needed: int, seconds_ago: int, is_stopped: bool, expected: int, running: Runner
) -> None:
    """Else a node would stay dead for the rest of the run."""
    faults = running._faults = Stubborn(needed)  # type: ignore[assignment]
    running._began_at -= seconds_ago
    if is_stopped:
        running._stop.set()
    running._hold(STEP)
    assert faults.done == ["make 7", *["heal 7"] * expected]


def test_all_is_well_once_dropped_tables_are_back(running: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """No one could say of one that is not whether its rows are lost."""
    looks = iter([["t"], ["t"], *[list[str]()] * runner.WELL_LOOKS])
    monkeypatch.setattr(runner.time, "sleep", do_nothing)
    monkeypatch.setattr(running, "_heal_all", do_nothing)
    monkeypatch.setattr(running._work, "undo", do_nothing)
    monkeypatch.setattr(running._work, "to_bring_back", lambda: next(looks))
    monkeypatch.setattr(running._watch, "problems", list)
    running._finish()
    seen = [(event.name, event.detail) for event in running.history.events]
    assert seen == [("healed", {}), ("unwell", {"why": ["table t is dropped"]}), ("well", {})]
