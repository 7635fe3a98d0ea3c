"""drop_partitions: whole partitions go in one commit that writes no data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from colocation.model.table_manifest import DataFile, TableManifest

from ..catalog import Catalog, KubernetesCatalog
from ..configuration import SessionSettings
from .changes import DropPartitions, in_partitions, partition_key
from .partition_path import PartitionValue, chosen_partitions
from .transaction import Transaction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


def drop_partitions(
    spark: "SparkSession",
    table: str,
    partitions: Sequence[Mapping[str, PartitionValue]],
    namespace: str | None = None,
    catalog: Catalog | None = None,
    wait_seconds: float = 120,
) -> DropResult:
    """Drop partitions with all their rows. A partition that is not there is no error, so it can be repeated.

    Rows that are loaded into such a partition before the commit go too, as with SQL's DROP PARTITION. Older snapshots
    keep the rows as long as the table's ``retention`` says.

    Args:
        spark: a session with ``spark_conf()``'s configuration.
        table: the ColocatedTable's name.
        partitions: e.g. ``[{"dt": "2024-01-01"}]``; one that names some of the partition columns only drops every
            partition with these values.
        namespace: default: ``spark.colocation.namespace``.
        catalog: default: the Kubernetes API.
        wait_seconds: how long to wait for the table to be accepted and its group to have a map.

    Raises:
        ValueError: no partition is given, or a column is no partition column.
        NotReady, ReplicasMissing, LoadConflict: as for ``load``.
    """
    if not partitions:
        raise ValueError("no partition is given; to drop all rows, load none with mode overwrite")
    settings = SessionSettings.of(spark)
    catalog = catalog or KubernetesCatalog()
    transaction = Transaction.begin(catalog, settings, settings.namespace_or(namespace), table, wait_seconds)
    change = DropPartitions(chosen_partitions(transaction.table.spec.partition_columns, partitions))
    manifest = transaction.committed_manifest()
    if manifest is None or not _dropped(manifest, change):
        return DropResult(0, 0, 0, snapshot_id=manifest.snapshot_id if manifest else 0)
    committed = transaction.commit(change, ())
    files = _dropped(committed.parent, change) if committed.parent else []
    return DropResult(
        partitions=len({partition_key(file.partition) for file in files}),
        files=len(files),
        rows=sum(file.rows for file in files),
        snapshot_id=committed.snapshot.id,
    )


def _dropped(manifest: TableManifest, change: DropPartitions) -> list[DataFile]:
    return [file for file in manifest.files if in_partitions(file, change.partitions)]
