"""``sql.py STATEMENT``: one SQL statement over a namespace's ColocatedTables, by name.

Tables of other namespaces are ``<namespace>.<table>``, where their rights allow it.
``EXPLAIN SELECT …`` is answered without running the query: the plan, and the verdict on each join, group-by and window.
"""

import argparse
import csv
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from colocation.spark import RegisteredTable, configure, explain, explain_json, read_metrics, register
from colocation.spark.configuration import SessionSettings
from colocation.spark.jobs.namespaces import with_named_namespaces
from colocation.spark.jobs.result import print_result
from colocation.spark.table_statement import SESSION_CATALOG, spark_name

OUTPUTS = ("table", "json", "csv")
EXPLAIN = re.compile(r"\s*EXPLAIN\s+(?!EXTENDED\b|CODEGEN\b|COST\b|FORMATTED\b)", re.IGNORECASE)
"""Spark's own modes of EXPLAIN stay Spark's."""
WORD = re.compile(r"\w+")


class TableNotRegistered(Exception):
    """A statement names a ColocatedTable that this session cannot read."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with status 2 when it is wrong."""
    parser = argparse.ArgumentParser(prog="sql.py", description="Run SQL over a namespace's ColocatedTables.")
    parser.add_argument("statement")
    parser.add_argument("--namespace", "-n", default=None, help="default: spark.colocation.namespace")
    parser.add_argument("--explain", action="store_true", help="add the plan that was run, and each join's verdict")
    parser.add_argument(
        "--snapshot", dest="snapshots", type=_snapshot, action="append", default=[], metavar="TABLE=ID",
        help="read an older snapshot of a table; repeatable",
    )
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table", help="default: %(default)s")
    return parser.parse_args(arguments)


def _snapshot(word: str) -> tuple[str, int]:
    table, sign, snapshot = word.rpartition("=")
    if not table or not sign or not snapshot.isdecimal():
        raise argparse.ArgumentTypeError(f"{word!r} is not TABLE=ID, for example orders=3")
    return table, int(snapshot)


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], output: str) -> None:
    """The rows on standard output."""
    if output == "json":
        print(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=str))
    elif output == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(columns)
        writer.writerows(rows)
    else:
        print(_as_table(columns, rows))


def _as_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    cells = [list(columns), *(["NULL" if value is None else str(value) for value in row] for row in rows)]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
                     for line in cells)


def main(arguments: Sequence[str]) -> None:
    """Run the job."""
    options = parse(arguments)
    spark = configure(SparkSession.builder).getOrCreate()
    namespace = SessionSettings.of(spark).namespace_or(options.namespace)

    def register_other(other: str) -> None:
        refuse_unregistered(options.statement, register(spark, other))

    refuse_unregistered(options.statement, register(spark, namespace, snapshots=dict(options.snapshots)))
    spark.catalog.setCurrentCatalog(SESSION_CATALOG)
    spark.catalog.setCurrentDatabase(spark_name(namespace))
    result = with_named_namespaces(lambda: answer(spark, options), register_other)
    print_rows(result["columns"], result["rows"], options.output)
    if "explain" in result:
        print(result["explain"])
    print_result(result)
    spark.stop()


def refuse_unregistered(statement: str, registered: Sequence[RegisteredTable]) -> None:
    """Refuse a statement that names a table that could not be registered: Spark may know another one of that name.

    Raises:
        TableNotRegistered: naming it, and why.
    """
    words = {word.lower() for word in WORD.findall(statement)}
    for table in registered:
        if not table.registered and table.name.rpartition(".")[2].lower() in words:
            raise TableNotRegistered(f"table {table.namespace}.{table.table} could not be registered: {table.reason}")


def answer(spark: SparkSession, options: argparse.Namespace) -> dict[str, Any]:
    """The result of the statement, or of its explanation."""
    explained = EXPLAIN.match(options.statement)
    if explained:
        return explain_statement(spark, options.statement[explained.end():])
    return run_statement(spark, options.statement, with_plan=options.explain)


def explain_statement(spark: SparkSession, statement: str) -> dict[str, Any]:
    """The result of ``EXPLAIN statement``; nothing is run."""
    return {"columns": ["plan"], "rows": [[explain(statement, spark)]], **explain_json(statement, spark)}


def run_statement(spark: SparkSession, statement: str, *, with_plan: bool) -> dict[str, Any]:
    """The result of a statement: rows, seconds, bytes read, verdicts of the plan that was executed."""
    mark = read_metrics(spark)
    started = time.monotonic()
    df: DataFrame = spark.sql(statement)
    rows: list[Row] = df.collect()
    seconds = time.monotonic() - started
    result = {
        "columns": df.columns,
        "rows": [list(row) for row in rows],
        "seconds": round(seconds, 3),
        **explain_json(df),
        **asdict(read_metrics(spark, mark)),
    }
    return {**result, "explain": explain(df)} if with_plan else result


if __name__ == "__main__":
    main(sys.argv[1:])
