"""register: the tables of a namespace as ordinary Spark SQL tables over ``coloc://`` locations.

A location names the manifest, so a query that was planned reads one snapshot for its whole life; ``register`` again
picks up new snapshots, maps and agents.
"""

import atexit
import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from colocation.agentclient import Credentials, Timeouts
from colocation.model.spark_types import canonical_type
from colocation.model.table_manifest import (
    DATA_DIRECTORY,
    MANIFEST_DIRECTORY,
    TableManifest,
    encode_manifest,
    manifest_path,
)

from .agents import Agents
from .catalog import Catalog, GroupObject, KubernetesCatalog, NotInCatalog, TableObject
from .configuration import SessionSettings
from .decision import ReadSwitches, decide
from .table_statement import create_table_statement, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REGISTERED_PREFIX = "spark.colocation.registered."
"""Session confs: what ``explain`` needs to know of each table, by ``<namespace>.<directory>``."""
MANIFEST_DIRECTORY_KEY = "fs.coloc.manifest.directory"


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
    registrar = _Registrar(spark, settings)
    registrar.create_database(namespace)
    with contextlib.ExitStack() as stack:
        groups = {
            name: _open_group(stack, catalog, namespace, name, settings)
            for name in sorted({table.spec.colocate_with for table in chosen} - {""})
        }
        for name, group in groups.items():
            if group is not None:
                registrar.tell_executors_of_group(namespace, name, group)
        return [registrar.register(table, groups.get(table.spec.colocate_with)) for table in chosen]


@dataclass(frozen=True)
class _Group:
    """A group and its agents."""

    object: GroupObject
    urls: dict[str, str]
    agents: Agents


def _open_group(
    stack: contextlib.ExitStack, catalog: Catalog, namespace: str, name: str, settings: SessionSettings
) -> _Group | None:
    """None when there is no such group yet."""
    try:
        group, urls = catalog.get_group(namespace, name), catalog.get_agents(namespace, name).urls
    except NotInCatalog:
        return None
    timeouts = Timeouts(retry_deadline_seconds=settings.retry_seconds)
    agents = stack.enter_context(Agents(urls, Credentials(settings.token_file, settings.ca_file), timeouts))
    return _Group(group, urls, agents)


class _Registrar:
    """Registers tables in one session."""

    def __init__(self, spark: "SparkSession", settings: SessionSettings) -> None:
        self._spark = spark
        self._switches = ReadSwitches(settings.join_disabled, settings.colocate_when_unstable, settings.degrade_reason)
        self._folder = _driver_folder(spark)
        spark.conf.set("fs.coloc.data.root", settings.data_root)
        spark.conf.set("fs.coloc.token.file", settings.token_file)
        spark.conf.set("fs.coloc.ca.file", settings.ca_file)
        spark.conf.set("fs.coloc.read.deadline.seconds", str(settings.retry_seconds))

    def create_database(self, namespace: str) -> None:
        """A database for the namespace's tables, which needs a folder though nothing is ever put there."""
        folder = self._folder / "databases" / namespace
        self._spark.sql(f"CREATE DATABASE IF NOT EXISTS {quote(namespace)} LOCATION '{folder}'")

    def tell_executors_of_group(self, namespace: str, name: str, group: _Group) -> None:
        """Spark sends session confs with each plan: executors learn agents and map without asking the cluster."""
        buckets = group.object.status.backends_per_bucket_seq or ()
        text = json.dumps({"name": name, "agents": group.urls, "buckets": buckets}, sort_keys=True)
        self._spark.conf.set(f"fs.coloc.group.{namespace}.{name}", text)

    def register(self, table: TableObject, group: _Group | None) -> RegisteredTable:
        """Register one table anew."""
        manifest, sha256 = self._obtain_manifest(table, group)
        decision = decide(
            self._switches,
            group.object.status if group else None,
            table.refusal,
            _inconsistency(manifest, group.object) if group else None,
        )
        registered = RegisteredTable(
            name=f"{table.namespace}.{table.name}",
            namespace=table.namespace,
            table=table.name,
            group=group.object.name if group else "",
            colocated=decision.bucketed,
            reason=decision.reason or decision.note,
            snapshot_id=manifest.snapshot_id,
            location=f"coloc://{table.namespace}/{table.directory}/{sha256}/{DATA_DIRECTORY}",
            bucketed_by=manifest.bucketed_by,
            buckets=manifest.buckets,
        )
        key = f"{table.namespace}.{table.directory}"
        self._spark.conf.set(f"fs.coloc.table.{key}", registered.group)
        self._spark.conf.set(f"{REGISTERED_PREFIX}{key}", json.dumps(asdict(registered)))
        self._spark.sql(f"DROP TABLE IF EXISTS {quote(table.namespace)}.{quote(table.name)}")
        self._spark.sql(create_table_statement(manifest, registered.location, bucketed=decision.bucketed))
        return registered

    def _obtain_manifest(self, table: TableObject, group: _Group | None) -> tuple[TableManifest, str]:
        """The committed manifest, put where the driver's file system looks for it; an empty one before any load."""
        snapshot = table.status.snapshot
        if snapshot is None:
            manifest = _empty_manifest(table, group.object if group else None)
            sha256, stored = encode_manifest(manifest)
        else:
            sha256 = snapshot.manifest_sha256
            if group is None:
                raise NotInCatalog(
                    f"table {table.namespace}.{table.name} has rows, but no group says which nodes hold them; "
                    f"restore its ColocationGroup {table.spec.colocate_with!r}, or name the tables to register"
                )
            manifest, stored = group.agents.fetch_manifest(table.namespace, table.directory, sha256)
        target = self._folder / manifest_path(sha256)
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


def _inconsistency(manifest: TableManifest, group: GroupObject) -> str | None:
    """How the files differ from the group's schema: such a table is read, but not bucket by bucket with the others."""
    if manifest.buckets != group.spec.buckets:
        return f"the files have {manifest.buckets} buckets, the group has {group.spec.buckets}"
    types = {column.name.lower(): canonical_type(column.type) for column in manifest.columns}
    key = tuple(types[name.lower()] for name in manifest.bucketed_by)
    if key != group.spec.bucket_key:
        return f"the files are bucketed by ({', '.join(key)}), the group by ({', '.join(group.spec.bucket_key)})"
    return None


def _driver_folder(spark: "SparkSession") -> Path:
    """A folder of this driver's own for manifests, made once per session and gone with the process."""
    known = spark.conf.get(MANIFEST_DIRECTORY_KEY, "")
    if known:
        return Path(known).parent
    folder = Path(tempfile.mkdtemp(prefix="colocation-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    spark.conf.set(MANIFEST_DIRECTORY_KEY, str(folder / MANIFEST_DIRECTORY))
    return folder
