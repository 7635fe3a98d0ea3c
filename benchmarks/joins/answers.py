"""Answers of two engines compared. Pure."""

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

RELATIVE, ABSOLUTE = 1e-6, 1e-6
"""How far numbers may differ: an average of decimals is a decimal of six places in Spark, and a double in DuckDB."""

Row = Mapping[str, Any]


class WrongAnswer(Exception):
    """Two variants of a workload disagree."""


def are_equal(rows: Iterable[Row], others: Iterable[Row]) -> bool:
    """Whether they have the same values, column by column, in any order of rows."""
    ours, theirs = (sorted(map(_split, some)) for some in (rows, others))
    return len(ours) == len(theirs) and all(
        texts == other_texts and len(numbers) == len(other_numbers) and all(map(_is_close, numbers, other_numbers))
        for (texts, numbers), (other_texts, other_numbers) in zip(ours, theirs, strict=True)
    )


def _split(row: Row) -> tuple[list[str], list[float]]:
    """A row's texts, among them where its numbers are, and its numbers: sorted by texts first."""
    values = list(row.values())
    return ["#" if _is_number(value) else str(value) for value in values], [
        float(value) for value in values if _is_number(value)
    ]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _is_close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
