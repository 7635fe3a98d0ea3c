"""load: a DataFrame's rows into a table, all or none."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from colocation.model.table import ColocatedTableSpec

from ..catalog import Catalog, KubernetesCatalog, TableObject
from ..configuration import SessionSettings
from ..quoting import quote
from .changes import MODES, Mode, NewFiles
from .commit import Committed
from .compaction import CompactionResult, compact_after_load
from .copies import Substitute
from .load_schema import Field, matched_names, spark_type
from .transaction import Transaction
from .writing import write_and_send

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class LoadResult:
    """What a load committed.

    Attributes:
        rows: loaded by this load.
        files: written by this load, each counted once.
        bytes: of those files, one replica.
        partitions: with rows of this load.
        snapshot_id: the table's new snapshot; the one that was there when nothing was committed, 0 = none.
        replicas_missing: copies of new files that the operator has yet to make.
        substitutes: of which buckets copies lie on other nodes meanwhile, and why.
        compaction: what was merged right after, when ``spec.compaction`` asked for it.
        compaction_failure: why that failed; the load is committed all the same.
    """

    rows: int
    files: int
    bytes: int
    partitions: int
    snapshot_id: int
    replicas_missing: int
    compaction: CompactionResult | None = None
    compaction_failure: str = ""
    substitutes: tuple[Substitute, ...] = ()


def load(
    df: "DataFrame",
    table: str,
    namespace: str | None = None,
    mode: Mode = "append",
    catalog: Catalog | None = None,
    wait_seconds: float = 120,
) -> LoadResult:
    """Load a DataFrame into a ColocatedTable. Readers see all of its rows or none.

    No rows: ``append`` and ``overwrite-partitions`` change nothing, ``overwrite`` empties the table.

    Args:
        df: its columns must be the table's by name and type; the order does not matter.
        table: the ColocatedTable's name.
        namespace: default: ``spark.colocation.namespace``.
        mode: ``append``; ``overwrite`` all rows; ``overwrite-partitions``: only the partitions that the rows are in.
        catalog: default: the Kubernetes API.
        wait_seconds: how long to wait for the table to be accepted and its group to have a map.

    Raises:
        ValueError: an unknown mode, or ``overwrite-partitions`` on a table without partitions.
        SchemaMismatch: the columns do not fit; nothing was written.
        NotReady: the table is refused, or has no map within ``wait_seconds``.
        ReplicasMissing: fewer nodes of the group than a majority of a bucket's replicas took its files.
        LoadConflict: another load was first and this one may not go on top of it.
        CommitUnknown: the API server did not say whether the load was committed.
        InvalidObject: somebody spoiled the table's status, which only an ``overwrite`` may replace.
    """
    if mode not in MODES:
        raise ValueError(f"mode {mode!r}; allowed: {', '.join(MODES)}")
    settings = SessionSettings.of(df.sparkSession)
    catalog = catalog or KubernetesCatalog()
    namespace = settings.namespace_or(namespace)
    found = catalog.get_table(namespace, table)
    if mode != "overwrite":
        found.check_status()
    if mode == "overwrite-partitions" and not found.spec.partitioned_by:
        raise ValueError(f"mode overwrite-partitions: table {namespace}.{table} has no partitions; use overwrite")
    _matched_names(df, found)  # a misfit is told at once, not when the group has a map
    transaction = Transaction.begin(catalog, settings, namespace, table, wait_seconds)
    sent = write_and_send(_stored_rows(df, transaction.table), transaction.table, transaction.destination)
    new = NewFiles(mode, tuple(one.file for one in sent), len(transaction.target.buckets))
    if not new.files and mode != "overwrite":
        before = transaction.table.status.snapshot
        return LoadResult(0, 0, 0, 0, snapshot_id=before.id if before else 0, replicas_missing=0)
    committed = transaction.commit(new, sent)
    compaction, failure = compact_after_load(df.sparkSession, transaction, committed.manifest)
    return _result(new, committed, compaction, failure)


def _result(
    new: NewFiles, committed: Committed, compaction: CompactionResult | None, compaction_failure: str
) -> LoadResult:
    return LoadResult(
        rows=sum(file.rows for file in new.files),
        files=len(new.files),
        bytes=sum(file.bytes for file in new.files),
        partitions=len({tuple(file.partition.items()) for file in new.files}),
        snapshot_id=committed.snapshot.id,
        replicas_missing=committed.replicas_missing,
        compaction=compaction,
        compaction_failure=compaction_failure,
        substitutes=committed.substitutes,
    )


def _stored_rows(df: "DataFrame", table: TableObject) -> "DataFrame":
    """The rows with the table's columns under their stored names.

    Raises:
        SchemaMismatch: the columns do not fit the table as it is by now.
    """
    from pyspark.sql import functions as F  # noqa: N812

    names = _matched_names(df, table)
    columns = table.spec.columns
    return df.select(
        [F.col(quote(given)).alias(column.stored_name) for given, column in zip(names, columns, strict=True)]
    )


def _matched_names(df: "DataFrame", table: TableObject) -> list[str]:
    """The DataFrame's column for each of the table's; SchemaMismatch when they do not fit."""
    return matched_names(f"{table.namespace}.{table.name}", _expected_fields(table.spec), _given_fields(df))


def _expected_fields(spec: ColocatedTableSpec) -> list[Field]:
    from pyspark.sql.types import DataType

    return [
        Field(column.name, str(DataType.fromDDL(spark_type(column.type)).simpleString())) for column in spec.columns
    ]


def _given_fields(df: "DataFrame") -> list[Field]:
    return [Field(field.name, field.dataType.simpleString()) for field in df.schema.fields]
