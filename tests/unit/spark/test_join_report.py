"""``explain``'s verdicts on hand-made plans: true only where the plan shows it, otherwise the reason."""

from dataclasses import replace

import pytest

from colocation.spark.join_report import JoinReport, KnownTable, count_exchanges, report_joins
from colocation.spark.plan_tree import Expression, Join, PlanNode, Scan

TABLES = {
    "shop/orders-1": KnownTable("shop.orders", "shop", "sales", True, "", ("o_key",)),
    "shop/lines-2": KnownTable("shop.lines", "shop", "sales", True, "", ("l_key",)),
    "shop/other-3": KnownTable("shop.other", "shop", "elsewhere", True, "", ("x_key",)),
    "shop/down-4": KnownTable("shop.down", "shop", "sales", False, "group is not stable: NodeGone", ("d_key",)),
}


def scan(directory: str, columns: dict[int, str], *, bucketed: bool = True) -> PlanNode:
    name = TABLES[f"shop/{directory}"].name
    return PlanNode("FileSourceScan", scan=Scan(f"coloc://shop/{directory}/abc/data", name, bucketed, columns))


ORDERS = scan("orders-1", {1: "o_key", 2: "o_date"})
LINES = scan("lines-2", {11: "l_key", 12: "l_date"})
OTHER = scan("other-3", {21: "x_key"})
DOWN = scan("down-4", {31: "d_key"}, bucketed=False)
PLAIN = PlanNode("FileSourceScan", scan=Scan("file:/tmp/x", "", False, {41: "k"}))
RANGE = PlanNode("Range")


def shuffled(child: PlanNode) -> PlanNode:
    return PlanNode("ShuffleExchange", (child,))


def key(text: str, attribute: int | None) -> Expression:
    return Expression(text, attribute)


def merge_join(left: PlanNode, right: PlanNode, *keys: tuple[Expression, Expression]) -> PlanNode:
    join = Join("SortMergeJoin", "Inner", tuple(k[0] for k in keys), tuple(k[1] for k in keys))
    return PlanNode("SortMergeJoin", (PlanNode("Sort", (left,)), PlanNode("Sort", (right,))), join=join)


def on_key(left: PlanNode, right: PlanNode) -> PlanNode:
    return merge_join(left, right, (key("o_key", 1), key("l_key", 11)))


def broadcast_join(left: PlanNode, right: PlanNode, *, hinted: bool = False) -> PlanNode:
    join = Join("BroadcastHashJoin", "Inner", (key("o_key", 1),), (key("k", 41),), hinted, 1, 4096)
    return PlanNode("BroadcastHashJoin", (left, PlanNode("BroadcastExchange", (right,))), join=join)


def only(plan: PlanNode) -> JoinReport:
    [report] = report_joins(plan, TABLES)
    return report


RENAMED = PlanNode("Project", (LINES,), aliases={13: 11})
COMPUTED = PlanNode("Project", (LINES,), aliases={13: None})


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(on_key(ORDERS, LINES), id="scans"),
        pytest.param(on_key(PlanNode("HashAggregate", (ORDERS,)), PlanNode("Filter", (LINES,))), id="aggregated"),
        pytest.param(merge_join(ORDERS, RENAMED, (key("o_key", 1), key("k", 13))), id="renamed"),
    ],
)
def test_colocated(plan: PlanNode) -> None:
    """Bucketed scans of one group under a join without a shuffle."""
    report = only(plan)
    assert (report.colocate, report.reason) == (True, "")
    assert report.tables == ("shop.orders", "shop.lines")
    assert count_exchanges(plan) == 0


@pytest.mark.parametrize(
    ("plan", "reason", "exchanges"),
    [
        pytest.param(
            on_key(shuffled(ORDERS), shuffled(scan("other-3", {11: "x_key"}))),
            "Tables are not in the same group: shop.orders is in shop/sales, shop.other is in shop/elsewhere", 2,
            id="two-groups",
        ),
        pytest.param(
            on_key(ORDERS, shuffled(PLAIN)),
            "Tables are not in the same group: file:/tmp/x are not of a registered ColocatedTable", 1, id="plain-table",
        ),
        pytest.param(
            on_key(ORDERS, shuffled(RANGE)),
            "Tables are not in the same group: rows of one side are not of a registered ColocatedTable", 0,
            id="no-table",
        ),
        pytest.param(
            on_key(shuffled(ORDERS), shuffled(DOWN)), "group is not stable: NodeGone", 2, id="not-stable",
        ),
        pytest.param(
            merge_join(shuffled(ORDERS), shuffled(LINES), (key("o_date", 2), key("l_date", 12))),
            "Inconsistent distribution of table and queries: shop.orders is bucketed by (o_key), "
            "the join's keys are (o_date)", 2, id="other-keys",
        ),
        pytest.param(
            merge_join(shuffled(ORDERS), LINES, (key("(o_key + 1)", None), key("l_key", 11))),
            "Src column hash been transformed by expr: (o_key + 1)", 1, id="expression",
        ),
        pytest.param(
            merge_join(ORDERS, shuffled(COMPUTED), (key("o_key", 1), key("k", 13))),
            "Src column hash been transformed by expr: k", 1, id="expression-in-a-subquery",
        ),
        pytest.param(
            merge_join(shuffled(ORDERS), shuffled(LINES)),
            "Inconsistent distribution of table and queries: no equality between columns of both sides", 2,
            id="no-equality",
        ),
        pytest.param(
            on_key(ORDERS, replace(LINES, scan=replace(LINES.scan, bucketed=False))),
            "The src data has been redistributed: Spark reads shop.lines without buckets", 0, id="buckets-unused",
        ),
        pytest.param(
            broadcast_join(ORDERS, PLAIN), "Broadcast is cheaper: one side is estimated at 4096 bytes", 0,
            id="broadcast",
        ),
        pytest.param(broadcast_join(ORDERS, PLAIN, hinted=True), "Has join hint", 0, id="hint"),
    ],
)
def test_not_colocated(plan: PlanNode, reason: str, exchanges: int) -> None:
    """Everything else says why, in Doris's words."""
    report = only(plan)
    assert (report.colocate, report.reason) == (False, reason)
    assert count_exchanges(plan) == exchanges


def test_three_tables_of_which_one_is_shuffled() -> None:
    """Each join has its own verdict: the inner one is colocated, the outer one is not."""
    inner = on_key(ORDERS, LINES)
    outer = merge_join(shuffled(inner), LINES, (key("o_date", 2), key("l_key", 11)))
    reports = report_joins(outer, TABLES)
    assert [report.colocate for report in reports] == [False, True]
    assert reports[0].reason == "The src data has been redistributed"
    assert count_exchanges(outer) == 1


def test_a_broadcast_side_does_not_matter_for_the_join_above() -> None:
    """A small table that was broadcast into one side leaves that side's buckets where they are."""
    joined = broadcast_join(ORDERS, PlanNode("Project", (shuffled(PLAIN),)))
    reports = report_joins(on_key(joined, LINES), TABLES)
    assert [report.colocate for report in reports] == [True, False]


def test_an_exchange_above_all_joins_does_not_count() -> None:
    """The final aggregate's exchange is no shuffle of a join's input."""
    assert count_exchanges(shuffled(PlanNode("HashAggregate", (on_key(ORDERS, LINES),)))) == 0


def test_joins_in_subqueries_are_reported() -> None:
    """A scalar subquery's join stands beside the main plan's."""
    plan = PlanNode("Filter", (ORDERS,), subqueries=(on_key(ORDERS, LINES),))
    assert [report.colocate for report in report_joins(plan, TABLES)] == [True]
