"""Columns that a table has as text are read as the files have them: of ``007`` Spark would make the number 7."""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import StringType, StructField, StructType

from colocation.spark.write.partition_path import unescape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TEXT_TYPES = ("string", "varchar", "char")


def text_columns(spark: "SparkSession", table: str) -> frozenset[str]:
    """The columns of a table that hold text, in lower case. ``table``: its name in SQL.

    Raises:
        AnalysisException: there is no such table.
    """
    columns = spark.catalog.listColumns(table)
    return frozenset(column.name.lower() for column in columns if column.dataType.lower().startswith(TEXT_TYPES))


def kept_as_text(
    rows: "DataFrame", texts: Collection[str], guesses_all: bool, read_as: Callable[[StructType], "DataFrame"]
) -> "DataFrame":
    """The rows, read again where Spark has guessed another type for a text.

    Args:
        rows: as Spark reads them by itself.
        texts: columns that are text in the table, in lower case.
        guesses_all: whether types of all columns were taken from their values, as in CSV; else those of partition
            columns are, which only folders name.
        read_as: reads them with a schema.
    """
    fields: list[StructField] = rows.schema.fields
    guessed = {one.name for one in fields if one.name.lower() in texts and not isinstance(one.dataType, StringType)}
    if guessed and not guesses_all:
        of_folders = folder_columns(rows.inputFiles())
        guessed = {name for name in guessed if name.lower() in of_folders}
    if not guessed:
        return rows
    return read_as(StructType(
        [StructField(one.name, StringType()) if one.name in guessed else one for one in fields]
    ))  # fmt: skip


def folder_columns(files: Sequence[str]) -> frozenset[str]:
    """The partition columns that the folders of files name, in lower case: those of the first one."""
    folders = files[0].split("/")[:-1] if files else ()
    return frozenset(unescape(name).lower() for name, sign, _ in (part.partition("=") for part in folders) if sign)
