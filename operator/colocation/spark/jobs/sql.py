"""``sql.py STATEMENT``: one SQL statement over a namespace's ColocatedTables, by name."""

import argparse
import csv
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from pyspark.sql import DataFrame, Row, SparkSession

from colocation.spark import configure, explain, explain_json, read_metrics, register
from colocation.spark.configuration import SessionSettings
from colocation.spark.jobs.result import print_result

OUTPUTS = ("table", "json", "csv")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with status 2 when it is wrong."""
    parser = argparse.ArgumentParser(prog="sql.py", description="Run SQL over a namespace's ColocatedTables.")
    parser.add_argument("statement")
    parser.add_argument("--namespace", "-n", default=None, help="default: spark.colocation.namespace")
    parser.add_argument("--explain", action="store_true", help="add the plan that was run, and each join's verdict")
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table", help="default: %(default)s")
    return parser.parse_args(arguments)


def print_rows(df: DataFrame, rows: Sequence[Row], output: str) -> None:
    """The rows on standard output."""
    columns = df.columns
    if output == "json":
        print(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=str))
    elif output == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(columns)
        writer.writerows(rows)
    else:
        print(_as_table(columns, rows))


def _as_table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    cells = [list(columns), *(["NULL" if value is None else str(value) for value in row] for row in rows)]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
                     for line in cells)


def main(arguments: Sequence[str]) -> None:
    """Run the job."""
    options = parse(arguments)
    spark = configure(SparkSession.builder).getOrCreate()
    namespace = SessionSettings.of(spark).namespace_or(options.namespace)
    register(spark, namespace)
    spark.catalog.setCurrentDatabase(namespace)
    mark = read_metrics(spark)
    started = time.monotonic()
    df = spark.sql(options.statement)
    rows = df.collect()
    seconds = time.monotonic() - started
    print_rows(df, rows, options.output)
    result = {
        "columns": df.columns,
        "rows": [list(row) for row in rows],
        "seconds": round(seconds, 3),
        **explain_json(df),
        **asdict(read_metrics(spark, mark)),
    }
    if options.explain:
        result["explain"] = explain(df)
        print(result["explain"])
    print_result(result)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
