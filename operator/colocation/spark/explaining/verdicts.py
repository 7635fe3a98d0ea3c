"""For each join, group-by and window of a plan: colocated, or why not. Pure; the reasons are in Doris's words.

Everything is read from the executed plan: which tables the rows come from, whether Spark reads them bucket by bucket,
and what redistributes them on the way. Invariant: ``colocate: true`` only where the plan shows it: no shuffle between
the operator and the bucketed scans of one group's tables that its rows come from.
"""

import functools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .plan_tree import INTERNAL_SHUFFLES, MERGE_SOURCE, PARTITION_MERGES, Expression, Grouping, Join, PlanNode, Scan

SESSION_DISABLED = "Session disabled"
NO_GROUP = "Tables are not in the same group"
INCONSISTENT = "Inconsistent distribution of table and queries"
TRANSFORMED = "Src column hash been transformed by expr"
REDISTRIBUTED = "The src data has been redistributed"

Keys = tuple[Expression, ...]


@dataclass(frozen=True)
class KnownTable:
    """What the catalog decided of a table, and noted in the plan.

    Attributes:
        group: its colocation group, ``<namespace>/<name>``; empty = none.
        bucketed: whether Spark reads it by its buckets.
        reason: why not; or, for a bucketed table, what qualifies that. Empty = none.
    """

    name: str
    group: str
    bucketed: bool
    reason: str
    bucketed_by: tuple[str, ...]



@dataclass(frozen=True)
class _Origin:
    """The column of a scan that a key is. ``scan`` tells two scans of one table from each other."""

    scan: int
    table: KnownTable | None
    column: str

    def __str__(self) -> str:
        return f"{self.table.name}.{self.column}" if self.table else self.column


def table_names(node: PlanNode) -> tuple[str, ...]:
    """The tables that a node's rows come from, as people name them, in the plan's order."""
    return tuple(_name(below.scan) for below in node.inputs() if below.scan)


def notes(inputs: Iterable[PlanNode]) -> str:
    """What qualifies the bucketed reading of the tables; empty when nothing does."""
    known = [_known(leaf.scan) for leaf in _leaves(inputs)]
    return "; ".join(sorted({table.reason for table in known if table and table.bucketed and table.reason}))


def why_not_together(inputs: Sequence[PlanNode], keys: Sequence[Keys], what: str) -> str:
    """Why an operator's rows of equal keys are not in one bucket already; empty when the plan shows that they are.

    Args:
        inputs: the operator's one or two children.
        keys: its keys, for each child.
        what: the keys' name in the reason, e.g. ``the join's keys``.
    """
    paths = [node for child in inputs for node in child.partitioned_by()]
    if any(node.redistributes for node in paths):
        return (
            obstacle(inputs, keys, what)
            or _unused_buckets(_leaves(inputs))
            or f"{REDISTRIBUTED}{_cause(inputs)}"
        )
    leaves = [node for node in paths if not node.children]
    return _foreign_rows(leaves) or _different_groups(leaves) or _unused_buckets(leaves)


def obstacle(inputs: Sequence[PlanNode], keys: Sequence[Keys], what: str) -> str:
    """What tables and keys have against colocation, whatever the plan does; empty when nothing."""
    leaves = _leaves(inputs)
    hidden = _hidden_buckets(leaves)
    return (
        _foreign_rows(leaves)
        or (hidden if hidden.startswith(SESSION_DISABLED) else _different_groups(leaves))
        or hidden
        or _keys_reason(inputs, keys, what)
    )


def _leaves(inputs: Iterable[PlanNode]) -> list[PlanNode]:
    return [node for child in inputs for node in child.partitioned_by(through_shuffles=True) if not node.children]


def _foreign_rows(leaves: Iterable[PlanNode]) -> str:
    for leaf in leaves:
        if leaf.name == MERGE_SOURCE:
            return f"{REDISTRIBUTED}: the source is computed first"
        if leaf.scan is None:
            return f"{NO_GROUP}: rows of one side ({leaf.name}) are not of a ColocatedTable"
        if _known(leaf.scan) is None:
            return f"{NO_GROUP}: {_name(leaf.scan)} is not a ColocatedTable"
    return ""


def _hidden_buckets(leaves: Iterable[PlanNode]) -> str:
    """Why the catalog does not tell Spark of a table's buckets."""
    known = [_known(leaf.scan) for leaf in leaves]
    return next((table.reason for table in known if table and not table.bucketed), "")


def _different_groups(leaves: Iterable[PlanNode]) -> str:
    known = {table for leaf in leaves if (table := _known(leaf.scan))}
    if len({table.group for table in known}) < 2:
        return ""
    places = sorted(f"{table.name} is in {table.group or 'no group'}" for table in known)
    return f"{NO_GROUP}: {', '.join(places)}"


def _unused_buckets(leaves: Iterable[PlanNode]) -> str:
    """Tables that have buckets, but that Spark chose not to read by them."""
    unused = sorted({leaf.scan.table or leaf.scan.location for leaf in leaves if leaf.scan and not leaf.scan.bucketed})
    return f"{REDISTRIBUTED}: Spark reads {', '.join(unused)} without buckets" if unused else ""


def _keys_reason(inputs: Sequence[PlanNode], keys: Sequence[Keys], what: str) -> str:
    """What the keys have against it: each side's must contain the bucket key of a table, paired with the other's."""
    sides = [_origins(child, side_keys) for child, side_keys in zip(inputs, keys, strict=True)]
    for child, side_keys, origins in zip(inputs, keys, sides, strict=True):
        if _bucket_positions(origins):
            continue
        computed = [key.text for key, origin in zip(side_keys, origins, strict=True) if origin is None]
        if computed:
            return f"{TRANSFORMED}: {', '.join(computed)}"
        named = [table for leaf in _leaves([child]) if (table := _known(leaf.scan))]
        buckets = ", ".join(dict.fromkeys(f"{t.name} is bucketed by ({', '.join(t.bucketed_by)})" for t in named))
        given = ", ".join(str(origin) for origin in origins)
        return f"{INCONSISTENT}: {buckets}, {what} are ({given})"
    if len(sides) == 2 and not set(_bucket_positions(sides[0])) & set(_bucket_positions(sides[1])):
        pairs = ", ".join(f"{left} = {right}" for left, right in zip(*sides, strict=True))
        return f"{INCONSISTENT}: columns of the bucket keys are compared out of order: {pairs}"
    return ""


def _bucket_positions(origins: Sequence[_Origin | None]) -> list[tuple[int, ...]]:
    """For each scan whose bucket key is among the keys: where each column of it stands among them."""
    found = []
    for scan, table in dict.fromkeys((o.scan, o.table) for o in origins if o and o.table):
        columns = [o.column.lower() if o and o.scan == scan else None for o in origins]
        bucket_key = [name.lower() for name in table.bucketed_by]
        if all(name in columns for name in bucket_key):
            found.append(tuple(columns.index(name) for name in bucket_key))
    return found


def _origins(side: PlanNode, keys: Keys) -> list[_Origin | None]:
    """The columns that keys are, through renames; None for one that is computed."""
    renames = {new: old for node in side.inputs() for new, old in node.aliases.items()}
    scans = [node.scan for node in side.inputs() if node.scan]
    columns = {
        attribute: _Origin(number, _known(scan), name)
        for number, scan in enumerate(scans)
        for attribute, name in scan.columns.items()
    }
    found = []
    for key in keys:
        attribute = key.attribute
        while attribute is not None and attribute not in columns:
            attribute = renames.get(attribute)
        found.append(None if attribute is None else columns[attribute])
    return found


def _cause(inputs: Iterable[PlanNode]) -> str:
    """What took the rows out of their buckets, below the shuffle that the operator itself asked for."""
    for child in inputs:
        own_seen = False
        for node in child.partitioned_by(through_shuffles=True):
            if _is_required(node) and not own_seen:
                own_seen = True
            elif cause := _cause_at(node):
                return f": {cause}"
    return ""


def _is_required(node: PlanNode) -> bool:
    """Whether a shuffle is there because an operator above needs its keys, not because the query asks for it."""
    return node.is_shuffle and node.shuffle_origin in ("", "ENSURE_REQUIREMENTS")


def _cause_at(node: PlanNode) -> str:
    if node.name in INTERNAL_SHUFFLES:
        return "a limit brings all rows into one partition"
    if node.name in PARTITION_MERGES:
        return "coalesce merges partitions"
    if node.name == "Union":
        return "a union puts buckets of several inputs side by side"
    if node.join and node.join.type == "FullOuter":
        return "a full outer join's rows have the key of either side"
    if node.is_shuffle:
        asked = f"the query asks for it ({node.shuffle_origin})"
        return "another operator below needs other keys" if _is_required(node) else asked
    return ""


def _known(scan: Scan | None) -> KnownTable | None:
    """The catalog's table that a scan reads; None for other tables."""
    return _noted(scan.note) if scan and scan.note else None


@functools.lru_cache(maxsize=256)
def _noted(note: str) -> KnownTable:
    noted = json.loads(note)
    return KnownTable(
        noted["name"], noted["group"], noted["bucketed"], noted["reason"], bucketed_by=tuple(noted["bucketedBy"])
    )


def _name(scan: Scan) -> str:
    table = _known(scan)
    return table.name if table else scan.table or scan.location


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
