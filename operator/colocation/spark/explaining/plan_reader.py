"""Spark's physical plan into a ``PlanNode`` tree, over py4j.

Adaptive execution wraps plans and stages; the tree holds the plan that is, or will first be, run: the final one once
the query was executed, else the initial one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .plan_tree import MERGE_SOURCE, Expression, Grouping, Join, PlanNode, Scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE_NOTE = "colocation.table"
"""Option of the relations that the catalog in Java plans."""
_WRAPPERS = {
    "AdaptiveSparkPlanExec": "executedPlan",
    "ShuffleQueryStageExec": "plan",
    "BroadcastQueryStageExec": "plan",
    "TableCacheQueryStageExec": "plan",
    "ResultQueryStageExec": "plan",
    "CommandResultExec": "commandPhysicalPlan",
    "SortedBucketScanExec": "scan",
    "FractionKeysExec": "scan",
    "SortedAggregateExec": "plain",
    "SortedWindowExec": "plain",
    "ReusedExchangeExec": "child",
    "ReusedSubqueryExec": "child",
}
_REUSES = ("ReusedExchangeExec", "ReusedSubqueryExec")
_KEYED_JOINS = ("SortMergeJoinExec", "ShuffledHashJoinExec", "BroadcastHashJoinExec")
_OTHER_JOINS = ("BroadcastNestedLoopJoinExec", "CartesianProductExec")
_BROADCAST_JOINS = ("BroadcastHashJoinExec", "BroadcastNestedLoopJoinExec")
_AGGREGATES = ("HashAggregateExec", "SortAggregateExec", "ObjectHashAggregateExec")
_PYTHON_GROUPINGS = {
    "ArrowAggregatePythonExec": ("aggregate", "groupingExpressions"),
    "AggregateInPandasExec": ("aggregate", "groupingExpressions"),
    "FlatMapGroupsInPandasExec": ("aggregate", "groupingAttributes"),
    "FlatMapGroupsInArrowExec": ("aggregate", "groupingAttributes"),
    "ArrowWindowPythonExec": ("window", "partitionSpec"),
    "WindowInPandasExec": ("window", "partitionSpec"),
    "WindowExec": ("window", "partitionSpec"),
}
"""Operators that need their groups in one partition, and their method that gives the keys."""
_NORMALIZATIONS = ("KnownFloatingPointNormalized", "NormalizeNaNAndZero")
"""What Spark makes of a key of type FLOAT or DOUBLE: rows that are equal by it are in one bucket."""

JavaObject = Any
"""A py4j proxy: its methods are Spark's."""


def execution_of(query: "DataFrame | str", spark: "SparkSession") -> JavaObject:
    """Spark's ``QueryExecution`` of a DataFrame, or of a SQL statement, which is planned but not run, commands too."""
    if not isinstance(query, str):
        return query._jdf.queryExecution()
    state = spark._jsparkSession.sessionState()
    java: JavaObject = spark.sparkContext._jvm
    skip = java.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    return state.executePlan(state.sqlParser().parsePlan(query), skip)


def read_plan(execution: JavaObject) -> PlanNode:
    """The physical plan of a ``QueryExecution``."""
    threshold = int(execution.sparkSession().sessionState().conf().autoBroadcastJoinThreshold())
    return _Reader(threshold).read(execution.executedPlan())


@dataclass(frozen=True)
class ChangeReport:
    """A query of a statement that changes rows.

    Attributes:
        query: what its rows are, e.g. ``rows that change``.
        reasons: why it shuffles or sorts; none where it does neither.
    """

    query: str
    shuffles: int
    sorts: int
    reasons: tuple[str, ...]


def read_changes(execution: JavaObject) -> list[tuple[ChangeReport, PlanNode]]:
    """The queries of a statement that changes single rows, as the catalog in Java plans them, with their plans.

    None of other statements, nor of one that has run: what was committed since might make planning fail.
    """
    command = execution.executedPlan()
    if _kind(command) != "ExecutedCommandExec" or _kind(command.cmd()) != "RowChangeCommand":
        return []
    session = execution.sparkSession()
    reader = _Reader(int(session.sessionState().conf().autoBroadcastJoinThreshold()))
    return [
        (ChangeReport(one.name(), one.shuffles(), one.sorts(), tuple(one.reasons())), reader.read(one.plan()))
        for one in command.cmd().explain(session).queries()
    ]


def is_final(execution: JavaObject) -> bool:
    """Whether the plan is the one that was executed, or one that execution cannot change."""
    plan = execution.executedPlan()
    return _kind(plan) != "AdaptiveSparkPlanExec" or bool(plan.isFinalPlan())


class _Reader:
    """Reads one plan. ``threshold``: the session's limit for broadcasts, bytes."""

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold

    def read(self, node: JavaObject) -> PlanNode:
        kind, reused = _kind(node), False
        while kind in _WRAPPERS:
            reused = reused or kind in _REUSES
            node = getattr(node, _WRAPPERS[kind])()
            kind = _kind(node)
        if kind == "InMemoryTableScanExec":
            return self._read_cached(node)
        return PlanNode(
            name=_name(node, kind),
            children=tuple(self.read(child) for child in _elements(node.children())),
            subqueries=tuple(self.read(subquery) for subquery in _elements(node.subqueries())),
            scan=_scan(node) if kind == "FileSourceScanExec" else None,
            join=self._join(node, kind) if kind in _KEYED_JOINS + _OTHER_JOINS else None,
            grouping=_grouping(node, kind),
            aliases=_aliases(node, kind),
            shuffle_origin=str(node.shuffleOrigin().toString()) if kind == "ShuffleExchangeExec" else "",
            reused=reused,
        )

    def _read_cached(self, node: JavaObject) -> PlanNode:
        """Cached rows lie in the partitions of the plan that made them, under attribute ids of their own."""
        relation = node.relation()
        cached = relation.cachedPlan()
        pairs = zip(_elements(relation.output()), _elements(cached.output()), strict=True)
        return PlanNode(
            name="InMemoryTableScan",
            children=(self.read(cached),),
            subqueries=tuple(self.read(subquery) for subquery in _elements(node.subqueries())),
            aliases={_id(here): _id(below) for here, below in pairs if _id(here) != _id(below)},
            reused=True,
        )

    def _join(self, node: JavaObject, kind: str) -> Join:
        keyed = kind in _KEYED_JOINS
        side = None
        if kind in _BROADCAST_JOINS:
            side = 0 if node.buildSide().toString() == "BuildLeft" else 1
        return Join(
            algorithm=kind.removesuffix("Exec"),
            type="Cross" if kind == "CartesianProductExec" else node.joinType().toString(),
            left_keys=_expressions(node.leftKeys()) if keyed else (),
            right_keys=_expressions(node.rightKeys()) if keyed else (),
            hint=_hint(node),
            broadcast_side=side,
            broadcast_bytes=None if side is None else _estimated_bytes(node.children().apply(side)),
            broadcast_threshold_bytes=None if side is None else self._threshold,
            null_aware=kind == "BroadcastHashJoinExec" and bool(node.isNullAwareAntiJoin()),
        )


def _name(node: JavaObject, kind: str) -> str:
    """An operator's name. The catalog plans a source that is computed first as an empty RDD."""
    return MERGE_SOURCE if kind == "RDDScanExec" and _kind(node.rdd()) == "EmptyRDD" else kind.removesuffix("Exec")


def _scan(node: JavaObject) -> Scan:
    location = next(_elements(node.relation().location().rootPaths()), None)
    identifier = node.tableIdentifier()
    note = node.relation().options().get(TABLE_NOTE)
    return Scan(
        location="" if location is None else location.toString(),
        table=identifier.get().unquotedString() if identifier.isDefined() else "",
        bucketed=bool(node.bucketedScan()),
        columns={_id(attribute): attribute.name() for attribute in _elements(node.output())},
        note=str(note.get()) if note.isDefined() else "",
    )


def _hint(node: JavaObject) -> str:
    """The strategy that the query names for a join, as Spark's hint calls it."""
    logical = _logical(node)
    if logical is None or _kind(logical) != "Join":
        return ""
    for side in (logical.hint().leftHint(), logical.hint().rightHint()):
        if side.isDefined() and side.get().strategy().isDefined():
            return str(side.get().strategy().get().displayName())
    return ""


def _estimated_bytes(node: JavaObject) -> int | None:
    """Spark's estimate of what a broadcast copies; stages and exchanges may not know their logical operator."""
    while (logical := _logical(node)) is None:
        if _kind(node) in _WRAPPERS:
            node = getattr(node, _WRAPPERS[_kind(node)])()
        elif node.children().size() == 1:
            node = node.children().apply(0)
        else:
            return None
    # A Scala BigInt, which py4j may have turned into an int.
    return int(str(logical.stats().sizeInBytes()))


def _grouping(node: JavaObject, kind: str) -> Grouping | None:
    """Of aggregates only the phases that need their groups in one partition, not the partial ones before them."""
    what, keys = "aggregate", "groupingExpressions"
    if kind in _PYTHON_GROUPINGS:
        what, keys = _PYTHON_GROUPINGS[kind]
    elif kind not in _AGGREGATES or not node.requiredChildDistributionExpressions().isDefined():
        return None
    logical = _logical(node)
    return Grouping(
        algorithm=kind.removesuffix("Exec"),
        kind=what,
        keys=_expressions(getattr(node, keys)()),
        logical_id=0 if logical is None else int(logical.hashCode()),
    )


def _logical(node: JavaObject) -> JavaObject | None:
    """The logical operator that a physical one was planned from."""
    link = node.logicalLink()
    if not link.isDefined():
        return None
    logical = link.get()
    return logical.logicalPlan() if _kind(logical) == "LogicalQueryStage" else logical


def _aliases(node: JavaObject, kind: str) -> dict[int, int | None]:
    """New names of columns: of a projection, and of an aggregate's keys and results."""
    if kind == "ProjectExec":
        lists = [node.projectList()]
    elif kind in _AGGREGATES:
        lists = [node.groupingExpressions(), node.resultExpressions()]
    else:
        return {}
    return {
        _id(expression): _expression(expression.child()).attribute
        for expressions in lists
        for expression in _elements(expressions)
        if _kind(expression) == "Alias"
    }


def _expressions(expressions: JavaObject) -> tuple[Expression, ...]:
    return tuple(_expression(expression) for expression in _elements(expressions))


def _expression(expression: JavaObject) -> Expression:
    column = expression
    while _kind(column) in _NORMALIZATIONS:
        column = column.child()
    plain = _kind(column) == "AttributeReference"
    return Expression(text=column.sql(), attribute=_id(column) if plain else None)


def _id(attribute: JavaObject) -> int:
    return int(attribute.exprId().id())


def _kind(instance: JavaObject) -> str:
    return str(instance.getClass().getSimpleName())


def _elements(sequence: JavaObject) -> Iterator[JavaObject]:
    for index in range(sequence.size()):
        yield sequence.apply(index)
