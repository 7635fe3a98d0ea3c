"""register: the tables of a namespace as ordinary Spark SQL tables over ``coloc://`` locations.

A location names the manifest, so a query that was planned reads one snapshot for its whole life; ``register`` again picks up
new snapshots, maps and agents.
"""

import atexit
import json
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from colocation.agentclient import Credentials
from colocation.model.group import BucketSequence
from colocation.model.spark_types import canonical_type
from colocation.model.table_manifest import (
    DATA_DIRECTORY,
    MANIFEST_DIRECTORY,
    TableManifest,
    encode_manifest,
    manifest_path,
)

from .agents import Agents
from .catalog import AgentAddresses, Catalog, GroupObject, KubernetesCatalog, NotInCatalog, TableObject
from .configuration import SessionSettings
from .decision import ReadDecision, ReadSwitches, decide

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REGISTERED_PREFIX = "spark.colocation.registered."
"""Session confs: what ``explain`` needs to know of each table, by ``<namespace>.<directory>``."""


@dataclass(frozen=True)
class RegisteredTable:
    """One table as this session sees it.

    Attributes:
        name: its name in Spark SQL, ``<namespace>.<table>``.
        group: its colocation group; empty = none.
        colocated: whether Spark sees its buckets.
        reason: why not, or what qualifies it; empty otherwise.
        snapshot_id: what is read; 0 = nothing was loaded yet.
        location: the ``coloc://`` folder, which pins the snapshot.
    """

    name: str
    namespace: str
    table: str
    group: str
    colocated: bool
    reason: str
    snapshot_id: int
    location: str
    bucketed_by: tuple[str, ...]
    buckets: int


def register(
    spark: "SparkSession",
    namespace: str | None = None,
    tables: Iterable[str] | None = None,
    catalog: Catalog | None = None,
) -> list[RegisteredTable]:
    """Make a namespace's tables Spark SQL tables ``<namespace>.<table>``.

    Args:
        spark: a session with ``spark_conf()``'s configuration.
        namespace: default: ``spark.colocation.namespace``.
        tables: default: all of the namespace.
        catalog: default: the Kubernetes API.

    Raises:
        NotInCatalog: a named table does not exist.
        NoAgentAnswers: no agent has the manifest of a table.
        ValueError: no namespace, or a switch with a value that is not allowed.
    """
    settings = SessionSettings.of(spark)
    catalog = catalog or KubernetesCatalog()
    namespace = settings.namespace_or(namespace)
    chosen = (
        catalog.list_tables(namespace) if tables is None else [catalog.get_table(namespace, name) for name in tables]
    )
    groups = {table.spec.colocate_with: _read_group(catalog, namespace, table.spec.colocate_with) for table in chosen}
    folder = _manifest_folder(spark)
    _set_file_system_conf(spark, settings)
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {_quote(namespace)} LOCATION '{folder}/{namespace}.db'")
    credentials = Credentials(settings.token_file, settings.ca_file)
    switches = ReadSwitches(settings.join_disabled, settings.colocate_when_unstable, settings.degrade_reason)
    return [
        _register_table(spark, table, groups[table.spec.colocate_with], switches, credentials, folder)
        for table in chosen
    ]


@dataclass(frozen=True)
class _GroupView:
    group: GroupObject | None
    agents: AgentAddresses


def _read_group(catalog: Catalog, namespace: str, name: str) -> _GroupView:
    if not name:
        return _GroupView(None, AgentAddresses({}))
    try:
        return _GroupView(catalog.get_group(namespace, name), catalog.get_agents(namespace, name))
    except NotInCatalog:
        return _GroupView(None, AgentAddresses({}))


def _register_table(
    spark: "SparkSession",
    table: TableObject,
    view: _GroupView,
    switches: ReadSwitches,
    credentials: Credentials,
    folder: Path,
) -> RegisteredTable:
    manifest, sha256 = _obtain_manifest(table, view, credentials, folder)
    status = view.group.status if view.group else None
    decision = decide(switches, status, table.refusal, _inconsistency(manifest, view.group))
    registered = RegisteredTable(
        name=f"{table.namespace}.{table.name}",
        namespace=table.namespace,
        table=table.name,
        group=view.group.name if view.group else "",
        colocated=decision.bucketed,
        reason=decision.reason or decision.note,
        snapshot_id=manifest.snapshot_id,
        location=f"coloc://{table.namespace}/{table.directory}/{sha256}/{DATA_DIRECTORY}",
        bucketed_by=manifest.bucketed_by,
        buckets=manifest.buckets,
    )
    _publish_to_executors(spark, table, view)
    spark.conf.set(f"{REGISTERED_PREFIX}{table.namespace}.{table.directory}", json.dumps(asdict(registered)))
    spark.sql(f"DROP TABLE IF EXISTS {_quote(table.namespace)}.{_quote(table.name)}")
    spark.sql(create_table_statement(table, manifest, registered.location, decision))
    return registered


def _obtain_manifest(
    table: TableObject, view: _GroupView, credentials: Credentials, folder: Path
) -> tuple[TableManifest, str]:
    """The committed manifest, put where the driver's file system looks for it; an empty one before the first load."""
    snapshot = table.status.snapshot
    if snapshot is None:
        manifest = _empty_manifest(table, view.group)
        sha256, stored = encode_manifest(manifest)
    else:
        sha256 = snapshot.manifest_sha256
        with Agents(view.agents.urls, credentials) as agents:
            manifest, stored = agents.fetch_manifest(table.namespace, table.directory, sha256)
    target = folder / manifest_path(sha256)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(stored)
    return manifest, sha256


def _empty_manifest(table: TableObject, group: GroupObject | None) -> TableManifest:
    spec = table.spec
    return TableManifest(
        namespace=table.namespace,
        table=table.name,
        uid=table.uid,
        snapshot_id=0,
        columns=spec.columns,
        bucketed_by=spec.bucketed_by,
        partitioned_by=spec.partitioned_by,
        sorted_by=spec.sort_columns,
        buckets=group.spec.buckets if group else spec.buckets or 1,
    )


def _inconsistency(manifest: TableManifest, group: GroupObject | None) -> str | None:
    """How the files differ from the group's schema: such a table is read, but never bucket by bucket with the others."""
    if group is None:
        return None
    if manifest.buckets != group.spec.buckets:
        return f"the files have {manifest.buckets} buckets, the group has {group.spec.buckets}"
    types = {column.name.lower(): canonical_type(column.type) for column in manifest.columns}
    key = tuple(types[name.lower()] for name in manifest.bucketed_by)
    if key != group.spec.bucket_key:
        return f"the files are bucketed by ({', '.join(key)}), the group by ({', '.join(group.spec.bucket_key)})"
    return None


def _publish_to_executors(spark: "SparkSession", table: TableObject, view: _GroupView) -> None:
    """Spark sends session confs with each plan: executors learn agents and map without asking the cluster."""
    if view.group is None:
        return
    buckets: BucketSequence = view.group.status.backends_per_bucket_seq or ()
    text = json.dumps({"name": view.group.name, "agents": view.agents.urls, "buckets": buckets}, sort_keys=True)
    spark.conf.set(f"fs.coloc.group.{table.namespace}.{view.group.name}", text)
    spark.conf.set(f"fs.coloc.table.{table.namespace}.{table.directory}", view.group.name)


def _set_file_system_conf(spark: "SparkSession", settings: SessionSettings) -> None:
    spark.conf.set("fs.coloc.data.root", settings.data_root)
    spark.conf.set("fs.coloc.token.file", settings.token_file)
    spark.conf.set("fs.coloc.ca.file", settings.ca_file)


def create_table_statement(
    table: TableObject, manifest: TableManifest, location: str, decision: ReadDecision
) -> str:
    """The DDL of a table; the manifest says how its files are, whatever the object says by now."""
    columns = ", ".join(f"{_quote(column.name)} {_spark_type(column.type)}" for column in manifest.columns)
    clauses = [
        f"CREATE TABLE {_quote(table.namespace)}.{_quote(table.name)} ({columns})",
        "USING parquet",
    ]
    if manifest.partitioned_by:
        clauses.append(f"PARTITIONED BY ({_names(manifest.partitioned_by)})")
    if decision.bucketed:
        partitions = {name.lower() for name in manifest.partitioned_by}
        order = [name for name in manifest.sorted_by if name.lower() not in partitions]
        clauses.append(f"CLUSTERED BY ({_names(manifest.bucketed_by)})")
        if order:
            clauses.append(f"SORTED BY ({_names(order)})")
        clauses.append(f"INTO {manifest.buckets} BUCKETS")
    clauses.append(f"LOCATION '{location}'")
    return " ".join(clauses)


def _spark_type(name: str) -> str:
    """varchar(n) and char(n) are read as string: Spark would pad char(n) in each query, which hides the bucket key."""
    canonical = canonical_type(name)
    return canonical if canonical == "string" else name


def _names(columns: Sequence[str]) -> str:
    return ", ".join(_quote(name) for name in columns)


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _manifest_folder(spark: "SparkSession") -> Path:
    """A folder of this driver's own for manifests, made once per session and gone with the process."""
    key = "fs.coloc.manifest.directory"
    known = spark.conf.get(key, "")
    if known:
        return Path(known).parent
    folder = Path(tempfile.mkdtemp(prefix="colocation-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    spark.conf.set(key, str(folder / MANIFEST_DIRECTORY))
    return folder
