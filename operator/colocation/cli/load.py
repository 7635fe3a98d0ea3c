"""``load``: rows from files or any other Spark source into a table, by a Spark application in the cluster."""

from collections.abc import Mapping
from typing import Any, get_args

import click

from ..submit.jobs import LoadMode, LoadRequest
from .applications import RunOptions, run_options
from .compact import describe_compaction
from .completion import complete_table
from .job_options import JobOptions, job_options
from .options import Target, bundle, cluster_options, output_option
from .output import Format, size
from .table_jobs import TableJob, with_missing


def _request(
    path: str | None, data_format: str, options: tuple[str, ...], select: str | None, mode: LoadMode
) -> dict[str, Any]:
    if path is None and not options:
        raise click.UsageError("nothing says what to read: give --from, or --option for a format without a path")
    for option in options:
        if not option.partition("=")[0] or "=" not in option:
            raise click.UsageError(f"--option takes KEY=VALUE, given {option!r}")
    return {"path": path, "format": data_format, "options": options, "select": select, "mode": mode}


request_options = bundle(
    "request",
    _request,
    click.option("--from", "path", default=None, help="What to read: a path for Spark, e.g. s3a://lake/orders."),
    click.option(
        "--format", "data_format", default="parquet", show_default=True,
        help="parquet, csv, json, or any other format that Spark has, e.g. orc, text, jdbc.",
    ),
    click.option(
        "--option", "options", multiple=True, metavar="KEY=VALUE", help="Option of the format; repeatable.",
    ),
    click.option("--select", default=None, help='Expressions to load instead of all columns: "*, year(day) as y".'),
    click.option("--mode", type=click.Choice(get_args(LoadMode)), default="append", show_default=True),
)


@click.command()
@click.argument("table", shell_complete=complete_table)
@request_options
@job_options
@run_options
@cluster_options
@output_option
def load(
    table: str, request: dict[str, Any], job: JobOptions, options: RunOptions, target: Target, output: Format
) -> None:
    """Load rows into TABLE: bucketed, sorted, sent to its replicas, and committed as a whole or not at all."""
    wanted = LoadRequest(table=table, **request)
    TableJob(job, options, target, output).run(wanted, describe_load)


def describe_load(table: str, result: Mapping[str, Any]) -> str:
    """What a load committed, for people. ``result`` is that of the image's ``load.py``."""
    text = (
        f"loaded {result['rows']} rows into {table}: {result['files']} files, {size(result['bytes'])} per replica, "
        f"{result['partitions']} partitions; snapshot {result['snapshot_id']}"
    )
    lines = [with_missing(text, result)]
    if result.get("compaction"):
        lines.append(describe_compaction(table, result["compaction"]))
    if result.get("compaction_failure"):
        lines.append(f"not compacted: {result['compaction_failure']}; try again: colocation compact {table}")
    return "\n".join(lines)
