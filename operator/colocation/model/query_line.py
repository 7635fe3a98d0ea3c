"""A query that has ended, as a line of a driver's log: Java's ``QueryLine`` writes it, ``colocation ui`` reads it."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, ValidationError

from .base import Observed, parse_time

QUERY_MARK = "COLOCATION_QUERY "
MOST_ENTRIES = 20
MOST_CHARACTERS = 500
Text = Annotated[str, Field(max_length=MOST_CHARACTERS)]


class QueryVerdict(Observed):
    """On one join, group-by or window, in the words of ``explain``."""

    colocate: bool
    text: Text


class QueryLine(Observed):
    """A query that read colocated tables.

    ``execution``: its number in the SQL tab of Spark's web UI. ``verdicts``: on its joins, group-bys and windows.
    """

    execution: Annotated[int, Field(ge=0)]
    ended_at: Annotated[str, Field(max_length=40)]
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    tables: Annotated[tuple[Text, ...], Field(max_length=MOST_ENTRIES)]
    verdicts: Annotated[tuple[QueryVerdict, ...], Field(max_length=MOST_ENTRIES)]


def parse_query_line(line: str) -> QueryLine | None:
    """The query that a line of a log tells; None where it tells none, or nothing that this release understands."""
    _, mark, text = line.partition(QUERY_MARK)
    if not mark:
        return None
    try:
        found = QueryLine.model_validate_json(text)
    except ValidationError:
        return None
    return found if parse_time(found.ended_at) else None


def find_queries(log: str) -> Iterator[QueryLine]:
    """The queries that a driver's log tells, in its order."""
    return (found for line in log.splitlines() if (found := parse_query_line(line)))
