"""load: a DataFrame's rows into a table, all or none."""

import datetime
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from colocation.model.spark_types import canonical_type
from colocation.model.table import ColocatedTableSpec, TableSnapshot
from colocation.model.table_manifest import TableManifest

from .agents import Agents
from .bucket_files import BUCKET_COLUMN, PARTITION_COLUMN_PREFIX, FileLayout
from .catalog import Catalog, KubernetesCatalog, TableObject
from .commit import MODES, LoadConflict, Mode, NewFiles, commit
from .configuration import SessionSettings
from .load_schema import Field, matched_names
from .load_target import LoadTarget, wait_until_loadable
from .publication import follow_map, publish_manifest
from .table_statement import quote
from .upload import OUTCOME_COLUMN, Destination, Outcome, SentFile, sender

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
        snapshot_id: the table's new snapshot.
        replicas_missing: copies of new files that the operator has yet to make.
    """

    rows: int
    files: int
    bytes: int
    partitions: int
    snapshot_id: int
    replicas_missing: int


def load(
    df: "DataFrame",
    table: str,
    namespace: str | None = None,
    mode: Mode = "append",
    catalog: Catalog | None = None,
    wait_seconds: float = 120,
) -> LoadResult:
    """Load a DataFrame into a ColocatedTable. Readers see all of its rows or none.

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
        ReplicasMissing: fewer than a majority of a bucket's nodes took its files.
        LoadConflict: another load was first and this one may not go on top of it.
    """
    if mode not in MODES:
        raise ValueError(f"mode {mode!r}; allowed: {', '.join(MODES)}")
    settings = SessionSettings.of(df.sparkSession)
    catalog = catalog or KubernetesCatalog()
    namespace = settings.namespace_or(namespace)
    found = catalog.get_table(namespace, table)
    if mode == "overwrite-partitions" and not found.spec.partitioned_by:
        raise ValueError(f"mode overwrite-partitions: table {namespace}.{table} has no partitions; use overwrite")
    _matched_names(df, found)
    target = wait_until_loadable(catalog, namespace, table, wait_seconds)
    destination = _destination(target, settings)
    sent = _write_and_send(df, target, destination)
    new = NewFiles(mode, tuple(one.file for one in sent), len(target.buckets))
    current = wait_until_loadable(catalog, namespace, table, wait_seconds)
    snapshot, missing = _publish(catalog, target, current, destination, sent, new)
    return LoadResult(
        rows=sum(file.rows for file in new.files),
        files=len(new.files),
        bytes=sum(file.bytes for file in new.files),
        partitions=len({tuple(file.partition.items()) for file in new.files}),
        snapshot_id=snapshot.id,
        replicas_missing=missing,
    )


def _destination(target: LoadTarget, settings: SessionSettings) -> Destination:
    return Destination(
        namespace=target.table.namespace,
        directory=target.table.directory,
        buckets=target.buckets,
        agents=target.agents,
        token_file=settings.token_file,
        ca_file=settings.ca_file,
        retry_seconds=settings.retry_seconds,
    )


def _publish(
    catalog: Catalog,
    began: LoadTarget,
    current: LoadTarget,
    destination: Destination,
    sent: Sequence[SentFile],
    new: NewFiles,
) -> tuple[TableSnapshot, int]:
    """Commit the files on the nodes that the map names by now."""
    if len(current.buckets) != new.buckets:
        raise LoadConflict(
            f"group {current.group.name} had {new.buckets} buckets when the load began, now it has "
            f"{len(current.buckets)}; load again"
        )
    moved = replace(destination, buckets=current.buckets, agents=current.agents)
    with moved.open_agents() as agents:
        follow_map(agents, destination, sent, current.buckets)
        return commit(
            catalog,
            began.table,
            new,
            parent_of=lambda table: _committed_manifest(agents, table),
            publish=lambda manifest: publish_manifest(agents, moved, manifest, new.files),
            now=lambda: datetime.datetime.now(datetime.UTC),
        )


def _matched_names(df: "DataFrame", table: TableObject) -> list[str]:
    """The DataFrame's column for each of the table's; SchemaMismatch when they do not fit."""
    return matched_names(f"{table.namespace}.{table.name}", _expected_fields(table.spec), _given_fields(df))


def _expected_fields(spec: ColocatedTableSpec) -> list[Field]:
    from pyspark.sql.types import DataType

    def simple(type_name: str) -> str:
        canonical = canonical_type(type_name)
        return canonical if canonical == "string" else str(DataType.fromDDL(type_name).simpleString())

    return [Field(column.name, simple(column.type)) for column in spec.columns]


def _given_fields(df: "DataFrame") -> list[Field]:
    return [Field(field.name, field.dataType.simpleString()) for field in df.schema.fields]


def _write_and_send(df: "DataFrame", target: LoadTarget, destination: Destination) -> list[SentFile]:
    """Run the load's Spark job: hash, sort, write, send."""
    from pyspark.sql import functions as F  # noqa: N812

    spec = target.table.spec
    names = _matched_names(df, target.table)  # the table may have been changed while the load waited
    buckets = len(target.buckets)
    partitions = [spec.column(name).name for name in spec.partitioned_by]
    layout = FileLayout(
        load_id=secrets.token_hex(4),
        buckets=buckets,
        stored_columns=tuple(column.name for column in spec.columns if column.name not in partitions),
        partition_columns=tuple(partitions),
        required_columns=tuple(column.name for column in spec.columns if not column.nullable),
        spark_version=df.sparkSession.version,
    )
    rows = df.select(
        [F.col(quote(given)).alias(column.name) for given, column in zip(names, spec.columns, strict=True)]
    )
    keys = [F.col(quote(name)) for name in spec.bucketed_by]
    partition_columns = {
        f"{PARTITION_COLUMN_PREFIX}{index}": F.nullif(F.col(quote(name)).cast("string"), F.lit(""))
        for index, name in enumerate(partitions)
    }
    clustered = (
        rows.repartition(buckets, *keys)
        .withColumns({BUCKET_COLUMN: F.pmod(F.hash(*keys), F.lit(buckets)), **partition_columns})
        .sortWithinPartitions(BUCKET_COLUMN, *partition_columns, *(quote(name) for name in spec.sort_columns))
    )
    outcomes = clustered.mapInArrow(sender(destination, layout), f"{OUTCOME_COLUMN} string").collect()
    return [Outcome.model_validate_json(row[OUTCOME_COLUMN]).sent_file() for row in outcomes]


def _committed_manifest(agents: Agents, table: TableObject) -> TableManifest | None:
    snapshot = table.status.snapshot
    if snapshot is None:
        return None
    return agents.fetch_manifest(table.namespace, table.directory, snapshot.manifest_sha256)[0]
