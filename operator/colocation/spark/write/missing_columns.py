"""Columns of the table that rows do not have: Spark 4.1 and later would make them NULL without a word."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..quoting import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NULLS = "spark.sql.defaultColumn.useNullsForMissingDefaultValues"
"""Whether Spark makes NULL of columns that a write leaves out."""


class MissingColumns(ValueError):
    """Rows lack columns of the table; nothing was written.

    Attributes:
        columns: the table's names of those, in its order.
    """

    def __init__(self, columns: Sequence[str], given: Sequence[str], table: str) -> None:
        self.columns = tuple(columns)
        nulls = ", ".join(f'"{null_of(column)}"' for column in columns)
        super().__init__(
            f"table {table}: the rows have the columns {', '.join(given)}, and not {', '.join(columns)}; "
            f'give all of the table\'s, for NULL by df.selectExpr("*", {nulls})'
        )


@contextmanager
def refused(df: "DataFrame", columns: Iterable[str], table: str) -> Iterator[None]:
    """While the body writes ``df``: refuse it if it lacks columns of the table; names are compared without case.

    Args:
        df: the rows.
        columns: the table's as its readers see them. A definition that files do not fit yet may have fewer, so Spark,
            which knows what is written, decides whether those that ``df`` lacks are missing.
        table: its name in SQL.

    Raises:
        MissingColumns: some are missing; nothing was written.
    """
    from pyspark.errors import AnalysisException

    known = {name.lower() for name in df.columns}
    missing = [name for name in columns if name.lower() not in known]
    if not missing:
        yield
        return
    try:
        with _without_defaults(df.sparkSession):
            yield
    except AnalysisException as error:
        if not (error.getCondition() or "").endswith(".CANNOT_FIND_DATA"):
            raise
        raise MissingColumns(missing, df.columns, table) from None


@contextmanager
def _without_defaults(spark: "SparkSession") -> Iterator[None]:
    before = spark.conf.get(NULLS, None)
    spark.conf.set(NULLS, "false")
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(NULLS)
        else:
            spark.conf.set(NULLS, before)


def null_of(column: str) -> str:
    """An expression of Spark SQL: NULL under this name, which is quoted only if it has to be."""
    return f"NULL AS {column if column.isascii() and column.isidentifier() else quote(column)}"
