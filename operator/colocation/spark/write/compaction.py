"""compact: many small files of a bucket and partition become one, sorted; the rows stay as they are.

Only files that are crowded are read and written anew. They are read one by one, at the location of the committed
snapshot, by the same file system as any query: each task finds its bucket on local disk, and the manifest beside it.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from colocation.model.table_manifest import DATA_DIRECTORY, DataFile, TableManifest

from ..catalog import Catalog, KubernetesCatalog
from ..configuration import SessionSettings
from ..quoting import quote
from .changes import Partition, Rewrite, in_partitions, partition_key
from .commit import Committed
from .file_system import FileSystemSession
from .load_schema import spark_type
from .partition_path import PartitionValue, chosen_partitions
from .transaction import Transaction
from .writing import write_and_send

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Unit = tuple[int, tuple[tuple[str, str | None], ...]]
"""A bucket of a partition: what becomes one file."""


class RowsDiffer(Exception):
    """What was read is not what the manifest says: nothing was committed."""


LOG = logging.getLogger(__name__)
OPTIONS = {"parquet.page.verify-checksum.enabled": "true"}
"""Loads write a CRC per page: a disk that returns wrong bytes fails the task, not its answer."""
MAX_FAILURE_CHARACTERS = 500
"""Of an error of Spark, whose message holds Java's stack."""


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


def compact(
    spark: "SparkSession",
    table: str,
    namespace: str | None = None,
    partitions: Sequence[Mapping[str, PartitionValue]] = (),
    catalog: Catalog | None = None,
    wait_seconds: float = 120,
) -> CompactionResult:
    """Merge the files of each bucket and partition that has more than one. Readers see the same rows all the time.

    Loads may go on meanwhile: an append stays beside the merged files; after an overwrite of what was read the
    compaction has lost.

    Args:
        spark: a session with ``spark_conf()``'s configuration.
        table: the ColocatedTable's name.
        namespace: default: ``spark.colocation.namespace``.
        partitions: e.g. ``[{"dt": "2024-01-01"}]``; may name some of the partition columns; default: all partitions.
        catalog: default: the Kubernetes API.
        wait_seconds: how long to wait for the table to be accepted and its group to have a map.

    Raises:
        ValueError: a column that is no partition column.
        NotReady, ReplicasMissing, LoadConflict: as for ``load``.
        RowsDiffer: files hold other rows than the manifest says; nothing was changed.
    """
    settings = SessionSettings.of(spark)
    catalog = catalog or KubernetesCatalog()
    transaction = Transaction.begin(catalog, settings, settings.namespace_or(namespace), table, wait_seconds)
    chosen = chosen_partitions(transaction.table.spec.partition_columns, partitions)
    return _compact(spark, transaction, 1, chosen)


def compact_after_load(
    spark: "SparkSession", load: Transaction, manifest: TableManifest
) -> tuple[CompactionResult | None, str]:
    """Compact what a load left crowded, if the table wants that: (what was done, why it failed).

    The load is committed: whatever goes wrong here is a warning in the log and in the load's result, never an error.

    Args:
        spark: the session of the load.
        load: which was committed.
        manifest: that it committed.
    """
    table = load.table
    try:
        wanted = table.spec.compaction
        if not wanted.enabled or not crowded_files(manifest, wanted.max_files_per_bucket):
            return None, ""
        again = Transaction.begin(load.catalog, load.settings, table.namespace, table.name, load.wait_seconds)
        return _compact(spark, again, wanted.max_files_per_bucket), ""
    except Exception as error:  # the load is committed: no error at all may make it look failed
        LOG.warning("the load of %s.%s is committed; not compacted", table.namespace, table.name, exc_info=True)
        return None, _failure(error)


def _failure(error: Exception) -> str:
    """The error's type and the beginning of its message, in one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - an error of Spark's asks the JVM for its text, which may be what is gone
        text = "Spark is gone"
    return f"{type(error).__name__}: {text[:MAX_FAILURE_CHARACTERS]}"


def crowded_files(
    manifest: TableManifest, most_files: int, partitions: Sequence[Partition] = ()
) -> tuple[DataFile, ...]:
    """The files of every bucket and partition that has more than ``most_files``. Pure.

    Args:
        manifest: of the table.
        most_files: so many may stay.
        partitions: which to look at; none = all.
    """
    files = [file for file in manifest.files if not partitions or in_partitions(file, partitions)]
    sizes = Counter(map(_unit, files))
    return tuple(file for file in files if sizes[_unit(file)] > most_files)


def _compact(
    spark: "SparkSession", transaction: Transaction, most_files: int, partitions: Sequence[Partition] = ()
) -> CompactionResult:
    stored = transaction.stored_manifest()
    if stored is None:
        return CompactionResult(0, 0, 0, 0, 0, snapshot_id=0, replicas_missing=0)
    manifest = stored[0]
    crowded = crowded_files(manifest, most_files, partitions)
    if not crowded:
        return CompactionResult(0, 0, 0, 0, 0, snapshot_id=manifest.snapshot_id, replicas_missing=0)
    rows = _rows(spark.newSession(), transaction, stored[1], crowded)
    sent = write_and_send(rows, transaction.table, transaction.destination)
    new = tuple(one.file for one in sent)
    refuse_other_rows(crowded, new)
    change = Rewrite(frozenset(file.path for file in crowded), new, manifest.buckets)
    return _result(crowded, change, transaction.commit(change, sent))


def _rows(
    session: "SparkSession", transaction: Transaction, stored_manifest: bytes, files: Sequence[DataFile]
) -> "DataFrame":
    """The rows of these files, columns under their stored names, partition values as the text that they are.

    ``session`` is one of its own: the user's settings and tables are neither used nor changed.
    """
    table = transaction.table
    sha256 = hashlib.sha256(stored_manifest).hexdigest()
    file_system = FileSystemSession(session, transaction.settings)
    file_system.tell_group(table.namespace, table.group, transaction.target.group, transaction.target.agents)
    location = file_system.open_table(table, table.group, stored_manifest, sha256)
    partitions = table.spec.partition_columns
    schema = ", ".join(
        f"{quote(column.stored_name)} {'string' if column.stored_name in partitions else spark_type(column.type)}"
        for column in table.spec.columns
    )
    # The driver knows where the files lie; above the threshold Spark would ask by tasks, which know no executors.
    session.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", len(files))
    paths = [location + file.path.removeprefix(DATA_DIRECTORY) for file in files]
    return session.read.schema(schema).options(**OPTIONS).option("basePath", location).parquet(*paths)


def refuse_other_rows(before: Sequence[DataFile], after: Sequence[DataFile]) -> None:
    """Refuse a rewrite that has gained, lost or moved rows.

    Raises:
        RowsDiffer: naming the first bucket and partition that differs, with both counts.
    """
    expected, actual = _rows_by_unit(before), _rows_by_unit(after)
    for unit in (*expected, *actual):
        if expected[unit] != actual[unit]:
            raise RowsDiffer(
                f"bucket {unit[0]} of partition {dict(unit[1])}: the manifest says {expected[unit]} rows, "
                f"{actual[unit]} were rewritten; nothing was changed. Check the replicas: colocation show"
            )


def _rows_by_unit(files: Sequence[DataFile]) -> Counter[_Unit]:
    rows: Counter[_Unit] = Counter()
    for file in files:
        rows[_unit(file)] += file.rows
    return rows


def _unit(file: DataFile) -> _Unit:
    return file.bucket, partition_key(file.partition)


def _result(crowded: Sequence[DataFile], change: Rewrite, committed: Committed) -> CompactionResult:
    return CompactionResult(
        partitions=len({partition_key(file.partition) for file in crowded}),
        files_before=len(crowded),
        files_after=len(change.files),
        rows=sum(file.rows for file in change.files),
        bytes=sum(file.bytes for file in change.files),
        snapshot_id=committed.snapshot.id,
        replicas_missing=committed.replicas_missing,
    )
