"""Spark's session catalog as registration may use it: it makes views of ours there, and replaces nothing else.

The catalog may be a company's metastore, where a dropped table is gone with its files. Invariant: an object is replaced
or dropped only if it was seen to be ours directly before (``is_ours`` says when it is), never with ``PURGE``, and never
in another catalog than ``spark_catalog``, whichever is the default one.
"""

import atexit
import logging
import shutil
import tempfile
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

from ..quoting import qualified, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger(__name__)

SESSION_CATALOG = "spark_catalog"
"""Named in every statement: another catalog may be the session's default one."""
MARK = "colocation.dev/table"
"""Property of what registration makes: ``<namespace>/<table>`` of the ColocatedTable."""
CATALOG_PLUGIN = f"spark.sql.catalog.{SESSION_CATALOG}"
CATALOG_KIND = "spark.sql.catalogImplementation"
TAKEN = ("TABLE_OR_VIEW_ALREADY_EXISTS", "EXPECT_VIEW_NOT_TABLE")
"""Errors of Spark's: the name was taken after the look."""
CREATE_ATTEMPTS = 3
"""Other applications may register the same namespace in the same metastore at the same time."""
VIEW = "VIEW"

_ONE_AT_A_TIME = threading.Lock()
"""Sessions of one driver share the catalog."""


class ForeignTable(Exception):
    """The name is taken by a table or view that registration did not make; it was left as it is."""


@dataclass(frozen=True)
class CatalogEntry:
    """A table or view in the session catalog.

    Attributes:
        kind: Spark's table type: ``MANAGED``, ``EXTERNAL``, ``VIEW``.
        provider: e.g. ``parquet``, ``hive``; empty for views.
        location: URI; empty for views.
        mark: the value of the property ``colocation.dev/table``; empty when it has none.
        text: of a view, the query.
    """

    kind: str
    provider: str
    location: str
    mark: str
    text: str = ""

    def __str__(self) -> str:
        facts = [self.kind, f"provider {self.provider}" if self.provider else "",
                 f"location {self.location}" if self.location else "", f"{MARK}={self.mark}" if self.mark else ""]
        return ", ".join(filter(None, facts))


def is_ours(entry: CatalogEntry, namespace: str) -> bool:
    """Whether registration made the entry for a table of this Kubernetes namespace. Pure.

    A view with our mark; or, of earlier releases, an external table with it at a ``coloc://`` location.
    """
    looks_so = entry.kind == VIEW or (
        entry.kind == "EXTERNAL" and entry.location.startswith(f"coloc://{namespace}/")
    )
    return looks_so and entry.mark.startswith(f"{namespace}/")


class SessionCatalog:
    """The database in which a namespace's tables are registered.

    Args:
        spark: the session.
        namespace: the Kubernetes namespace.
        database: the database's name in Spark.
    """

    def __init__(self, spark: "SparkSession", namespace: str, database: str) -> None:
        self._spark = spark
        self._namespace = namespace
        self.database = database

    def create_database(self) -> None:
        """Make the database, unless it is there: then it stays as it is, whoever made it.

        It lies in the warehouse, as any other: what users make in it must not go with this driver. Only where there can
        be no folder in the warehouse, and the catalog is this driver's own memory, it lies among its temporary files.
        """
        if self._java_catalog().databaseExists(self.database):
            return
        statement = f"CREATE DATABASE IF NOT EXISTS {qualified(SESSION_CATALOG, self.database)}"
        try:
            self._spark.sql(statement)
        except (PySparkException, Py4JJavaError):
            if self._spark.conf.get(CATALOG_KIND, "in-memory") != "in-memory":
                raise
            folder = tempfile.mkdtemp(prefix="colocation-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            LOG.warning("database %s is made in %s", self.database, folder, exc_info=True)
            self._spark.sql(f"{statement} LOCATION '{folder}'")

    def find(self, name: str) -> CatalogEntry | None:
        """The table or view of this name; None when there is none."""
        catalog = self._java_catalog()
        identifier = self._identifier(name)
        if not catalog.tableExists(identifier):
            return self._find_in_plugin(name)
        found = catalog.getTableMetadata(identifier)
        return CatalogEntry(
            kind=str(found.tableType().name()),
            provider=_text(found.provider()),
            location=_text(found.storage().locationUri()),
            mark=_text(found.properties().get(MARK)),
            text=_text(found.viewText()),
        )

    def put_view(self, name: str, table: str, query: str) -> None:
        """Make a view of a ColocatedTable, or make it read this query. One that reads it already is left alone.

        Its columns are the query's whenever it is read, so a table whose columns change needs nothing. A view of ours
        is replaced in one statement: queries of others find the one or the other. Spark replaces views only, so a
        table that takes the name after the look stays.

        Raises:
            ForeignTable: the name is taken by something else; nothing changed.
        """
        mark = f"{self._namespace}/{table}"
        definition = f"WITH SCHEMA EVOLUTION TBLPROPERTIES ('{MARK}'='{mark}') AS {query}"
        view = qualified(SESSION_CATALOG, self.database, name)
        with _ONE_AT_A_TIME:
            for attempt in range(CREATE_ATTEMPTS):
                create = "CREATE VIEW"
                entry = self.find(name)
                if entry is not None:
                    self._refuse_foreign(name, entry)
                    if (entry.kind, entry.mark, entry.text) == (VIEW, mark, query):
                        return
                    if entry.kind == VIEW:
                        create = "CREATE OR REPLACE VIEW"
                    else:
                        self._drop(name, entry)
                try:
                    self._spark.sql(f"{create} {view} {definition}")
                    return
                except AnalysisException as error:
                    if not (error.getCondition() or "").startswith(TAKEN) or attempt == CREATE_ATTEMPTS - 1:
                        raise

    def drop_view(self, name: str) -> None:
        """Drop what registration made; what is not ours stays."""
        with _ONE_AT_A_TIME:
            entry = self.find(name)
            if entry is None:
                return
            if is_ours(entry, self._namespace):
                self._drop(name, entry)
            else:
                LOG.warning("%s.%s is left as it is: it is not ours: %s", self.database, name, entry)

    def _drop(self, name: str, entry: CatalogEntry) -> None:
        kind = "VIEW" if entry.kind == VIEW else "TABLE"
        self._spark.sql(f"DROP {kind} IF EXISTS {qualified(SESSION_CATALOG, self.database, name)}")

    def _refuse_foreign(self, name: str, entry: CatalogEntry) -> None:
        if is_ours(entry, self._namespace):
            return
        raise ForeignTable(
            f"{SESSION_CATALOG}.{self.database}.{name} exists and is not a view that register made of namespace "
            f"{self._namespace}: catalog {SESSION_CATALOG}, database {self.database}, {entry}. register replaces only "
            f"its own (property {MARK}={self._namespace}/…); this one stays as it is. Register into another database, "
            f"register(spark, database=\"{self.database}_colocation\"), or rename that table"
        )

    def _find_in_plugin(self, name: str) -> CatalogEntry | None:
        """Of a catalog that stands in front of the session's (Iceberg's, Delta's): a table that only it knows."""
        plugin = self._spark.conf.get(CATALOG_PLUGIN, "")
        if not plugin or not self._spark.catalog.tableExists(qualified(SESSION_CATALOG, self.database, name)):
            return None
        return CatalogEntry(kind="table", provider=f"known to {plugin} only", location="", mark="")

    def _identifier(self, name: str) -> Any:
        return self._java_state().sqlParser().parseTableIdentifier(f"{quote(self.database)}.{quote(name)}")

    def _java_catalog(self) -> Any:
        return self._java_state().catalog()

    def _java_state(self) -> Any:
        return self._spark._jsparkSession.sessionState()


def _text(option: Any) -> str:
    """A Scala ``Option`` as text; None as the empty one."""
    return str(option.get()) if option.isDefined() else ""
