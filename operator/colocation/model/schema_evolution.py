"""How a table's columns may change while files of it are there: pure, one rule for admission, loads and reads.

Files are read by column name, and a column that a file lacks reads as NULL. So a nullable column can be added; a column
can be renamed, if only to another case, when its files' name stays (``storedAs``), and its place in the list does not
matter. Everything else would change or hide rows that are there.
"""

import re
from collections.abc import Sequence

from .spark_types import canonical_type
from .table import Column


def refused_change(stored: Sequence[Column], wanted: Sequence[Column]) -> str | None:
    """Why files with the columns ``stored`` do not fit a table with the columns ``wanted``; None when they do.

    Both values are in the text, and what to do is not: that depends on who asks.
    """
    by_name = {column.stored_name.lower(): column for column in wanted}
    problems = []
    for column in stored:
        successor = by_name.pop(column.stored_name.lower(), None)
        if successor is None:
            problems.append(f"column {column.name} ({column.type}) exists and is no longer in the spec")
        elif _simple(successor.type) != _simple(column.type):
            problems.append(f"column {successor.name} has type {column.type} and should be {successor.type}")
        elif successor.stored_name != column.stored_name:
            problems.append(
                f"column {successor.name} is called {column.stored_name} in its files, and storedAs should say so"
            )
        elif column.nullable and not successor.nullable:
            problems.append(f"column {successor.name} may hold NULL and should not")
    problems.extend(
        f"column {column.name} ({column.type}) is new and would have to be nullable"
        for column in by_name.values()
        if not column.nullable
    )
    return "; ".join(problems) or None


_COMMENT = re.compile(r"\s+comment\s+'(?:[^'\\]|\\.)*'", re.IGNORECASE | re.DOTALL)
"""Of a field within a struct."""


def _simple(type_name: str) -> str:
    """What two names of one type have in common: files fit whatever people are told of their fields."""
    return "".join(_COMMENT.sub("", canonical_type(type_name)).lower().split())
