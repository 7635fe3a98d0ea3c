"""Output that is renewed: one moving progress line on stderr, and a view under ``--watch``."""

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from ...common.control_characters import in_one_line
from ..errors import CommandFailed, may_pass, said_by
from .options import Decorator
from .output import Format, tell, write

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


INTERVAL_SECONDS = 2.0
TO_TOP_AND_CLEAR = "\x1b[H\x1b[2J"

watch_option: Decorator = click.option(
    "-w", "--watch", is_flag=True, help="Refresh every 2 s and show what changed, until Ctrl-C."
)


@dataclass(frozen=True)
class View:
    """What is there: for programs, for people, and what deserves a remark."""

    value: Any
    text: str
    matters: Sequence[str] = ()


def show_once_or_watch(
    look: Callable[[], View], watch: bool, output: Format, sleep: Callable[[float], None] | None = None
) -> None:
    """Print a view, or keep printing it.

    On a terminal each takes the place of the one before; elsewhere only changed ones are printed. What restarts in the
    cluster meanwhile is waited for; what is wrong from the start is raised.
    """
    if not watch:
        show(look(), output)
        return
    if output != "text":
        raise click.UsageError(f"--watch shows text, but --output is {output}; programs use `kubectl get --watch`")
    shown: View | str | None = None
    try:
        while True:
            seen = _look_again(look) if shown else look()
            if seen != shown and isinstance(seen, View):
                click.echo(TO_TOP_AND_CLEAR if sys.stdout.isatty() else "", nl=False)
                show(seen, output)
            elif seen != shown:
                warn([f"{seen}; asking again, until Ctrl-C"])
            shown = seen
            (sleep or time.sleep)(INTERVAL_SECONDS)
    except KeyboardInterrupt:
        return


def _look_again(look: Callable[[], View]) -> View | str:
    """A view, or why there is none while something restarts in the cluster."""
    try:
        return look()
    except (ApiException, HTTPError, CommandFailed) as error:
        if not may_pass(error):
            raise
        return said_by(error)


def show(view: View, output: Format) -> None:
    """Print a view: remarks stand below the text, and go to stderr where a program reads the rest."""
    remarks = ["", *view.matters] if view.matters else []
    write(view.value, "\n".join([view.text, *remarks]), output)
    if output != "text":
        warn(view.matters)


def warn(matters: Sequence[str]) -> None:
    """Remarks on stderr."""
    for matter in matters:
        tell(f"warning: {matter}", err=True)
