"""The Spark job that makes a table's files of rows: hash, sort, write, send."""

import secrets
from typing import TYPE_CHECKING

from ..catalog import TableObject
from ..quoting import quote
from .bucket_files import BUCKET_COLUMN, PARTITION_COLUMN_PREFIX, STORED_COLUMN_PREFIX, FileLayout
from .upload import OUTCOME_COLUMN, Destination, Outcome, SentFile, sender

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField


def write_and_send(rows: "DataFrame", table: TableObject, destination: Destination) -> list[SentFile]:
    """Write rows as one sorted file per bucket and partition, and send each to all nodes of its bucket.

    Rows are sorted by the table's sort columns as Spark sorts: ascending, NULL first, -0.0 equal to 0.0, NaN last.

    Args:
        rows: with the table's columns under their stored names.
        table: for the layout.
        destination: whose number of buckets counts.

    Raises:
        SchemaMismatch: NULL in a column that does not allow it.
        ReplicasMissing: fewer than a majority of a bucket's nodes took its files.
    """
    from pyspark.sql import functions as F  # noqa: N812

    spec, buckets = table.spec, len(destination.buckets)
    layout = _layout(table, buckets, rows.sparkSession.version)
    # Names of our own, whatever the table's are: mapInArrow takes no dots, and nothing can be named twice.
    stored = {name: f"{STORED_COLUMN_PREFIX}{index}" for index, name in enumerate(layout.stored_columns)}
    values = {name: f"{PARTITION_COLUMN_PREFIX}{index}" for index, name in enumerate(layout.partition_columns)}
    named = rows.select(
        *(F.col(quote(name)).alias(alias) for name, alias in stored.items()),
        *(_partition_value(rows.schema[name]).alias(alias) for name, alias in values.items()),
    )
    keys = [stored[spec.column(name).stored_name] for name in spec.bucketed_by]
    # A partition column has one value in a file.
    order = [stored[name] for name in (spec.column(name).stored_name for name in spec.sort_columns) if name in stored]
    clustered = (
        named.repartition(buckets, *keys)
        .withColumn(BUCKET_COLUMN, F.pmod(F.hash(*keys), F.lit(buckets)))
        .sortWithinPartitions(BUCKET_COLUMN, *values.values(), *order)
    )
    outcomes = clustered.mapInArrow(sender(destination, layout), f"{OUTCOME_COLUMN} string").collect()
    return [Outcome.model_validate_json(row[OUTCOME_COLUMN]).sent_file() for row in outcomes]


def _partition_value(field: "StructField") -> "Column":
    """A partition column's value as its folder's name says it; empty text is NULL.

    A timestamp is said in UTC: Spark reads a text without a zone in the reader's own, which may not be the loader's.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import TimestampType

    if isinstance(field.dataType, TimestampType):
        # Arithmetic without zones; a conversion would meet hours that the session's zone has not, or twice.
        seconds = f"CAST(CAST(UNIX_MICROS({quote(field.name)}) AS DECIMAL(20, 0)) / 1000000 AS DECIMAL(18, 6))"
        return F.expr(f"CONCAT(TIMESTAMP_NTZ '1970-01-01 00:00:00' + MAKE_DT_INTERVAL(0, 0, 0, {seconds}), 'Z')")
    return F.nullif(F.col(quote(field.name)).cast("string"), F.lit(""))


def _layout(table: TableObject, buckets: int, spark_version: str) -> FileLayout:
    spec = table.spec
    partitions = spec.partition_columns
    return FileLayout(
        load_id=secrets.token_hex(4),
        buckets=buckets,
        stored_columns=tuple(column.stored_name for column in spec.columns if column.stored_name not in partitions),
        partition_columns=partitions,
        required_columns=tuple(column.stored_name for column in spec.columns if not column.nullable),
        spark_version=spark_version,
    )
