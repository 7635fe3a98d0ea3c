"""Queries over several groups' tables, and the verdicts that their executed plans deserve while groups are stable.

Tables: ``orders`` (bucketed by o_key, partitioned by o_part) and ``lines`` (by l_key) in one group; ``events`` (by
e_user) in another one of as many buckets; ``pairs`` (by a1, a2) and ``marks`` (by b1, b2) in a third; ``nothing``,
never loaded, in the first; ``plain``, a Parquet folder that no one manages; ``here``, rows of the driver.
"""

from dataclasses import dataclass

GROUP = "Tables are not in the same group"
KEYS = "Inconsistent distribution of table and queries"
EXPRESSION = "Src column hash been transformed by expr"
MOVED = "The src data has been redistributed"
HINT = "Has join hint"
BROADCAST = "Broadcast is cheaper"

Verdicts = tuple[bool | str, ...] | None
"""Of each operator, outermost first: True, or how the reason begins. None = depends on Spark's version."""


@dataclass(frozen=True)
class Case:
    """A statement that Spark and DuckDB both take, and its verdicts."""

    name: str
    statement: str
    joins: Verdicts = ()
    aggregates: Verdicts = ()
    windows: Verdicts = ()


ON = "FROM orders JOIN lines ON o_key = l_key"

JOINS = (
    Case("inner", f"SELECT o_name, l_quantity {ON}", (True,)),
    Case("left", "SELECT o_key, l_quantity FROM orders LEFT JOIN lines ON o_key = l_key", (True,)),
    Case("right", "SELECT o_key, l_key FROM orders RIGHT JOIN lines ON o_key = l_key", (True,)),
    Case("full", "SELECT o_key, l_key FROM orders FULL OUTER JOIN lines ON o_key = l_key", (True,)),
    Case("semi", "SELECT o_key, o_name FROM orders LEFT SEMI JOIN lines ON o_key = l_key", (True,)),
    Case("anti", "SELECT o_key, o_name FROM orders LEFT ANTI JOIN lines ON o_key = l_key", (True,)),
    Case("in", "SELECT o_name FROM orders WHERE o_key IN (SELECT l_key FROM lines)", (True,)),
    Case("exists", "SELECT o_name FROM orders WHERE EXISTS (SELECT 1 FROM lines WHERE l_key = o_key)", (True,)),
    Case("not-exists", "SELECT o_key FROM orders WHERE NOT EXISTS (SELECT 1 FROM lines WHERE l_key = o_key)", (True,)),
    Case("exists-or", "SELECT o_name FROM orders WHERE o_code = 1 OR EXISTS (SELECT 1 FROM lines WHERE l_key = o_key)",
         (True,)),
    Case("not-in", "SELECT o_key FROM orders WHERE o_key NOT IN (SELECT l_key FROM lines WHERE l_code > 1)", None),
    Case("not-in-without-null",
         "SELECT o_key FROM orders WHERE o_key NOT IN (SELECT l_key FROM lines WHERE l_key > 20)", (KEYS,)),
    Case("key-and-partition", "SELECT o_name FROM orders JOIN lines ON o_key = l_key AND o_part = l_part", (True,)),
    Case("key-and-range", "SELECT o_name, l_code FROM orders JOIN lines ON o_key = l_key AND o_code < l_code", (True,)),
    Case("renamed", "SELECT k, m FROM (SELECT o_key AS k FROM orders) JOIN (SELECT l_key AS m FROM lines) ON k = m",
         (True,)),
    Case("pruned", f"SELECT o_name, l_code {ON} WHERE o_part = 1", (True,)),
    Case("one-key", f"SELECT o_name, l_code {ON} WHERE o_key = 5", None),
    Case("self", "SELECT x.o_name, y.o_code FROM orders x JOIN orders y ON x.o_key = y.o_key", (True,)),
    Case("three", "SELECT count(*) FROM lines a JOIN orders ON a.l_key = o_key JOIN lines b ON b.l_key = o_key",
         (True, True)),
    Case("left-then-left", "SELECT o_key, a.l_code, b.l_code FROM orders LEFT JOIN lines a ON o_key = a.l_key "
         "LEFT JOIN lines b ON o_key = b.l_key AND b.l_code = 2", (True, True)),
    Case("full-then-join", "SELECT k, l_quantity FROM (SELECT coalesce(x.o_key, y.o_key + 1) AS k FROM orders x "
         "FULL OUTER JOIN orders y ON x.o_key = y.o_key) JOIN lines ON k = l_key", (EXPRESSION, True)),
    Case("empty", "SELECT o_key, n_key FROM orders LEFT JOIN nothing ON o_key = n_key", None),
    Case("other-group", "SELECT o_name, e_kind FROM orders JOIN events ON o_key = e_user", (GROUP,)),
    Case("plain", "SELECT o_name, p_text FROM orders JOIN plain ON o_key = p_key", (GROUP,)),
    Case("local-rows", "SELECT o_name, h_text FROM orders JOIN here ON o_key = h_key", (GROUP,)),
    Case("colocated-and-plain", f"SELECT o_name, p_text {ON} JOIN plain ON o_key = p_key", (GROUP, True)),
    Case("colocated-and-other-group", f"SELECT o_name, e_kind {ON} JOIN events ON o_key = e_user", (GROUP, True)),
    Case("other-column", "SELECT o_key, l_key FROM orders JOIN lines ON o_code = l_code AND o_key < 20", (KEYS,)),
    Case("partition-only", "SELECT count(*) FROM orders JOIN lines ON o_part = l_part", (KEYS,)),
    Case("expression", "SELECT o_key, l_key FROM orders JOIN lines ON o_key + 1 = l_key", (EXPRESSION,)),
    Case("cast", "SELECT o_key, l_code FROM orders JOIN lines ON CAST(o_key AS STRING) = CAST(l_key AS STRING)",
         (EXPRESSION,)),
    Case("wider-type", "SELECT o_name, l_key FROM orders JOIN lines ON o_key = l_code", (EXPRESSION,)),
    Case("null-safe", "SELECT o_name, l_code FROM orders JOIN lines ON o_key IS NOT DISTINCT FROM l_key",
         (True,)),
    Case("range", "SELECT o_key, l_key FROM orders JOIN lines ON o_key < l_key AND o_key > 280", (KEYS,)),
    Case("cross", "SELECT count(*) FROM (SELECT * FROM orders WHERE o_key < 9) CROSS JOIN lines", (KEYS,)),
    Case("hint-broadcast", f"SELECT /*+ BROADCAST(lines) */ o_name, l_code {ON}", (HINT,)),
    Case("hint-merge", f"SELECT /*+ MERGE(lines) */ o_name, l_code {ON}", (True,)),
    Case("hint-hash", f"SELECT /*+ SHUFFLE_HASH(lines) */ o_name, l_code {ON}", (True,)),
    Case("hint-nested-loop", f"SELECT /*+ SHUFFLE_REPLICATE_NL(lines) */ o_name, l_code {ON}", (HINT,)),
    Case("hint-repartition", "SELECT o_name, l_code FROM orders JOIN "
         "(SELECT /*+ REPARTITION(5, l_key) */ * FROM lines) ON o_key = l_key", (MOVED,)),
    Case("union", "SELECT o_name, k FROM orders JOIN (SELECT l_key AS k FROM lines UNION ALL SELECT o_key FROM orders) "
         "ON o_key = k", (True,)),
    Case("limits", "SELECT x.o_key FROM (SELECT o_key FROM orders ORDER BY o_key DESC, o_code LIMIT 20) x "
         "JOIN (SELECT l_key FROM lines ORDER BY l_key DESC, l_quantity LIMIT 30) ON o_key = l_key", (MOVED,)),
    Case("composite", "SELECT av, bv FROM pairs JOIN marks ON a1 = b1 AND a2 = b2", (True,)),
    Case("composite-reversed", "SELECT av, bv FROM pairs LEFT JOIN marks ON b2 = a2 AND b1 = a1", (True,)),
    Case("composite-and-more", "SELECT av FROM pairs JOIN marks ON a1 = b1 AND a2 = b2 AND av = bv", (True,)),
    Case("composite-subset", "SELECT count(*) FROM pairs JOIN marks ON a1 = b1", (KEYS,)),
    Case("composite-mixed", "SELECT count(*) FROM pairs x JOIN pairs y ON x.a1 = y.a1 AND x.a2 = y.a2 "
         "JOIN marks ON x.a1 = b1 AND y.av = bv", (KEYS, True)),
    Case("composite-other-group", "SELECT count(*) FROM pairs JOIN orders ON a1 = o_key", (GROUP,)),
)

AGGREGATES = (
    Case("group-by-key", "SELECT o_key, count(*), sum(o_price) FROM orders GROUP BY o_key", (), (True,)),
    Case("group-by-key-and-more", "SELECT o_key, o_part, max(o_code) FROM orders GROUP BY o_part, o_key", (), (True,)),
    Case("group-by-other", "SELECT o_name, count(*) FROM orders GROUP BY o_name", (), (KEYS,)),
    Case("group-by-expression", "SELECT o_key % 10, count(*) FROM orders GROUP BY o_key % 10", (), (EXPRESSION,)),
    Case("group-by-composite", "SELECT a2, a1, sum(av) FROM pairs GROUP BY a2, a1", (), (True,)),
    Case("group-by-subset", "SELECT a1, sum(av) FROM pairs GROUP BY a1", (), (KEYS,)),
    Case("group-by-plain", "SELECT p_key, count(*) FROM plain GROUP BY p_key", (), (GROUP,)),
    Case("having", "SELECT l_key FROM lines GROUP BY l_key HAVING count(*) > 3", (), (True,)),
    Case("rollup", "SELECT o_key, count(*) FROM orders GROUP BY ROLLUP(o_key)", (), (EXPRESSION,)),
    Case("distinct", "SELECT DISTINCT l_key, l_part FROM lines", (), (True,)),
    Case("distinct-other", "SELECT DISTINCT l_code FROM lines", (), (KEYS,)),
    Case("count-distinct", "SELECT l_key, count(DISTINCT l_code), sum(l_quantity) FROM lines GROUP BY l_key",
         (), (True,)),
    Case("all-rows", f"SELECT count(*), sum(l_quantity) {ON}", (True,)),
    Case("over-a-join", f"SELECT o_key, sum(l_quantity) {ON} GROUP BY o_key", (True,), (True,)),
    Case("over-a-join-by-other", f"SELECT o_name, sum(l_quantity) {ON} GROUP BY o_name", (True,), (KEYS,)),
    Case("below-a-join", "SELECT o_name, q FROM orders JOIN (SELECT l_key, sum(l_quantity) AS q FROM lines "
         "GROUP BY l_key) ON o_key = l_key", (True,), (True,)),
    Case("by-other-below-a-join", "SELECT o_name, i FROM orders JOIN (SELECT DISTINCT l_quantity i FROM lines) "
         "ON o_key = i", (KEYS,), (KEYS,)),
    Case("correlated", "SELECT o_key, (SELECT count(*) FROM lines WHERE l_key = o_key) FROM orders", (True,), (True,)),
    Case("scalar-subquery", f"SELECT o_name {ON} WHERE l_quantity > (SELECT avg(l_quantity) FROM lines)", (True,)),
    Case("twice-used", "WITH t AS (SELECT l_key, count(*) AS c FROM lines GROUP BY l_key) SELECT o_name, a.c, b.c "
         "FROM t a JOIN t b ON a.l_key = b.l_key JOIN orders ON o_key = a.l_key", (True, True), (True, True)),
    Case("intersect", "SELECT o_key FROM orders INTERSECT SELECT l_key FROM lines", (True,), None),
    Case("except", "SELECT o_key FROM orders EXCEPT SELECT l_key FROM lines", (True,), None),
    Case("union-distinct", "SELECT o_key FROM orders UNION SELECT l_key FROM lines", (), None),
    Case("top", f"SELECT o_key, l_quantity, o_code {ON} ORDER BY o_key DESC, l_quantity, o_code LIMIT 7", (True,)),
)

WINDOWS = (
    Case("window-by-key", "SELECT l_key, sum(l_quantity) OVER (PARTITION BY l_key) FROM lines", (), (), (True,)),
    Case("window-by-key-ordered", "SELECT o_key, row_number() OVER (PARTITION BY o_key ORDER BY o_part, o_name) "
         "FROM orders", (), (), (True,)),
    Case("window-by-other", "SELECT o_key, count(*) OVER (PARTITION BY o_name) FROM orders", (), (), (KEYS,)),
    Case("window-of-all", "SELECT o_key, rank() OVER (ORDER BY o_key) FROM orders WHERE o_key IS NOT NULL",
         (), (), (KEYS,)),
    Case("window-first", "SELECT * FROM (SELECT l_key, l_quantity, "
         "rank() OVER (PARTITION BY l_key ORDER BY l_quantity) AS r FROM lines) WHERE r = 1", (), (), (True,)),
    Case("window-over-join", f"SELECT o_key, max(l_quantity) OVER (PARTITION BY o_key) {ON}", (True,), (), (True,)),
)

CASES = (*JOINS, *AGGREGATES, *WINDOWS)
CHOSEN = frozenset({
    "inner", "full", "anti", "exists-or", "not-in", "not-in-without-null", "one-key", "three", "full-then-join",
    "empty", "colocated-and-plain", "local-rows", "wider-type", "null-safe", "cross", "hint-broadcast",
    "hint-nested-loop", "hint-repartition", "union", "limits", "composite-mixed", "group-by-key",
    "group-by-expression", "rollup", "count-distinct", "below-a-join", "correlated", "scalar-subquery", "intersect",
    "union-distinct", "window-by-key", "window-of-all", "window-first",
})  # fmt: skip
"""Names: every kind of operator, every reason, and each case whose plan depends on Spark's version."""
CHOSEN_UNSTABLE = frozenset({
    "inner", "full-then-join", "not-in-without-null", "colocated-and-plain", "hint-broadcast", "union", "group-by-key",
    "group-by-expression", "window-by-key",
})  # fmt: skip
"""Of these, those that `make test` takes while groups are not stable: each kind of operator, each kind of reason.

Those that it takes on other Spark versions are in every_spark.txt and oldest_and_newest_spark.txt.
"""
