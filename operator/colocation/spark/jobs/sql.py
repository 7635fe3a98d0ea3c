"""``sql.py STATEMENT``: runs one SQL statement over a namespace's ColocatedTables, through the catalog.

``<table>`` is one of the namespace, ``<namespace>.<table>`` one of another, where their rights allow it.
``EXPLAIN SELECT …`` is answered without running the query: the plan, and the verdict on each join, group-by and window.
So are ``EXPLAIN UPDATE …``, ``DELETE`` and ``MERGE``, with the verdict on each of the statement's queries.

The rows go to the reader whose token's digest is given, see ``colocation.model.driver_output``; the last line of the
log has everything else.
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from colocation.model.driver_output import columns_line, packed, row_line, summary_line
from colocation.spark import configure, explain_json, read_metrics
from colocation.spark.configuration import CATALOG, SessionSettings
from colocation.spark.explaining import Explanation, explanation_of
from colocation.spark.jobs.program import print_result, stop
from colocation.spark.jobs.statement_result import ResultServer, pieces_of, with_times_as_text

EXPLAIN = re.compile(r"\s*EXPLAIN\s+(?!EXTENDED\b|CODEGEN\b|COST\b|FORMATTED\b)", re.IGNORECASE)
"""Spark's own modes of EXPLAIN stay Spark's."""
CHANGE = re.compile(r"\s*(UPDATE|DELETE|MERGE|WITH)\b", re.IGNORECASE)
"""How statements begin that may change single rows."""
DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class StatementResult:
    """``pieces``: the rows, as lines of the result stream; ``summary``: verdicts, seconds, bytes read, commits."""

    columns: Sequence[str]
    pieces: Iterable[bytes]
    summary: dict[str, Any]

    def chunks(self) -> Iterator[bytes]:
        """As its reader fetches it."""

        def all_pieces() -> Iterator[bytes]:
            yield columns_line(self.columns)
            yield from self.pieces
            yield summary_line(self.summary)

        return packed(all_pieces())


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with status 2 when it is wrong."""
    parser = argparse.ArgumentParser(prog="sql.py", description="Run SQL over a namespace's ColocatedTables.")
    parser.add_argument("statement")
    parser.add_argument("--namespace", "-n", default=None, help="default: spark.colocation.namespace")
    parser.add_argument("--explain", action="store_true", help="add the plan that was run, and each join's verdict")
    parser.add_argument(
        "--reader", type=_digest, required=True, metavar="SHA256", help="of the token with which the rows are fetched"
    )
    return parser.parse_args(arguments)


def _digest(word: str) -> str:
    if not DIGEST.fullmatch(word):
        raise argparse.ArgumentTypeError(f"{word!r} is no SHA-256: 64 hexadecimal digits")
    return word


def main(arguments: Sequence[str]) -> None:
    """Run the job."""
    options = parse(arguments)
    say_errors_once()
    with ResultServer(options.reader) as server:
        spark = configure(SparkSession.builder).getOrCreate()
        use_catalog(spark, SessionSettings.of(spark).namespace_or(options.namespace))
        result = answer(spark, options.statement, with_plan=options.explain)
        server.send(result.chunks())
        print_result({key: value for key, value in result.summary.items() if key != "explain"})
        stop(spark)


def say_errors_once() -> None:
    """Keep PySpark from logging a wrong statement, with all of Java's calls in one long line, before it raises it."""
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True


def use_catalog(spark: SparkSession, namespace: str) -> None:
    """Let tables be named as in the cluster; those of ``namespace`` need no more than their name."""
    spark.conf.set(f"spark.sql.catalog.{CATALOG}.namespace", namespace)
    spark.sql(f"USE {CATALOG}")


def answer(spark: SparkSession, statement: str, *, with_plan: bool) -> StatementResult:
    """The result of the statement, or of its explanation."""
    explained = EXPLAIN.match(statement)
    if explained:
        return explain_statement(spark, statement[explained.end():])
    return run_statement(spark, statement, with_plan=with_plan)


def explain_statement(spark: SparkSession, statement: str) -> StatementResult:
    """The result of ``EXPLAIN statement``; nothing is run."""
    explanation = explanation_of(statement, spark)
    return StatementResult(["plan"], [row_line([explanation.text])], explanation.verdicts)


def run_statement(spark: SparkSession, statement: str, *, with_plan: bool) -> StatementResult:
    """The result of a statement: rows, seconds, bytes read, verdicts of the plan that was executed, commits."""
    change = explained_change(spark, statement) if with_plan else None
    mark, committed = read_metrics(spark), commit_count(spark)
    started = time.monotonic()
    df = with_times_as_text(spark.sql(statement))
    pieces = pieces_of(df)
    seconds = time.monotonic() - started
    read = asdict(read_metrics(spark, mark))
    if with_plan:
        explanation = change or explanation_of(df)
        verdicts = {**explanation.verdicts, "explain": explanation.text}
    else:
        verdicts = explain_json(df)
    summary = {"seconds": round(seconds, 3), **verdicts, **read, "commits": commits_since(spark, committed)}
    return StatementResult(df.columns, pieces, summary)


def explained_change(spark: SparkSession, statement: str) -> Explanation | None:
    """The plan and verdicts of an UPDATE, DELETE or MERGE, which is explained before it runs; None of others."""
    explanation = explanation_of(statement, spark) if CHANGE.match(statement) else None
    return explanation if explanation and explanation.verdicts["changes"] else None


def commit_count(spark: SparkSession) -> int:
    """How many changes of ColocatedTables this driver has made so far."""
    return int(_log(spark).count())


def commits_since(spark: SparkSession, count: int) -> list[dict[str, Any]]:
    """Those after the first ``count``: table, change, rows and files added, snapshot_id, was_committed_before."""
    found: list[dict[str, Any]] = json.loads(_log(spark).since(count))
    return found


def _log(spark: SparkSession) -> Any:
    java: Any = spark.sparkContext._jvm
    return java.dev.colocation.spark.write.CommitLog


if __name__ == "__main__":
    main(sys.argv[1:])
