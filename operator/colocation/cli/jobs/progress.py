"""Shows an application on its way: one moving line on a terminal, else a line for each change. Always on stderr."""

from collections.abc import Iterable

from ...submit.run import Progress, find_error
from ..terminal.moving_line import bar, moving_line
from ..terminal.output import counted, size

HINT_AFTER_SECONDS = 30.0
MAX_ERROR_CHARACTERS = 300


def follow(steps: Iterable[Progress]) -> Progress | None:
    """Consume the steps and show them. Returns the last one; None when there was none."""
    rate, last = Rate(), None
    with moving_line() as say:
        for step in steps:
            say(describe(step), f"{amounts(step, rate)} ({step.elapsed_seconds:.0f} s)")
            last = step
    return last


class Rate:
    """Bytes a second since the first of them were seen."""

    def __init__(self) -> None:
        self._first: tuple[str, int, float] | None = None

    def of(self, phase: str, count: int, now_seconds: float) -> float | None:
        """``count`` bytes so far in a phase; None while there is nothing to compare with."""
        if self._first is None or self._first[0] != phase:
            self._first = (phase, count, now_seconds)
        _, before, since = self._first
        return (count - before) / (now_seconds - since) if now_seconds > since and count > before else None


def describe(step: Progress) -> str:
    """An application's state for people."""
    if not step.state:
        hint = ""
        if step.elapsed_seconds > HINT_AFTER_SECONDS:
            hint = "; does it run, and watch this namespace?"
        return f"{step.name}: waiting for {step.runner}{hint}"
    executors = ""
    if step.state.lower().startswith("running"):
        wanted, running = step.executors_wanted, step.executors_running
        of_them = counted(running, "executor") if wanted is None else f"{running} of {counted(wanted, 'executor')}"
        executors = f", {of_them}"
    write = f", {step.write.phase} {bar(step.write.share)}" if step.write else ""
    return f"{step.name}: {step.state}{executors}{write}{_trouble(step)}"


def _trouble(step: Progress) -> str:
    """Why an attempt failed, after which another one may follow; of spark-submit's whole output the exception."""
    error = " ".join((find_error(step.error) or step.error).split())
    return f": {error[:MAX_ERROR_CHARACTERS]}" if error else ""


def amounts(step: Progress, rate: Rate) -> str:
    """What stands beside a write's bar: tasks or rows, bytes and their rate."""
    write = step.write
    if write is None:
        return ""
    speed = rate.of(write.phase, write.bytes, step.elapsed_seconds)
    per_second = f", {size(speed)}/s" if speed else ""
    if write.phase == "reading":
        return f" {write.tasks_done} of {write.tasks} tasks, {size(write.bytes)} read{per_second}"
    return f" {write.rows_done:,} of {write.rows:,} rows, {size(write.bytes)} written{per_second}"
