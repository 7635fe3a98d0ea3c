"""register: the tables of a namespace as ordinary Spark SQL tables over ``coloc://`` locations.

A location names the manifest, so a query that was planned reads one snapshot for its whole life; ``refresh`` picks up
new snapshots, maps and agents for the queries that follow.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from colocation.model.retention import SnapshotNotFound, find_snapshot

from .agents import NoAgentAnswers
from .catalog import Catalog, KubernetesCatalog, NotAllowed, NotInCatalog, TableObject
from .configuration import SessionSettings
from .registrar import Groups, RegisteredTable, Registrar
from .table_statement import spark_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG = logging.getLogger(__name__)
REQUESTS_KEY = "colocation.requests"
"""Session configuration: what was registered, so that ``refresh`` can do it again."""


@dataclass(frozen=True)
class _Request:
    """What a session has registered of a namespace. ``tables`` None = all; ``snapshots``: ids by table's name."""

    tables: tuple[str, ...] | None
    snapshots: dict[str, int]


_REQUESTS = TypeAdapter(dict[str, _Request])


def register(
    spark: "SparkSession",
    namespace: str | None = None,
    tables: Iterable[str] | None = None,
    catalog: Catalog | None = None,
    snapshots: Mapping[str, int] | None = None,
) -> list[RegisteredTable]:
    """Make a namespace's tables Spark SQL tables ``<namespace>.<table>``, with ``_`` for ``-``.

    Without ``tables``, one that cannot be registered does not hinder the others: it is in the answer with the reason,
    ``registered`` False, and in the log. Calling it again is cheap; tables that have not changed are left alone.

    Args:
        spark: a session with ``spark_conf()``'s configuration.
        namespace: default: ``spark.colocation.namespace``.
        tables: default: all of the namespace.
        catalog: default: the Kubernetes API.
        snapshots: ids of older snapshots to read instead of the newest one, by table.

    Raises:
        NotInCatalog: a named table does not exist, or its group.
        NoAgentAnswers: no agent has the manifest of a named table.
        SnapshotNotFound: the table does not keep such a snapshot.
        ValueError: no namespace, or a switch with a value that is not allowed.
    """
    namespace = SessionSettings.of(spark).namespace_or(namespace)
    named = None if tables is None else tuple(tables)
    chosen = dict(snapshots or {})
    registered = _register(spark, namespace, _Request(named, chosen), catalog or KubernetesCatalog())
    requests = _requests(spark)
    before = requests.get(namespace)
    if named is not None and before is not None:
        kept = {name: snapshot for name, snapshot in before.snapshots.items() if name not in named}
        everything = None if before.tables is None else tuple(dict.fromkeys((*before.tables, *named)))
        requests[namespace] = _Request(everything, kept | chosen)
    else:
        requests[namespace] = _Request(named, chosen)
    spark.conf.set(REQUESTS_KEY, _REQUESTS.dump_json(requests).decode())
    return registered


def refresh(spark: "SparkSession", catalog: Catalog | None = None) -> list[RegisteredTable]:
    """Register again what this session has registered: new snapshots, new tables, new maps, new agents.

    For sessions that live long: call it before a query that should see what was loaded meanwhile. Queries that were
    planned before keep what they were planned on. Tables that were registered at an older snapshot stay there.

    Raises:
        NotInCatalog, NoAgentAnswers: as ``register``, for tables that were named then.
    """
    catalog = catalog or KubernetesCatalog()
    return [
        table
        for namespace, request in _requests(spark).items()
        for table in _register(spark, namespace, request, catalog)
    ]


def read_snapshot(
    spark: "SparkSession",
    table: str,
    snapshot_id: int,
    namespace: str | None = None,
    catalog: Catalog | None = None,
) -> "DataFrame":
    """A table as it was at an older snapshot, as a DataFrame; in SQL it is ``<namespace>.<table>__snapshot_<id>``.

    Joins with tables of the same group stay colocated as long as the snapshot has the group's buckets.

    Raises:
        SnapshotNotFound: it was never there, or is no longer kept (``spec.retention`` of the table).
        NotInCatalog, NoAgentAnswers: as ``register``.
    """
    settings = SessionSettings.of(spark)
    namespace = settings.namespace_or(namespace)
    catalog = catalog or KubernetesCatalog()
    found = catalog.get_table(namespace, table)
    snapshot = find_snapshot(f"{namespace}.{table}", found.status, snapshot_id)
    registrar = Registrar(spark, settings)
    registrar.create_database(namespace)
    with Groups(catalog, namespace, settings, registrar.files) as groups:
        alias = f"{table}__snapshot_{snapshot_id}"
        return spark.table(registrar.register_snapshot(found, snapshot, groups, alias).name)


def _requests(spark: "SparkSession") -> dict[str, _Request]:
    return _REQUESTS.validate_json(spark.conf.get(REQUESTS_KEY, "") or "{}")


def _register(spark: "SparkSession", namespace: str, request: _Request, catalog: Catalog) -> list[RegisteredTable]:
    settings = SessionSettings.of(spark)
    registrar = Registrar(spark, settings)
    registrar.create_database(namespace)
    unknown = sorted(set(request.snapshots) - set(request.tables or request.snapshots))
    if unknown:
        raise ValueError(f"snapshots are given of {', '.join(unknown)}, which tables does not name")
    with Groups(catalog, namespace, settings, registrar.files) as groups:
        if request.tables is not None:
            named = [catalog.get_table(namespace, name) for name in request.tables]
            return [_register_one(registrar, table, groups, request.snapshots) for table in named]
        return _register_all(registrar, groups, namespace, request.snapshots, catalog)


def _register_all(
    registrar: Registrar,
    groups: Groups,
    namespace: str,
    snapshots: Mapping[str, int],
    catalog: Catalog,
) -> list[RegisteredTable]:
    """Whatever can be registered; tables that no longer exist leave the session."""
    from pyspark.errors import PySparkException

    listed = catalog.list_tables(namespace)
    found = {table.name for table in listed.tables}
    for name in sorted(set(snapshots) - found):
        raise NotInCatalog(f"ColocatedTable {namespace}/{name} does not exist")
    registered, failures = [], dict(listed.unreadable)
    taken: dict[str, str] = {}
    for table in listed.tables:
        other = taken.setdefault(spark_name(table.name), table.name)
        if other != table.name:
            failures[table.name] = f"table {other} has the same name in Spark, {spark_name(table.name)}"
            continue
        try:
            registered.append(_register_one(registrar, table, groups, snapshots))
        except SnapshotNotFound:
            raise
        except (NotInCatalog, NotAllowed, NoAgentAnswers, ValueError, PySparkException) as error:
            failures[table.name] = str(error)
    registrar.forget_others(namespace, {table.name for table in registered})
    for name, reason in failures.items():
        LOG.warning("table %s.%s was not registered: %s", namespace, name, reason)
        registered.append(_not_registered(namespace, name, reason))
    return sorted(registered, key=lambda table: table.table)


def _register_one(
    registrar: Registrar, table: TableObject, groups: Groups, snapshots: Mapping[str, int]
) -> RegisteredTable:
    if table.name in snapshots:
        snapshot = find_snapshot(f"{table.namespace}.{table.name}", table.status, snapshots[table.name])
        return registrar.register_snapshot(table, snapshot, groups, alias=table.name)
    return registrar.register(table, groups)


def _not_registered(namespace: str, name: str, reason: str) -> RegisteredTable:
    return RegisteredTable(
        name=f"{spark_name(namespace)}.{spark_name(name)}",
        namespace=namespace,
        table=name,
        group="",
        colocated=False,
        reason=reason,
        snapshot_id=0,
        location="",
        bucketed_by=(),
        buckets=0,
    )
