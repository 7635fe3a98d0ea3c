"""Results that stay in their group: rows in the target's buckets are written without a shuffle, or a sort."""

import re

import pytest
from pyspark.sql import SparkSession

from tests.spark.cluster_tables import CATALOG, make_table
from tests.spark.executions import executions

pytestmark = pytest.mark.spark

NAMESPACE = "placed"
IN = f"{CATALOG}.{NAMESPACE}"


@pytest.fixture
def facts(session: SparkSession) -> None:
    """Orders and lines of one group; every bucket of lines has two files."""
    if session.catalog.tableExists(f"{IN}.plain"):
        return
    make_table(session, f"{IN}.orders", "k BIGINT, total BIGINT, day INT")
    make_table(session, f"{IN}.lines", "k BIGINT, price BIGINT, day INT")
    make_table(session, f"{IN}.days", "k BIGINT, v BIGINT, day INT", "PARTITIONED BY (day)")
    make_table(session, f"{IN}.plain", "k BIGINT, v BIGINT, day INT")
    session.sql(f"INSERT INTO {IN}.orders SELECT id, id * 3, id % 5 FROM range(300)")
    for part in range(2):
        session.sql(f"INSERT INTO {IN}.lines SELECT id % 300, id, id % 7 FROM range({part * 500}, {part * 500 + 500})")


def nodes(plan: str) -> dict[str, int]:
    """How often these are in a plan."""
    return {name: len(re.findall(rf"\b{name}\b", plan)) for name in ("Exchange", "Sort", "InPlaceRows")}


def executed(session: SparkSession, statement: str) -> list[dict[str, int]]:
    """The nodes of each query that a statement runs."""
    before = max(executions(session))
    session.sql(statement)
    plans = [one.physicalPlanDescription() for number, one in executions(session).items() if number > before]
    assert any("AppendData" in plan for plan in plans)
    return [nodes(re.split("Initial Plan|\n\n", plan)[0]) for plan in plans]


JOIN = f"{IN}.orders o JOIN {IN}.lines l ON o.k = l.k"
IN_PLACE = {
    "scan": f"SELECT k, total, day FROM {IN}.orders",
    "filter": f"SELECT k, total + 1, day FROM {IN}.orders WHERE total > 30",
    "renamed": f"SELECT k AS other, total AS x, 7 AS d FROM {IN}.orders",
    "two files": f"SELECT k, price, day FROM {IN}.lines",
    "join": f"SELECT l.k, o.total + l.price, l.day FROM {JOIN}",
    "join of the other key": f"SELECT o.k, l.price, o.day FROM {JOIN}",
    "left join": f"SELECT o.k, l.price, o.day FROM {IN}.orders o LEFT JOIN {IN}.lines l ON o.k = l.k",
    "anti join": f"SELECT k, total, day FROM {IN}.orders o "
    f"WHERE NOT EXISTS (SELECT 1 FROM {IN}.lines l WHERE l.k = o.k AND price > 9)",
    "group-by": f"SELECT k, sum(price), max(day) FROM {IN}.lines GROUP BY k",
    "window": f"SELECT k, sum(price) OVER (PARTITION BY k), day FROM {IN}.lines",
}
SHUFFLED = {
    "another key": f"SELECT total, k, day FROM {IN}.orders",
    "a changed key": f"SELECT k + 1, total, day FROM {IN}.orders",
    "full join": f"SELECT o.k, l.price, l.day FROM {IN}.orders o FULL JOIN {IN}.lines l ON o.k = l.k",
    "right join": f"SELECT o.k, l.price, l.day FROM {IN}.orders o RIGHT JOIN {IN}.lines l ON o.k = l.k",
}


@pytest.mark.parametrize(("adaptive", "target"), [("true", "plain"), ("false", "days")])
@pytest.mark.parametrize("query", IN_PLACE)
def test_rows_stay(session: SparkSession, facts: None, query: str, target: str, adaptive: str) -> None:
    """With adaptive execution, sorts go when a stage runs, so the plan that is explained still has them."""
    session.conf.set("spark.sql.adaptive.enabled", adaptive)
    found = nodes(session.sql(f"EXPLAIN INSERT INTO {IN}.{target} {IN_PLACE[query]}").collect()[0][0])
    assert (found["Exchange"], found["InPlaceRows"]) == (0, 1)
    assert adaptive == "true" or found["Sort"] == 0
    session.sql(f"INSERT OVERWRITE {IN}.{target} {IN_PLACE[query]}")
    expected = sorted(tuple(row) for row in session.sql(IN_PLACE[query]).collect())
    assert sorted(tuple(row) for row in session.table(f"{IN}.{target}").collect()) == expected


@pytest.mark.parametrize("query", SHUFFLED)
def test_rows_move(session: SparkSession, facts: None, query: str) -> None:
    """Where nothing proves that they are in their buckets."""
    found = nodes(session.sql(f"EXPLAIN INSERT INTO {IN}.plain {SHUFFLED[query]}").collect()[0][0])
    assert (found["Exchange"], found["InPlaceRows"]) == (1, 0)
    session.sql(f"INSERT OVERWRITE {IN}.plain {SHUFFLED[query]}")
    expected = sorted(tuple(row) for row in session.sql(SHUFFLED[query]).na.fill(-1).collect())
    assert sorted(tuple(row) for row in session.table(f"{IN}.plain").na.fill(-1).collect()) == expected


@pytest.mark.parametrize(("adaptive", "found"), [("true", (0, 1)), ("false", (1, 0))])
def test_rows_of_a_full_join(session: SparkSession, facts: None, adaptive: str, found: tuple[int, int]) -> None:
    """They lie by the key of either side, which is known while a query is planned; adaptive execution uses that."""
    session.conf.set("spark.sql.adaptive.enabled", adaptive)
    sides = f"(SELECT * FROM {IN}.orders WHERE k % 3 > 0) o FULL JOIN (SELECT * FROM {IN}.lines WHERE k % 5 > 0) l"
    query = f"SELECT coalesce(o.k, l.k), l.price, o.day FROM {sides} ON o.k = l.k"
    explained = nodes(session.sql(f"EXPLAIN INSERT INTO {IN}.plain {query}").collect()[0][0])
    assert (explained["Exchange"], explained["InPlaceRows"]) == found
    session.sql(f"INSERT OVERWRITE {IN}.plain {query}")
    expected = sorted(tuple(row) for row in session.sql(query).na.fill(-1).collect())
    assert sorted(tuple(row) for row in session.table(f"{IN}.plain").na.fill(-1).collect()) == expected


def test_changes_of_rows_stay(session: SparkSession, facts: None) -> None:
    """A source of the group needs no shuffle and no sort; one from elsewhere is shuffled and sorted once, alone."""
    merge = "WHEN MATCHED THEN UPDATE SET total = s.p WHEN NOT MATCHED THEN INSERT (k, total) VALUES (s.k, s.p)"
    grouped = f"SELECT k, max(price) AS p FROM {IN}.lines WHERE k % 50 < 10 GROUP BY k"
    in_place = [
        f"MERGE INTO {IN}.orders t USING ({grouped}) s ON t.k = s.k {merge}",
        f"UPDATE {IN}.orders SET total = 0 WHERE k % 7 = 3",
        f"DELETE FROM {IN}.orders WHERE k IN (SELECT k FROM {IN}.lines WHERE price < 100)",
    ]
    for statement in in_place:
        found = executed(session, statement)
        assert [(query["Exchange"], query["Sort"]) for query in found] == [(0, 0)] * len(found), statement
        assert found[-1]["InPlaceRows"] > 0
    elsewhere = "(SELECT id * 7 AS k, id AS p FROM range(60))"
    found = executed(session, f"MERGE INTO {IN}.orders t USING {elsewhere} s ON t.k = s.k {merge}")
    assert sum(query["Exchange"] for query in found) == sum(query["Sort"] for query in found) == 1


def test_the_switch(session: SparkSession, facts: None) -> None:
    """Switched off, rows that are in their buckets are shuffled, and written."""
    session.conf.set("spark.colocation.writeInPlace", "false")
    insert = f"INSERT OVERWRITE {IN}.plain {IN_PLACE['scan']}"
    found = nodes(session.sql(f"EXPLAIN {insert}").collect()[0][0])
    assert (found["Exchange"], found["InPlaceRows"]) == (1, 0)
    session.sql(insert)
    assert session.table(f"{IN}.plain").count() == session.sql(IN_PLACE["scan"]).count() > 0
