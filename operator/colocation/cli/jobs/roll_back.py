"""``roll-back``: a table has the rows of an older snapshot again, by a Spark application in the cluster."""

from collections.abc import Mapping
from typing import Any

import click

from ...submit.jobs import RollBackRequest
from ..terminal.completed_names import complete_table
from ..terminal.options import Target, cluster_options, output_option
from ..terminal.output import Format, counted
from .applications import RunOptions, run_options
from .job_options import JobOptions, job_options
from .table_jobs import TableJob


@click.command("roll-back")
@click.argument("table", shell_complete=complete_table)
@click.option("--to", "snapshot_id", type=click.IntRange(min=1), required=True, metavar="SNAPSHOT",
              help="Id of a snapshot that the table keeps; `SELECT * FROM <table>.snapshots` lists them.")  # fmt: skip
@job_options
@run_options
@cluster_options
@output_option
def roll_back(
    table: str, snapshot_id: int, job: JobOptions, options: RunOptions, target: Target, output: Format
) -> None:
    """Make an older snapshot's rows the rows of TABLE again.

    The command commits a new snapshot and writes no data. The replaced rows stay readable for as long as spec.retention
    of the table says.
    """
    wanted = RollBackRequest(table=table, snapshot_id=snapshot_id)
    TableJob(job, options, target, output).run(wanted, describe_roll_back)


def describe_roll_back(table: str, result: Mapping[str, Any]) -> str:
    """What the table holds, for people. ``result`` is that of the image's ``roll_back.py``."""
    return f"rolled {table} back: it holds {counted(result['rows'], 'row')}; snapshot {result['snapshot_id']}"
