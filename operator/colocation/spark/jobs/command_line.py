"""What the command lines of the jobs on one table have in common."""

import argparse

from colocation.spark.write.partition_path import parse_partition


def job_parser(program: str, description: str) -> argparse.ArgumentParser:
    """``TABLE [--namespace N]``."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("table", help="name of the ColocatedTable")
    parser.add_argument("--namespace", "-n", default=None, help="default: spark.colocation.namespace")
    return parser


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
