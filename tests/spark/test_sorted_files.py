"""Sorted files are trusted: no sort where a bucket's files give the order, and the answers that Spark's sorts give."""

import json

import pytest
from pyspark.sql import SparkSession

from tests.spark.catalog_server import load
from tests.spark.conftest import MAP, add_table
from tests.spark.loopback import LoopbackAgents
from tests.spark.sorted_tables import EVENTS, IN_ORDER, MERGED, TRUST, both_answers, load_events, opened
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def tables(application: SparkSession, agents: LoopbackAgents) -> FakeCatalog:
    catalog = load_events(application, agents)
    add_table(catalog, "timed", application.sql(EVENTS.format(first=0, last=300)), ["k"], sorted_by=("k", "n"))
    load(application.sql(EVENTS.format(first=300, last=600)), "timed", catalog=catalog)
    touching = "SELECT 7L AS k, true AS flag, 0L AS n UNION ALL SELECT id DIV 4 + 7, false, id FROM range(800)"
    add_table(catalog, "touching", application.sql(touching), ["k"], ("flag",))
    return catalog


@pytest.fixture(
    scope="module",
    params=[pytest.param("true", id="adaptive"), pytest.param("false", id="static", marks=pytest.mark.deep)],
)
def session(
    application: SparkSession, tables: FakeCatalog, request: pytest.FixtureRequest
) -> SparkSession:
    """One for all tests: what a test sets it takes back."""
    return opened(application.newSession(), tables, request.param)


@pytest.mark.parametrize(("left", "right", "on", "how"), [
    pytest.param("single", "single", "l.k = r.k", IN_ORDER, id="one file per bucket"),
    pytest.param("daily", "daily", "l.day = r.day AND l.k = r.k", IN_ORDER, id="partition, key"),
    pytest.param("daily", "daily", "l.k = r.k AND l.day = r.day", IN_ORDER, id="key, partition"),
    pytest.param("daily", "daily", "l.k = r.k", MERGED, id="all partitions"),
    pytest.param("appended", "single", "l.k = r.k", MERGED, id="several loads"),
    pytest.param("both", "daily", "l.k = r.k AND l.day = r.day", MERGED, id="several loads in partitions"),
    pytest.param("both", "appended", "l.k = r.k", MERGED, id="many files"),
])
@pytest.mark.parametrize("join", [
    "JOIN", "FULL JOIN", "LEFT SEMI JOIN",
    pytest.param("LEFT JOIN", marks=pytest.mark.deep), pytest.param("LEFT ANTI JOIN", marks=pytest.mark.deep),
])
def test_joins_need_no_sort(session: SparkSession, left: str, right: str, on: str, how: str, join: str) -> None:
    """However a bucket's rows are spread over files, merge joins find them in order, NULL keys included."""
    columns = "l.k, l.n, l.word" + ("" if join.endswith(("SEMI JOIN", "ANTI JOIN")) else ", r.n AS rn, r.real")
    where = "" if join in ("FULL JOIN",) else "WHERE l.n < 300"
    plan, found, expected = both_answers(session, f"SELECT {columns} FROM {left} l {join} {right} r ON {on} {where}")
    assert found == expected and found
    assert how in plan and "Exchange" not in plan
    assert "Sort [" not in plan


@pytest.mark.parametrize("statement", [
    pytest.param("SELECT k, flag, rank() OVER (PARTITION BY k ORDER BY flag) AS place FROM touching", id="window"),
    pytest.param("SELECT l.k, l.flag, l.n, r.m FROM touching l JOIN (SELECT id DIV 4 + 7 AS k, id % 2 = 0 AS flag, "
                 "id AS m FROM range(800)) r ON l.k = r.k AND l.flag = r.flag", id="join"),
])  # fmt: skip
def test_rows_of_one_key_come_in_the_order_of_partitions(session: SparkSession, statement: str) -> None:
    """Though the file of one partition ends with the key that another's begins with."""
    _, found, expected = both_answers(session, statement)
    assert found == expected and found


def test_three_tables_are_joined_in_one_order(session: SparkSession) -> None:
    """Keys in different orders in each condition: all files are read by day, none is sorted or merged."""
    plan, found, expected = both_answers(
        session,
        "SELECT a.n, b.n AS bn, c.n AS cn FROM daily a JOIN daily b ON a.k = b.k AND a.day = b.day "
        "JOIN daily c ON c.day = a.day AND c.k = a.k WHERE a.n < 200 AND b.n < 300")  # fmt: skip
    assert found == expected and found
    assert plan.count(IN_ORDER) == 3 and "Sort [" not in plan


@pytest.mark.parametrize(("join", "side"), [
    pytest.param("timed t JOIN appended o", "left", id="inner"),
    pytest.param("timed t LEFT JOIN appended o", "left", id="left"),
    pytest.param("timed t LEFT SEMI JOIN appended o", "left", id="semi"),
    pytest.param("timed t LEFT ANTI JOIN appended o", "left", id="anti"),
    pytest.param("appended o RIGHT JOIN timed t", "right", id="right"),
])  # fmt: skip
@pytest.mark.parametrize("hint", ["MERGE", "SHUFFLE_HASH"])
def test_a_join_keeps_the_order_of_the_side_whose_rows_it_streams(
    session: SparkSession, join: str, side: str, hint: str
) -> None:
    """Its result comes in all of that side's order, of which the key is only the first column; nothing is sorted."""
    joined = f"SELECT /*+ {hint}(o) */ t.k, t.n FROM {join} ON t.k = o.k AND o.n % 3 < 2"
    statement = f"SELECT k, n, spark_partition_id() AS task FROM ({joined} SORT BY k, n)"
    plan, found, expected = both_answers(session, statement)
    assert found == expected and found
    assert MERGED in plan and "Exchange" not in plan and "Sort [" not in plan
    session.conf.set(TRUST, "true")
    tasks: dict[int, list[tuple[int, int]]] = {}
    for k, n, task in session.sql(statement).collect():
        tasks.setdefault(task, []).append((-1 if k is None else k, n))
    assert all(rows == sorted(rows) for rows in tasks.values())


@pytest.mark.parametrize("joined", [
    pytest.param("timed t FULL JOIN appended o ON t.k = o.k", id="rows of both sides are kept"),
    pytest.param("appended o LEFT JOIN timed t ON t.k = o.k", id="the other side is streamed"),
    pytest.param("timed t JOIN timed o ON t.k = o.k AND t.n = o.n", id="by more columns than are wanted"),
])  # fmt: skip
def test_the_results_of_other_joins_are_sorted(session: SparkSession, joined: str) -> None:
    """Spark's sort stays where the order that is wanted is not that of the streamed side."""
    sorted_rows = f"SELECT /*+ MERGE(o) */ t.k, t.n FROM {joined} SORT BY n, k"
    statement = f"SELECT k, n, spark_partition_id() AS task FROM ({sorted_rows})"
    plan, found, expected = both_answers(session, statement)
    assert found == expected and "Sort [" in plan


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
    table = tables.tables["appended"]
    assert table.status.snapshot
    location = f"coloc://shop/{table.directory}/{table.status.snapshot.manifest_sha256}/data"
    shown = {"name": "sales", "agents": tables.agents, "buckets": MAP}
    for key, value in {
        "group.shop.sales": json.dumps(shown), f"table.shop.{table.directory}": "sales",
        "data.root": session.conf.get("spark.colocation.dataRoot"),
        "token.file": session.conf.get("spark.colocation.tokenFile"),
        "ca.file": session.conf.get("spark.colocation.caFile"),
    }.items():  # fmt: skip
        session.conf.set(f"fs.coloc.{key}", value)
    claimed = "spark_catalog.default.claimed"
    session.sql(f"CREATE TABLE {claimed} (k BIGINT, day INT, n BIGINT, word STRING, real DOUBLE) USING parquet "
                f"CLUSTERED BY (k) SORTED BY (n) INTO 6 BUCKETS LOCATION '{location}'")  # fmt: skip
    plan, found, expected = both_answers(session, f"SELECT n FROM {claimed} SORT BY n")
    assert found == expected and "SortedBucketScan" not in plan
    session.sql(f"DROP TABLE {claimed}")


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
