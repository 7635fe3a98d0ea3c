"""``compact.py TABLE``: many small files of a ColocatedTable become few sorted ones."""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from pyspark.sql import SparkSession

from colocation.spark import compact, configure
from colocation.spark.jobs.program import add_partition_argument, job_parser, print_result, printing_progress, stop


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with status 2 when it is wrong."""
    parser = job_parser("compact.py", "Merge the files of a ColocatedTable.")
    add_partition_argument(parser, required=False)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    """Run the job."""
    options = parse(arguments)
    spark = configure(SparkSession.builder).getOrCreate()
    started = time.monotonic()
    with printing_progress(spark):
        result = compact(spark, options.table, namespace=options.namespace, partitions=options.partitions)
    print_result({"table": options.table, **asdict(result), "seconds": round(time.monotonic() - started, 3)})
    stop(spark)


if __name__ == "__main__":
    main(sys.argv[1:])
