"""``compact``, ``drop_partitions`` and ``roll_back``, procedures of the session's catalog; partitions by name."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ..configuration import CATALOG, SessionSettings, literal, qualified

PartitionValue = str | int | float | bool | Decimal | datetime.date | None
"""A value as a program gives it, a ``datetime`` too; a text is what Spark's ``CAST … AS STRING`` makes of the value."""


def partition_text(value: PartitionValue) -> str:
    """A value as text that Spark casts back to it; empty text is NULL.

    A time with an offset keeps it (``2024-01-01 00:00:00Z`` in UTC); one without is of the session's time zone.

    Raises:
        ValueError: a value of another type.
    """
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case datetime.datetime():
            return _time_text(value)
        case Decimal():
            return format(value, "f")
        case str() | int() | float() | datetime.date():
            return str(value)
    raise ValueError(
        f"partition value {value!r} is of type {type(value).__name__}; allowed are str, int, float, bool, "
        "decimal.Decimal, datetime.date, datetime.datetime and None; give another one as the text that Spark's "
        "CAST(… AS STRING) makes of it"
    )


def _time_text(time: datetime.datetime) -> str:
    """As Spark writes it: no more digits of the second than it has, and Z for an offset of nothing."""
    text = time.replace(tzinfo=None, microsecond=0).isoformat(sep=" ")
    fraction = f".{time.microsecond:06}".rstrip("0").rstrip(".")
    offset = time.utcoffset()
    zone = "" if offset is None else "Z" if not offset else time.isoformat(timespec="seconds")[len(text):]
    return text + fraction + zone


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Partitions = Sequence[Mapping[str, PartitionValue]]


@dataclass(frozen=True)
class CompactionResult:
    """What a compaction committed; all zero but ``snapshot_id`` when there was nothing to do.

    Attributes:
        partitions: of which files were rewritten.
        files_before: files that were merged.
        files_after: what they became.
        rows: in those files.
        bytes: of the new files, one replica.
        snapshot_id: the table's newest snapshot; 0 = it holds no rows yet.
        replicas_missing: copies of new files that the operator has yet to make.
    """

    partitions: int
    files_before: int
    files_after: int
    rows: int
    bytes: int
    snapshot_id: int
    replicas_missing: int


@dataclass(frozen=True)
class DropResult:
    """What was dropped; all zero but ``snapshot_id`` when no partition was there.

    Attributes:
        partitions: that were dropped.
        files: of those, each counted once.
        rows: in those files.
        snapshot_id: the table's newest snapshot; 0 = it holds no rows yet.
    """

    partitions: int
    files: int
    rows: int
    snapshot_id: int


@dataclass(frozen=True)
class RollBackResult:
    """What the table holds again.

    Attributes:
        rows: of the table now.
        snapshot_id: the table's newest snapshot; the one that was asked for when it was the newest already.
    """

    rows: int
    snapshot_id: int


@dataclass(frozen=True)
class RebucketResult:
    """What a rebucketing committed; no files when the table had the number already.

    Attributes:
        buckets_before: of the table.
        buckets: of the table now.
        files_before: that were read.
        files_after: new files.
        rows: in those files.
        bytes: of the new files, one replica.
        snapshot_id: the table's newest snapshot.
        replicas_missing: copies of new files that the operator has yet to make.
    """

    buckets_before: int
    buckets: int
    files_before: int
    files_after: int
    rows: int
    bytes: int
    snapshot_id: int
    replicas_missing: int


def compact(
    spark: "SparkSession",
    table: str,
    namespace: str | None = None,
    partitions: Partitions = (),
    catalog: str = CATALOG,
) -> CompactionResult:
    """Merge the files of each bucket and partition that has more than one. Readers see the same rows all the time.

    Loads may go on meanwhile: an append stays in addition to the merged files; after an overwrite of what was read the
    compaction fails.

    Args:
        spark: a session with ``spark_conf()``'s configuration.
        table: the ColocatedTable's name.
        namespace: default: ``spark.colocation.namespace``.
        partitions: e.g. ``[{"dt": "2024-01-01"}]``; may name some of the partition columns; default: all partitions.
        catalog: the session's ColocationCatalog.

    Raises:
        PySparkException: as for ``load``; a column that is no partition column; files that hold other
            rows than in the manifest (``RowsDiffer``): nothing was changed.
    """
    return CompactionResult(**_call(spark, catalog, "compact", table, namespace, _partitions(partitions)))


def drop_partitions(
    spark: "SparkSession",
    table: str,
    partitions: Partitions,
    namespace: str | None = None,
    catalog: str = CATALOG,
) -> DropResult:
    """Drop partitions with all their rows. A partition that is not there is no error, so it can be repeated.

    Rows that are loaded into such a partition before the commit go too, as with SQL's DROP PARTITION. Older snapshots
    keep the rows for the table's ``retention``.

    Args:
        spark: a session with ``spark_conf()``'s configuration.
        table: the ColocatedTable's name.
        partitions: e.g. ``[{"dt": "2024-01-01"}]``; one that names some of the partition columns only drops every
            partition with these values.
        namespace: default: ``spark.colocation.namespace``.
        catalog: the session's ColocationCatalog.

    Raises:
        ValueError: no partition is given.
        PySparkException: as for ``load``; a column that is no partition column.
    """
    if not partitions:
        raise ValueError("no partition is given; to drop all rows, load none with mode overwrite")
    return DropResult(**_call(spark, catalog, "drop_partitions", table, namespace, _partitions(partitions)))


def rebucket(
    spark: "SparkSession", table: str, buckets: int, namespace: str | None = None, catalog: str = CATALOG
) -> RebucketResult:
    """Write all rows of a table again for another number of buckets. Readers see the same rows all the time.

    It is one commit, and can be repeated: when the table has the number already, nothing is written. Rows that are
    committed meanwhile make it begin again, three times at most.

    Args:
        spark: a session with ``spark_conf()``'s configuration.
        table: the ColocatedTable's name.
        buckets: the number of its group, or a multiple of it.
        namespace: default: ``spark.colocation.namespace``.
        catalog: the session's ColocationCatalog.

    Raises:
        PySparkException: as for ``load``; the number is no multiple of the group's; rows were committed meanwhile each
            time (``LoadConflict``): nothing was changed.
    """
    return RebucketResult(**_call(spark, catalog, "rebucket", table, namespace, f"buckets => {int(buckets)}"))


def roll_back(
    spark: "SparkSession", table: str, snapshot_id: int, namespace: str | None = None, catalog: str = CATALOG
) -> RollBackResult:
    """Make an older snapshot's rows the table's again, by a new commit that writes no rows.

    The rows that it replaces stay readable for the table's ``retention``, so a roll back can be rolled back.
    Columns stay as the table has them now.

    Args:
        spark: a session with ``spark_conf()``'s configuration.
        table: the ColocatedTable's name.
        snapshot_id: one that the table keeps: ``SELECT * FROM colocation.<namespace>.<table>.snapshots``.
        namespace: default: ``spark.colocation.namespace``.
        catalog: the session's ColocationCatalog.

    Raises:
        PySparkException: the table keeps no such snapshot, its files are not laid out as the table is,
            or something was committed meanwhile (``LoadConflict``): nothing was changed.
    """
    return RollBackResult(**_call(spark, catalog, "roll_back", table, namespace, f"snapshot_id => {int(snapshot_id)}L"))


def _call(
    spark: "SparkSession", catalog: str, procedure: str, table: str, namespace: str | None, *arguments: str
) -> dict[str, Any]:
    name = qualified(SessionSettings.of(spark).namespace_or(namespace), table)
    given = ", ".join([f"table => {literal(name)}", *filter(None, arguments)])
    row = spark.sql(f"CALL {qualified(catalog, 'system', procedure)}({given})").first()
    assert row is not None, "a procedure answers with one row"
    return row.asDict()


def _partitions(partitions: Partitions) -> str:
    return f"partitions => array({', '.join(map(_map, partitions))})" if partitions else ""


def _map(partition: Mapping[str, PartitionValue]) -> str:
    """A partition in SQL; NULL and empty text are one."""
    parts = [text for name, value in partition.items() for text in (literal(name), literal(partition_text(value)))]
    return f"map({', '.join(parts)})" if parts else "CAST(map() AS MAP<STRING, STRING>)"
