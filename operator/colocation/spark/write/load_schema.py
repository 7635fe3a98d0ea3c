"""A DataFrame's columns against a table's: refused before anything is written. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from colocation.model.conditions import Reason
from colocation.model.spark_types import canonical_type


class SchemaMismatch(Exception):
    """The rows do not fit the table; names every difference with what was given and what is expected."""

    reason = Reason.SCHEMA_MISMATCH


UNSTORABLE_TYPES = frozenset({"interval", "void"})
"""Types of Spark SQL that a column may have and a Parquet file may not."""


@dataclass(frozen=True)
class Field:
    """A column by name and by Spark's simple type string, e.g. ``array<bigint>``."""

    name: str
    type: str


def matched_names(table: str, expected: Sequence[Field], given: Sequence[Field]) -> list[str]:
    """The given column for each expected one, in the table's order; names are compared without case, as Spark does.

    Types must be equal: a cast that nobody asked for could change values without a word.

    Raises:
        SchemaMismatch: with all differences at once.
    """
    problems = []
    by_name: dict[str, Field] = {}
    for field in given:
        if field.name.lower() in by_name:
            problems.append(f"column {field.name} is given twice")
        by_name[field.name.lower()] = field
    wanted = {field.name.lower() for field in expected}
    for field in expected:
        if field.type in UNSTORABLE_TYPES:
            problems.append(f"column {field.name} is {field.type}, which Parquet files cannot hold: remove it")
            continue
        actual = by_name.get(field.name.lower())
        if actual is None:
            problems.append(f"column {field.name} ({field.type}) is missing")
        elif actual.type.lower() != field.type.lower():
            problems.append(f"column {field.name} is {actual.type}, expected {field.type}: cast it")
    problems.extend(
        f"column {field.name} ({field.type}) is not in the table" for field in given if field.name.lower() not in wanted
    )
    if problems:
        raise SchemaMismatch(
            f"rows do not fit table {table}: {'; '.join(problems)}. Expected: "
            + ", ".join(f"{field.name} {field.type}" for field in expected)
        )
    return [by_name[field.name.lower()].name for field in expected]


def spark_type(name: str) -> str:
    """varchar(n) and char(n) are read as string: Spark would pad char(n) in each query, which hides the bucket key."""
    canonical = canonical_type(name)
    return canonical if canonical == "string" else name
