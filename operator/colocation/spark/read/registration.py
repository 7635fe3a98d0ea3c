"""register: the tables of a namespace by names of the session catalog, each a view over the catalog's table.

The catalog decides everything when a query is planned: the snapshot, the buckets, whether the join is colocated.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pydantic import TypeAdapter
from pyspark.errors import PySparkException

from ..configuration import CATALOG, SessionSettings
from ..quoting import qualified
from .session_catalog import ForeignTable, SessionCatalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG = logging.getLogger(__name__)
REQUESTS_KEY = "colocation.requests"
"""Session configuration: what was registered, so that ``refresh`` can do it again."""
DATABASE_NAME = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True)
class RegisteredTable:
    """One table as this session sees it.

    Attributes:
        name: its name in Spark SQL, ``<database>.<table>``, with ``_`` for the ``-`` that Spark does not allow; the
            database is named as the namespace unless another one was asked for.
        table: the ColocatedTable's name.
        group: its colocation group, ``<namespace>/<name>``; empty = none.
        colocated: whether Spark sees its buckets, as things stand; each query asks anew.
        reason: why not, or what qualifies it; empty otherwise. Of one that is not registered: why not.
        snapshot_id: what is read; 0 = nothing was loaded yet.
        registered: whether queries can name it.
    """

    name: str
    namespace: str
    table: str
    group: str = ""
    colocated: bool = False
    reason: str = ""
    snapshot_id: int = 0
    buckets: int = 0
    registered: bool = True


@dataclass(frozen=True)
class _Request:
    """What a session has registered of a namespace.

    Attributes:
        tables: None = all.
        snapshots: ids of older ones, by table.
        database: where, in Spark.
        catalog: of the session.
        made: names in the database.
    """

    tables: tuple[str, ...] | None
    snapshots: dict[str, int]
    database: str
    catalog: str
    made: tuple[str, ...] = ()

    def after(self, before: "_Request") -> "_Request":
        """Both: the tables that are named here, and those of before."""
        if self.tables is None:
            return self
        kept = {name: snapshot for name, snapshot in before.snapshots.items() if name not in self.tables}
        everything = None if before.tables is None else tuple(dict.fromkeys((*before.tables, *self.tables)))
        made = tuple(dict.fromkeys((*before.made, *self.made)))
        return replace(self, tables=everything, snapshots=kept | self.snapshots, made=made)


_REQUESTS = TypeAdapter(dict[str, _Request])


def register(
    spark: "SparkSession",
    namespace: str | None = None,
    tables: Iterable[str] | None = None,
    snapshots: Mapping[str, int] | None = None,
    database: str | None = None,
    catalog: str = CATALOG,
) -> list[RegisteredTable]:
    """Let queries name a namespace's tables ``<namespace>.<table>``, with ``_`` for ``-``.

    Each name is a view over ``<catalog>.<namespace>.<table>`` in Spark's session catalog (``spark_catalog``). A table
    or view there that registration did not make is never dropped nor replaced: the ColocatedTable of its name is not
    registered. Without ``tables``, one that cannot be registered does not hinder the others: it is in the answer with
    the reason, ``registered`` False, and in the log.

    Args:
        spark: a session with ``spark_conf()``'s configuration.
        namespace: default: ``spark.colocation.namespace``.
        tables: default: all of the namespace.
        snapshots: ids of older snapshots to read instead of the newest one, by table. The view is pinned for all who
            share the session catalog: the driver's other sessions, with a metastore other applications, too, and
            longer than this session. For oneself: ``VERSION AS OF`` in the query, or a ``database`` of one's own.
        database: the database in Spark to make them in; default: named as the namespace.
        catalog: the session's ColocationCatalog.

    Raises:
        AnalysisException: a named table, or the namespace, does not exist; it cannot be read; it does not keep such a
            snapshot. The message says which, and why.
        ForeignTable: the name of a named table is taken in Spark by something that registration did not make.
        ValueError: no namespace, a database's name that Spark does not take, snapshots of tables that are not named,
            or another kind of catalog.
    """
    namespace = SessionSettings.of(spark).namespace_or(namespace)
    named = None if tables is None else tuple(map(object_name, tables))
    chosen = {object_name(table): snapshot for table, snapshot in (snapshots or {}).items()}
    unknown = sorted(set(chosen) - set(chosen if named is None else named))
    if unknown:
        raise ValueError(f"snapshots are given of {', '.join(unknown)}, which tables does not name")
    before = _requests(spark).get(namespace)
    where = _checked(database) if database else (before.database if before else spark_name(namespace))
    return _register(spark, namespace, _Request(named, chosen, where, catalog), before)


def refresh(spark: "SparkSession") -> list[RegisteredTable]:
    """Register again what this session has registered: tables that are new, or gone, since.

    What was loaded meanwhile, and what has changed in groups and columns, every query sees without it.

    Raises:
        AnalysisException, ForeignTable: as ``register``, for tables that were named then.
    """
    return [
        table
        for namespace, request in _requests(spark).items()
        for table in _register(spark, namespace, request, request)
    ]


def read_snapshot(
    spark: "SparkSession", table: str, snapshot_id: int, namespace: str | None = None, catalog: str = CATALOG
) -> "DataFrame":
    """A table as it was at an older snapshot: ``SELECT * FROM <catalog>.<namespace>.<table> VERSION AS OF <id>``.

    Joins with tables of the same group stay colocated as long as the snapshot has the group's buckets.

    Raises:
        AnalysisException: there is no such table, or it does not keep that snapshot; the message lists those it keeps.
    """
    namespace = SessionSettings.of(spark).namespace_or(namespace)
    return spark.sql(_query(qualified(catalog, namespace, table), snapshot_id))


def spark_name(name: str) -> str:
    """What a Kubernetes name is in Spark's session catalog, which takes letters, digits and ``_`` only."""
    return name.replace("-", "_").replace(".", "_")


def object_name(name: str) -> str:
    """The object that a name in SQL means; the same rule as ``Names.ofSql`` of the catalog in Java."""
    return name.lower().replace("_", "-")


def _query(table: str, snapshot: int | None) -> str:
    return f"SELECT * FROM {table}" + ("" if snapshot is None else f" VERSION AS OF {int(snapshot)}")


def _checked(database: str) -> str:
    if not DATABASE_NAME.fullmatch(database):
        raise ValueError(f"database={database!r}; allowed: letters, digits and _, as Spark names databases")
    return database


def _requests(spark: "SparkSession") -> dict[str, _Request]:
    return _REQUESTS.validate_json(spark.conf.get(REQUESTS_KEY, "") or "{}")


def _register(
    spark: "SparkSession", namespace: str, request: _Request, before: _Request | None
) -> list[RegisteredTable]:
    """Do what is asked, take away what this session made before of tables that are gone, and remember it."""
    registration = _Registration(spark, namespace, request)
    found = registration.all_tables() if request.tables is None else registration.named(request.tables)
    stays = before if before is not None and before.database == request.database else None
    made = tuple(spark_name(one.table) for one in found if one.registered or _was_made(one.table, stays))
    done = replace(request, made=made)
    if before is not None:
        done = done.after(stays or replace(before, made=()))
        catalog = SessionCatalog(spark, namespace, before.database)
        for name in set(before.made) - set(done.made if stays else ()):
            catalog.drop_view(name)
    spark.conf.set(REQUESTS_KEY, _REQUESTS.dump_json({**_requests(spark), namespace: done}).decode())
    return found


def _was_made(table: str, before: _Request | None) -> bool:
    """A view over a table that cannot be read stays: whoever names it is told why."""
    return before is not None and spark_name(table) in before.made


class _Registration:
    """One session's views over one namespace's tables."""

    def __init__(self, spark: "SparkSession", namespace: str, request: _Request) -> None:
        self._spark = spark
        self._namespace = namespace
        self._request = request
        self._views = SessionCatalog(spark, namespace, request.database)

    def named(self, tables: Iterable[str]) -> list[RegisteredTable]:
        """Those that were asked for by name: what fails is an error."""
        self._views.create_database()
        return [self._register(table) for table in tables]

    def all_tables(self) -> list[RegisteredTable]:
        """Whatever can be registered of the namespace."""
        shown = self._spark.sql(f"SHOW TABLES IN {qualified(self._request.catalog, self._namespace)}").collect()
        tables = sorted(object_name(str(row["tableName"])) for row in shown)
        self._views.create_database()
        for name in self._request.snapshots:
            self._register(name)  # what the caller asked for by name
        first: dict[str, str] = {}
        return [self._register_if_possible(table, first.setdefault(spark_name(table), table)) for table in tables]

    def _register_if_possible(self, table: str, first_of_its_name: str) -> RegisteredTable:
        try:
            if table != first_of_its_name:
                raise ForeignTable(f"table {first_of_its_name} has the same name in Spark, {spark_name(table)}")
            return self._register(table)
        except (ForeignTable, PySparkException, Py4JJavaError) as error:
            reason = str(error).partition("\n")[0]
            LOG.warning("table %s.%s is not registered: %s", self._namespace, table, reason)
            return RegisteredTable(self._name(table), self._namespace, table, reason=reason, registered=False)

    def _register(self, table: str) -> RegisteredTable:
        source = qualified(self._request.catalog, self._namespace, table)
        properties = {row["key"]: row["value"] for row in self._spark.sql(f"SHOW TBLPROPERTIES {source}").collect()}
        if "colocate" not in properties:
            raise ValueError(f"{source} is not a ColocatedTable: {self._request.catalog} is not a ColocationCatalog")
        snapshot = self._request.snapshots.get(table)
        query = _query(source, snapshot)
        if properties.get("readable") == "false":
            _ = self._spark.sql(query).schema  # raises the error that every query of it ends in
        self._views.put_view(spark_name(table), table, query)
        return RegisteredTable(
            name=self._name(table),
            namespace=self._namespace,
            table=table,
            group=properties.get("group", ""),
            colocated=properties["colocate"] == "true",
            reason=properties.get("reason", ""),
            snapshot_id=int(properties["snapshot"]) if snapshot is None else snapshot,
            buckets=int(properties["buckets"]),
        )

    def _name(self, table: str) -> str:
        return f"{self._request.database}.{spark_name(table)}"
