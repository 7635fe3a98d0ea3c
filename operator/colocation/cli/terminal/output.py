"""One way out for every command: text for people, JSON and YAML for programs."""

import json
from collections.abc import Sequence
from typing import Any, Literal

import click
import yaml

from ...common.control_characters import in_lines, in_one_line

Format = Literal["text", "json", "yaml"]
BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def write(value: Any, text: str, output: Format) -> None:
    """Print ``value`` as JSON or YAML, or ``text``."""
    if output == "json":
        click.echo(json.dumps(value, indent=2))
    elif output == "yaml":
        click.echo(yaml.safe_dump(value, sort_keys=False), nl=False)
    else:
        tell(text)


def tell(text: str, *, err: bool = False) -> None:
    """Print lines for people. Much of their text was written by others: it does nothing to the terminal."""
    click.echo(in_lines(text), err=err)


def columns(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in columns, as kubectl prints it. None and the empty text are shown as ``-``."""
    cells = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[number]) for row in cells) for number in range(len(header))]
    lines = ["   ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return in_one_line(str(value))


def size(count: float | None) -> str:
    """Bytes for people: ``1.5 GiB``."""
    if count is None:
        return "-"
    value, unit = float(count), 0
    while round(value, 1) >= 1024 and unit < len(BYTE_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {BYTE_UNITS[unit]}" if unit else f"{count:.0f} B"
