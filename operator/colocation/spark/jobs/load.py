"""``load.py TABLE --from PATH``: rows of files into a ColocatedTable."""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from pyspark.sql import DataFrame, SparkSession

from colocation.spark import configure, load
from colocation.spark.commit import MODES
from colocation.spark.jobs.result import print_result

FORMATS = ("parquet", "csv", "json")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with status 2 when it is wrong."""
    parser = argparse.ArgumentParser(prog="load.py", description="Load rows into a ColocatedTable.")
    parser.add_argument("table", help="name of the ColocatedTable")
    parser.add_argument("--namespace", "-n", default=None, help="default: spark.colocation.namespace")
    parser.add_argument("--from", dest="path", required=True, help="path or URL that Spark can read")
    parser.add_argument("--format", choices=FORMATS, default="parquet", help="default: %(default)s")
    parser.add_argument("--select", nargs="+", default=["*"], help="Spark SQL expressions, default: *")
    parser.add_argument("--mode", choices=MODES, default="append", help="default: %(default)s")
    return parser.parse_args(arguments)


def read(spark: SparkSession, path: str, format_name: str) -> DataFrame:
    """The rows. CSV files have a header, and their types are taken from the values."""
    reader = spark.read.format(format_name)
    if format_name == "csv":
        reader = reader.option("header", "true").option("inferSchema", "true")
    return reader.load(path)


def main(arguments: Sequence[str]) -> None:
    """Run the job."""
    options = parse(arguments)
    spark = configure(SparkSession.builder).getOrCreate()
    started = time.monotonic()
    rows = read(spark, options.path, options.format).selectExpr(*options.select)
    result = load(rows, options.table, namespace=options.namespace, mode=options.mode)
    print_result({"table": options.table, **asdict(result), "seconds": round(time.monotonic() - started, 3)})
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
