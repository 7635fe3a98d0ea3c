"""``--partition`` of the jobs that work on some of a table's partitions."""

import argparse

from colocation.spark.partition_path import parse_partition


def add_partition_argument(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """``--partition dt=2024-01-01/region=eu``, repeatable, as a list of values by column."""
    parser.add_argument(
        "--partition", dest="partitions", type=_partition, action="append", default=[], required=required,
        metavar="COLUMN=VALUE[/…]", help="as its folder is named; some of the columns are enough; repeatable",
    )


def _partition(text: str) -> dict[str, str | None]:
    try:
        return parse_partition(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
