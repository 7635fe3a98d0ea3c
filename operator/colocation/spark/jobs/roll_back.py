"""``roll_back.py TABLE --to SNAPSHOT``: a ColocatedTable has the rows of an older snapshot again."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict

from pyspark.sql import SparkSession

from colocation.spark import configure, roll_back
from colocation.spark.jobs.program import job_parser, print_result, stop


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with status 2 when it is wrong."""
    parser = job_parser("roll_back.py", "Roll a ColocatedTable back to an older snapshot.")
    parser.add_argument("--to", dest="snapshot_id", type=int, required=True, help="id of a kept snapshot")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    """Run the job."""
    options = parse(arguments)
    spark = configure(SparkSession.builder).getOrCreate()
    result = roll_back(spark, options.table, options.snapshot_id, namespace=options.namespace)
    print_result({"table": options.table, **asdict(result)})
    stop(spark)


if __name__ == "__main__":
    main(sys.argv[1:])
