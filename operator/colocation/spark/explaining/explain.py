"""``explain``: Spark's plan with a verdict per join, group-by, window and change; ``read_metrics``: bytes read."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from . import verdicts
from .plan_reader import ChangeReport, JavaObject, execution_of, is_final, read_changes, read_plan
from .verdicts import GroupingReport, JoinReport, report_aggregates, report_joins, report_windows

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
    from py4j.java_gateway import JavaPackage

    java: Any = spark.sparkContext._jvm
    counted = java.dev.colocation.spark.fs.ReadMetrics
    if isinstance(counted, JavaPackage):
        raise RuntimeError(
            "this application has no jar of the coloc:// file system: start its session with "
            "colocation.spark.configure(SparkSession.builder, …), or with colocation.spark.spark_conf(…)"
        )
    totals = ReadMetrics(*counted.totals())
    return totals - since if since else totals


NOT_FINAL = "The query has not run: Spark may still change the plan. Run it, then explain it again."
CHANGE_NOT_RUN = "The statement has not run. It reads and writes those files only in which rows may change."


@dataclass(frozen=True)
class _Verdicts:
    """``final``: the plan is the one that was executed, or one that execution cannot change."""

    joins: list[JoinReport]
    aggregates: list[GroupingReport]
    windows: list[GroupingReport]
    exchanges: int
    final: bool
    changes: list[ChangeReport]


@dataclass(frozen=True)
class Explanation:
    """What ``explain`` and ``explain_json`` return, of a plan that is made and read once."""

    text: str
    verdicts: dict[str, Any]


def explain(query: "DataFrame | str", spark: "SparkSession | None" = None) -> str:
    """Spark's physical plan, followed by ``colocate: true`` or ``colocate: false, reason: …`` for each join, group-by
    and window, and what this application has read so far from local disks and from other nodes.

    Of an UPDATE, DELETE or MERGE of single rows: how often each of its queries shuffles and sorts, and why.

    Args:
        query: a DataFrame; after it was run, the plan is the one that was executed. Or the text of a SQL
            statement, which is not run. An UPDATE, DELETE or MERGE is explained by its text.
        spark: the session for SQL text; default: the active one.

    Raises:
        ValueError: SQL text, but no session.
    """
    return explanation_of(query, spark).text


def explain_json(query: "DataFrame | str", spark: "SparkSession | None" = None) -> dict[str, Any]:
    """The same for programs. Arguments as for ``explain``.

    Returns:
        ``{"joins": [{"join", "type", "keys", "tables", "colocate", "reason", "note"}],
        "aggregates": [{"operator", "keys", "tables", "colocate", "reason", "note"}], "windows": [the same],
        "exchanges": shuffles between a table scan and a join, "final": whether execution cannot change it any more,
        "changes": of a statement of single rows that has not run [{"query", "shuffles", "sorts", "reasons"}]}``.
    """
    session = _session(query, spark)
    return asdict(_verdicts(execution_of(query, session)))


def explanation_of(query: "DataFrame | str", spark: "SparkSession | None" = None) -> Explanation:
    """Both. Arguments as for ``explain``."""
    session = _session(query, spark)
    execution = execution_of(query, session)
    verdicts = _verdicts(execution)
    lines = ["== Physical Plan ==", execution.executedPlan().toString().rstrip(), "", "== Colocation =="]
    lines += [f"{_join_head(report)}: {_verdict(report)}" for report in verdicts.joins] or ["no join"]
    lines += [
        f"{report.operator} ({', '.join(report.keys) or 'no keys'}) of {', '.join(report.tables)}: {_verdict(report)}"
        for report in (*verdicts.aggregates, *verdicts.windows)
    ]
    lines += [_change(report) for report in verdicts.changes]
    if not verdicts.final:
        lines.append(CHANGE_NOT_RUN if verdicts.changes else NOT_FINAL)
    read = read_metrics(session)
    lines.append(f"Read so far by this application: {read.local_bytes} bytes locally, {read.remote_bytes} remotely")
    return Explanation("\n".join(lines), asdict(verdicts))


def count_exchanges(df: "DataFrame") -> int:
    """Shuffle Exchanges between a table scan and a join; run the query first to see the plan that was executed."""
    return verdicts.count_exchanges(read_plan(execution_of(df, df.sparkSession)))


def _session(query: "DataFrame | str", spark: "SparkSession | None") -> "SparkSession":
    if not isinstance(query, str):
        return query.sparkSession
    from pyspark.sql import SparkSession

    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise ValueError("no active session: pass explain(statement, spark)")
    return session


def _verdicts(execution: JavaObject) -> _Verdicts:
    changes = read_changes(execution)
    plans = [plan for _, plan in changes] or [read_plan(execution)]
    return _Verdicts(
        joins=[report for plan in plans for report in report_joins(plan)],
        aggregates=[report for plan in plans for report in report_aggregates(plan)],
        windows=[report for plan in plans for report in report_windows(plan)],
        exchanges=sum(map(verdicts.count_exchanges, plans)),
        final=not changes and is_final(execution),
        changes=[report for report, _ in changes],
    )


def _change(report: ChangeReport) -> str:
    why = f", reason: {'; '.join(report.reasons)}" if report.reasons else ""
    return f"{report.query}: shuffles: {report.shuffles}, sorts: {report.sorts}{why}"


def _join_head(report: JoinReport) -> str:
    return f"{report.join} {report.type} ({' AND '.join(report.keys) or 'no keys'}) of {', '.join(report.tables)}"


def _verdict(report: JoinReport | GroupingReport) -> str:
    if report.colocate:
        return f"colocate: true{', note: ' if report.note else ''}{report.note}"
    return f"colocate: false, reason: {report.reason}"
