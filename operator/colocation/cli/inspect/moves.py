"""``plan``, ``snapshot`` and ``approve``: which replicas would move, why, how many bytes, and the approval of moves.

An approval is an annotation of the group that names the proposal's id. So it needs the right to change the group, and
the API server's audit log has who gave it.
"""

import json
from collections import Counter
from typing import Any

import click
from pydantic import ValidationError

from ...model.conditions import Reason
from ...model.group import ColocationGroupStatus, Proposal, awaiting_message
from ...model.names import ANNOTATION_APPROVED_PROPOSAL
from ...model.plan import Expectation, GroupPlan, Move, NodeLoad, Plan
from ...model.salvage import salvage
from ...model.snapshot import Snapshot
from ...planner import preview
from ..cluster import Cluster
from ..errors import CommandFailed, WrongUsage, field_path, validation_message
from ..port_forward import fetch_snapshot
from ..terminal.options import (
    Target,
    cluster_options,
    complete_group,
    context_option,
    operator_namespace_option,
    output_option,
    read_text,
    shown,
)
from ..terminal.output import Format, columns, size, tell, write

PROPOSED_COLUMNS = ["BUCKET", "FROM", "TO", "SIZE"]


@click.command()
@click.argument("group", shell_complete=complete_group)
@click.option("--proposal", "wanted", default=None, help="Id from `colocation show`; default: the current proposal.")
@cluster_options
@output_option
def approve(group: str, wanted: str | None, target: Target, output: Format) -> None:
    """Approve the proposed moves of GROUP.

    A group has a proposal if its spec.balancing.approval is manual. With --proposal the command approves only that
    proposal, and fails if another one has replaced it.
    """
    cluster = target.open()
    proposal = _proposal(cluster, group, wanted)
    cluster.annotate_group(cluster.namespace, group, ANNOTATION_APPROVED_PROPOSAL, proposal.id)
    text = (
        f"proposal {proposal.id} of group {cluster.namespace}/{group} is approved; watch it: "
        f"colocation show {group} -n {cluster.namespace}"
    )
    approved = proposal.model_copy(update={"approved": True})
    write(approved.to_json_dict(), f"{render_moves(proposal)}\n\n{text}", output)


def _proposal(cluster: Cluster, group: str, wanted: str | None) -> Proposal:
    found = cluster.group(group)
    status, _ = salvage(ColocationGroupStatus, found.get("status"))
    name, proposal = f"group {cluster.namespace}/{group}", status.proposal
    chosen = f"{group} -n {cluster.namespace}"
    if proposal is None or not proposal.is_of((cluster.namespace, group)):
        balancing = (found.get("spec") or {}).get("balancing") or {}
        manual = balancing.get("approval") == "manual"
        why = "" if manual else ": its moves need none, as its spec.balancing.approval is not manual"
        raise CommandFailed(f"{name} has no proposal to approve{why}; `colocation plan {chosen}` shows its moves")
    if wanted not in (None, proposal.id):
        raise CommandFailed(
            f"{name} has no proposal {wanted}; its current proposal is {proposal.id}: read it with "
            f"`colocation show {chosen}`, then approve that one"
        )
    return proposal


def render_moves(proposal: Proposal) -> str:
    """The moves of a proposal as columns."""
    rows = [[move.bucket, move.source, move.to, size(move.bytes)] for move in proposal.moves]
    return columns(PROPOSED_COLUMNS, rows)


PLANNED_COLUMNS = ["BUCKET", "FROM", "TO", "KIND", "SIZE", "START", "REASON"]
NODE_COLUMNS = ["NODE", "WEIGHT", "SHARE", "REPLICAS", "SIZE"]


def render_plan(plan: Plan) -> str:
    """All groups of a plan, one below the other."""
    return "\n\n".join(_group(group) for group in plan.groups) or "no groups"


def _group(group: GroupPlan) -> str:
    state = "stable" if group.stable else "not stable"
    lines = [f"group {group.namespace}/{group.name}: {state}, {_because(group.reason, group.message)}"]
    lines += [f"  bucket {item.bucket}: {_because(item.reason, item.message)}" for item in group.unstable_buckets]
    if group.stalled:
        lines.append(f"stalled: {_because(group.stalled.reason, group.stalled.message)}")
    lines += [f"blocked: bucket {item.bucket}: {_because(item.reason, item.message)}" for item in group.blocked]
    lines += _moves(group)
    if group.expected and group.target_map is not None:
        lines += ["", *_nodes(group.expected)]
    if group.evenness and group.target_map is not None:
        lines.append(f"replicas per weight, most minus least: {_arrow(group.evenness.before, group.evenness.after)}")
    return "\n".join(lines)


def _moves(group: GroupPlan) -> list[str]:
    if group.proposal and not group.proposal.approved:
        awaiting = f"{Reason.AWAITING_APPROVAL}: {awaiting_message((group.namespace, group.name), group.proposal)}"
        return [*_moves_now(group, nothing=[]), awaiting, render_moves(group.proposal)]
    return _moves_now(group, nothing=["nothing would move"])


def _moves_now(group: GroupPlan, nothing: list[str]) -> list[str]:
    if not group.moves:
        return nothing
    total, moves = size(sum(move.bytes for move in group.moves)), len(group.moves)
    starting = frozenset(group.start_now)
    rows = [_move(move, number in starting) for number, move in enumerate(group.moves)]
    noun = "replica" if moves == 1 else "replicas"
    return [f"{moves} {noun} to make, {total}, {len(starting)} of them at once:", columns(PLANNED_COLUMNS, rows)]


def _move(move: Move, starts: bool) -> list[object]:
    return [move.bucket, move.source, move.to, move.kind, size(move.bytes), "now" if starts else "later", move.reason]


def _nodes(expected: Expectation) -> list[str]:
    """What each node has of the group, before -> after."""
    return [columns(NODE_COLUMNS, [_node(load) for load in expected.nodes])]


def _node(load: NodeLoad) -> list[object]:
    replicas = _arrow(load.replicas_before, load.replicas_after)
    sizes = f"{size(load.bytes_before)} -> {size(load.bytes_after)}"
    return [load.node, f"{load.weight:g}", f"{load.share:.2f}", replicas, sizes]


def _arrow(before: float, after: float) -> str:
    return f"{before:g} -> {after:g}"


def _because(reason: str, message: str) -> str:
    return f"{reason}: {message}" if message else reason


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
    """Refuse a snapshot that has two entries of one node or group: they may contradict each other."""
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
