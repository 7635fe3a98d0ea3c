"""One line on stderr that says how far something is: it moves on a terminal; elsewhere each change is a line."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from ...common.control_characters import in_one_line

CLEAR_LINE = "\r\x1b[K"
BAR_WIDTH = 20

Say = Callable[[str, str], None]
"""Shows a line and a detail. The detail alone is no change: an elapsed time, for example."""


@contextmanager
def moving_line() -> Iterator[Say]:
    """Show lines while the body runs; the last one stays."""
    shown: str | None = None
    on_terminal = sys.stderr.isatty()

    def say(line: str, detail: str) -> None:
        nonlocal shown
        whole = in_one_line(f"{line}{detail}")
        if on_terminal:
            # A line that wraps could not be cleared.
            click.echo(f"{CLEAR_LINE}{whole[: shutil.get_terminal_size().columns - 1]}", err=True, nl=False)
        elif line != shown:
            click.echo(whole, err=True)
        shown = line

    try:
        yield say
    finally:
        if on_terminal and shown is not None:
            click.echo(err=True)


def bar(share: float) -> str:
    """``[##########..........]`` for a half."""
    done = max(0, min(BAR_WIDTH, int(share * BAR_WIDTH)))
    return f"[{'#' * done}{'.' * (BAR_WIDTH - done)}]"
