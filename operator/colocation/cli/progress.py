"""Shows an application on its way: one moving line on a terminal, else a line for each change. Always on stderr."""

import sys
from collections.abc import Iterable

import click

from ..submit.run import Progress

HINT_AFTER_SECONDS = 30.0


def follow(steps: Iterable[Progress]) -> None:
    """Consume the steps and show them."""
    if sys.stderr.isatty():
        _follow_on_terminal(steps)
    else:
        _follow_by_lines(steps)


def _follow_by_lines(steps: Iterable[Progress]) -> None:
    shown = None
    for step in steps:
        line = describe(step)
        if line != shown:
            click.echo(f"{line} ({step.elapsed_seconds:.0f} s)", err=True)
            shown = line


def _follow_on_terminal(steps: Iterable[Progress]) -> None:
    # Only a terminal needs it, and it is slow to import.
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("submitted") as line:
        for step in steps:
            line.update(f"{describe(step)} ({step.elapsed_seconds:.0f} s)")


def describe(step: Progress) -> str:
    """An application's state for people."""
    if not step.state:
        hint = ""
        if step.elapsed_seconds > HINT_AFTER_SECONDS:
            hint = "; does it run, and watch this namespace?"
        return f"{step.name}: waiting for {step.runner}{hint}"
    executors = ""
    if step.state.lower().startswith("running"):
        wanted = "" if step.executors_wanted is None else f" of {step.executors_wanted}"
        executors = f", {step.executors_running}{wanted} executors"
    return f"{step.name}: {step.state}{executors}"
