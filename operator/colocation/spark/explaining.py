"""``explain``: Spark's plan with a verdict per join, group-by, window and change; ``read_metrics``: bytes read.

Verdicts are made in Java (``dev.colocation.spark.explain``), and asked for over py4j, or, of a Spark Connect server, by
the procedure ``system.explain`` of the catalog.
"""

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .configuration import CATALOG, literal, qualified

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

@dataclass(frozen=True)
class ReadMetrics:
    """Bytes and files read through ``coloc://``. A file that was read from both places counts in both."""

    local_bytes: int
    remote_bytes: int
    local_files: int
    remote_files: int

    def __sub__(self, mark: "ReadMetrics") -> "ReadMetrics":
        return ReadMetrics(
            self.local_bytes - mark.local_bytes,
            self.remote_bytes - mark.remote_bytes,
            self.local_files - mark.local_files,
            self.remote_files - mark.remote_files,
        )


def read_metrics(spark: "SparkSession", since: ReadMetrics | None = None) -> ReadMetrics:
    """What the application's finished tasks have read since it started, or since an earlier answer.

    Queries that run at the same time are counted together.

    Raises:
        RuntimeError: the application was started without the jar of the ``coloc://`` file system.
    """
    totals = ReadMetrics(*_java(spark).fs.ReadMetrics.totals())
    return totals - since if since else totals


@dataclass(frozen=True)
class Explanation:
    """What ``explain`` and ``explain_json`` return, of a plan that is made and read once."""

    text: str
    verdicts: dict[str, Any]


def explain(query: "DataFrame | str", spark: "SparkSession | None" = None, catalog: str = CATALOG) -> str:
    """Spark's physical plan, followed by ``colocate: true`` or ``colocate: false, reason: …`` for each join, group-by
    and window, and what this application has read so far from local disks and from other nodes.

    Of an UPDATE, DELETE or MERGE of single rows: how often each of its queries shuffles and sorts, and why.

    Args:
        query: a DataFrame; after it was run, the plan is the one that was executed, but over Spark Connect, where it is
            planned again. Or the text of a SQL statement, which is not run. An UPDATE, DELETE or MERGE is explained by
            its text.
        spark: the session for SQL text; default: the active one.
        catalog: the session's ColocationCatalog, which Spark Connect asks.

    Raises:
        ValueError: SQL text, but no session.
        RuntimeError: the application was started without the jar of the ``coloc://`` file system.
    """
    session = _session(query, spark)
    return _by_call(query, session, catalog, "text") if _is_remote(session) else str(_explained(query, session).text())


def explain_json(
    query: "DataFrame | str", spark: "SparkSession | None" = None, catalog: str = CATALOG
) -> dict[str, Any]:
    """The same for programs. Arguments as for ``explain``.

    Returns:
        ``{"joins": [{"join", "type", "keys", "tables", "colocate", "reason", "note"}],
        "aggregates": [{"operator", "keys", "tables", "colocate", "reason", "note"}], "windows": [the same],
        "exchanges": shuffles between a table scan and a join, "final": whether execution cannot change it any more,
        "changes": of a statement of single rows that has not run [{"query", "shuffles", "sorts", "reasons"}]}``.
    """
    session = _session(query, spark)
    text = _by_call(query, session, catalog, "json") if _is_remote(session) else _explained(query, session).json()
    found: dict[str, Any] = json.loads(text)
    return found


def explanation_of(query: "DataFrame | str", spark: "SparkSession | None" = None) -> Explanation:
    """Both, in a session that is not of Spark Connect. Arguments as for ``explain``."""
    explained = _explained(query, _session(query, spark))
    return Explanation(explained.text(), json.loads(explained.json()))


def count_exchanges(df: "DataFrame") -> int:
    """Shuffle Exchanges between a table scan and a join; run the query first to see the plan that was executed."""
    return int(explain_json(df)["exchanges"])


def _session(query: "DataFrame | str", spark: "SparkSession | None") -> "SparkSession":
    if not isinstance(query, str):
        return query.sparkSession
    from pyspark.sql import SparkSession

    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise ValueError("no active session: pass explain(statement, spark)")
    return session


def _is_remote(session: "SparkSession") -> bool:
    """Whether it is a session of Spark Connect, whose plans are made in another process."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _explained(query: "DataFrame | str", session: "SparkSession") -> Any:
    """Java's ``Explanation``."""
    explanation = _java(session).explain.Explanation
    if isinstance(query, str):
        return explanation.of(session._jsparkSession, query)
    return explanation.of(query._jdf.queryExecution())


def _by_call(query: "DataFrame | str", session: "SparkSession", catalog: str, form: str) -> str:
    """The explanation by the catalog's procedure; a DataFrame is given a name for that."""
    if isinstance(query, str):
        call = f"CALL {qualified(catalog, 'system', 'explain')}({literal(query)}, {literal(form)})"
        return str(session.sql(call).collect()[0][0])
    name = f"colocation_explained_{uuid.uuid4().hex}"
    query.createTempView(name)
    try:
        return _by_call(f"SELECT * FROM {name}", session, catalog, form)
    finally:
        session.catalog.dropTempView(name)


def _java(session: "SparkSession") -> Any:
    """Our packages in the driver's JVM."""
    from py4j.java_gateway import JavaPackage

    java: Any = session.sparkContext._jvm
    ours = java.dev.colocation.spark
    if isinstance(ours.fs.ReadMetrics, JavaPackage):
        raise RuntimeError(
            "this application has no jar of the coloc:// file system: start its session with "
            "colocation.spark.configure(SparkSession.builder, …), or with colocation.spark.spark_conf(…)"
        )
    return ours
