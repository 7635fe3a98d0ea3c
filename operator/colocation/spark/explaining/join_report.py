"""For each join, group-by and window of a plan: colocated, or why not. Pure.

Invariant: ``colocate: true`` stands only where the plan itself shows it: no shuffle between the operator and the
bucketed scans of one group's tables that its rows come from. The reasons are Doris's words.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from .distribution import INCONSISTENT, notes, obstacle, table_names, why_not_together
from .plan_tree import Grouping, Join, PlanNode

HAS_HINT = "Has join hint"
BROADCAST = "Broadcast is cheaper"
NO_EQUALITY = f"{INCONSISTENT}: no equality between columns of both sides"
NULL_AWARE = f"{INCONSISTENT}: NOT IN must know of every NULL of one side; NOT EXISTS joins by key"
NO_KEYS = f"{INCONSISTENT}: no PARTITION BY, so all rows are one group"

JOIN_KEYS = "the join's keys"
GROUPING_KEYS = {"aggregate": "the group-by's keys", "window": "the window's keys"}


@dataclass(frozen=True)
class JoinReport:
    """One join. ``reason`` is empty exactly when ``colocate`` is true; ``note`` qualifies a true one."""

    join: str
    type: str
    keys: tuple[str, ...]
    tables: tuple[str, ...]
    colocate: bool
    reason: str
    note: str = ""


@dataclass(frozen=True)
class GroupingReport:
    """One group-by, DISTINCT or window; ``operator`` is Spark's name, e.g. ``HashAggregate``."""

    operator: str
    keys: tuple[str, ...]
    tables: tuple[str, ...]
    colocate: bool
    reason: str
    note: str = ""


def report_joins(plan: PlanNode) -> list[JoinReport]:
    """All joins of a plan, outermost first."""
    return [_join_report(node, node.join) for node in plan.walk() if node.join is not None]


def report_aggregates(plan: PlanNode) -> list[GroupingReport]:
    """All group-bys and DISTINCTs, outermost first; an aggregate without GROUP BY has nothing to bring together."""
    return [
        _grouping_report(node, grouping) for node, grouping in _groupings(plan, "aggregate") if grouping.keys
    ]


def report_windows(plan: PlanNode) -> list[GroupingReport]:
    """All window operators, outermost first."""
    return [_grouping_report(node, grouping) for node, grouping in _groupings(plan, "window")]


def count_exchanges(plan: PlanNode) -> int:
    """Shuffle Exchanges between a table scan and a join: 0 when all joins are colocated or broadcast."""
    below_join = {id(node) for top in plan.walk() if top.join for child in top.children for node in child.inputs()}
    return sum(
        1
        for node in plan.walk()
        if node.is_shuffle and id(node) in below_join and any(below.scan for below in node.inputs())
    )


def _join_report(node: PlanNode, join: Join) -> JoinReport:
    reason = _join_reason(node, join)
    return JoinReport(
        join=join.algorithm,
        type=join.type,
        keys=tuple(f"{left.text} = {right.text}" for left, right in zip(join.left_keys, join.right_keys, strict=True)),
        tables=table_names(node),
        colocate=not reason,
        reason=reason,
        note="" if reason else notes(node.children),
    )


def _join_reason(node: PlanNode, join: Join) -> str:
    """Why a join is not colocated; empty when it is."""
    if not join.left_keys:
        return f"{HAS_HINT}: {join.hint}" if join.hint and join.algorithm == "CartesianProduct" else NO_EQUALITY
    if join.null_aware:
        return NULL_AWARE
    keys = (join.left_keys, join.right_keys)
    if join.broadcast_side is not None:
        besides = obstacle(node.children, keys, JOIN_KEYS)
        return "; besides, ".join(filter(None, (_broadcast_reason(node, join), besides)))
    return why_not_together(node.children, keys, JOIN_KEYS)


def _broadcast_reason(node: PlanNode, join: Join) -> str:
    if join.hint:
        return f"{HAS_HINT}: {join.hint}"
    assert join.broadcast_side is not None
    side = ", ".join(table_names(node.children[join.broadcast_side])) or "one side"
    size = "is small" if join.broadcast_bytes is None else f"is estimated at {join.broadcast_bytes} bytes"
    return f"{BROADCAST}: {side} {size}, the threshold is {join.broadcast_threshold_bytes} bytes"


def _groupings(plan: PlanNode, kind: str) -> Iterator[tuple[PlanNode, Grouping]]:
    """The last phase of each, which is the one whose keys are the query's."""
    seen: set[int] = set()
    for node in plan.walk():
        grouping = node.grouping
        if grouping and grouping.kind == kind and (grouping.logical_id not in seen or not grouping.logical_id):
            seen.add(grouping.logical_id)
            yield node, grouping


def _grouping_report(node: PlanNode, grouping: Grouping) -> GroupingReport:
    what = GROUPING_KEYS[grouping.kind]
    reason = why_not_together(node.children, [grouping.keys], what) if grouping.keys else NO_KEYS
    return GroupingReport(
        operator=grouping.algorithm,
        keys=tuple(key.text for key in grouping.keys),
        tables=table_names(node),
        colocate=not reason,
        reason=reason,
        note="" if reason else notes(node.children),
    )
