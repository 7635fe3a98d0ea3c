"""register: the tables of a namespace as ordinary Spark SQL tables over ``coloc://`` locations.

A location names the manifest, so a query that was planned reads one snapshot for its whole life; ``refresh`` picks up
new snapshots, maps and agents for the queries that follow.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import TypeAdapter
from pyspark.errors import PySparkException

from colocation.model.conditions import Reason
from colocation.model.retention import SnapshotNotFound, find_snapshot

from ..agents import NoAgentAnswers
from ..catalog import Catalog, KubernetesCatalog, NoAnswer, NotAllowed, NotInCatalog, RequestRefused, TableObject
from ..configuration import SessionSettings
from .registrar import Groups, RegisteredTable, Registrar
from .session_catalog import ForeignTable
from .table_statement import qualified, spark_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG = logging.getLogger(__name__)
REQUESTS_KEY = "colocation.requests"
"""Session configuration: what was registered, so that ``refresh`` can do it again."""

EXPECTED_FAILURES = (
    NotInCatalog, NotAllowed, RequestRefused, NoAgentAnswers, ForeignTable, ValueError, PySparkException,
)
DATABASE_NAME = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True)
class _Request:
    """What a session has registered of a namespace.

    ``tables`` None = all; ``snapshots``: ids by table's name; ``database``: empty = named as the namespace.
    """

    tables: tuple[str, ...] | None
    snapshots: dict[str, int]
    database: str = ""


_REQUESTS = TypeAdapter(dict[str, _Request])


def register(
    spark: "SparkSession",
    namespace: str | None = None,
    tables: Iterable[str] | None = None,
    catalog: Catalog | None = None,
    snapshots: Mapping[str, int] | None = None,
    database: str | None = None,
) -> list[RegisteredTable]:
    """Make a namespace's tables Spark SQL tables ``<namespace>.<table>``, with ``_`` for ``-``.

    Without ``tables``, one that cannot be registered does not hinder the others: it is in the answer with the reason,
    ``registered`` False, and in the log. Calling it again is cheap; tables that have not changed are left alone.

    They are made in Spark's session catalog (``spark_catalog``). A table or view there that registration did not make
    is never dropped nor replaced: the ColocatedTable of its name is not registered.

    Args:
        spark: a session with ``spark_conf()``'s configuration.
        namespace: default: ``spark.colocation.namespace``.
        tables: default: all of the namespace.
        catalog: default: the Kubernetes API.
        snapshots: ids of older snapshots to read instead of the newest one, by table.
        database: the database in Spark to make them in; default: named as the namespace.

    Raises:
        NotInCatalog: a named table does not exist, or its group.
        NoAgentAnswers: no agent has the manifest of a named table.
        ForeignTable: the name of a named table is taken in Spark by something that registration did not make.
        SnapshotNotFound: the table does not keep such a snapshot.
        ValueError: no namespace, a database's name that Spark does not take, or a switch with a value that is not
            allowed.
    """
    namespace = SessionSettings.of(spark).namespace_or(namespace)
    named = None if tables is None else tuple(tables)
    chosen = dict(snapshots or {})
    requests = _requests(spark)
    before = requests.get(namespace)
    where = _checked(database) if database else (before.database if before else "")
    registered = _register(spark, namespace, _Request(named, chosen, where), catalog or KubernetesCatalog())
    if named is not None and before is not None:
        kept = {name: snapshot for name, snapshot in before.snapshots.items() if name not in named}
        everything = None if before.tables is None else tuple(dict.fromkeys((*before.tables, *named)))
        requests[namespace] = _Request(everything, kept | chosen, where)
    else:
        requests[namespace] = _Request(named, chosen, where)
    spark.conf.set(REQUESTS_KEY, _REQUESTS.dump_json(requests).decode())
    return registered


def refresh(spark: "SparkSession", catalog: Catalog | None = None) -> list[RegisteredTable]:
    """Register again what this session has registered: new snapshots, new tables, new maps, new agents.

    For sessions that live long: call it before a query that should see what was loaded meanwhile. Queries that were
    planned before keep what they were planned on. Tables that were registered at an older snapshot stay there.

    Raises:
        NotInCatalog, NoAgentAnswers, ForeignTable: as ``register``, for tables that were named then.
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
        NotInCatalog, NoAgentAnswers, ForeignTable: as ``register``.
    """
    settings = SessionSettings.of(spark)
    namespace = settings.namespace_or(namespace)
    catalog = catalog or KubernetesCatalog()
    found = catalog.get_table(namespace, table)
    found.check_status()
    snapshot = find_snapshot(f"{namespace}.{table}", found.status, snapshot_id)
    before = _requests(spark).get(namespace)
    registrar = Registrar(spark, settings, namespace, before.database if before else "")
    registrar.create_database()
    with Groups(catalog, namespace, settings, registrar.files) as groups:
        alias = f"{table}__snapshot_{snapshot_id}"
        registered = registrar.register_snapshot(found, snapshot, groups, alias)
    return spark.table(qualified(*registered.name.split(".")))


def _checked(database: str) -> str:
    if not DATABASE_NAME.fullmatch(database):
        raise ValueError(f"database={database!r}; allowed: letters, digits and _, as Spark names databases")
    return database


def _requests(spark: "SparkSession") -> dict[str, _Request]:
    return _REQUESTS.validate_json(spark.conf.get(REQUESTS_KEY, "") or "{}")


def _register(spark: "SparkSession", namespace: str, request: _Request, catalog: Catalog) -> list[RegisteredTable]:
    settings = SessionSettings.of(spark)
    unknown = sorted(set(request.snapshots) - set(request.tables or request.snapshots))
    if unknown:
        raise ValueError(f"snapshots are given of {', '.join(unknown)}, which tables does not name")
    registrar = Registrar(spark, settings, namespace, request.database)
    registrar.create_database()
    with Groups(catalog, namespace, settings, registrar.files) as groups:
        if request.tables is not None:
            named = [catalog.get_table(namespace, name) for name in request.tables]
            return [_register_one(registrar, table, groups, request.snapshots) for table in named]
        return _register_all(registrar, groups, namespace, request, catalog)


def _register_all(
    registrar: Registrar, groups: Groups, namespace: str, request: _Request, catalog: Catalog
) -> list[RegisteredTable]:
    """Whatever can be registered; tables that no longer exist leave the session."""
    listed = catalog.list_tables(namespace)
    found = {table.name for table in listed.tables}
    for name in sorted(set(request.snapshots) - found):
        raise NotInCatalog(f"ColocatedTable {namespace}/{name} does not exist")
    registered, failures = [], dict(listed.unreadable)
    taken: dict[str, str] = {}
    for table in listed.tables:
        other = taken.setdefault(spark_name(table.name), table.name)
        if other != table.name:
            failures[table.name] = f"table {other} has the same name in Spark, {spark_name(table.name)}"
            continue
        try:
            registered.append(_register_one(registrar, table, groups, request.snapshots))
        except (SnapshotNotFound, NoAnswer):
            raise  # what the caller asked for; what is no fault of one table
        except EXPECTED_FAILURES as error:
            failures[table.name] = str(error)
        except Exception as error:  # its objects and manifest are written by others: its fault hinders no other table
            LOG.warning("table %s.%s", namespace, table.name, exc_info=True)
            failures[table.name] = f"{Reason.INTERNAL_ERROR}: {type(error).__name__}: {error}"
    registrar.forget_others({table.name for table in registered})
    for name, reason in failures.items():
        LOG.warning("table %s.%s was not registered: %s", namespace, name, reason)
        registered.append(_not_registered(namespace, name, reason, registrar.database))
    return sorted(registered, key=lambda table: table.table)


def _register_one(
    registrar: Registrar, table: TableObject, groups: Groups, snapshots: Mapping[str, int]
) -> RegisteredTable:
    table.check_status()
    if table.name in snapshots:
        snapshot = find_snapshot(f"{table.namespace}.{table.name}", table.status, snapshots[table.name])
        return registrar.register_snapshot(table, snapshot, groups, alias=table.name)
    return registrar.register(table, groups)


def _not_registered(namespace: str, name: str, reason: str, database: str) -> RegisteredTable:
    return RegisteredTable(
        name=f"{database}.{spark_name(name)}",
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
