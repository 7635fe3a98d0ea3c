"""A statement's result as the pieces that travel to its reader, without holding all of it anywhere but on disk.

Few rows are collected, as ever. Of many, the executors make the pieces, all at once, and keep them on their disks; the
driver then takes one partition after the other.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark import RDD, StorageLevel
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType, TimestampType

from colocation.model.driver_output import packed, row_line

FEW_ROWS = 1000
"""A statement that Spark knows to have no more is collected: that is one job, or none."""
SMALL_BYTES = 16 << 20
"""Pieces of a result that is not larger are fetched by one job instead of one for each partition."""


def with_times_as_text(df: DataFrame) -> DataFrame:
    """The same rows with each TIMESTAMP, also within other values, as Spark writes it in the session's time zone.

    Python would write it in the zone of its process, which is another one on each machine.
    """
    fields = df.schema.fields
    types = [as_text(field.dataType) for field in fields]
    if all(field.dataType == text for field, text in zip(fields, types, strict=True)):
        return df
    places = [f"c{place}" for place in range(len(fields))]  # two columns may have one name
    columns = [
        (F.col(place) if field.dataType == text else F.col(place).cast(text)).alias(field.name)
        for place, field, text in zip(places, fields, types, strict=True)
    ]
    return df.toDF(*places).select(*columns)


def as_text(kind: DataType) -> DataType:
    """A type with STRING in place of each TIMESTAMP; TIMESTAMP_NTZ stays, it is the same in every zone."""
    if isinstance(kind, TimestampType):
        return StringType()
    if isinstance(kind, ArrayType):
        return ArrayType(as_text(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(as_text(kind.keyType), as_text(kind.valueType), kind.valueContainsNull)
    if isinstance(kind, StructType):
        return StructType([
            StructField(field.name, as_text(field.dataType), field.nullable, field.metadata) for field in kind.fields
        ])
    return kind


def pieces_of(df: DataFrame) -> Iterable[bytes]:
    """The rows of a query, which is run now: afterwards its plan is the one that was executed."""
    if has_few_rows(df):
        return [encode_row(row) for row in df.collect()]
    pieces = df.rdd.mapPartitions(encode_rows).persist(StorageLevel.DISK_ONLY)
    total_bytes = sum(pieces.map(len).mapPartitions(lambda sizes: [sum(sizes)]).collect())
    return pieces.collect() if total_bytes <= SMALL_BYTES else _one_after_the_other(pieces)


def _one_after_the_other(pieces: "RDD[bytes]") -> Iterator[bytes]:
    yield from pieces.toLocalIterator()


def has_few_rows(df: DataFrame) -> bool:
    """Whether the plan shows that there are few: a LIMIT, an aggregate over everything, a command's answer."""
    plan: Any = df._jdf
    most = plan.queryExecution().optimizedPlan().maxRows()
    return bool(most.isDefined() and most.get() <= FEW_ROWS) or bool(df.isLocal())


def encode_rows(rows: Iterable[Row]) -> Iterator[bytes]:
    """A partition's rows as pieces of about a chunk's size."""
    return packed(map(encode_row, rows))


def encode_row(row: Sequence[Any]) -> bytes:
    """A row as its line."""
    return row_line([to_json(cell) for cell in row])


def to_json(cell: Any) -> Any:
    """A value of Spark's as JSON has it: numbers, booleans, text and NULL as they are, lists and maps too.

    Decimals, dates and times become text, binary becomes hexadecimal digits, a struct the list of its fields, and what
    no number of JSON is, ``NaN`` or ``Infinity``.
    """
    if cell is None or isinstance(cell, bool | int | str):
        return cell
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(cell)]
    if isinstance(cell, bytes | bytearray):
        return bytes(cell).hex()
    if isinstance(cell, list | tuple):
        return [to_json(item) for item in cell]
    if isinstance(cell, dict):
        return {_key(key): to_json(value) for key, value in cell.items()}
    return str(cell)


def _key(key: Any) -> str:
    """A map's key; JSON's are texts."""
    text = to_json(key)
    return text if isinstance(text, str) else row_line([text]).decode().strip()[1:-1]

