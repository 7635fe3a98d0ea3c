"""``drop-partitions``: whole partitions of a table go, by a Spark application in the cluster.

The commit is one small file on each node; it is made there, since only pods in the cluster reach the agents.
"""

from collections.abc import Mapping
from typing import Any

import click

from ...submit.jobs import DropPartitionsRequest
from ..terminal.completed_names import complete_table
from ..terminal.options import Target, cluster_options, output_option
from ..terminal.output import Format, counted
from .applications import RunOptions, run_options
from .job_options import JobOptions, job_options
from .table_jobs import TableJob, partition_option


@click.command("drop-partitions")
@click.argument("table", shell_complete=complete_table)
@partition_option
@job_options
@run_options
@cluster_options
@output_option
def drop_partitions(
    table: str, partitions: tuple[str, ...], job: JobOptions, options: RunOptions, target: Target, output: Format
) -> None:
    """Drop partitions of TABLE with all their rows.

    All of them go in one commit. Older snapshots keep the rows for as long as spec.retention says.
    """
    if not partitions:
        raise click.UsageError("no partition is given: name at least one with --partition COLUMN=VALUE")
    wanted = DropPartitionsRequest(table=table, partitions=partitions)
    TableJob(job, options, target, output).run(wanted, describe_drop)


def describe_drop(table: str, result: Mapping[str, Any]) -> str:
    """What was dropped, for people. ``result`` is that of the image's ``drop_partitions.py``."""
    if not result["partitions"]:
        return f"nothing to drop in {table}: it has no such partition; snapshot {result['snapshot_id']}"
    return (
        f"dropped {counted(result['partitions'], 'partition')} of {table}: "
        f"{counted(result['rows'], 'row')}, {counted(result['files'], 'file')}; "
        f"snapshot {result['snapshot_id']}"
    )
