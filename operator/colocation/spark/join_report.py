"""For each join of a plan: colocated, or why not. Pure.

Invariant: ``colocate: true`` stands only where the plan itself shows it: no shuffle between the join and the bucketed
scans of one group's tables on both sides. The reasons are Doris's words (``colocate: false, reason: …``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .decision import INCONSISTENT, NO_GROUP
from .plan_tree import Expression, Join, PlanNode, Scan

HAS_HINT = "Has join hint"
TRANSFORMED = "Src column hash been transformed by expr"
REDISTRIBUTED = "The src data has been redistributed"
BROADCAST = "Broadcast is cheaper"
NO_EQUALITY = "Inconsistent distribution of table and queries: no equality between columns of both sides"


@dataclass(frozen=True)
class KnownTable:
    """What registration decided of a table. ``reason`` says why it is not bucketed; empty when it is."""

    name: str
    namespace: str
    group: str
    bucketed: bool
    reason: str
    bucketed_by: tuple[str, ...]


@dataclass(frozen=True)
class JoinReport:
    """One join. ``reason`` is empty exactly when ``colocate`` is true."""

    join: str
    type: str
    keys: tuple[str, ...]
    tables: tuple[str, ...]
    colocate: bool
    reason: str


def report_joins(plan: PlanNode, tables: Mapping[str, KnownTable]) -> list[JoinReport]:
    """All joins of a plan, outermost first. ``tables`` are those registered, by scan location's table folder."""
    return [_report(node, node.join, tables) for node in plan.walk() if node.join is not None]


def count_exchanges(plan: PlanNode) -> int:
    """Shuffle Exchanges between a table scan and a join: 0 when all joins are colocated or broadcast."""
    below_join = {id(node) for top in plan.walk() if top.join for child in top.children for node in child.walk()}
    return sum(
        1
        for node in plan.walk()
        if node.is_shuffle and id(node) in below_join and any(below.scan for below in node.walk())
    )


def _report(node: PlanNode, join: Join, tables: Mapping[str, KnownTable]) -> JoinReport:
    scans = [below.scan for below in node.walk() if below.scan]
    known = [_known(scan, tables) for scan in scans]
    reason = _reason(node, join, tables)
    return JoinReport(
        join=join.algorithm,
        type=join.type,
        keys=tuple(f"{left.text} = {right.text}" for left, right in zip(join.left_keys, join.right_keys, strict=True)),
        tables=tuple(
            table.name if table else scan.table or scan.location for table, scan in zip(known, scans, strict=True)
        ),
        colocate=not reason,
        reason=reason,
    )


def _reason(node: PlanNode, join: Join, tables: Mapping[str, KnownTable]) -> str:
    """Why the join is not colocated; empty when it is."""
    if join.broadcast_side is not None:
        return _broadcast_reason(join)
    if not join.left_keys:
        return NO_EQUALITY
    sides = [list(_distribution_path(child)) for child in node.children]
    if not any(below.is_shuffle for side in sides for below in side):
        leaves = [below.scan for side in sides for below in side if not below.children]
        return _tables_reason(leaves, tables) or _unused_buckets_reason(leaves)
    return (
        _tables_reason([below.scan for side in node.children for below in side.walk() if not below.children], tables)
        or _keys_reason(node, join, tables)
        or REDISTRIBUTED
    )


def _broadcast_reason(join: Join) -> str:
    if join.hinted:
        return HAS_HINT
    size = "" if join.broadcast_bytes is None else f": one side is estimated at {join.broadcast_bytes} bytes"
    return f"{BROADCAST}{size}"


def _distribution_path(node: PlanNode) -> Iterator[PlanNode]:
    """The operators that decide in which partition a side's rows are: down to the first shuffles, or to the leaves."""
    yield node
    if node.is_shuffle:
        return
    for index, child in enumerate(node.children):
        if node.join is None or node.join.broadcast_side != index:
            yield from _distribution_path(child)


def _unused_buckets_reason(leaves: list[Scan | None]) -> str:
    """Tables that could be joined bucket by bucket, but are not read so."""
    unused = sorted({scan.table for scan in leaves if scan is not None and not scan.bucketed})
    return f"{REDISTRIBUTED}: Spark reads {', '.join(unused)} without buckets" if unused else ""


def _tables_reason(leaves: list[Scan | None], tables: Mapping[str, KnownTable]) -> str:
    """What the joined tables themselves have against it. ``leaves``: None for rows that do not come from files."""
    known = []
    for scan in leaves:
        table = None if scan is None else _known(scan, tables)
        if table is None:
            what = "rows of one side" if scan is None else scan.table or scan.location
            return f"{NO_GROUP}: {what} are not of a registered ColocatedTable"
        if not table.bucketed:
            return table.reason
        known.append(table)
    groups = sorted({f"{table.name} is in {table.namespace}/{table.group}" for table in known})
    return f"{NO_GROUP}: {', '.join(groups)}" if len({(table.namespace, table.group) for table in known}) > 1 else ""


def _keys_reason(node: PlanNode, join: Join, tables: Mapping[str, KnownTable]) -> str:
    """What the join's keys have against it, for sides that come from one table; empty when nothing."""
    for child, keys in zip(node.children, (join.left_keys, join.right_keys), strict=True):
        scans = [below.scan for below in child.walk() if below.scan]
        if len(scans) != 1:
            continue
        table = _known(scans[0], tables)
        if table is None:
            continue
        columns = [_column(key, child, scans[0]) for key in keys]
        missing = [name for name in table.bucketed_by if name.lower() not in [c.lower() for c in columns if c]]
        if missing and None in columns:
            computed = ", ".join(key.text for key, column in zip(keys, columns, strict=True) if column is None)
            return f"{TRANSFORMED}: {computed}"
        if missing:
            return (
                f"{INCONSISTENT}: {table.name} is bucketed by ({', '.join(table.bucketed_by)}), the join's keys are "
                f"({', '.join(column for column in columns if column)})"
            )
    return ""


def _column(key: Expression, side: PlanNode, scan: Scan) -> str | None:
    """The scan's column that a key is, through renames; None when it is computed."""
    renames = {new: old for node in side.walk() for new, old in node.aliases.items()}
    attribute = key.attribute
    while attribute is not None and attribute not in scan.columns:
        attribute = renames.get(attribute)
    return None if attribute is None else scan.columns[attribute]


def _known(scan: Scan, tables: Mapping[str, KnownTable]) -> KnownTable | None:
    """The registered table of a scan: ``coloc://<namespace>/<directory>/…``."""
    scheme, _, rest = scan.location.partition("://")
    if scheme != "coloc":
        return None
    return tables.get("/".join(rest.split("/")[:2]))
