"""Sorted files are trusted: no sort where a bucket's files give the order, and the answers that Spark's sorts give."""

import math
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from colocation.spark import load, register
from tests.spark.conftest import add_table, stable_group
from tests.spark.loopback import LoopbackAgents
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark

TRUST = "spark.colocation.trustSortedFiles"
ADAPTIVE = "spark.sql.adaptive.enabled"

EVENTS = """
SELECT if(id % 13 = 0, NULL, id % 97) AS k, CAST(id % 5 AS INT) AS day, id AS n, concat('é', id % 7) AS word,
       CASE id % 5 WHEN 0 THEN 0.0D WHEN 1 THEN -0.0D WHEN 2 THEN double('NaN') WHEN 3 THEN NULL ELSE 1.5D END AS real
FROM range({first}, {last})
"""

MERGED = "files merged"
IN_ORDER = "files in order"


@pytest.fixture(scope="module")
def tables(application: SparkSession, agents: LoopbackAgents) -> FakeCatalog:
    """Tables of the same rows: in one file per bucket, in several loads, in partitions, and in both."""
    catalog = stable_group(agents)
    whole = application.sql(EVENTS.format(first=0, last=600))
    add_table(catalog, "single", whole, ["k"])
    add_table(catalog, "daily", whole, ["k"], ("day",))
    for name, partitions in (("appended", ()), ("both", ("day",))):
        add_table(catalog, name, application.sql(EVENTS.format(first=0, last=200)), ["k"], partitions)
        for first in (200, 400):
            load(application.sql(EVENTS.format(first=first, last=first + 200)), name, catalog=catalog)
    return catalog


@pytest.fixture(params=["true", "false"], ids=["adaptive", "static"])
def session(spark: SparkSession, tables: FakeCatalog, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session with the tables registered, with adaptive execution and without it."""
    spark.conf.set(ADAPTIVE, request.param)
    register(spark, catalog=tables)
    spark.catalog.setCurrentDatabase("shop")
    return spark


def plan_of(rows: DataFrame) -> str:
    """The plan that was executed; of an adaptive one, the final part."""
    text: str = rows._jdf.queryExecution().executedPlan().toString()
    return text.split("+- == Initial Plan ==")[0]


def answer(rows: DataFrame) -> list[str]:
    return sorted(repr(tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in row))
                  for row in rows.collect())  # fmt: skip


def both_answers(session: SparkSession, statement: str) -> tuple[str, list[str], list[str]]:
    """The plan and answer of a statement, and its answer with all of Spark's sorts."""
    session.conf.set(TRUST, "true")
    trusting = session.sql(statement)
    found = answer(trusting)
    session.conf.set(TRUST, "false")
    sorting = session.sql(statement)
    expected = answer(sorting)
    assert "SortedBucketScan" not in plan_of(sorting)
    return plan_of(trusting), found, expected


@pytest.mark.parametrize(("left", "right", "on", "how"), [
    pytest.param("single", "single", "l.k = r.k", IN_ORDER, id="one file per bucket"),
    pytest.param("daily", "daily", "l.day = r.day AND l.k = r.k", IN_ORDER, id="partition, key"),
    pytest.param("daily", "daily", "l.k = r.k AND l.day = r.day", IN_ORDER, id="key, partition"),
    pytest.param("daily", "daily", "l.k = r.k", MERGED, id="all partitions"),
    pytest.param("appended", "single", "l.k = r.k", MERGED, id="several loads"),
    pytest.param("both", "daily", "l.k = r.k AND l.day = r.day", MERGED, id="several loads in partitions"),
    pytest.param("both", "appended", "l.k = r.k", MERGED, id="many files"),
])
@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
def test_joins_need_no_sort(session: SparkSession, left: str, right: str, on: str, how: str, join: str) -> None:
    """However a bucket's rows are spread over files, merge joins find them in order, NULL keys included."""
    columns = "l.k, l.n, l.word" + ("" if join.endswith(("SEMI JOIN", "ANTI JOIN")) else ", r.n AS rn, r.real")
    where = "" if join in ("FULL JOIN",) else "WHERE l.n < 300"
    plan, found, expected = both_answers(session, f"SELECT {columns} FROM {left} l {join} {right} r ON {on} {where}")
    assert found == expected and found
    assert how in plan and "Exchange" not in plan
    assert "Sort [" not in plan


def test_three_tables_are_joined_in_one_order(session: SparkSession) -> None:
    """Keys in different orders in each condition: all files are read by day, none is sorted or merged."""
    plan, found, expected = both_answers(
        session,
        "SELECT a.n, b.n AS bn, c.n AS cn FROM daily a JOIN daily b ON a.k = b.k AND a.day = b.day "
        "JOIN daily c ON c.day = a.day AND c.k = a.k WHERE a.n < 200 AND b.n < 300")  # fmt: skip
    assert found == expected and found
    assert plan.count(IN_ORDER) == 3 and "Sort [" not in plan


def test_a_window_by_the_sort_columns_needs_no_sort(session: SparkSession) -> None:
    """Rows of a key come together: sums per key over merged files are right."""
    plan, found, expected = both_answers(session, "SELECT k, n, sum(n) OVER (PARTITION BY k) AS total FROM both")
    assert found == expected
    assert MERGED in plan and "Sort [" not in plan


@pytest.mark.parametrize("statement", [
    pytest.param("SELECT k, first(n) OVER (PARTITION BY k ORDER BY n DESC) FROM appended", id="another column"),
    pytest.param("SELECT l.n, r.n FROM single l JOIN single r ON l.k = r.k AND l.real = r.real", id="fractions"),
    pytest.param("SELECT l.n, r.n FROM single l JOIN single r ON l.k = r.k AND l.word = r.word", id="beyond the order"),
    pytest.param("SELECT l.n, r.n FROM (SELECT k + 1 AS k, n FROM single) l JOIN single r USING (k)", id="expression"),
    pytest.param("SELECT n FROM single SORT BY k DESC", id="descending"),
    pytest.param("SELECT n FROM single SORT BY k NULLS LAST", id="nulls last"),
])
def test_what_files_do_not_give_is_sorted(session: SparkSession, statement: str) -> None:
    """Orders that the files do not have stay with Spark's sorts."""
    plan, found, expected = both_answers(session, statement)
    assert found == expected
    assert "Sort [" in plan


def test_only_what_is_written_in_the_manifest_is_trusted(session: SparkSession, tables: FakeCatalog) -> None:
    """A table that someone declares SORTED BY another column over the same files is sorted by Spark."""
    location = next(table.location for table in register(session, catalog=tables) if table.table == "appended")
    session.sql("CREATE TABLE shop.claimed (k BIGINT, day INT, n BIGINT, word STRING, real DOUBLE) USING parquet "
                f"CLUSTERED BY (k) SORTED BY (n) INTO 6 BUCKETS LOCATION '{location}'")  # fmt: skip
    plan, found, expected = both_answers(session, "SELECT n FROM claimed SORT BY n")
    assert found == expected and "SortedBucketScan" not in plan


def test_rows_come_in_order_whatever_the_batches(session: SparkSession) -> None:
    """Row by row and in batches of seven, a merged bucket is in order."""
    for conf, value in (("spark.sql.parquet.columnarReaderBatchSize", "7"),
                        ("spark.sql.parquet.enableVectorizedReader", "false"),
                        ("spark.sql.codegen.wholeStage", "false")):  # fmt: skip
        session.conf.set(conf, value)
        statement = "SELECT l.n, r.n AS rn, r.word FROM both l JOIN appended r ON l.k = r.k WHERE l.n < 100"
        plan, found, expected = both_answers(session, statement)
        assert found == expected and MERGED in plan
        session.conf.unset(conf)


def test_big_tables_are_not_broadcast_for_their_small_files(session: SparkSession, tables: FakeCatalog) -> None:
    """Spark knows a table's rows: what compresses well is not taken for small."""
    rows = session.table("single")
    size = int(rows.select("k")._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    assert size >= 600 * 8
    assert rows.count() == 600
