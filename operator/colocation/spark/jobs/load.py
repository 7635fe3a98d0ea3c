"""``load.py TABLE --from PATH``: rows of files, or of any other Spark source, into a ColocatedTable."""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from colocation.spark import configure, load
from colocation.spark.jobs.command_line import job_parser
from colocation.spark.jobs.progress import printing_progress
from colocation.spark.jobs.result import print_result, stop
from colocation.spark.write.loading import MODES

CSV_OPTIONS = {"header": "true", "inferSchema": "true"}
"""Options that CSV files are read with when none of the same name is given."""
FILE_FORMATS = frozenset({"parquet", "orc", "avro"})
MARKS_OF_TABLES = {
    "_delta_log": "delta",
    ".hoodie": "hudi",
    "metadata/*.metadata.json": "iceberg",
    "../metadata/*.metadata.json": "iceberg",
}
"""What lies in the folder of a table of another format, or beside its data folder."""
NO_INPUT = "no input is given: name a path with --from; for a format without a path, such as jdbc, give --option"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with status 2 when it is wrong."""
    parser = job_parser("load.py", "Load rows into a ColocatedTable.")
    parser.add_argument("--from", dest="path", default=None, help="path or URL that Spark can read")
    parser.add_argument("--format", default="parquet", help="parquet, csv, json or any other format of Spark")
    parser.add_argument("--option", type=_option, action="append", default=[], metavar="KEY=VALUE",
                        help="option of the format; repeatable")
    parser.add_argument("--select", nargs="+", default=["*"], help="Spark SQL expressions, default: *")
    parser.add_argument("--mode", choices=MODES, default="append", help="default: %(default)s")
    parser.add_argument("--idempotency-key", default="", help="the table takes one load of this key")
    options = parser.parse_args(arguments)
    if options.path is None and not options.option:
        parser.error(NO_INPUT)
    options.option = dict(options.option)
    return options


def _option(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not (key and sign):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def read(spark: SparkSession, path: str | None, format_name: str, options: Mapping[str, str]) -> DataFrame:
    """The rows. CSV files have a header, and types are taken from their values, unless ``options`` say otherwise."""
    if format_name.lower() == "csv":
        given = {key.lower() for key in options}
        options = {**{key: value for key, value in CSV_OPTIONS.items() if key.lower() not in given}, **options}
    reader = spark.read.format(format_name).options(**options)
    if path is not None and format_name.lower() in FILE_FORMATS:
        refuse_table_folder(spark, path, format_name)
    return reader.load() if path is None else reader.load(path)


def refuse_table_folder(spark: SparkSession, path: str, format_name: str) -> None:
    """Refuse the folder of a table of another format, whose files also hold rows that were deleted or replaced.

    Raises:
        ValueError: it is one.
    """
    java: Any = spark._jvm
    configuration = spark._jsc.hadoopConfiguration()
    for mark, kind in MARKS_OF_TABLES.items():
        pattern = java.org.apache.hadoop.fs.Path(f"{path.rstrip('/')}/{mark}")
        try:
            found = pattern.getFileSystem(configuration).globStatus(pattern)
        except Py4JJavaError:
            return  # whoever reads says why the path cannot be read
        if found:
            raise ValueError(
                f"{path} is the folder of a table of {kind}; read as {format_name} it would also give rows that were "
                f"deleted or replaced. Use --format {kind}, with its jar in the image"
            )


def main(arguments: Sequence[str]) -> None:
    """Run the job."""
    options = parse(arguments)
    spark = configure(SparkSession.builder).getOrCreate()
    started = time.monotonic()
    rows = read(spark, options.path, options.format, options.option).selectExpr(*options.select)
    key = options.idempotency_key
    with printing_progress(spark):
        result = load(rows, options.table, namespace=options.namespace, mode=options.mode, idempotency_key=key)
    print_result({"table": options.table, **asdict(result), "seconds": round(time.monotonic() - started, 3)})
    stop(spark)


if __name__ == "__main__":
    main(sys.argv[1:])
