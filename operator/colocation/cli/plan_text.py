"""A plan for people: per group what is true, what would move, why, and how many bytes."""

from ..model.plan import GroupPlan, Move, Plan
from .output import columns, size


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
    if not group.moves:
        return "\n".join([*lines, "nothing would move"])
    total = sum(move.bytes for move in group.moves)
    lines.append(f"{len(group.moves)} replicas to make, {size(total)}, {len(group.start_now)} of them at once:")
    starting = frozenset(group.start_now)
    rows = [_row(move, number in starting) for number, move in enumerate(group.moves)]
    lines.append(columns(["BUCKET", "FROM", "TO", "KIND", "SIZE", "START", "REASON"], rows))
    if group.evenness:
        lines.append(f"replicas per weight, most minus least: {group.evenness.before:g} -> {group.evenness.after:g}")
    return "\n".join(lines)


def _row(move: Move, starts: bool) -> list[object]:
    return [move.bucket, move.source, move.to, move.kind, size(move.bytes), "now" if starts else "later", move.reason]


def _because(reason: str, message: str) -> str:
    return f"{reason}: {message}" if message else reason
