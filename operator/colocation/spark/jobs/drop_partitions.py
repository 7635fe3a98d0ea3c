"""``drop_partitions.py TABLE --partition …``: partitions of a ColocatedTable go, with all their rows."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict

from pyspark.sql import SparkSession

from colocation.spark import configure, drop_partitions
from colocation.spark.jobs.program import add_partition_argument, job_parser, print_result, stop


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with status 2 when it is wrong."""
    parser = job_parser("drop_partitions.py", "Drop partitions of a ColocatedTable.")
    add_partition_argument(parser, required=True)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    """Run the job."""
    options = parse(arguments)
    spark = configure(SparkSession.builder).getOrCreate()
    result = drop_partitions(spark, options.table, options.partitions, namespace=options.namespace)
    print_result({"table": options.table, **asdict(result)})
    stop(spark)


if __name__ == "__main__":
    main(sys.argv[1:])
