"""``explain``'s verdicts on hand-made plans: true only where the plan shows it, otherwise the reason."""

import json
from dataclasses import replace

import pytest

from colocation.spark.explaining.plan_tree import Expression, Grouping, Join, PlanNode, Scan
from colocation.spark.explaining.verdicts import (
    JoinReport,
    KnownTable,
    count_exchanges,
    report_aggregates,
    report_joins,
    report_windows,
)

TABLES = {
    "orders-1": KnownTable("shop.orders", "shop/sales", True, "", ("o_key",)),
    "lines-2": KnownTable("shop.lines", "shop/sales", True, "", ("l_key",)),
    "other-3": KnownTable("shop.other", "shop/elsewhere", True, "", ("x_key",)),
    "down-4": KnownTable("shop.down", "shop/sales", False, "group is not stable: NodeGone", ("d_key",)),
}


def scan(
    directory: str, columns: dict[int, str], *, bucketed: bool = True, known: KnownTable | None = None
) -> PlanNode:
    """The scan of a table as the catalog planned it."""
    table = known or TABLES[directory]
    note = {"name": table.name, "group": table.group, "bucketed": table.bucketed, "reason": table.reason,
            "bucketedBy": table.bucketed_by}  # fmt: skip
    location = f"coloc://shop/{directory}/abc/data"
    return PlanNode("FileSourceScan", scan=Scan(location, table.name, bucketed, columns, json.dumps(note)))


ORDERS = scan("orders-1", {1: "o_key", 2: "o_date"})
LINES = scan("lines-2", {11: "l_key", 12: "l_date"})
OTHER = scan("other-3", {21: "x_key"})
DOWN = scan("down-4", {31: "d_key"}, bucketed=False)
PLAIN = PlanNode("FileSourceScan", scan=Scan("file:/tmp/x", "", False, {41: "k"}))
RANGE = PlanNode("Range")
SOURCE = PlanNode("MergeSource")


def shuffled(child: PlanNode) -> PlanNode:
    return PlanNode("ShuffleExchange", (child,), shuffle_origin="ENSURE_REQUIREMENTS")


def key(text: str, attribute: int | None) -> Expression:
    return Expression(text, attribute)


def merge_join(left: PlanNode, right: PlanNode, *keys: tuple[Expression, Expression]) -> PlanNode:
    join = Join("SortMergeJoin", "Inner", tuple(k[0] for k in keys), tuple(k[1] for k in keys))
    return PlanNode("SortMergeJoin", (PlanNode("Sort", (left,)), PlanNode("Sort", (right,))), join=join)


def on_key(left: PlanNode, right: PlanNode) -> PlanNode:
    return merge_join(left, right, (key("o_key", 1), key("l_key", 11)))


def broadcast_join(left: PlanNode, right: PlanNode, right_key: int = 41, hint: str = "") -> PlanNode:
    join = Join("BroadcastHashJoin", "Inner", (key("o_key", 1),), (key("k", right_key),), hint, 1, 4096, 10000)
    return PlanNode("BroadcastHashJoin", (left, PlanNode("BroadcastExchange", (right,))), join=join)


def only(plan: PlanNode) -> JoinReport:
    [report] = report_joins(plan)
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
            "Tables are not in the same group: file:/tmp/x is not a ColocatedTable", 1, id="plain-table",
        ),
        pytest.param(
            on_key(ORDERS, shuffled(RANGE)),
            "Tables are not in the same group: rows of one side (Range) are not of a ColocatedTable", 0,
            id="no-table",
        ),
        pytest.param(
            on_key(ORDERS, SOURCE), "The src data has been redistributed: the source is computed first", 0,
            id="source-of-a-merge",
        ),
        pytest.param(
            on_key(shuffled(ORDERS), shuffled(DOWN)), "group is not stable: NodeGone", 2, id="not-stable",
        ),
        pytest.param(
            merge_join(shuffled(ORDERS), shuffled(LINES), (key("o_date", 2), key("l_date", 12))),
            "Inconsistent distribution of table and queries: shop.orders is bucketed by (o_key), "
            "the join's keys are (shop.orders.o_date)", 2, id="other-keys",
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
            broadcast_join(ORDERS, LINES, 11),
            "Broadcast is cheaper: shop.lines is estimated at 4096 bytes, the threshold is 10000 bytes", 0,
            id="broadcast",
        ),
        pytest.param(
            broadcast_join(ORDERS, PLAIN),
            "Broadcast is cheaper: file:/tmp/x is estimated at 4096 bytes, the threshold is 10000 bytes; besides, "
            "Tables are not in the same group: file:/tmp/x is not a ColocatedTable", 0,
            id="broadcast-besides",
        ),
        pytest.param(broadcast_join(ORDERS, LINES, 11, "broadcast"), "Has join hint: broadcast", 0, id="hint"),
        pytest.param(
            on_key(PlanNode("TakeOrderedAndProject", (ORDERS,)), PlanNode("TakeOrderedAndProject", (LINES,))),
            "The src data has been redistributed: a limit brings all rows into one partition", 0, id="limits",
        ),
        pytest.param(
            on_key(PlanNode("Coalesce", (ORDERS,)), PlanNode("Coalesce", (LINES,))),
            "The src data has been redistributed: coalesce merges partitions", 0, id="coalesced",
        ),
        pytest.param(
            on_key(replace(shuffled(ORDERS), shuffle_origin="REPARTITION_BY_COL"), LINES),
            "The src data has been redistributed: the query asks for it (REPARTITION_BY_COL)", 1, id="repartitioned",
        ),
        pytest.param(
            on_key(shuffled(PlanNode("Union", (ORDERS, ORDERS))), LINES),
            "The src data has been redistributed: a union puts buckets of several inputs side by side", 1, id="union",
        ),
    ],
)
def test_not_colocated(plan: PlanNode, reason: str, exchanges: int) -> None:
    """Everything else has a reason, in Doris's words."""
    report = only(plan)
    assert (report.colocate, report.reason) == (False, reason)
    assert count_exchanges(plan) == exchanges


def test_three_tables_of_which_one_is_shuffled() -> None:
    """Each join has its own verdict: the inner one is colocated, the outer one is not."""
    inner = on_key(ORDERS, LINES)
    outer = merge_join(shuffled(inner), LINES, (key("o_date", 2), key("l_key", 11)))
    reports = report_joins(outer)
    assert [report.colocate for report in reports] == [False, True]
    assert "shop.orders is bucketed by (o_key), shop.lines is bucketed by (l_key)" in reports[0].reason
    assert count_exchanges(outer) == 1


def test_a_key_of_the_other_table_of_a_colocated_side_will_do() -> None:
    """orders = lines on the key, then lines.key = lines.key: any bucket key of a side is as good."""
    again = scan("lines-2", {51: "l_key"})
    assert [
        report.colocate
        for report in report_joins(merge_join(on_key(ORDERS, LINES), again, (key("l_key", 11), key("l", 51))))
    ] == [True, True]


def test_bucket_columns_in_another_order() -> None:
    """Both keys contain the bucket key, but compare its columns crosswise: rows of equal keys differ in bucket."""
    left, right = (
        scan(name, columns, known=KnownTable(f"shop.{name}", "shop/g", True, "", ("x", "y")))
        for name, columns in (("a", {1: "x", 2: "y"}), ("b", {3: "x", 4: "y"}))
    )
    join = merge_join(shuffled(left), shuffled(right), (key("x", 1), key("y", 4)), (key("y", 2), key("x", 3)))
    [report] = report_joins(join)
    assert "compared out of order: shop.a.x = shop.b.y, shop.a.y = shop.b.x" in report.reason


def test_a_true_verdict_can_have_a_note() -> None:
    """``whenUnstable=colocated``: the plan is bucketed, and the group's state is a note of the verdict."""
    known = replace(TABLES["lines-2"], reason="group is not stable: NodeGone; live")
    lines = scan("lines-2", {11: "l_key"}, known=known)
    [report] = report_joins(on_key(ORDERS, lines))
    assert (report.colocate, report.note) == (True, "group is not stable: NodeGone; live")


@pytest.mark.parametrize(("group", "reason", "verdict"), [
    pytest.param("", "the table is in no group",
                 "Tables are not in the same group: shop.lines is in no group, shop.orders is in shop/sales",
                 id="no group"),
    pytest.param("shop/stock", "group is not stable: NodeGone",
                 "Tables are not in the same group: shop.lines is in shop/stock, shop.orders is in shop/sales",
                 id="another that is not stable"),
    pytest.param("", "Session disabled", "Session disabled", id="session disabled"),
    pytest.param("", "Session disabled: spark.sql.sources.bucketing.enabled=false",
                 "Session disabled: spark.sql.sources.bucketing.enabled=false", id="buckets disabled"),
])  # fmt: skip
def test_what_stays_wrong_is_said_first(group: str, reason: str, verdict: str) -> None:
    """Tables of different groups are named, whatever else hides their buckets; the session's switch is above all."""
    known = replace(TABLES["lines-2"], group=group, bucketed=False, reason=reason)
    lines = scan("lines-2", {11: "l_key"}, bucketed=False, known=known)
    [report] = report_joins(on_key(shuffled(ORDERS), shuffled(lines)))
    assert report.reason == verdict


def test_cached_rows_keep_their_buckets() -> None:
    """A cached bucketed scan joins as the scan does; a shuffle inside the cache counts."""
    cached = PlanNode("InMemoryTableScan", (ORDERS,), aliases={61: 1}, reused=True)
    [report] = report_joins(merge_join(cached, LINES, (key("o_key", 61), key("l_key", 11))))
    assert report.colocate
    shuffled_cache = replace(cached, children=(shuffled(ORDERS),))
    [report] = report_joins(merge_join(shuffled_cache, LINES, (key("o_key", 61), key("l_key", 11))))
    assert report.reason.startswith("The src data has been redistributed")


def test_a_reused_exchange_is_reported_once() -> None:
    """A join whose result is used twice stands once in the report."""
    part = shuffled(on_key(ORDERS, LINES))
    plan = merge_join(part, replace(part, reused=True), (key("o_date", 2), key("o_date", 2)))
    assert len(report_joins(plan)) == 2
    assert count_exchanges(plan) == 2


def test_not_in_is_no_colocated_join() -> None:
    """A null-aware anti join needs all rows of one side everywhere."""
    plan = broadcast_join(ORDERS, LINES, 11)
    reason = only(replace(plan, join=replace(plan.join, null_aware=True))).reason
    assert reason == (
        "Inconsistent distribution of table and queries: NOT IN must know of every NULL of one side; "
        "NOT EXISTS joins by key"
    )


def grouped(child: PlanNode, *keys: Expression, kind: str = "aggregate", logical_id: int = 7) -> PlanNode:
    return PlanNode("HashAggregate", (child,), grouping=Grouping("HashAggregate", kind, keys, logical_id))


PARTIAL = PlanNode("HashAggregate", (ORDERS,))


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        pytest.param(grouped(PARTIAL, key("o_key", 1)), "", id="key"),
        pytest.param(grouped(PARTIAL, key("o_date", 2), key("o_key", 1)), "", id="key-and-more"),
        pytest.param(grouped(on_key(ORDERS, LINES), key("o_key", 1)), "", id="over-a-join"),
        pytest.param(
            grouped(shuffled(PARTIAL), key("o_date", 2)),
            "Inconsistent distribution of table and queries: shop.orders is bucketed by (o_key), "
            "the group-by's keys are (shop.orders.o_date)", id="other-key",
        ),
        pytest.param(
            grouped(shuffled(PlanNode("Project", (ORDERS,), aliases={71: None})), key("x", 71)),
            "Src column hash been transformed by expr: x", id="expression",
        ),
        pytest.param(grouped(shuffled(DOWN), key("d_key", 31)), "group is not stable: NodeGone", id="unstable"),
        pytest.param(
            grouped(shuffled(PLAIN), key("k", 41)),
            "Tables are not in the same group: file:/tmp/x is not a ColocatedTable", id="plain",
        ),
    ],
)
def test_aggregates(plan: PlanNode, reason: str) -> None:
    """A group-by is colocated when no shuffle is between it and the bucketed scans."""
    [report] = report_aggregates(plan)
    assert (report.colocate, report.reason) == (not reason, reason)


def test_phases_of_one_aggregate_are_one() -> None:
    """count(DISTINCT …) has two phases that need a distribution; the last one is the query's."""
    phases = grouped(shuffled(grouped(shuffled(PARTIAL), key("o_key", 1), key("o_date", 2))), key("o_key", 1))
    [report] = report_aggregates(phases)
    assert report.keys == ("o_key",)


def test_windows() -> None:
    """A window by the bucket key needs no shuffle; one without PARTITION BY puts all rows together."""
    [report] = report_windows(grouped(ORDERS, key("o_key", 1), kind="window"))
    assert report.colocate
    [report] = report_windows(grouped(shuffled(ORDERS), kind="window"))
    assert report.reason == "Inconsistent distribution of table and queries: no PARTITION BY, so all rows are one group"


def test_aggregates_of_all_rows_are_not_listed() -> None:
    """Without GROUP BY there is nothing to bring together but one row per task."""
    assert report_aggregates(grouped(shuffled(PARTIAL))) == []


def test_a_broadcast_side_does_not_matter_for_the_join_above() -> None:
    """A small table that was broadcast into one side leaves that side's buckets where they are."""
    joined = broadcast_join(ORDERS, PlanNode("Project", (shuffled(PLAIN),)))
    reports = report_joins(on_key(joined, LINES))
    assert [report.colocate for report in reports] == [True, False]


def test_an_exchange_above_all_joins_does_not_count() -> None:
    """The final aggregate's exchange is no shuffle of a join's input."""
    assert count_exchanges(shuffled(PlanNode("HashAggregate", (on_key(ORDERS, LINES),)))) == 0


def test_joins_in_subqueries_are_reported() -> None:
    """A scalar subquery's join is listed after the main plan's."""
    plan = PlanNode("Filter", (ORDERS,), subqueries=(on_key(ORDERS, LINES),))
    assert [report.colocate for report in report_joins(plan)] == [True]


def test_a_scalar_subquery_is_no_input_of_a_join() -> None:
    """The shuffle of a subquery in a filter below a join moves none of the join's rows."""
    left = PlanNode("Filter", (ORDERS,), subqueries=(shuffled(LINES),))
    assert count_exchanges(on_key(left, LINES)) == 0
