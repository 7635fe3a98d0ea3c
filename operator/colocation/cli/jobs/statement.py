"""``sql``: runs one statement over a namespace's tables as a Spark application in the cluster and prints its rows.

The application runs next to a group. Any group gives a right answer; the choice decides which tables are on the
executors' own disks.
"""

import re
import time
from collections.abc import Container, Mapping, Sequence
from typing import Any

import click
from kubernetes.client.exceptions import ApiException
from pydantic import ValidationError
from urllib3.exceptions import HTTPError

from ...model.driver_output import RESULT_PORT, new_token, token_digest
from ...model.names import LABEL_PRIVATE
from ...model.salvage import salvage
from ...model.table import ColocatedTableStatus
from ...model.wording import counted
from ...submit import Decision, ManifestError
from ...submit.clients import Applications
from ...submit.programs import SqlRequest, sql_application
from ...submit.run import StillRunning
from ..cluster import Cluster
from ..errors import HTTP_NOT_FOUND, CommandFailed
from ..port_forward import PodPort
from ..terminal.options import Target, bundle, cluster_options
from ..terminal.output import tell
from .job_options import JobOptions, job_options
from .launch import RunOptions, Started, follow, group_view, run_options, start
from .statement_rows import RowsFormat, StatementResult, Time, render
from .table_commands import placed_by

Json = Mapping[str, Any]

_TEXT_OR_COMMENT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = re.compile(r"`[^`]+`|\w+")
HOW_TO_MAKE_ONE = (
    "make one with its tables, as in docs/tutorial.md#5-a-group-and-two-tables (kubectl apply -f FILE -n {namespace})"
)


def choose_group(statement: str, namespace: str, groups: Sequence[Json], tables: Sequence[Json]) -> str:
    """The group of the tables that the statement names, else one that has tables, else any.

    Of several, the one with the most bytes of these tables. Groups that the operator made for one table in no group
    count only where there is no other.

    Args:
        statement: SQL.
        namespace: the namespace that the statement's tables are of, for the message.
        groups: its groups.
        tables: its tables, some of which may be in groups of other namespaces.

    Raises:
        ManifestError: there is no group.
    """
    own = {str(item["metadata"]["name"]): 0 for item in groups}
    private = {str(item["metadata"]["name"]) for item in groups if is_private(item)}
    names = names_in(statement)
    named = [table for table in tables if str(table["metadata"]["name"]).lower() in names]
    for weights in (_bytes_by_group(named, own), _bytes_by_group(tables, own), own):
        if weights:
            return min(weights, key=lambda name: (name in private, -weights[name], name))
    raise ManifestError(
        f"namespace {namespace!r} has no group to run with: {HOW_TO_MAKE_ONE.format(namespace=namespace)}"
    )


def names_in(statement: str) -> frozenset[str]:
    """All names in a statement, in lower case: of tables, columns, functions and the language itself."""
    found = _NAME.findall(_TEXT_OR_COMMENT.sub(" ", statement))
    return frozenset(name.strip("`").lower() for name in found)


def _bytes_by_group(tables: Sequence[Json], own: Container[str]) -> dict[str, int]:
    """By group, among them those of other namespaces; a group of this one that is not there does not count."""
    weights: dict[str, int] = {}
    for table in tables:
        place = readable_place(table)
        if place in own or "/" in place:
            status, _ = salvage(ColocatedTableStatus, table.get("status"))
            loaded = status.snapshot.bytes if status.snapshot else 0
            weights[place] = weights.get(place, 0) + loaded
    return weights


def readable_place(table: Json) -> str:
    """The group that places a table; empty when its spec cannot be read, which hinders no statement on others."""
    try:
        return placed_by(dict(table))
    except ValidationError:
        return ""


def is_private(group: Json) -> bool:
    """Whether the operator made the group for one table that is in no group."""
    return (group["metadata"].get("labels") or {}).get(LABEL_PRIVATE) == "true"


ROW_CHANGES = ("update", "delete", "merge")
CHANGED_BY_ROWS = ("append", "overwrite-partitions", *ROW_CHANGES)
"""Changes that commit nothing when there are no rows."""
TIME = Time(time.monotonic, time.sleep)

request_options = bundle(
    "request",
    dict,
    click.argument("statement"),
    click.option(
        "--group", default=None, help="Run on the nodes of this group; default: that of the statement's tables."
    ),
    click.option(
        "--explain", is_flag=True,
        help="Also print the executed plan, with `colocate: true|false, reason: …` per join, group-by and window.",
    ),
)


@click.command()
@request_options
@job_options
@run_options
@cluster_options
@click.option(
    "-o", "--output", "--format", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True,
    help="Output format.",
)
def sql(
    request: dict[str, Any], job: JobOptions, options: RunOptions, target: Target, output: RowsFormat
) -> None:
    """Run a SQL statement in the cluster; print its rows.

    STATEMENT runs as a Spark application on the nodes of the namespace's tables. Write TABLE for a table of the
    namespace, NAMESPACE.TABLE for one of another. EXPLAIN SELECT … shows the plan and the verdicts without running the
    query. The rows come from the driver through a port-forward and appear in no log. If this command ends before it has
    all rows, it deletes the application.
    """
    if not request["statement"].strip():
        raise click.UsageError("STATEMENT is empty; give one statement, e.g. \"SELECT count(*) FROM orders\"")
    if not options.wait:
        raise click.UsageError("sql waits for its rows, so it takes no --no-wait; use `colocation submit --no-wait`")
    cluster = target.open()
    base = job.base(cluster, direct=options.direct)
    group = group_view(cluster, chosen_group(cluster, request.pop("group"), request["statement"]))
    token = new_token()
    application = sql_application(SqlRequest(reader=token_digest(token), **request), group, base)
    started = start(cluster, application, group, options, announce=False)
    if started.applications is None:
        return
    try:
        print_result(cluster, started, started.applications, token, options, output, with_plan=request["explain"])
    except BaseException as error:  # noqa: BLE001 - however it ends, the driver is not left waiting
        raise _given_up(started, started.applications, error) from None


def print_result(
    cluster: Cluster, started: Started, applications: Applications, token: str, options: RunOptions,
    output: RowsFormat, *, with_plan: bool,
) -> None:  # fmt: skip
    """Wait for the result, and print it as it comes.

    Raises:
        RunError: the application was deleted, or took too long.
        CommandFailed: it failed, or the connection to it did.
    """

    def open_port(pod: str) -> PodPort:
        return PodPort(cluster.connection, started.namespace, pod, RESULT_PORT)

    result = StatementResult(
        applications, started.namespace, started.name, token=token, open_port=open_port,
        time=TIME,
    )  # fmt: skip
    follow(result.begin(options.timeout_seconds))
    for text in render(result.parser, result.rows(), output):
        click.echo(text, nl=False)
    if output != "json":  # there it is part of the document
        tell_commits((result.parser.summary or {}).get("commits", ()), err=output == "csv")
    if with_plan and output == "table":
        tell(render_explanation(result.parser.summary or {}))


def _given_up(started: Started, applications: Applications, error: BaseException) -> BaseException:
    """The error to raise. Deletes the application unless it has ended, since its rows will not be fetched."""
    what = f"{applications.what} {started.name}"
    try:
        if not applications.look(started.namespace, started.name).ended:
            applications.delete(started.namespace, started.name)
            tell(f"{what} is deleted, because nothing would fetch its rows", err=True)
    except (ApiException, HTTPError, CommandFailed) as problem:
        if getattr(problem, "status", None) != HTTP_NOT_FOUND:
            reference = applications.reference(started.name)
            tell(f"delete it: kubectl delete {reference} -n {started.namespace}", err=True)
    if isinstance(error, KeyboardInterrupt):
        return CommandFailed(f"interrupted while {what} ran")
    if isinstance(error, StillRunning):
        return CommandFailed(f"{what} has given no rows in the time that --timeout allows")
    return error


def chosen_group(cluster: Cluster, given: str | None, statement: str) -> str:
    """The group to run with: the given one, else that of the statement's tables.

    Raises:
        ManifestError: the namespace has no group.
        CommandFailed: there is no such namespace.
    """
    if given:
        return given
    groups, tables = cluster.groups(), cluster.tables()
    if not groups:
        cluster.check_namespace()
    return choose_group(statement, cluster.namespace, groups, tables)


def tell_commits(commits: Sequence[Mapping[str, Any]], *, err: bool) -> None:
    """A line for each change of a table that the statement committed."""
    for done in commits:
        tell(describe_commit(done), err=err)


def describe_commit(done: Mapping[str, Any]) -> str:
    """A change of a table for people: ``shop.orders: append, 2 rows in 1 file; snapshot 4``."""
    what, snapshot = f"{done['table']}: {done['change']}", f"snapshot {done['snapshot_id']}"
    if done["was_committed_before"]:
        return f"{what} was committed before, as {snapshot}; nothing is changed"
    if done["change"] in ROW_CHANGES and done.get("files_removed") is not None:
        rows = ", ".join(f"{done[f'rows_{how}']} {how}" for how in ("inserted", "updated", "deleted"))
        return f"{what}, rows: {rows}; {counted(done['files_removed'], 'file')} replaced by {done['files']}; {snapshot}"
    if done["files"]:
        return f"{what}, {counted(done['rows'], 'row')} in {counted(done['files'], 'file')}; {snapshot}"
    if done["change"] in CHANGED_BY_ROWS:
        return f"{what}, no rows: nothing is committed"
    return f"{what}; {snapshot}"


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
