"""Results that stay in their group: no shuffle before a write whose rows are in the target's buckets, no sort in their order."""

import re

import pytest
from pyspark.sql import SparkSession

from tests.spark.cluster_tables import CATALOG, ClusterTables, make_table

pytestmark = pytest.mark.spark

NAMESPACE = "placed"
IN = f"{CATALOG}.{NAMESPACE}"


@pytest.fixture
def session(application: SparkSession, tables: ClusterTables) -> SparkSession:
    session = tables.configure(application.newSession())
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


@pytest.fixture
def facts(session: SparkSession) -> None:
    """Orders and lines of one group; every bucket of lines has two files."""
    if session.catalog.tableExists(f"{IN}.orders"):
        return
    make_table(session, f"{IN}.orders", "k BIGINT, total BIGINT, day INT")
    make_table(session, f"{IN}.lines", "k BIGINT, price BIGINT, day INT")
    make_table(session, f"{IN}.days", "k BIGINT, v BIGINT, day INT", "PARTITIONED BY (day)")
    make_table(session, f"{IN}.plain", "k BIGINT, v BIGINT, day INT")
    session.sql(f"INSERT INTO {IN}.orders SELECT id, id * 3, id % 5 FROM range(300)")
    for part in range(2):
        session.sql(f"INSERT INTO {IN}.lines SELECT id % 300, id, id % 7 FROM range({part * 500}, {part * 500 + 500})")


def nodes(session: SparkSession, statement: str) -> dict[str, int]:
    plan = session.sql("EXPLAIN " + statement).collect()[0][0]
    return {name: len(re.findall(rf"\b{name}\b", plan)) for name in ("Exchange", "Sort", "InPlaceRows")}


JOIN = f"{IN}.orders o JOIN {IN}.lines l ON o.k = l.k"
IN_PLACE = {
    "scan": f"SELECT k, total, day FROM {IN}.orders",
    "filter": f"SELECT k, total + 1, day FROM {IN}.orders WHERE total > 30",
    "renamed": f"SELECT k AS other, total AS x, 7 AS d FROM {IN}.orders",
    "two files": f"SELECT k, price, day FROM {IN}.lines",
    "join": f"SELECT l.k, o.total + l.price, l.day FROM {JOIN}",
    "join of the other key": f"SELECT o.k, l.price, o.day FROM {JOIN}",
    "left join": f"SELECT o.k, l.price, o.day FROM {IN}.orders o LEFT JOIN {IN}.lines l ON o.k = l.k",
    "anti join": f"SELECT k, total, day FROM {IN}.orders o WHERE NOT EXISTS (SELECT 1 FROM {IN}.lines l WHERE l.k = o.k AND price > 9)",
    "group-by": f"SELECT k, sum(price), max(day) FROM {IN}.lines GROUP BY k",
    "window": f"SELECT k, sum(price) OVER (PARTITION BY k), day FROM {IN}.lines",
}
SHUFFLED = {
    "another key": f"SELECT total, k, day FROM {IN}.orders",
    "a changed key": f"SELECT k + 1, total, day FROM {IN}.orders",
    "full join": f"SELECT coalesce(o.k, l.k), l.price, o.day FROM {IN}.orders o FULL JOIN {IN}.lines l ON o.k = l.k",
    "right join": f"SELECT o.k, l.price, l.day FROM {IN}.orders o RIGHT JOIN {IN}.lines l ON o.k = l.k",
}


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("target", ["plain", "days"])
@pytest.mark.parametrize("query", IN_PLACE)
def test_rows_stay(session: SparkSession, facts: None, query: str, target: str, adaptive: str) -> None:
    session.conf.set("spark.sql.adaptive.enabled", adaptive)
    found = nodes(session, f"INSERT INTO {IN}.{target} {IN_PLACE[query]}")
    assert (found["Exchange"], found["InPlaceRows"]) == (0, 1)
    session.sql(f"TRUNCATE TABLE {IN}.{target}")
    session.sql(f"INSERT INTO {IN}.{target} {IN_PLACE[query]}")
    expected = sorted(tuple(row) for row in session.sql(IN_PLACE[query]).collect())
    assert sorted(tuple(row) for row in session.table(f"{IN}.{target}").collect()) == expected
    print(query, target, adaptive, found)
