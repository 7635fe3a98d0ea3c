"""Operators between bucketed scans and a join or group-by that leave rows in their partitions need no shuffle."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, pandas_udf, udf
from pyspark.sql.functions import sum as sum_of
from pyspark.sql.types import LongType

from colocation.spark import explain_json
from tests.spark.cluster_tables import CATALOG
from tests.spark.sorted_tables import ADAPTIVE, plan_of, restored

pytestmark = pytest.mark.spark

NAMESPACE = "inplace"
IN = f"{CATALOG}.{NAMESPACE}"
ROWS = "SELECT if(id % 11 = 0, NULL, id * {factor} % 37) AS k, id % 7 AS v, id % 5 AS w FROM range(200)"
Query = str | Callable[[DataFrame, DataFrame], DataFrame]
"""SQL of {one} and {two}, or a function of their DataFrames."""


@pytest.fixture
def pair(session: SparkSession) -> Iterator[SparkSession]:
    """Two tables, and views that compute the same rows."""
    for factor, name in enumerate(("one", "two"), 1):
        if not session.catalog.tableExists(f"{IN}.{name}"):
            session.sql(f"CREATE TABLE {IN}.{name} (k BIGINT, v BIGINT, w BIGINT) CLUSTERED BY (k) INTO 6 BUCKETS "
                        "TBLPROPERTIES ('colocate_with'='sales')")  # fmt: skip
            session.sql(f"INSERT INTO {IN}.{name} {ROWS.format(factor=factor)}")
        session.sql(ROWS.format(factor=factor)).createOrReplaceTempView(f"plain_{name}")
    yield from restored(session)


def run(session: SparkSession, query: Query, names: tuple[str, str]) -> DataFrame:
    if isinstance(query, str):
        return session.sql(query.format(one=names[0], two=names[1]))
    return query(*map(session.table, names))


def verdicts(frame: DataFrame) -> list[bool]:
    """Of each join, group-by and window."""
    found = explain_json(frame)
    return [one["colocate"] for kind in ("joins", "aggregates", "windows") for one in found[kind]]


def rows(frame: DataFrame) -> list[Any]:
    return sorted(map(str, frame.collect()))


PLUS_ONE = udf(lambda value: value + 1, LongType())
IN_PLACE: dict[str, Query] = {
    "a function of Python": lambda one, two: one.withColumn("u", PLUS_ONE("v")).join(two, "k"),
    "a function of Python, grouped": lambda one, _: one.withColumn("u", PLUS_ONE("v"))
        .groupBy("k").agg(sum_of("u")),
    "a function of pandas": lambda one, two: one.withColumn("u", pandas_udf(lambda v: v + 1, "long")("v"))
        .join(two, "k", "left"),
    "several count(DISTINCT)": "SELECT k, count(DISTINCT v), count(DISTINCT w), sum(v) FROM {one} GROUP BY k",
    "count(DISTINCT) over a join": "SELECT a.k, count(DISTINCT a.v), count(DISTINCT b.w) FROM {one} a JOIN {two} b "
        "ON a.k = b.k GROUP BY a.k",
    "UNPIVOT": "SELECT k, max(x) FROM {one} UNPIVOT (x FOR n IN (v, w)) GROUP BY k",
    "UNPIVOT, joined": "SELECT a.k, n, x, b.w FROM {one} UNPIVOT (x FOR n IN (v, w)) a JOIN {two} b ON a.k = b.k",
    "GROUPING SETS with the key": "SELECT k, v, count(*) FROM {one} GROUP BY GROUPING SETS ((k, v), (k))",
    "CUBE next to the key": "SELECT k, v, w, count(*) FROM {one} GROUP BY k, CUBE (v, w)",
}  # fmt: skip


NULL_SAFE: dict[str, Query] = {
    "LEFT, <=>": "SELECT a.k, b.k, b.w FROM {one} a LEFT JOIN {two} b ON a.k <=> b.k AND a.v = b.v",
    "FULL, IS NOT DISTINCT FROM": "SELECT * FROM {one} a FULL JOIN {two} b "
        "ON a.k IS NOT DISTINCT FROM b.k AND a.v <=> b.w",
    "NOT EXISTS": "SELECT k FROM {one} a WHERE NOT EXISTS (SELECT * FROM {two} b WHERE a.k <=> b.k AND a.v < b.w)",
    "INTERSECT of three": "SELECT k FROM {one} INTERSECT SELECT k FROM {two} INTERSECT SELECT k FROM {one} WHERE v > 2",
    "EXCEPT of groups": "SELECT k, sum(v) FROM {one} GROUP BY k EXCEPT SELECT k, sum(w) FROM {two} GROUP BY k",
    "grouped by the key": "SELECT b.k, count(*), max(a.w) FROM {one} a JOIN {two} b ON a.k <=> b.k GROUP BY b.k",
    "LATERAL": "SELECT a.k, n FROM {one} a, LATERAL (SELECT count(*) AS n FROM {two} b WHERE b.k = a.k)",
    "by another join": "SELECT a.v, b.w, c.w FROM {one} a JOIN {two} b ON a.k = b.k "
        "JOIN {one} c ON b.k <=> c.k AND c.v = 1",
}  # fmt: skip
"""Spark compares two expressions of the key, so it shuffles and sorts all of these."""
FULL: dict[str, Query] = {
    "FULL, USING twice": "SELECT k, a.v, b.w, c.w FROM {one} a FULL JOIN {two} b USING (k) FULL JOIN {one} c USING (k)",
    "FULL, USING, LEFT": "SELECT k, a.v, b.w, c.w FROM {one} a FULL JOIN {two} b USING (k) LEFT JOIN {one} c USING (k)",
    "FULL, grouped": "SELECT coalesce(b.k, a.k) AS j, count(*), sum(b.w) FROM {one} a FULL JOIN {two} b ON a.k = b.k "
        "GROUP BY coalesce(b.k, a.k)",
    "FULL of groups": "SELECT k, m, n, c.w FROM (SELECT k, max(v) AS m FROM {one} GROUP BY k) FULL JOIN "
        "(SELECT k, max(w) AS n FROM {two} GROUP BY k) USING (k) JOIN {one} c USING (k)",
    "FULL, <=>": "SELECT k, count(*) FROM (SELECT coalesce(a.k, b.k) AS k FROM {one} a FULL JOIN {two} b "
        "ON a.k <=> b.k AND a.v = b.v) GROUP BY k",
}  # fmt: skip
"""Spark takes the rows of a full outer join for scattered."""
UNION: dict[str, Query] = {
    "UNION ALL of filtered rows": "SELECT k, count(*), sum(v) FROM (SELECT k, v FROM {one} WHERE v > 1 "
        "UNION ALL SELECT k, w FROM {two}) GROUP BY k",
    "UNION ALL of three": "SELECT k, count(*) FROM (SELECT k FROM {one} UNION ALL SELECT k AS j FROM {two} WHERE w = 2 "
        "UNION ALL SELECT k FROM {one}) GROUP BY k",
    "UNION ALL, joined": "SELECT x.k, n, b.w FROM (SELECT k, v + 1 AS n FROM {one} UNION ALL SELECT k, w FROM {two}) x "
        "JOIN {two} b ON x.k = b.k",
    "UNION ALL of joins": "SELECT k, max(n) FROM (SELECT a.k, a.v AS n FROM {one} a JOIN {two} b ON a.k = b.k "
        "UNION ALL SELECT k, max(w) FROM {one} GROUP BY k) GROUP BY k",
    "UNION ALL with FULL": "SELECT k, count(*) FROM (SELECT k FROM {one} a FULL JOIN {two} b USING (k) "
        "UNION ALL SELECT k FROM {two} WHERE v = 1) GROUP BY k",
    "UNION ALL, the key twice": "SELECT j, count(*) FROM (SELECT k, k AS j FROM {one} "
        "UNION ALL SELECT k + 1, k FROM {two}) GROUP BY j",
    "UNION ALL, a column twice": "SELECT k, count(*) FROM (SELECT k, v, v FROM {one} "
        "UNION ALL SELECT k, v, w FROM {two}) AS x (k, v, w) GROUP BY k",
    "UNION ALL, a window": "SELECT k, v, sum(n) OVER (PARTITION BY k) FROM (SELECT k, v, w AS n FROM {one} "
        "UNION ALL SELECT k, v, 2 FROM {two})",
    "UNION": "SELECT k, v FROM {one} UNION SELECT k, w FROM {two} WHERE v > 0",
    "INTERSECT ALL": "SELECT k, v FROM {one} INTERSECT ALL SELECT k, w FROM {two}",
    "EXCEPT ALL": "SELECT k, v FROM {one} EXCEPT ALL SELECT k, w FROM {two} WHERE k > 3",
}  # fmt: skip
"""Spark puts the inputs' buckets next to each other, and shuffles: a filter is enough for its union to do so."""
IN_PLACE |= NULL_SAFE | FULL | UNION

SORTED = ("UNPIVOT, joined", *NULL_SAFE, *FULL.keys() - {"FULL, grouped"})
"""Of these, those that sort the rows of a bucket again, for a merge join."""


@pytest.mark.parametrize("adaptive", ["true", pytest.param("false", marks=pytest.mark.deep)])
@pytest.mark.parametrize("name", IN_PLACE)
def test_nothing_is_shuffled_above_them(pair: SparkSession, name: str, adaptive: str) -> None:
    """Spark shuffles the rows of every one of these."""
    pair.conf.set(ADAPTIVE, adaptive)
    expected = rows(run(pair, IN_PLACE[name], ("plain_one", "plain_two")))
    frame = run(pair, IN_PLACE[name], (f"{IN}.one", f"{IN}.two"))
    assert rows(frame) == expected
    assert set(verdicts(frame)) == {True}
    assert "Exchange" not in plan_of(frame)
    assert ("Sort [" in plan_of(frame)) == (name in SORTED)


SHUFFLED: dict[str, Query] = {
    "ROLLUP": "SELECT k, v, count(*) FROM {one} GROUP BY ROLLUP (k, v)",
    "GROUPING SETS without the key": "SELECT k, v, count(*) FROM {one} GROUP BY GROUPING SETS ((k, v), (v))",
    "UNPIVOT of the key": "SELECT x, count(*) FROM {one} UNPIVOT (x FOR n IN (k, v)) GROUP BY x",
    "<=> with a computed key": "SELECT a.v, b.w FROM {one} a JOIN (SELECT k + 1 AS k, w FROM {two}) b ON a.k <=> b.k",
    "<=> by a coalesced key": "SELECT a.v, b.w FROM {one} a JOIN {two} b ON coalesce(a.k, 0) <=> coalesce(b.k, 0)",
    "<=> of another column": "SELECT a.v, b.w FROM {one} a JOIN {two} b ON a.k <=> b.v",
    "<=> and its two keys": "SELECT a.v, b.w FROM {one} a JOIN {two} b "
        "ON coalesce(a.k, 0) = b.v AND (a.k IS NULL) = (b.w IS NULL) AND a.w <=> b.w",
    "FULL, by other columns": "SELECT c.w FROM {one} a FULL JOIN {two} b ON a.k = b.k JOIN {one} c "
        "ON coalesce(a.k, b.v) = c.k",
    "FULL, a computed side": "SELECT k, c.w FROM {one} a FULL JOIN (SELECT k + 1 AS k FROM {two}) b USING (k) "
        "JOIN {one} c USING (k)",
    "INTERSECT with computed rows": "SELECT k, v FROM {one} INTERSECT SELECT id, id % 7 FROM range(30)",
    "UNION ALL by other columns": "SELECT k, count(*) FROM (SELECT k, v FROM {one} "
        "UNION ALL SELECT w, k FROM {two}) GROUP BY k",
    "UNION ALL, the key twice in one": "SELECT k, count(*) FROM (SELECT k, k FROM {one} "
        "UNION ALL SELECT v, k FROM {two}) AS x (k, j) GROUP BY k",
    "UNION ALL with computed rows": "SELECT k, count(*) FROM (SELECT k FROM {one} "
        "UNION ALL SELECT id FROM range(9)) GROUP BY k",
    "UNION ALL of another type": "SELECT k, count(*) FROM (SELECT k FROM {one} "
        "UNION ALL SELECT CAST(k AS STRING) FROM {two}) GROUP BY k",
    "a key by Python": lambda one, two: one.withColumn("j", PLUS_ONE("v")).drop("k")
        .join(two, col("j") == two.k),
}  # fmt: skip


@pytest.mark.parametrize("name", SHUFFLED)
def test_rows_whose_key_is_another_are_shuffled(pair: SparkSession, name: str) -> None:
    """Rows of one group would else be in several partitions."""
    expected = rows(run(pair, SHUFFLED[name], ("plain_one", "plain_two")))
    frame = run(pair, SHUFFLED[name], (f"{IN}.one", f"{IN}.two"))
    assert rows(frame) == expected
    assert False in verdicts(frame)
    assert "Exchange" in plan_of(frame)


@pytest.mark.parametrize("name", ["FULL, IS NOT DISTINCT FROM", "UNION ALL, joined", "UNION"])
def test_rows_without_a_key_are_in_one_range(pair: SparkSession, name: str) -> None:
    """A large bucket is cut in ranges of the key, of all tables at the same keys: NULLs of both tables meet."""
    pair.conf.set("spark.colocation.minPartitionNum", "24")
    pair.conf.set("spark.colocation.minPartitionBytes", "1")
    frame = run(pair, IN_PLACE[name], (f"{IN}.one", f"{IN}.two"))
    assert rows(frame) == rows(run(pair, IN_PLACE[name], ("plain_one", "plain_two")))
    assert ", 6 buckets in " in plan_of(frame)


def test_one_side_of_a_null_safe_join_is_shuffled_to_the_other(pair: SparkSession) -> None:
    """By the key itself: NULL has a hash, too."""
    query = "SELECT a.v, b.w FROM {one} a LEFT JOIN (SELECT nullif(v, 3) AS j, w FROM {two}) b ON a.k <=> b.j"
    frame = pair.sql(query.format(one=f"{IN}.one", two=f"{IN}.two"))
    assert rows(frame) == rows(pair.sql(query.format(one="plain_one", two="plain_two")))
    assert plan_of(frame).count("Exchange hashpartitioning") == 1
    assert explain_json(frame)["joins"][0]["keys"] == ["a.k <=> b.j"]


WRITTEN = {
    "filtered rows": "SELECT k, v FROM {one} WHERE v > 2 UNION ALL SELECT k, w FROM {two}",
    "joins and groups": "SELECT a.k, b.v FROM {one} a JOIN {two} b ON a.k = b.k "
        "UNION ALL SELECT k, max(w) FROM {one} GROUP BY k",
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_rows_of_a_union_are_written_where_they_are(pair: SparkSession, name: str) -> None:
    """The writer refuses a row that is in another bucket; a join finds those that were written."""
    pair.sql(f"CREATE OR REPLACE TABLE {IN}.written (k BIGINT, v BIGINT) CLUSTERED BY (k) INTO 6 BUCKETS "
             "TBLPROPERTIES ('colocate_with'='sales')")  # fmt: skip
    insert = f"INSERT INTO {IN}.written {WRITTEN[name].format(one=f'{IN}.one', two=f'{IN}.two')}"
    assert "Exchange" not in pair.sql(f"EXPLAIN {insert}").collect()[0][0]
    pair.sql(insert)
    query = "SELECT w.v, b.w FROM {rows} w JOIN {two} b USING (k)"
    found = pair.sql(query.format(rows=f"{IN}.written", two=f"{IN}.two"))
    wanted = f"({WRITTEN[name].format(one='plain_one', two='plain_two')})"
    assert rows(found) == rows(pair.sql(query.format(rows=wanted, two="plain_two")))


def test_the_column_of_a_full_outer_join_is_no_obstacle(pair: SparkSession) -> None:
    """What is broadcast would be joined in place, too: the reason names nothing else."""
    query = "SELECT k, c.w FROM {one} a FULL JOIN {two} b USING (k) JOIN {one} c USING (k)"
    pair.conf.set("spark.sql.autoBroadcastJoinThreshold", "10m")
    frame = run(pair, query.replace("SELECT", "SELECT /*+ MERGE(a, b) */"), (f"{IN}.one", f"{IN}.two"))
    reasons = [one["reason"] for one in explain_json(frame)["joins"] if not one["colocate"]]
    assert [reason.partition(":")[0] for reason in reasons] == ["Broadcast is cheaper"]
    assert "besides" not in reasons[0]


OUTER = "FROM {one} a LEFT JOIN {two} b ON a.k = b.k"
CHAINS = {
    "LEFT by the table before": f"SELECT a.v, b.w, c.w {OUTER} LEFT JOIN {{one}} c ON b.k = c.k",
    "LEFT, further conditions": f"SELECT * {OUTER} AND b.w > 1 LEFT JOIN {{one}} c ON b.k = c.k AND c.w < b.w",
    "three in a row": f"SELECT count(*) {OUTER} LEFT JOIN {{one}} c ON b.k = c.k LEFT JOIN {{two}} d ON c.k = d.k",
    "RIGHT": "SELECT a.v, b.w, c.w FROM {two} b RIGHT JOIN {one} a ON a.k = b.k LEFT JOIN {two} c ON c.k = b.k",
    "RIGHT of a chain": f"SELECT x.v, c.w FROM {{one}} c RIGHT JOIN (SELECT a.v, b.k AS j {OUTER}) x ON x.j = c.k",
    "FULL of a chain": f"SELECT x.v, c.w FROM (SELECT a.v, b.k AS j {OUTER}) x FULL JOIN {{one}} c ON x.j = c.k",
    "ANTI": f"SELECT a.v, b.w {OUTER} LEFT ANTI JOIN {{one}} c ON b.k = c.k AND c.v = b.w",
    "an alias and a filter": f"SELECT x.v, c.v FROM (SELECT a.v, b.k AS j {OUTER} WHERE a.w > 0 OR b.v IS NULL) x "
        "LEFT JOIN {one} c ON x.j = c.k",
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_of_outer_joins_is_joined_by_the_first_ones_key(pair: SparkSession, name: str) -> None:
    """Where the column of the table before is NULL, nothing matches; elsewhere it is equal to the first table's."""
    expected = rows(pair.sql(CHAINS[name].format(one="plain_one", two="plain_two")))
    frame = pair.sql(CHAINS[name].format(one=f"{IN}.one", two=f"{IN}.two"))
    assert rows(frame) == expected
    assert set(verdicts(frame)) == {True}


def test_a_full_outer_joins_columns_are_no_chain(pair: SparkSession) -> None:
    """A row of its right side only has a key there, and none on its left side."""
    query = "SELECT a.v, b.w, c.w FROM {one} a FULL JOIN {two} b ON a.k = b.k LEFT JOIN {one} c ON b.k = c.k"
    frame = pair.sql(query.format(one=f"{IN}.one", two=f"{IN}.two"))
    assert rows(frame) == rows(pair.sql(query.format(one="plain_one", two="plain_two")))
    assert sorted(verdicts(frame)) == [False, True]
