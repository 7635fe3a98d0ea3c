"""Spark's physical plan into a ``PlanNode`` tree, over py4j.

Adaptive execution wraps plans and stages; the tree holds the plan that is, or will first be, run: the final one once
the query was executed, else the initial one.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .plan_tree import Expression, Join, PlanNode, Scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WRAPPERS = {
    "AdaptiveSparkPlanExec": "executedPlan",
    "ShuffleQueryStageExec": "plan",
    "BroadcastQueryStageExec": "plan",
    "TableCacheQueryStageExec": "plan",
    "ResultQueryStageExec": "plan",
    "ReusedExchangeExec": "child",
    "ReusedSubqueryExec": "child",
}
_KEYED_JOINS = ("SortMergeJoinExec", "ShuffledHashJoinExec", "BroadcastHashJoinExec")
_OTHER_JOINS = ("BroadcastNestedLoopJoinExec", "CartesianProductExec")
_BROADCAST_JOINS = ("BroadcastHashJoinExec", "BroadcastNestedLoopJoinExec")

JavaObject = Any
"""A py4j proxy: its methods are Spark's."""


def read_plan(df: "DataFrame") -> PlanNode:
    """The physical plan of a DataFrame."""
    return _read(df._jdf.queryExecution().executedPlan())


def _read(node: JavaObject) -> PlanNode:
    kind = _kind(node)
    while kind in _WRAPPERS:
        node = getattr(node, _WRAPPERS[kind])()
        kind = _kind(node)
    return PlanNode(
        name=kind.removesuffix("Exec"),
        children=tuple(_read(child) for child in _elements(node.children())),
        subqueries=tuple(_read(subquery) for subquery in _elements(node.subqueries())),
        scan=_scan(node) if kind == "FileSourceScanExec" else None,
        join=_join(node, kind) if kind in _KEYED_JOINS + _OTHER_JOINS else None,
        aliases=_aliases(node, kind),
    )


def _scan(node: JavaObject) -> Scan:
    location = next(_elements(node.relation().location().rootPaths()), None)
    identifier = node.tableIdentifier()
    return Scan(
        location="" if location is None else location.toString(),
        table=identifier.get().unquotedString() if identifier.isDefined() else "",
        bucketed=bool(node.bucketedScan()),
        columns={_id(attribute): attribute.name() for attribute in _elements(node.output())},
    )


def _join(node: JavaObject, kind: str) -> Join:
    keyed = kind in _KEYED_JOINS
    side = None
    if kind in _BROADCAST_JOINS:
        side = 0 if node.buildSide().toString() == "BuildLeft" else 1
    return Join(
        algorithm=kind.removesuffix("Exec"),
        type="Cross" if kind == "CartesianProductExec" else node.joinType().toString(),
        left_keys=tuple(_expression(key) for key in _elements(node.leftKeys())) if keyed else (),
        right_keys=tuple(_expression(key) for key in _elements(node.rightKeys())) if keyed else (),
        hinted=_is_hinted(node),
        broadcast_side=side,
        broadcast_bytes=None if side is None else _estimated_bytes(node.children().apply(side)),
    )


def _is_hinted(node: JavaObject) -> bool:
    link = node.logicalLink()
    if not link.isDefined() or _kind(link.get()) != "Join":
        return False
    hint = link.get().hint()
    return any(
        side.isDefined() and side.get().strategy().isDefined() for side in (hint.leftHint(), hint.rightHint())
    )


def _estimated_bytes(node: JavaObject) -> int | None:
    link = node.logicalLink()
    return int(link.get().stats().sizeInBytes().toString()) if link.isDefined() else None


def _aliases(node: JavaObject, kind: str) -> dict[int, int | None]:
    if kind == "ProjectExec":
        expressions = node.projectList()
    elif kind in ("HashAggregateExec", "SortAggregateExec", "ObjectHashAggregateExec"):
        expressions = node.resultExpressions()
    else:
        return {}
    return {
        _id(expression): _expression(expression.child()).attribute
        for expression in _elements(expressions)
        if _kind(expression) == "Alias"
    }


def _expression(expression: JavaObject) -> Expression:
    plain = _kind(expression) == "AttributeReference"
    return Expression(text=expression.sql(), attribute=_id(expression) if plain else None)


def _id(attribute: JavaObject) -> int:
    return int(attribute.exprId().id())


def _kind(instance: JavaObject) -> str:
    return str(instance.getClass().getSimpleName())


def _elements(sequence: JavaObject) -> Iterator[JavaObject]:
    for index in range(sequence.size()):
        yield sequence.apply(index)
