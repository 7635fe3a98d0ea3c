"""load: a DataFrame's rows into a table, all or none."""

import datetime
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from colocation.model.group import BucketSequence
from colocation.model.spark_types import canonical_type
from colocation.model.table import ColocatedTableSpec, TableSnapshot
from colocation.model.table_manifest import TableManifest

from .agents import Agents
from .bucket_files import BUCKET_COLUMN, PARTITION_COLUMN_PREFIX, FileLayout
from .catalog import Catalog, GroupObject, KubernetesCatalog, NotInCatalog, TableObject
from .commit import MODES, Mode, NewFiles, commit
from .configuration import SessionSettings
from .load_schema import Field, matched_names
from .publication import follow_map, publish_manifest
from .table_statement import quote
from .upload import OUTCOME_COLUMN, Destination, Outcome, SentFile, majority, sender

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_SECONDS = 1.0


class NotReady(Exception):
    """The table cannot be loaded yet; says what is missing."""


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


@dataclass(frozen=True)
class LoadTarget:
    """A table that can be loaded, its group's map and ready agents."""

    table: TableObject
    group: GroupObject
    buckets: BucketSequence
    agents: dict[str, str]


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
    spark = df.sparkSession
    settings = SessionSettings.of(spark)
    catalog = catalog or KubernetesCatalog()
    namespace = settings.namespace_or(namespace)
    spec = catalog.get_table(namespace, table).spec
    if mode == "overwrite-partitions" and not spec.partitioned_by:
        raise ValueError(f"mode overwrite-partitions: table {namespace}.{table} has no partitions; use overwrite")
    names = matched_names(f"{namespace}.{table}", _expected_fields(spark, spec), _given_fields(df))
    target = wait_until_loadable(catalog, namespace, table, wait_seconds)
    destination = Destination(
        namespace=namespace,
        directory=target.table.directory,
        buckets=target.buckets,
        agents=target.agents,
        token_file=settings.token_file,
        ca_file=settings.ca_file,
        retry_seconds=settings.retry_seconds,
    )
    sent = _write_and_send(df, names, target, destination)
    new = NewFiles(mode, tuple(one.file for one in sent), len(target.buckets))
    snapshot, missing = _publish(catalog, target, destination, sent, new)
    return LoadResult(
        rows=sum(file.rows for file in new.files),
        files=len(new.files),
        bytes=sum(file.bytes for file in new.files),
        partitions=len({tuple(file.partition.items()) for file in new.files}),
        snapshot_id=snapshot.id,
        replicas_missing=missing,
    )


def _publish(
    catalog: Catalog, target: LoadTarget, destination: Destination, sent: Sequence[SentFile], new: NewFiles
) -> tuple[TableSnapshot, int]:
    """Commit the files on the nodes that the map names by now."""
    current = find_target(catalog, target.table.namespace, target.table.name)
    if isinstance(current, str):
        raise NotReady(f"table {target.table.namespace}.{target.table.name} cannot be loaded any more: {current}")
    if len(current.buckets) != len(target.buckets):
        raise NotReady(
            f"group {current.group.name} had {len(target.buckets)} buckets when the load began, now it has "
            f"{len(current.buckets)}; load again"
        )
    now_at = replace(destination, buckets=current.buckets, agents=current.agents)
    with now_at.open_agents() as agents:
        follow_map(agents, destination, sent, current.buckets)
        return commit(
            catalog,
            target.table,
            new,
            parent_of=lambda table: _committed_manifest(agents, table),
            publish=lambda manifest: publish_manifest(agents, now_at, manifest, new.files),
            now=lambda: datetime.datetime.now(datetime.UTC),
        )


def wait_until_loadable(
    catalog: Catalog,
    namespace: str,
    name: str,
    wait_seconds: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> LoadTarget:
    """Wait until the operator has accepted the table, made a map, and told where its agents are.

    Raises:
        NotReady: it has not within ``wait_seconds``; says what is missing.
    """
    deadline = clock() + wait_seconds
    while True:
        target = find_target(catalog, namespace, name)
        if isinstance(target, LoadTarget):
            return target
        if clock() >= deadline:
            raise NotReady(f"table {namespace}.{name} cannot be loaded after {wait_seconds:g} s: {target}")
        sleep(POLL_SECONDS)


def find_target(catalog: Catalog, namespace: str, name: str) -> LoadTarget | str:
    """The target, or what it lacks."""
    table = catalog.get_table(namespace, name)
    if table.refusal is not None:
        return table.refusal
    if not table.spec.colocate_with:
        return "it is in no group, so no nodes hold it; set spec.colocateWith"
    try:
        group = catalog.get_group(namespace, table.spec.colocate_with)
        agents = catalog.get_agents(namespace, table.spec.colocate_with)
    except NotInCatalog as error:
        return str(error)
    buckets = group.status.backends_per_bucket_seq
    if not buckets:
        return f"group {group.name} has no map yet ({group.status.reason or 'the operator has not seen it'})"
    if len(buckets) != group.spec.buckets:
        return f"group {group.name} has {group.spec.buckets} buckets, but its map has {len(buckets)}"
    for bucket, nodes in enumerate(buckets):
        ready = [node for node in nodes if node in agents.urls]
        if len(ready) < majority(len(nodes)):
            return (
                f"bucket {bucket} lies on nodes {', '.join(nodes)}, of which {len(ready)} have a ready agent; "
                f"at least {majority(len(nodes))} must"
            )
    return LoadTarget(table, group, buckets, agents.urls)


def _expected_fields(spark: "SparkSession", spec: ColocatedTableSpec) -> list[Field]:
    from pyspark.sql.types import DataType

    def simple(type_name: str) -> str:
        canonical = canonical_type(type_name)
        return canonical if canonical == "string" else str(DataType.fromDDL(type_name).simpleString())

    return [Field(column.name, simple(column.type)) for column in spec.columns]


def _given_fields(df: "DataFrame") -> list[Field]:
    return [Field(field.name, field.dataType.simpleString()) for field in df.schema.fields]


def _write_and_send(
    df: "DataFrame", names: list[str], target: LoadTarget, destination: Destination
) -> list[SentFile]:
    """Run the load's Spark job: hash, sort, write, send."""
    from pyspark.sql import functions as F  # noqa: N812

    spec = target.table.spec
    buckets = target.group.spec.buckets
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
