"""Rows on standard output as they come: a table, CSV or one JSON document. No more than a few are held."""

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from ...common.control_characters import in_one_line
from ...model.driver_output import ResultParser

RowsFormat = Literal["table", "json", "csv"]
Rows = Sequence[Sequence[Any]]

MEASURED_ROWS = 1000
"""So many rows, or all of the first chunk's, say how wide the columns of a table are; a longer cell stands out."""


def render(parser: ResultParser, chunks: Iterable[Rows], output: RowsFormat) -> Iterator[str]:
    """The text of a result, piece by piece. ``parser`` has read as far as ``chunks`` have come."""
    return RENDERERS[output](parser, chunks)


def _table(parser: ResultParser, chunks: Iterable[Rows]) -> Iterator[str]:
    rows = ([_cell(value) for value in row] for chunk in chunks for row in chunk)
    measured = list(itertools.islice(rows, MEASURED_ROWS))
    header = [_cell(name) for name in parser.columns or ()]
    if not header:
        return
    lines = [header, *measured]
    widths = [max(len(line[number]) for line in lines) for number in range(len(header))]
    for line in itertools.chain(lines, rows):
        yield "   ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() + "\n"


def _cell(value: Any) -> str:
    """NULL and the empty text are shown as ``-``."""
    return in_one_line(text_of(value)) or "-"


def _csv(parser: ResultParser, chunks: Iterable[Rows]) -> Iterator[str]:
    is_first = True
    for chunk in chunks:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if is_first and parser.columns:
            writer.writerow(parser.columns)
        is_first = False
        writer.writerows([text_of(value) for value in row] for row in chunk)
        yield text.getvalue()


def _json(parser: ResultParser, chunks: Iterable[Rows]) -> Iterator[str]:
    comma = ""
    for number, chunk in enumerate(chunks):
        if number == 0:
            yield f'{{\n  "columns": {json.dumps(parser.columns)},\n  "rows": ['
        for row in chunk:
            yield f"{comma}\n    {json.dumps(row)}"
            comma = ","
    yield "\n  ]" if comma else "]"
    for key, value in (parser.summary or {}).items():
        text = json.dumps(value, indent=2).replace("\n", "\n  ")
        yield f",\n  {json.dumps(key)}: {text}"
    yield "\n}\n"


RENDERERS: Mapping[str, Callable[[ResultParser, Iterable[Rows]], Iterator[str]]] = {
    "table": _table, "csv": _csv, "json": _json,
}  # fmt: skip


def text_of(value: Any) -> str:
    """A cell as text; NULL is empty; lists and maps are JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
