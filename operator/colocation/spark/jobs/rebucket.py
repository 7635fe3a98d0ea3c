"""``rebucket.py TABLE --buckets NUMBER``: a ColocatedTable has its rows in another number of buckets."""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from pyspark.sql import SparkSession

from colocation.spark import configure, rebucket
from colocation.spark.jobs.program import job_parser, print_result, printing_progress, stop


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with status 2 when it is wrong."""
    parser = job_parser("rebucket.py", "Write the rows of a ColocatedTable again for another number of buckets.")
    parser.add_argument("--buckets", type=int, required=True, help="the group's number, or a multiple of it")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    """Run the job."""
    options = parse(arguments)
    spark = configure(SparkSession.builder).getOrCreate()
    started = time.monotonic()
    with printing_progress(spark):
        result = rebucket(spark, options.table, options.buckets, namespace=options.namespace)
    print_result({"table": options.table, **asdict(result), "seconds": round(time.monotonic() - started, 3)})
    stop(spark)


if __name__ == "__main__":
    main(sys.argv[1:])
