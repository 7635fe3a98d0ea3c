"""``sql``: one statement over a namespace's tables, run as a Spark application in the cluster."""

import csv
import io
import json
from collections.abc import Mapping
from typing import Any, Literal

import click
from pydantic import ValidationError

from ..model.conditions import Reason
from ..model.names import LABEL_PRIVATE
from ..model.retention import SnapshotNotFound, find_snapshot
from ..model.salvage import salvage
from ..model.table import ColocatedTableStatus
from ..submit import Decision, ManifestError
from ..submit.jobs import SqlRequest, sql_application
from .applications import RunOptions, group_view, run, run_options
from .cluster import Cluster
from .errors import CommandFailed
from .job_options import JobOptions, job_options
from .options import Target, bundle, cluster_options
from .output import columns
from .table_jobs import placed_by

SqlFormat = Literal["table", "json", "csv"]


def _request(
    statement: str, group: str | None, explain: bool, snapshots: tuple[str, ...], settings: tuple[str, ...]
) -> dict[str, Any]:
    request = SqlRequest(
        statement=statement, explain=explain, snapshots=parse_snapshots(snapshots), conf=parse_settings(settings)
    )
    return {"group": group, "sql": request}


request_options = bundle(
    "request",
    _request,
    click.argument("statement"),
    click.option("--group", default=None, help="Run beside this group; needed where the namespace has several."),
    click.option(
        "--explain", is_flag=True,
        help="Print the executed plan with `colocate: true|false, reason: …` per join, group-by and window.",
    ),
    click.option(
        "--snapshot", "snapshots", multiple=True, metavar="TABLE=ID",
        help="Read an older snapshot of a table; repeatable.",
    ),
    click.option("--set", "settings", multiple=True, metavar="CONF=VALUE", help="Spark configuration; repeatable."),
)


@click.command()
@request_options
@job_options
@run_options
@cluster_options
@click.option("-o", "--output", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
def sql(
    request: dict[str, Any], job: JobOptions, options: RunOptions, target: Target, output: SqlFormat
) -> None:
    """Run STATEMENT over the namespace's tables, by name, where their buckets lie.

    EXPLAIN SELECT … shows the plan and the verdicts without running the query.
    """
    base = job.base()
    cluster = target.open()
    group = group_view(cluster, choose_group(cluster, request["group"]))
    check_snapshots(cluster, request["sql"].snapshots)
    application = sql_application(request["sql"], group, base)
    finished = run(cluster, application, group, options, announce=False)
    if options.dry_run or not options.wait:
        return
    result = finished.outcome.result if finished.outcome else None
    if result is None:
        raise CommandFailed("the application completed, but its driver printed no result: is its image ours?")
    click.echo(render_result(result, output), nl=False)
    if request["sql"].explain and output == "table":
        click.echo(render_explanation(result))


def parse_settings(settings: tuple[str, ...]) -> dict[str, str]:
    """``conf=value`` words as a mapping.

    Raises:
        UsageError: a word without ``=``.
    """
    pairs = [setting.partition("=") for setting in settings]
    for key, sign, _ in pairs:
        if not sign or not key:
            raise click.UsageError(f"--set takes CONF=VALUE, given {key!r}")
    return {key: value for key, _, value in pairs}


def parse_snapshots(words: tuple[str, ...]) -> dict[str, int]:
    """``table=id`` words as a mapping.

    Raises:
        UsageError: a word of another form.
    """
    chosen = {}
    for word in words:
        table, _, snapshot = word.rpartition("=")
        if not table or not snapshot.isdecimal():
            raise click.UsageError(f"--snapshot takes TABLE=ID, for example orders=3, given {word!r}")
        chosen[table] = int(snapshot)
    return chosen


def check_snapshots(cluster: Cluster, chosen: Mapping[str, int]) -> None:
    """Look at the tables before an application is started for nothing.

    Raises:
        CommandFailed: there is no such table, its status cannot be read, or it does not keep such a snapshot.
    """
    for table, snapshot in chosen.items():
        status, problem = salvage(ColocatedTableStatus, cluster.table(table).get("status"))
        if problem:
            raise CommandFailed(f"{Reason.INVALID_STATUS}: table {cluster.namespace}.{table}: {problem}")
        try:
            find_snapshot(f"{cluster.namespace}.{table}", status, snapshot)
        except SnapshotNotFound as error:
            raise CommandFailed(str(error)) from error


def choose_group(cluster: Cluster, given: str | None) -> str:
    """The group to run beside: the given one, else the only one that is the namespace's or has tables of it.

    Groups that the operator made for tables in no group count only where there is no other.

    Raises:
        ManifestError: there are several, or none.
    """
    if given:
        return given
    own = {item["metadata"]["name"]: is_private(item) for item in cluster.groups()}
    elsewhere = {name for name in map(readable_place, cluster.tables()) if "/" in name}
    names = sorted({name for name, private in own.items() if not private} | elsewhere) or sorted(own)
    if len(names) != 1:
        there = f"there are: {', '.join(names)}" if names else "there is none"
        raise ManifestError(f"namespace {cluster.namespace!r} has {len(names)} groups: choose one by --group; {there}")
    return names[0]


def readable_place(table: Mapping[str, Any]) -> str:
    """The group that places a table; empty when its spec cannot be read, which hinders no statement on others."""
    try:
        return placed_by(dict(table))
    except ValidationError:
        return ""


def is_private(group: Mapping[str, Any]) -> bool:
    """Whether the operator made the group for one table that is in no group."""
    return (group["metadata"].get("labels") or {}).get(LABEL_PRIVATE) == "true"


def render_result(result: Mapping[str, Any], output: SqlFormat) -> str:
    """The rows of the image's ``sql.py``: ``{"columns": […], "rows": [[…], …]}``; as JSON, all that it said."""
    if output == "json":
        return json.dumps(result, indent=2) + "\n"
    if output == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(result["columns"])
        writer.writerows(result["rows"])
        return text.getvalue()
    return columns([str(name) for name in result["columns"]], result["rows"]) + "\n"


def render_explanation(result: Mapping[str, Any]) -> str:
    """The executed plan as the driver explained it, else its verdicts alone: one line each, in EXPLAIN's words."""
    if "explain" in result:
        return str(result["explain"]).rstrip()
    heads = [(f"{join['join']} {join['type']}", join) for join in result["joins"]]
    heads += [(item["operator"], item) for item in (*result.get("aggregates", ()), *result.get("windows", ()))]
    lines = [
        f"{head} of {', '.join(item['tables'])}: "
        + str(Decision(colocated=item["colocate"], reason=item["reason"]))
        for head, item in heads
    ]
    return "\n".join(lines) or "no join"
