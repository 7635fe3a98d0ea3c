"""Commands that run one of our Spark programs on one table: load, compact, drop-partitions, roll-back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from ...model.names import group_reference, private_group_name
from ...model.salvage import salvage
from ...model.table import ColocatedTableSpec, ColocatedTableStatus, placing_group
from ...submit.jobs import TableRequest, table_application
from ..terminal.options import Target
from ..terminal.output import Format, counted, tell, write
from ..terminal.watching import warn
from .applications import Run, RunOptions, group_view, missing_result, print_result, run
from .job_options import JobOptions

MAX_SUBSTITUTES_TOLD = 5

Json = dict[str, Any]


def _checked_partitions(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    for value in values:
        if not all(part.partition("=")[0] and "=" in part for part in value.split("/")):
            raise click.BadParameter(f"{value!r} given; allowed: COLUMN=VALUE, several joined by /")
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
        """Run the program beside the nodes that hold the table, and print what it did.

        Args:
            request: what to do with which table.
            describe: the driver's result for people.

        Raises:
            CommandFailed: there is no such table or group, or the program failed.
            ManifestError: the application cannot be made.
        """
        cluster = self.target.open()
        base = self.job.base(cluster, direct=self.options.direct)
        group = group_view(cluster, placed_by(cluster.table(request.table)))
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


def placed_by(table: Json) -> str:
    """The group on whose nodes a table lies, as the table would name it; its own when it is in no group.

    Of a status that somebody spoiled, what can be read counts: a load with mode overwrite mends it.

    Raises:
        ValidationError: the spec cannot be read.
    """
    metadata = table["metadata"]
    spec = ColocatedTableSpec.model_validate(table["spec"], extra="ignore")
    status, _ = salvage(ColocatedTableStatus, table.get("status"))
    key = placing_group(metadata["namespace"], spec, status)
    if not key[1]:
        return private_group_name(metadata["name"], metadata["uid"])
    return group_reference(metadata["namespace"], key)


def with_missing(text: str, result: Mapping[str, Any]) -> str:
    """The text, how many copies of files the operator has yet to make, and where they lie meanwhile."""
    missing = result["replicas_missing"]
    substitutes = result.get("substitutes", ())
    elsewhere = sorted({f"bucket {one['bucket']}: {one['node']} for {one['away']}" for one in substitutes})
    if len(elsewhere) > MAX_SUBSTITUTES_TOLD:
        elsewhere[MAX_SUBSTITUTES_TOLD:] = [f"and {len(elsewhere) - MAX_SUBSTITUTES_TOLD} more"]
    where = f" (meanwhile they are on other nodes: {', '.join(elsewhere)})" if elsewhere else ""
    copies = counted(missing, "missing copy of a file", "missing copies of files")
    return f"{text}; the operator repairs {copies}{where}" if missing else text
