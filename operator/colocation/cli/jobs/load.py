"""``load``: rows from files or any other Spark source into a table, by a Spark application in the cluster."""

from collections.abc import Mapping
from typing import Any, get_args

import click

from ...submit.jobs import LoadMode, LoadRequest
from ..terminal.completed_names import complete_table
from ..terminal.options import Target, bundle, cluster_options, output_option
from ..terminal.output import Format, counted, size
from .applications import RunOptions, run_options
from .compact import describe_compaction
from .job_options import JobOptions, job_options
from .table_jobs import TableJob, with_missing

NO_INPUT = "no input is given: name a path with --from; for a format without a path, such as jdbc, give --option"


def _request(
    path: str | None, data_format: str, options: tuple[str, ...], select: str | None, mode: LoadMode, key: str | None
) -> dict[str, Any]:
    if path is None and not options:
        raise click.UsageError(NO_INPUT)
    if path is not None and not path.strip():
        raise click.UsageError(f"--from is {path!r}: name a path, e.g. s3a://lake/orders")
    for name, given in (("--format", data_format), ("--select", select), ("--idempotency-key", key)):
        if given is not None and not given.strip():
            raise click.UsageError(f"{name} is {given!r}: give a value, or leave the option out")
    for option in options:
        if not option.partition("=")[0] or "=" not in option:
            raise click.UsageError(f"--option takes KEY=VALUE, given {option!r}")
    return {"path": path, "format": data_format, "options": options, "select": select, "mode": mode, "key": key}


request_options = bundle(
    "request",
    _request,
    click.option("--from", "path", default=None, help="Path to read, as Spark writes it, e.g. s3a://lake/orders."),
    click.option(
        "--format", "data_format", default="parquet", show_default=True,
        help="Format of the input: parquet, csv, json, or any other that Spark has, e.g. orc, text, jdbc.",
    ),
    click.option(
        "--option", "options", multiple=True, metavar="KEY=VALUE", help="Option of the format, e.g. sep=;. Repeatable.",
    ),
    click.option("--select", default=None, help='Expressions to load instead of all columns: "*, year(day) as y".'),
    click.option(
        "--mode", type=click.Choice(get_args(LoadMode)), default="append", show_default=True,
        help="Add the rows, replace the table, or replace the partitions that have rows in the input.",
    ),
    click.option(
        "--idempotency-key", "key", default=None, metavar="KEY",
        help="The table takes one load per key: a repetition changes nothing.",
    ),
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
    """Load rows into TABLE.

    A Spark application buckets and sorts the rows, sends them to the replicas, and commits all of them at once. A load
    that fails changes nothing.
    """
    wanted = LoadRequest(table=table, **request)
    TableJob(job, options, target, output).run(wanted, describe_load)


def describe_load(table: str, result: Mapping[str, Any]) -> str:
    """What a load committed, for people. ``result`` is that of the image's ``load.py``."""
    text = (
        f"loaded {counted(result['rows'], 'row')} into {table}: {counted(result['files'], 'file')}, "
        f"{size(result['bytes'])} per replica, {counted(result['partitions'], 'partition')}; "
        f"snapshot {result['snapshot_id']}"
    )
    lines = [with_missing(text, result)]
    if result.get("compaction"):
        lines.append(describe_compaction(table, result["compaction"]))
    if result.get("compaction_failure"):
        advice = f"try again, with the same -n: colocation compact {table}"
        lines.append(f"not compacted: {result['compaction_failure']}; {advice}")
    return "\n".join(lines)
