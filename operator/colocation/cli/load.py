"""``load``: rows from files into a table, by a Spark application in the cluster."""

from collections.abc import Mapping
from typing import Any, get_args

import click

from ..submit import ManifestError
from ..submit.jobs import LoadFormat, LoadMode, LoadRequest, load_application
from .applications import RunOptions, group_view, print_result, run, run_options
from .job_options import JobOptions, job_options
from .options import Target, bundle, cluster_options, output_option
from .output import Format, size, write


def _request(path: str, data_format: LoadFormat, select: str | None, mode: LoadMode) -> dict[str, Any]:
    return {"path": path, "format": data_format, "select": select, "mode": mode}


request_options = bundle(
    "request",
    _request,
    click.option("--from", "path", required=True, help="What to read: a path for Spark, e.g. s3a://lake/orders."),
    click.option(
        "--format", "data_format", type=click.Choice(get_args(LoadFormat)), default="parquet", show_default=True
    ),
    click.option("--select", default=None, help='Expressions to load instead of all columns: "*, year(day) as y".'),
    click.option("--mode", type=click.Choice(get_args(LoadMode)), default="append", show_default=True),
)


@click.command()
@click.argument("table")
@request_options
@job_options
@run_options
@cluster_options
@output_option
def load(
    table: str, request: dict[str, Any], job: JobOptions, options: RunOptions, target: Target, output: Format
) -> None:
    """Load files into TABLE: bucketed, sorted, sent to its replicas, and committed as a whole or not at all."""
    base = job.base()
    cluster = target.open()
    group_name = cluster.table(table)["spec"].get("colocateWith")
    if not group_name:
        raise ManifestError(f"table {table!r} is in no group (spec.colocateWith is empty): name a group, it is made")
    group = group_view(cluster, group_name)
    application = load_application(LoadRequest(table=table, **request), group, base)
    finished = run(cluster, application, group, options, announce=False)
    if options.dry_run:
        return
    if output != "text":
        write(finished.to_report(), "", output)
    elif finished.outcome and finished.outcome.result:
        click.echo(describe_load(table, finished.outcome.result))
        print_result(finished.outcome.result)


def describe_load(table: str, result: Mapping[str, Any]) -> str:
    """What a load committed, for people. ``result`` is that of the image's ``load.py``."""
    text = (
        f"loaded {result['rows']} rows into {table}: {result['files']} files, {size(result['bytes'])} per replica, "
        f"{result['partitions']} partitions; snapshot {result['snapshot_id']}"
    )
    missing = result["replicas_missing"]
    return f"{text}; the operator repairs {missing} missing copies of files" if missing else text
