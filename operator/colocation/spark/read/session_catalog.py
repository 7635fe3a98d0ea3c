"""Spark's session catalog as registration may use it: it makes tables and views of ours there, and drops nothing else.

The catalog may be a company's metastore, where a dropped table is gone with its files. Invariant: an object is dropped
only if it was seen to be ours directly before (``foreign_part`` says when it is), never with ``PURGE``, and never in
another catalog than ``spark_catalog``, whichever is the default one. Catalogs know no conditional drop, so somebody who
replaces a table of ours within the milliseconds between look and drop is not noticed; a table made after the drop is.
"""

import contextlib
import logging
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

from .table_statement import MARK, SCHEME, SESSION_CATALOG, STORED_SUFFIX, qualified, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger(__name__)

CATALOG_PLUGIN = f"spark.sql.catalog.{SESSION_CATALOG}"
CATALOG_KIND = "spark.sql.catalogImplementation"
MANAGED_PARTITIONS = "spark.sql.hive.manageFilesourcePartitions"
ALREADY_EXISTS = "TABLE_OR_VIEW_ALREADY_EXISTS"
CREATE_ATTEMPTS = 3
"""Other applications may register the same namespace in the same metastore at the same time."""

_OLD_VIEW_COMMENT = re.compile(r"snapshot \d+, (?:in \d+ buckets|without its buckets), of coloc://(?P<namespace>[^/]+)/")
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
        comment: its description.
        text: of a view, the query.
    """

    kind: str
    provider: str
    location: str
    mark: str
    comment: str
    text: str = ""

    def __str__(self) -> str:
        facts = [self.kind, f"provider {self.provider}" if self.provider else "",
                 f"location {self.location}" if self.location else "", f"{MARK}={self.mark}" if self.mark else ""]
        return ", ".join(filter(None, facts))


def is_ours(entry: CatalogEntry, namespace: str) -> bool:
    """Whether registration made the entry for a table of this Kubernetes namespace. Pure.

    A table: external, Parquet, at a ``coloc://`` location of the namespace, and our mark, if any, is of the namespace
    (releases before the mark set none). A view: it has our mark, or is what those releases made, to the letter.
    """
    marked = entry.mark.startswith(f"{namespace}/")
    if entry.kind == "VIEW":
        comment = _OLD_VIEW_COMMENT.match(entry.comment)
        of_stored_table = entry.text.rstrip().endswith(f"{STORED_SUFFIX}`")
        before_marks = not entry.mark and comment is not None and comment["namespace"] == namespace
        return (marked or before_marks) and of_stored_table
    located = entry.location.startswith(f"{SCHEME}{namespace}/")
    described = entry.kind == "EXTERNAL" and entry.provider.lower() == "parquet"
    return described and located and (marked or not entry.mark)


class SessionCatalog:
    """One database of the session catalog, in which a namespace's tables are registered.

    Args:
        spark: the session.
        namespace: the Kubernetes namespace.
        database: the database's name in Spark.
    """

    def __init__(self, spark: "SparkSession", namespace: str, database: str) -> None:
        self._spark = spark
        self._namespace = namespace
        self.database = database

    def create_database(self, fallback_folder: str) -> None:
        """Make the database, unless it is there: then it stays as it is, whoever made it.

        It lies in the warehouse, as any other: what users make in it must not go with this driver. Only where there can
        be no folder in the warehouse, and the catalog is this driver's own memory, it lies in ``fallback_folder``.
        """
        if self._java_catalog().databaseExists(self.database):
            return
        statement = f"CREATE DATABASE IF NOT EXISTS {quote(SESSION_CATALOG)}.{quote(self.database)}"
        try:
            self._spark.sql(statement)
        except (PySparkException, Py4JJavaError):
            if self._spark.conf.get(CATALOG_KIND, "in-memory") != "in-memory":
                raise
            LOG.warning("database %s is made in %s", self.database, fallback_folder, exc_info=True)
            self._spark.sql(f"{statement} LOCATION '{fallback_folder}'")

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
            comment=_text(found.comment()),
            text=_text(found.viewText()),
        )

    def replace(self, name: str, statements: Sequence[str]) -> None:
        """Make a table of ours anew, with ``create_table_statements``' statements.

        Raises:
            ForeignTable: the name, or that of the table below its view, is taken by something else; nothing changed.
        """
        names = (name, name + STORED_SUFFIX) if len(statements) > 1 else (name,)
        with _ONE_AT_A_TIME:
            for attempt in range(CREATE_ATTEMPTS):
                for needed in names:
                    self._refuse_foreign(needed)
                self._drop_both(name)
                try:
                    with self._partitions_by_listing():
                        for statement in statements:
                            self._spark.sql(statement)
                    return
                except AnalysisException as error:
                    if error.getCondition() != ALREADY_EXISTS or attempt == CREATE_ATTEMPTS - 1:
                        raise

    @contextlib.contextmanager
    def _partitions_by_listing(self) -> Iterator[None]:
        """Tables that are made meanwhile have the partitions that their manifest says, listed with their locations.

        Partitions kept in the session catalog would be listed by jobs, without locations: 6.2 s against 0.23 s with 400
        partitions. What a table does is decided when it is made; other tables of the session are not concerned.
        """
        before = self._spark.conf.get(MANAGED_PARTITIONS, None)
        self._spark.conf.set(MANAGED_PARTITIONS, "false")
        try:
            yield
        finally:
            if before is None:
                self._spark.conf.unset(MANAGED_PARTITIONS)
            else:
                self._spark.conf.set(MANAGED_PARTITIONS, before)

    def drop(self, name: str) -> None:
        """Drop a table of ours, or a view of ours and the table below it; what is not ours stays."""
        with _ONE_AT_A_TIME:
            self._drop_both(name)

    def _drop_both(self, name: str) -> None:
        for candidate in (name, name + STORED_SUFFIX):
            entry = self.find(candidate)
            if entry is None:
                continue
            if not is_ours(entry, self._namespace):
                LOG.warning("%s.%s is left as it is: it is not ours: %s", self.database, candidate, entry)
                continue
            kind = "VIEW" if entry.kind == "VIEW" else "TABLE"
            self._spark.sql(f"DROP {kind} IF EXISTS {qualified(self.database, candidate)}")

    def _refuse_foreign(self, name: str) -> None:
        entry = self.find(name)
        if entry is None or is_ours(entry, self._namespace):
            return
        raise ForeignTable(
            f"{SESSION_CATALOG}.{self.database}.{name} exists and is not a table that register made of namespace "
            f"{self._namespace}: catalog {SESSION_CATALOG}, database {self.database}, {entry}. register replaces only "
            f"its own (external, location {SCHEME}{self._namespace}/…, property {MARK}); this one stays as it is. "
            f"Register into another database, register(spark, database=\"{self.database}_colocation\"), or rename that "
            "table"
        )

    def _find_in_plugin(self, name: str) -> CatalogEntry | None:
        """Of a catalog that stands in front of the session's (Iceberg's, Delta's): a table that only it knows."""
        plugin = self._spark.conf.get(CATALOG_PLUGIN, "")
        if not plugin or not self._spark.catalog.tableExists(qualified(self.database, name)):
            return None
        return CatalogEntry(kind="table", provider=f"known to {plugin} only", location="", mark="", comment="")

    def _identifier(self, name: str) -> Any:
        return self._java_state().sqlParser().parseTableIdentifier(f"{quote(self.database)}.{quote(name)}")

    def _java_catalog(self) -> Any:
        return self._java_state().catalog()

    def _java_state(self) -> Any:
        return self._spark._jsparkSession.sessionState()


def _text(option: Any) -> str:
    """A Scala ``Option`` as text; None as the empty one."""
    return str(option.get()) if option.isDefined() else ""
