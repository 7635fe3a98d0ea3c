"""A plan for people: per group what is true, what would move, why, how many bytes, and how even it will be."""

from ...model.conditions import Reason
from ...model.group import awaiting_message
from ...model.plan import Expectation, GroupPlan, Move, NodeLoad, Plan
from ..terminal.output import columns, size
from .approve import render_moves

MOVES = ["BUCKET", "FROM", "TO", "KIND", "SIZE", "START", "REASON"]
NODES = ["NODE", "WEIGHT", "SHARE", "REPLICAS", "SIZE"]


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
    return [f"{moves} {noun} to make, {total}, {len(starting)} of them at once:", columns(MOVES, rows)]


def _move(move: Move, starts: bool) -> list[object]:
    return [move.bucket, move.source, move.to, move.kind, size(move.bytes), "now" if starts else "later", move.reason]


def _nodes(expected: Expectation) -> list[str]:
    """What each node has of the group, before -> after."""
    return [columns(NODES, [_node(load) for load in expected.nodes])]


def _node(load: NodeLoad) -> list[object]:
    replicas = _arrow(load.replicas_before, load.replicas_after)
    sizes = f"{size(load.bytes_before)} -> {size(load.bytes_after)}"
    return [load.node, f"{load.weight:g}", f"{load.share:.2f}", replicas, sizes]


def _arrow(before: float, after: float) -> str:
    return f"{before:g} -> {after:g}"


def _because(reason: str, message: str) -> str:
    return f"{reason}: {message}" if message else reason
