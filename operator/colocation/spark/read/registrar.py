"""One session's tables: what Spark is told of each, and only when something has changed."""

import contextlib
import functools
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from colocation.agentclient import Credentials, Timeouts
from colocation.model.freshness import CURRENT, Freshness
from colocation.model.parallelism import few_buckets
from colocation.model.schema_evolution import refused_change
from colocation.model.spark_types import canonical_type
from colocation.model.table import TableSnapshot
from colocation.model.table_manifest import TableManifest, decode_manifest, encode_manifest, manifest_path

from ..addresses import addresses_file
from ..agents import Agents
from ..catalog import Catalog, GroupObject, NotInCatalog, TableObject
from ..configuration import SessionSettings
from ..decision import ReadSwitches, decide
from .file_system import FileSystemSession
from .session_catalog import SessionCatalog, is_ours
from .statistics import tell_row_count
from .table_statement import (
    STORED_SUFFIX,
    TableName,
    create_table_statements,
    mark,
    quote,
    spark_name,
    table_comment,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REGISTERED_PREFIX = "colocation.registered."
"""Session configuration: what ``explain`` must know of a table, by ``<namespace>/<directory>``, and of an older
snapshot by ``<namespace>/<directory>/<manifest>``. No ``spark.`` before it: Spark would send it with every task."""
MAX_KNOWN_SCHEMAS = 4096


@dataclass(frozen=True)
class RegisteredTable:
    """One table as this session sees it.

    Attributes:
        name: its name in Spark SQL, ``<database>.<table>``, with ``_`` for the ``-`` that Spark does not allow; the
            database is named as the namespace unless another one was asked for.
        group: its colocation group, ``<namespace>/<name>``; empty = none.
        colocated: whether Spark sees its buckets.
        reason: why not, or what qualifies it; empty otherwise.
        snapshot_id: what is read; 0 = nothing was loaded yet.
        location: the ``coloc://`` folder, which pins the snapshot; empty when the table could not be registered.
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

    @property
    def registered(self) -> bool:
        """Whether queries can name it."""
        return bool(self.location)


@dataclass(frozen=True)
class Group:
    """A group, its agents, on which nodes they are ready, and whether the operator's verdict on it holds."""

    object: GroupObject
    agents: Agents
    freshness: Freshness
    ready: frozenset[str]


class Groups(contextlib.AbstractContextManager["Groups"]):
    """The groups of a namespace's tables, each asked for once; use it as a context manager."""

    def __init__(self, catalog: Catalog, namespace: str, settings: SessionSettings, files: FileSystemSession) -> None:
        self._catalog = catalog
        self._namespace = namespace
        self._settings = settings
        self._files = files
        self._stack = contextlib.ExitStack()
        self._known: dict[str, Group | None] = {}

    def find(self, reference: str) -> Group | None:
        """The group that a table names; None when there is no such group yet. Executors learn of it, too."""
        if reference not in self._known:
            self._known[reference] = self._open(reference)
        return self._known[reference]

    def _open(self, reference: str) -> Group | None:
        try:
            group = self._catalog.get_group(self._namespace, reference)
            told = self._catalog.get_agents(self._namespace, reference)
        except NotInCatalog:
            return None
        self._files.tell_group(self._namespace, reference, group, told.urls)
        credentials = Credentials(self._settings.token_file, self._settings.ca_file)
        timeouts = Timeouts(retry_deadline_seconds=self._settings.retry_seconds)
        addresses = addresses_file(self._settings.ca_file)
        agents = self._stack.enter_context(Agents(told.urls, credentials, timeouts, addresses))
        return Group(group, agents, told.freshness, frozenset(told.urls))

    def __exit__(self, *error: object) -> None:
        self._stack.close()


class Registrar:
    """Registers a namespace's tables in one session, in one database.

    Args:
        spark: the session.
        settings: the session's.
        namespace: the Kubernetes namespace.
        database: its name in Spark; empty = the namespace's.
    """

    def __init__(
        self, spark: "SparkSession", settings: SessionSettings, namespace: str, database: str = ""
    ) -> None:
        self._spark = spark
        self._namespace = namespace
        self._catalog = SessionCatalog(spark, namespace, database or spark_name(namespace))
        self._switches = ReadSwitches(settings.join_disabled, settings.when_unstable)
        self._cores = settings.cores
        self.files = FileSystemSession(spark, settings)

    @property
    def database(self) -> str:
        """The database's name in Spark."""
        return self._catalog.database

    def create_database(self) -> None:
        """A database for the namespace's tables, unless it is there."""
        self._catalog.create_database(str(self.files.folder / "databases" / self._catalog.database))

    def register(self, table: TableObject, groups: Groups) -> RegisteredTable:
        """The table as its newest snapshot is.

        Raises:
            NotInCatalog: it has rows, but no group says which nodes hold them.
            NoAgentAnswers: no agent has its manifest.
            ForeignTable: its name is taken by something that registration did not make.
        """
        group = groups.find(table.group)
        snapshot = table.status.snapshot
        if snapshot is None:
            sha256, stored = encode_manifest(_empty_manifest(table, group.object if group else None))
            self.files.open_table(table, table.group, stored, sha256)
        else:
            sha256 = snapshot.manifest_sha256
            self._fetch_manifest(table, group, sha256)
        manifest = self._schema(sha256)
        if refused_change(manifest.columns, table.spec.columns) is None:
            # Columns that were added or renamed since the load: files are read by the names that they keep.
            manifest = manifest.model_copy(update={"columns": table.spec.columns})
        return self._create(table, group, manifest, sha256, alias=table.name)

    def register_snapshot(
        self, table: TableObject, snapshot: TableSnapshot, groups: Groups, alias: str
    ) -> RegisteredTable:
        """The table as an older snapshot was, its columns too, named ``alias``. Raises as ``register`` does."""
        group = groups.find(table.group)
        self._fetch_manifest(table, group, snapshot.manifest_sha256)
        return self._create(table, group, self._schema(snapshot.manifest_sha256), snapshot.manifest_sha256, alias=alias)

    def forget_others(self, kept: Iterable[str]) -> None:
        """Remove the namespace's tables but for ``kept`` (Spark names) and older snapshots, which have other names."""
        names = set(kept)
        for key, value in self._spark.conf.getAll.items():
            if key.startswith(f"{REGISTERED_PREFIX}{self._namespace}/") and key.count("/") == 1:
                name = json.loads(value)["name"]
                if name not in names:
                    self._drop(name)
                    self._spark.conf.unset(key)

    def _create(
        self, table: TableObject, group: Group | None, manifest: TableManifest, sha256: str, alias: str
    ) -> RegisteredTable:
        in_group = group if table.spec.colocate_with else None
        decision = decide(
            self._switches,
            in_group.object.status if in_group else None,
            table.refusal or (in_group.object.refusal(table.namespace) or None if in_group else None),
            _inconsistency(manifest, in_group.object) if in_group else None,
            in_group.freshness if in_group else CURRENT,
            in_group.ready if in_group else (),
        )
        if in_group:
            decision = decision.noting(few_buckets(in_group.object.full_name, manifest.buckets, self._cores))
        registered = RegisteredTable(
            name=f"{self._catalog.database}.{spark_name(alias)}",
            namespace=table.namespace,
            table=table.name,
            group=in_group.object.full_name if in_group else "",
            colocated=decision.bucketed,
            reason=decision.reason or decision.note,
            snapshot_id=manifest.snapshot_id,
            location=self.files.location(table, sha256),
            bucketed_by=manifest.bucketed_by,
            buckets=manifest.buckets,
        )
        target = TableName(self._catalog.database, spark_name(alias), mark(table.namespace, table.directory))
        statements = create_table_statements(manifest, target, registered.location, bucketed=decision.bucketed)
        # Of an older snapshot the manifest stands in the key, so that explain knows both.
        suffix = "" if alias == table.name else f"/{sha256}"
        comment = table_comment(manifest, registered.location, bucketed=decision.bucketed)
        if self._run_if_new(f"{table.namespace}/{table.directory}{suffix}", registered, statements, comment):
            stored = target.name + STORED_SUFFIX if len(statements) > 1 else target.name
            name = f"{quote(target.database)}.{quote(stored)}"
            tell_row_count(self._spark, name, _row_count(table, sha256))
        return registered

    def _run_if_new(self, key: str, registered: RegisteredTable, statements: list[str], comment: str) -> bool:
        """Create the table anew, unless it is there as it should be: then its file listing is kept, too.

        Returns whether it was created.

        ``comment`` tells whether another session of the application has made something else of the name.
        """
        noted = json.dumps({**asdict(registered), "statements": statements})
        conf_key = REGISTERED_PREFIX + key
        before = self._spark.conf.get(conf_key, "")
        name = registered.name.partition(".")[2]
        found = self._catalog.find(name)
        if before == noted and found and is_ours(found, self._namespace) and found.comment == comment:
            return False
        self._catalog.replace(name, statements)
        self._spark.conf.set(conf_key, noted)
        old_name = json.loads(before)["name"] if before else registered.name
        if old_name != registered.name:
            self._drop(old_name)
        return True

    def _drop(self, name: str) -> None:
        """Drop what this session has registered as ``<database>.<table>``, as long as it is ours."""
        database, _, table = name.partition(".")
        SessionCatalog(self._spark, self._namespace, database).drop(table)

    def _fetch_manifest(self, table: TableObject, group: Group | None, sha256: str) -> None:
        """Put a committed manifest where the driver's file system looks for it, unless it is there already."""
        if (self.files.folder / manifest_path(sha256)).is_file():
            self.files.name_group(table, table.group)
            return
        if group is None:
            raise NotInCatalog(
                f"table {table.namespace}.{table.name} has rows, but its ColocationGroup {table.group!r}, which says "
                "which nodes hold them, does not exist or has no ConfigMap yet; restore it, or leave the table out"
            )
        _, stored = group.agents.fetch_manifest(table.namespace, table.directory, sha256)
        self.files.open_table(table, table.group, stored, sha256)

    def _schema(self, sha256: str) -> TableManifest:
        return _read_schema(self.files.folder / manifest_path(sha256), sha256)


@functools.lru_cache(maxsize=MAX_KNOWN_SCHEMAS)
def _read_schema(path: Path, sha256: str) -> TableManifest:
    """A manifest without its files, which are many; all of them were checked."""
    return decode_manifest(path.read_bytes(), sha256).model_copy(update={"files": ()})


def _row_count(table: TableObject, sha256: str) -> int:
    """Rows of one of the table's snapshots; 0 before the first load."""
    snapshots = (table.status.snapshot, *table.status.history)
    return next((snapshot.rows for snapshot in snapshots if snapshot and snapshot.manifest_sha256 == sha256), 0)


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
    key = tuple(types.get(name.lower(), f"no column {name}") for name in manifest.bucketed_by)
    if key != group.spec.bucket_key:
        return f"the files are bucketed by ({', '.join(key)}), the group by ({', '.join(group.spec.bucket_key)})"
    return None
