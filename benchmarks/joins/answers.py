"""Answers of two engines made comparable. Pure."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

DIGITS, PLACES = 6, 4
"""Of numbers: an average of decimals is a decimal of six places in Spark, and a double in DuckDB."""


def as_texts(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Each row's values in the order of the statement, numbers rounded; sorted."""
    return sorted(tuple(_text(value) for value in row.values()) for row in rows)


def _text(value: object) -> str:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return f"{round(float(value), PLACES):.{DIGITS}g}"
    return str(value)
