"""``load``, ``compact``, ``drop-partitions``, ``rebucket``, ``roll-back``: each runs a Spark program on one table.

All of them run in the cluster, also where the commit is one small file on each node: only pods there reach the agents.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import click

from ...model.base import MAX_BUCKETS
from ...model.changes import ChangedTable, parse_partition
from ...model.names import group_reference, private_group_name
from ...model.salvage import salvage
from ...model.table import ColocatedTableSpec, ColocatedTableStatus, placing_group
from ...model.wording import counted, first_few
from ...submit.programs import (
    CompactRequest,
    DropPartitionsRequest,
    LoadMode,
    LoadRequest,
    RebucketRequest,
    RollBackRequest,
    TableRequest,
    table_application,
)
from ..errors import CommandFailed
from ..terminal.live import warn
from ..terminal.options import Target, WholeNumber, bundle, cluster_options, complete_table, output_option
from ..terminal.output import Format, size, tell, write
from .job_options import JobOptions, job_options
from .launch import Run, RunOptions, group_view, missing_result, print_result, run, run_options

MAX_LISTED_SUBSTITUTES = 5

Json = dict[str, Any]


def _checked_partitions(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    for value in values:
        try:
            parse_partition(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    return values


partition_option = click.option(
    "--partition", "partitions", multiple=True, metavar="COLUMN=VALUE[/…]",
    callback=_checked_partitions,
    help="Partition as its folder is named, e.g. dt=2024-01-01/zone=a. Some of the columns are enough; repeatable.",
)


@dataclass(frozen=True)
class TableJob:
    """How the user wants a program run and its result shown."""

    job: JobOptions
    options: RunOptions
    target: Target
    output: Format

    def run(self, request: TableRequest, describe: Callable[[str, Mapping[str, Any]], str]) -> None:
        """Run the program on the nodes that hold the table, and print what it did.

        Args:
            request: what to do with which table.
            describe: the driver's result for people.

        Raises:
            CommandFailed: there is no such table or group, it cannot have what is asked for, or the program failed.
            ManifestError: the application cannot be made.
        """
        cluster = self.target.open()
        base = self.job.base(cluster, direct=self.options.direct)
        table = cluster.table(request.table)
        group = group_view(cluster, placed_by(table))
        try:
            request.check(_changed(table, group.buckets))
        except ValueError as error:
            raise CommandFailed(str(error)) from error
        application = table_application(request, group, base)
        finished = run(cluster, application, group, self.options, announce=False, tells_progress=True)
        if not self.options.dry_run:
            self._print(finished, request.table, describe)

    def _print(self, finished: Run, table: str, describe: Callable[[str, Mapping[str, Any]], str]) -> None:
        ended = finished.outcome
        missing = [missing_result(ended)] if ended and not ended.result else []
        if self.output != "text":
            write(finished.to_report(), "", self.output)
            warn(missing)
        elif ended and ended.result:
            tell(describe(table, ended.result))
            print_result(ended.result)
        elif missing:
            tell(missing[0])


def _spec_and_status(table: Json) -> tuple[ColocatedTableSpec, ColocatedTableStatus, bool]:
    """The last is whether the whole status is understood; what of it is not has its default.

    Raises:
        ValidationError: the spec cannot be read.
    """
    spec = ColocatedTableSpec.model_validate(table["spec"], extra="ignore")
    status, problems = salvage(ColocatedTableStatus, table.get("status"))
    return spec, status, not problems


def _changed(table: Json, group_buckets: int) -> ChangedTable:
    metadata = table["metadata"]
    spec, status, is_understood = _spec_and_status(table)
    return ChangedTable(
        f"{metadata['namespace']}.{metadata['name']}", spec, status, group_buckets,
        is_understood=is_understood, has_first_spec=metadata.get("generation") == 1,
    )  # fmt: skip


def placed_by(table: Json) -> str:
    """The group on whose nodes a table is stored, as the table would name it; its private one when it is in no group.

    Of a damaged status, what can be read counts: a load with mode overwrite repairs it.

    Raises:
        ValidationError: the spec cannot be read.
    """
    metadata = table["metadata"]
    spec, status, _ = _spec_and_status(table)
    key = placing_group(metadata["namespace"], spec, status)
    if not key[1]:
        return private_group_name(metadata["name"], metadata["uid"])
    return group_reference(metadata["namespace"], key)


def with_missing(text: str, result: Mapping[str, Any]) -> str:
    """The text, how many copies of files the operator has yet to make, and where they lie meanwhile."""
    missing = result["replicas_missing"]
    substitutes = result.get("substitutes", ())
    elsewhere = sorted({f"bucket {one['bucket']}: {one['node']} for {one['away']}" for one in substitutes})
    shown = ", ".join(first_few(elsewhere, MAX_LISTED_SUBSTITUTES))
    where = f" (meanwhile they are on other nodes: {shown})" if elsewhere else ""
    copies = counted(missing, "missing copy of a file", "missing copies of files")
    return f"{text}; the operator repairs {copies}{where}" if missing else text


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

    All of them go in one commit. Older snapshots keep the rows for the time of spec.retention.
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


@click.command()
@click.argument("table", shell_complete=complete_table)
@click.option("--buckets", type=WholeNumber(1, MAX_BUCKETS), required=True, metavar="NUMBER",
              help="The number of the table's group, or a multiple of it.")  # fmt: skip
@job_options
@run_options
@cluster_options
@output_option
def rebucket(
    table: str, buckets: int, job: JobOptions, options: RunOptions, target: Target, output: Format
) -> None:
    """Give TABLE another number of buckets.

    All its rows are written again, in one commit. More buckets let more tasks scan the table at once. Rows and readers
    are undisturbed, and the other tables of the group keep their numbers. Rows that are loaded meanwhile make it begin
    again, three times at most.
    """
    wanted = RebucketRequest(table=table, buckets=buckets)
    TableJob(job, options, target, output).run(wanted, describe_rebucketing)


def describe_rebucketing(table: str, result: Mapping[str, Any]) -> str:
    """What a rebucketing committed, for people. ``result`` is that of the image's ``rebucket.py``."""
    if result["buckets_before"] == result["buckets"]:
        present = counted(result["buckets"], "bucket")
        return f"nothing to do in {table}: it already has {present}; snapshot {result['snapshot_id']}"
    text = (
        f"rebucketed {table}: {counted(result['buckets_before'], 'bucket')} became {result['buckets']}, "
        f"{counted(result['rows'], 'row')} in {counted(result['files_after'], 'file')}, {size(result['bytes'])} per "
        f"replica; snapshot {result['snapshot_id']}"
    )
    return with_missing(text, result)


@click.command("roll-back")
@click.argument("table", shell_complete=complete_table)
@click.option("--to", "snapshot_id", type=WholeNumber(min=1), required=True, metavar="SNAPSHOT",
              help="Id of a snapshot that the table keeps; `SELECT * FROM <table>.snapshots` lists them.")  # fmt: skip
@job_options
@run_options
@cluster_options
@output_option
def roll_back(
    table: str, snapshot_id: int, job: JobOptions, options: RunOptions, target: Target, output: Format
) -> None:
    """Make an older snapshot's rows the rows of TABLE again.

    The command commits a new snapshot and writes no data. The replaced rows stay readable for the time of the table's
    spec.retention.
    """
    wanted = RollBackRequest(table=table, snapshot_id=snapshot_id)
    TableJob(job, options, target, output).run(wanted, describe_roll_back)


def describe_roll_back(table: str, result: Mapping[str, Any]) -> str:
    """What the table holds, for people. ``result`` is that of the image's ``roll_back.py``."""
    return f"rolled {table} back: it holds {counted(result['rows'], 'row')}; snapshot {result['snapshot_id']}"
