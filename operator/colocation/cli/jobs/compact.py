"""``compact``: many small files of a table become few sorted ones, by a Spark application in the cluster."""

from collections.abc import Mapping
from typing import Any

import click

from ...submit.jobs import CompactRequest
from ..terminal.completed_names import complete_table
from ..terminal.options import Target, cluster_options, output_option
from ..terminal.output import Format, counted, size
from .applications import RunOptions, run_options
from .job_options import JobOptions, job_options
from .table_jobs import TableJob, partition_option, with_missing


@click.command()
@click.argument("table", shell_complete=complete_table)
@partition_option
@job_options
@run_options
@cluster_options
@output_option
def compact(
    table: str, partitions: tuple[str, ...], job: JobOptions, options: RunOptions, target: Target, output: Format
) -> None:
    """Merge the files of TABLE into few sorted ones.

    Each bucket of each partition becomes one file. Rows stay the same, and loads may go on meanwhile.
    """
    wanted = CompactRequest(table=table, partitions=partitions)
    TableJob(job, options, target, output).run(wanted, describe_compaction)


def describe_compaction(table: str, result: Mapping[str, Any]) -> str:
    """What a compaction committed, for people. ``result`` is that of the image's ``compact.py``."""
    if not result["files_before"]:
        return f"nothing to compact in {table}: no bucket of a partition has more than one file"
    text = (
        f"compacted {table}: {counted(result['files_before'], 'file')} became {result['files_after']}, "
        f"{counted(result['rows'], 'row')}, {size(result['bytes'])} per replica, "
        f"{counted(result['partitions'], 'partition')}; snapshot {result['snapshot_id']}"
    )
    return with_missing(text, result)
