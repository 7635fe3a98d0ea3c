"""``plan`` and ``snapshot``: what would move, why, and how many bytes; from the live cluster or from a file."""

import json
from collections import Counter
from typing import Any

import click
from pydantic import ValidationError

from ...model.plan import Plan
from ...model.snapshot import Snapshot
from ...planner import preview
from ..cluster import Cluster
from ..errors import CommandFailed, WrongUsage, field_path, validation_message
from ..operator_port import fetch_snapshot
from ..terminal.completed_names import complete_group
from ..terminal.input_files import read_text, shown
from ..terminal.options import Target, cluster_options, context_option, operator_namespace_option, output_option
from ..terminal.output import Format, tell, write
from .plan_text import render_plan

A_SNAPSHOT = "a file that `colocation snapshot > FILE` wrote: a JSON object with now, nodes and groups"
REQUIRED_FIELDS = ("now", "nodes", "groups")
MAX_FIELDS_NAMED = 8
JSON_KINDS = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "true or false",
              type(None): "null"}  # fmt: skip


@click.command()
@click.argument("group", required=False, shell_complete=complete_group)
@click.option("--snapshot", "file", default=None, metavar="FILE",
              help="Plan from a file that `colocation snapshot` wrote; - reads standard input.")  # fmt: skip
@cluster_options
@operator_namespace_option
@output_option
def plan(group: str | None, file: str | None, target: Target, operator_namespace: str, output: Format) -> None:
    """Show what the operator would move, and why.

    The command moves nothing. It plans GROUP of the live cluster, or, with --snapshot, GROUP of a file; without GROUP
    it plans all groups of the file.
    """
    if file is None and group is None:
        raise click.UsageError("name a GROUP, or a file with --snapshot; `colocation groups -A` lists the groups")
    if file is not None:
        snapshot, namespace = read_snapshot(file), target.namespace
    else:
        cluster = target.open()
        snapshot, namespace = fetch_snapshot(cluster.connection, operator_namespace), cluster.namespace
    result = choose_group(preview(snapshot), group, namespace)
    write(result.to_json_dict(), render_plan(result), output)


@click.command()
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), default="json", show_default=True,
              help="Output format.")  # fmt: skip
@context_option
@operator_namespace_option
def snapshot(output: Format, context: str | None, operator_namespace: str) -> None:
    """Print the state that the operator plans from.

    `colocation plan --snapshot` reads it. It holds names of nodes and groups, and sizes, but no data.
    """
    value = fetch_snapshot(Cluster(context, None).connection, operator_namespace).to_json_dict()
    write(value, "", output)


def read_snapshot(file: str) -> Snapshot:
    """The snapshot in a file, or on standard input for ``-``.

    Raises:
        WrongUsage: no such file, or it holds no snapshot; each wrong field is named.
    """
    text, name = read_text(file, A_SNAPSHOT), shown(file)
    try:
        value = json.loads(text)
    except ValueError as error:
        raise WrongUsage(f"{name} is not JSON: {error}; name {A_SNAPSHOT}") from error
    except RecursionError as error:
        raise WrongUsage(f"{name} is nested too deeply; name {A_SNAPSHOT}") from error
    if problem := _no_snapshot(value):
        raise WrongUsage(f"{name} holds no snapshot: {problem}; name {A_SNAPSHOT}")
    try:
        snapshot = Snapshot.model_validate(without_unknown_fields(value))
    except ValidationError as error:
        raise WrongUsage(validation_message(error, f"the snapshot in {name}")) from error
    _refuse_repeated(snapshot, name)
    return snapshot


def _no_snapshot(value: Any) -> str:
    """Why a JSON value is something else than a snapshot; empty when it looks like one.

    The model has defaults for nodes and groups, but every file that `colocation snapshot` wrote names them.
    """
    if not isinstance(value, dict):
        return f"it is {JSON_KINDS[type(value)]}"
    missing = [field for field in REQUIRED_FIELDS if field not in value]
    if not missing:
        return ""
    found = ", ".join(list(value)[:MAX_FIELDS_NAMED]) or "none"
    return f"it lacks {', '.join(missing)} (its first fields: {found})"


def without_unknown_fields(value: Any) -> Any:
    """A snapshot's JSON without the fields that this version does not know; each is named on standard error.

    Snapshots come from other versions too, and a plan without what is new there is better than none.
    """
    try:
        Snapshot.model_validate(value)
    except ValidationError as error:
        for item in error.errors():
            if item["type"] == "extra_forbidden":
                *path, field = item["loc"]
                holder = value
                for part in path:
                    holder = holder[part]
                del holder[field]
                tell(f"warning: the unknown field {field_path(item['loc'])} is left out", err=True)
    return value


def _refuse_repeated(snapshot: Snapshot, name: str) -> None:
    """What is there twice contradicts itself."""
    names = Counter(f"node {node.name}" for node in snapshot.nodes)
    names.update(f"group {group.namespace}/{group.name}" for group in snapshot.groups)
    repeated = ", ".join(one for one, times in names.items() if times > 1)
    if repeated:
        raise WrongUsage(f"the snapshot in {name} has more than one entry of {repeated}; keep one of each")


def choose_group(plan: Plan, group: str | None, namespace: str | None) -> Plan:
    """The part of a plan that is of one group; all of it when ``group`` is None.

    Raises:
        CommandFailed: the plan has no such group; the message lists those that it has.
    """
    if group is None:
        return plan
    chosen = tuple(item for item in plan.groups if item.name == group and namespace in (None, item.namespace))
    if not chosen:
        names = ", ".join(f"{item.namespace}/{item.name}" for item in plan.groups) or "none"
        wanted = f"{namespace}/{group}" if namespace else group
        raise CommandFailed(f"there is no group {wanted}; there are: {names}")
    return Plan(groups=chosen)
