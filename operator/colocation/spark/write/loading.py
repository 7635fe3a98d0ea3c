"""``load``: commits a DataFrame's rows to a table, all or none, by Spark's own ``writeTo``."""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..configuration import CATALOG, SessionSettings, literal, qualified, quote
from .maintenance import CompactionResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NULLS = "spark.sql.defaultColumn.useNullsForMissingDefaultValues"
"""Whether Spark makes NULL of columns that a write leaves out."""


class MissingColumns(ValueError):
    """Rows lack columns of the table; nothing was written.

    Attributes:
        columns: the table's names of those, in its order.
        others: columns of the rows that the table lacks.
        with_nulls: expressions of SQL for all columns of the table, NULL in the place of the missing ones.
        under_other_names: the same, ``others`` in their place; empty unless there are as many.
    """

    def __init__(self, columns: Sequence[str], given: Sequence[str], table: str, others: Sequence[str] = ()) -> None:
        self.columns = tuple(columns)
        self.others = tuple(others)
        kept = [name_of(column) for column in given if column not in others] if others else ["*"]
        self.with_nulls = [*kept, *(f"NULL AS {name_of(column)}" for column in columns)]
        self.under_other_names = (
            [*kept, *(f"{name_of(other)} AS {name_of(column)}" for other, column in zip(others, columns, strict=True))]
            if len(others) == len(columns) else []
        )  # fmt: skip
        nulls = ", ".join(f'"{one}"' for one in self.with_nulls)
        super().__init__(
            f"table {table}: the rows have the columns {', '.join(given)}, and not {', '.join(columns)}; "
            f"give all of the table's, for NULL by df.selectExpr({nulls})"
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

    columns = list(columns)
    known, wanted = {name.lower() for name in df.columns}, {name.lower() for name in columns}
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
        others = [name for name in df.columns if name.lower() not in wanted]
        raise MissingColumns(missing, df.columns, table, others) from None


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


def name_of(column: str) -> str:
    """A column's name in Spark SQL, quoted only if it has to be."""
    return column if column.isascii() and column.isidentifier() else quote(column)


Mode = Literal["append", "overwrite", "overwrite-partitions"]
MODES: tuple[Mode, ...] = ("append", "overwrite", "overwrite-partitions")


@dataclass(frozen=True)
class Substitute:
    """Copies on other nodes than those of the map, until the operator has made the map's.

    Attributes:
        bucket: whose files they are.
        away: the map's node that did not take them.
        node: the one that did.
        files: how many.
        reason: why the map's node did not.
    """

    bucket: int
    away: str
    node: str
    files: int
    reason: str


@dataclass(frozen=True)
class LoadResult:
    """What a load committed.

    Attributes:
        rows: loaded by this load; 0 when its key was committed before.
        files: written by this load, each counted once.
        bytes: of those files, one replica.
        partitions: with rows of this load.
        snapshot_id: the table's new snapshot; the one that was there when nothing was committed, 0 = none.
        replicas_missing: copies of new files that the operator has yet to make.
        compaction: what was merged right after, when ``spec.compaction`` asked for it.
        compaction_failure: why that failed; the load is committed all the same.
        substitutes: of which buckets copies lie on other nodes meanwhile, and why.
        rows_inserted, rows_updated, rows_deleted, files_removed: what the commit changed, as ``<table>.snapshots`` has
            it; of a key that was committed before, what that commit changed. None = unknown.
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
    rows_inserted: int | None = None
    rows_updated: int | None = None
    rows_deleted: int | None = None
    files_removed: int | None = None


def load(
    df: "DataFrame",
    table: str,
    namespace: str | None = None,
    mode: Mode = "append",
    catalog: str = CATALOG,
    idempotency_key: str = "",
) -> LoadResult:
    """Load a DataFrame into a ColocatedTable. Readers see all of its rows or none.

    No rows: ``append`` and ``overwrite-partitions`` change nothing, ``overwrite`` empties the table.

    Args:
        df: its columns are the table's by name, all of them; the order does not matter. Types are cast as ``writeTo``
            does, where nothing can be lost.
        table: the ColocatedTable's name.
        namespace: default: ``spark.colocation.namespace``.
        mode: ``append``; ``overwrite`` all rows; ``overwrite-partitions``: only the partitions that the rows are in.
        catalog: the session's ColocationCatalog.
        idempotency_key: a load of a key that was committed before changes nothing.

    Raises:
        ValueError: an unknown mode; ``overwrite-partitions`` on a table without partitions; columns of the table that
            ``df`` has not (``MissingColumns``).
        PySparkException: the table does not exist or is refused. A load that failed in the end has its reason as
            ``getCondition()`` and as the message's first word: rows do not fit (``SchemaMismatch``), another load was
            first (``LoadConflict``), too few nodes took the files (``ReplicasMissing``), the table cannot be loaded yet
            (``NotReady``), the API server did not say whether it was committed (``CommitUnknown``).
        Py4JJavaError: a task failed otherwise.
    """
    from pyspark.sql import functions as F  # noqa: N812

    if mode not in MODES:
        raise ValueError(f"mode {mode!r}; allowed: {', '.join(MODES)}")
    spark = df.sparkSession
    name = qualified(catalog, SessionSettings.of(spark).namespace_or(namespace), table)
    columns = spark.catalog.listColumns(name)
    if mode == "overwrite-partitions" and not any(column.isPartition for column in columns):
        raise ValueError(f"mode overwrite-partitions: table {name} has no partitions; use overwrite")
    write_id = str(uuid.uuid4())
    writer = df.writeTo(name).option("write-id", write_id)
    if idempotency_key:
        writer = writer.option("idempotency-key", idempotency_key)
    with refused(df, [column.name for column in columns], name):
        if mode == "append":
            writer.append()
        elif mode == "overwrite":
            writer.overwrite(F.lit(True))
        else:
            writer.overwritePartitions()
    row = spark.sql(f"CALL {qualified(catalog, 'system', 'write_result')}(id => {literal(write_id)})").first()
    assert row is not None, "a procedure answers with one row"
    return _result(json.loads(row["result"]))


def _result(given: Mapping[str, Any]) -> LoadResult:
    compaction = given["compaction"]
    return LoadResult(
        **{
            **given,
            "compaction": compaction and CompactionResult(**compaction),
            "substitutes": tuple(Substitute(**one) for one in given["substitutes"]),
        }
    )
