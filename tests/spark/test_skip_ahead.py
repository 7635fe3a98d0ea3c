"""A join's larger side is read from the first key on that its filtered side has, by Parquet's statistics."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from colocation.model.group import ColocationGroupSpec, ColocationGroupStatus
from tests.spark.catalog_server import load
from tests.spark.conftest import BUCKETS, MAP, add_table, stable_group
from tests.spark.loopback import LoopbackAgents
from tests.spark.sorted_tables import opened, plan_of, restored, run_both
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark

FILE_SIZE = "spark.colocation.write.targetFileSize"
SKIPS = "from the first key of the join's other side"
ROWS = 90_000
"""Of ``lines``, three for each key; ``orders`` have one row for each key, and a day that grows with it."""
ORDERS = f"SELECT id AS k, CAST(id DIV 1500 AS INT) AS day, id % 7 AS n FROM range({ROWS // 3})"
LINES = "SELECT id DIV 3 AS k, id % 3 AS line, id AS n, concat('l', id % 11) AS word FROM range({0}, {1})"
LATE = "o.day >= 18"
KEYS = {
    "int": "CAST(id AS INT)",
    "date": "date_add(DATE'1969-01-01', CAST(id AS INT))",
    "timestamp": "timestamp_seconds(id)",
    "decimal(12,2)": "CAST(id AS DECIMAL(12, 2))",
    "string": "concat('é', lpad(id, 6, '0'))",
}


@pytest.fixture(scope="module")
def tables(application: SparkSession, agents: LoopbackAgents) -> Iterator[FakeCatalog]:
    """A bucket has several files, one after the other: the least that is left out here is a row group."""
    catalog = stable_group(agents)
    application.conf.set(FILE_SIZE, "4k")
    add_table(catalog, "orders", application.sql(ORDERS), ["k"])
    add_table(catalog, "lines", application.sql(LINES.format(0, ROWS)), ["k"])
    add_table(catalog, "parts", application.sql(LINES.format(0, ROWS)).where("n % 3 = 0"), ["k"])
    for part in (1, 2):
        load(application.sql(LINES.format(0, ROWS)).where(f"n % 3 = {part}"), "parts", catalog=catalog)
    with_nulls = application.sql(LINES.format(0, ROWS)).selectExpr("nullif(k, 5) AS k", "line", "n", "word")
    add_table(catalog, "holes", with_nulls, ["k"])
    add_table(catalog, "daily", application.sql(ORDERS), ["k"], ("day",))
    yield catalog
    application.conf.unset(FILE_SIZE)


def add_tables_of(place: int, catalog: FakeCatalog, application: SparkSession) -> None:
    """``few`` and ``many`` with keys of a type, in a group of their own."""
    key, of_rows = list(KEYS.items())[place]
    catalog.add_group(
        ColocationGroupSpec(bucket_key=(key,), buckets=BUCKETS, replicas=2),
        ColocationGroupStatus(stable=True, reason="AllReplicasComplete", backends_per_bucket_seq=MAP),
        name=f"by{place}",
    )
    rows = application.sql(f"SELECT {of_rows} AS k, id DIV 1500 AS day, id AS n FROM range({ROWS // 3})")
    add_table(catalog, f"few{place}", rows, ["k"], group=f"by{place}")
    add_table(catalog, f"many{place}", rows.unionAll(rows).selectExpr("k", "n"), ["k"], group=f"by{place}")


@pytest.fixture(
    scope="module",
    params=[pytest.param("true", id="adaptive"), pytest.param("false", id="static", marks=pytest.mark.deep)],
)
def shared(application: SparkSession, tables: FakeCatalog, request: pytest.FixtureRequest) -> SparkSession:
    """One session for all tests."""
    spark = opened(application.newSession(), tables, request.param)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    return spark


@pytest.fixture
def session(shared: SparkSession) -> Iterator[SparkSession]:
    """What a test sets is taken back."""
    yield from restored(shared)


def compared(session: SparkSession, statement: str) -> tuple[str, int]:
    """The plan and the rows that its scans read; the answer is the one of Spark's own plan."""
    rows, found, expected = run_both(session, statement)
    assert found == expected and (expected or "99" in statement)
    return plan_of(rows), rows_read(rows._jdf.queryExecution().executedPlan())


def rows_read(plan: Any) -> int:
    """By the scans of buckets, by their metrics."""
    if plan.nodeName() == "AdaptiveSparkPlan":
        return rows_read(plan.executedPlan())
    leaves = [plan.collectLeaves().apply(place) for place in range(plan.collectLeaves().size())]
    stages = sum(rows_read(leaf.plan()) for leaf in leaves if "QueryStage" in leaf.nodeName())
    scans = [leaf.metrics().apply("numOutputRows").value() for leaf in leaves if "SortedBucketScan" in leaf.nodeName()]
    return stages + sum(scans)


@pytest.mark.parametrize(("statement", "skips"), [
    pytest.param(f"SELECT o.k, l.n FROM orders o JOIN lines l ON o.k = l.k WHERE {LATE}", 1, id="inner"),
    pytest.param(f"SELECT o.k, l.n FROM lines l JOIN orders o ON o.k = l.k WHERE {LATE}", 1, id="filtered side last"),
    pytest.param(f"SELECT o.k, l.n FROM orders o JOIN parts l ON o.k = l.k WHERE {LATE}", 1, id="several files"),
    pytest.param(f"SELECT o.k, l.n FROM orders o JOIN lines l ON o.k = l.k WHERE {LATE} AND l.word <> 'l3'", 1,
                 id="both filtered"),
    pytest.param(f"SELECT o.k, l.n FROM (SELECT * FROM orders o WHERE {LATE}) o LEFT JOIN lines l ON o.k = l.k", 1,
                 id="left"),
    pytest.param(f"SELECT o.k, l.n FROM lines l RIGHT JOIN (SELECT * FROM orders o WHERE {LATE}) o ON o.k = l.k", 1,
                 id="right"),
    pytest.param(f"SELECT o.k FROM orders o WHERE {LATE} AND EXISTS (SELECT 1 FROM lines l WHERE l.k = o.k)", 1,
                 id="semi"),
    pytest.param(f"SELECT l.k, n FROM lines l WHERE EXISTS (SELECT 1 FROM orders o WHERE l.k = o.k AND {LATE})", 1,
                 id="filtered by a semi-join"),
    pytest.param(f"SELECT o.k FROM orders o WHERE {LATE} AND NOT EXISTS (SELECT 1 FROM lines l WHERE l.k = o.k "
                 "AND l.k % 2 = 0)", 1, id="anti"),
    pytest.param(f"SELECT o.k, s.total FROM orders o JOIN (SELECT k, sum(n) AS total FROM lines GROUP BY k) s "
                 f"ON o.k = s.k WHERE {LATE}", 1, id="group-by"),
    pytest.param(f"SELECT o.k, s.r FROM orders o JOIN (SELECT k, row_number() OVER (PARTITION BY k ORDER BY k) AS r "
                 f"FROM lines) s ON o.k = s.k WHERE {LATE}", 1, id="window"),
    pytest.param(f"SELECT o.k, l.n, m.n AS m FROM orders o JOIN lines l ON o.k = l.k JOIN lines m ON l.k = m.k "
                 f"WHERE {LATE}", 2, id="three tables"),
    pytest.param(f"SELECT o.k, l.n FROM (SELECT k AS other, n FROM lines) l JOIN orders o ON o.k = l.other "
                 f"WHERE {LATE}", 1, id="renamed"),
    pytest.param(f"SELECT o.k, l.n FROM daily o JOIN lines l ON o.k = l.k WHERE {LATE}", 1, id="partitions"),
    pytest.param(f"SELECT o.k, l.n FROM orders o JOIN holes l ON o.k = l.k WHERE {LATE}", 1, id="null keys"),
    pytest.param("SELECT o.k, l.n FROM orders o JOIN lines l ON o.k = l.k WHERE o.day >= 99", 1, id="no rows"),
    pytest.param(f"SELECT o.k, l.n FROM lines l LEFT JOIN orders o ON o.k = l.k AND {LATE}", 0,
                 id="left: rows without a match stay"),
    pytest.param(f"SELECT l.k, l.n FROM lines l WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE l.k = o.k AND {LATE})",
                 0, id="anti: rows without a match stay"),
    pytest.param(f"SELECT o.k, l.n FROM (SELECT * FROM orders o WHERE {LATE}) o FULL JOIN lines l ON o.k = l.k", 0,
                 id="full"),
    pytest.param("SELECT o.k, l.n FROM orders o JOIN lines l ON o.k = l.k", 0, id="no filter"),
    pytest.param(f"SELECT o.k, s.r FROM orders o JOIN (SELECT k, rank() OVER (PARTITION BY line ORDER BY k) AS r "
                 f"FROM lines) s ON o.k = s.k WHERE {LATE}", 0, id="a window that counts what is left out"),
    pytest.param(f"SELECT o.k, l.n FROM orders o JOIN lines l ON o.k = l.n WHERE {LATE}", 0, id="another column"),
    pytest.param(f"SELECT o.k, l.n FROM orders o JOIN lines l ON o.k = l.k + 1 WHERE {LATE}", 0, id="an expression"),
])  # fmt: skip
def test_rows_below_the_first_key(session: SparkSession, statement: str, skips: int) -> None:
    """Answers are those of Spark's plan; where it can, a scan leaves out nearly all rows below."""
    plan, read = compared(session, statement)
    assert plan.count(SKIPS) == skips, plan
    if skips:
        assert read < (1 + skips) * ROWS * 0.5, plan


@pytest.mark.parametrize("place", range(len(KEYS)), ids=list(KEYS))
def test_keys(session: SparkSession, place: int, tables: FakeCatalog, application: SparkSession) -> None:
    """Of each type that manifests have bounds of and whose values Parquet's filters know."""
    if f"few{place}" not in tables.tables:
        add_tables_of(place, tables, application)
    statement = f"SELECT o.k, l.n FROM few{place} o JOIN many{place} l ON o.k = l.k WHERE o.day >= 18"
    plan, read = compared(session, statement)
    assert plan.count(SKIPS) == 1
    assert read < 0.5 * ROWS, plan


@pytest.mark.parametrize(("hint", "settings", "shown"), [
    pytest.param("", {"minPartitionBytes": "1", "minPartitionNum": str(4 * BUCKETS)}, "ranges", id="ranges of buckets"),
    pytest.param("/*+ COALESCE(2) */", {}, "Coalesce", id="several buckets in a task"),
])  # fmt: skip
def test_each_bucket_has_its_first_key(
    session: SparkSession, hint: str, settings: dict[str, str], shown: str
) -> None:
    """Whether a task reads a part of a bucket, or several."""
    for name, value in settings.items():
        session.conf.set(f"spark.colocation.{name}", value)
    plan, read = compared(session, f"SELECT {hint} o.k, l.n FROM orders o JOIN lines l ON o.k = l.k WHERE {LATE}")
    assert plan.count(SKIPS) == 1 and shown in plan, plan
    assert read < ROWS, plan


def test_rows_one_by_one(session: SparkSession) -> None:
    """Without generated code a merge join reads its right side first, which then begins where the left one does."""
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    plan, read = compared(session, f"SELECT o.k, l.n FROM orders o JOIN lines l ON o.k = l.k WHERE {LATE}")
    assert plan.count(SKIPS) == 1
    assert read < ROWS, plan


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(1, 60))])
def test_random_queries(session: SparkSession, seed: int) -> None:
    """Of joins, group-bys, windows and filters in any order: the answer of Spark's own plan."""
    random_of = random.Random(seed)
    settings = {
        "spark.sql.codegen.wholeStage": ("true", "true", "false"),
        "spark.sql.autoBroadcastJoinThreshold": ("-1", "-1", "1m"),
        "spark.colocation.minPartitionNum": ("1", "24"),
        "spark.colocation.minPartitionBytes": ("1", "64m"),
        "spark.sql.parquet.filterPushdown": ("true", "true", "true", "false"),
    }
    skipping = 0
    for _ in range(5):
        for name, values in settings.items():
            session.conf.set(name, random_of.choice(values))
        rows = random_rows(random_of, 3)
        plan, _ = compared(session, f"SELECT 99, count(*), sum(k), sum(n), sum(hash(k, n)) FROM ({rows})")
        skipping += plan.count(SKIPS)
    assert skipping or seed, "the plans of the first seed skip"


def random_rows(random_of: random.Random, depth: int) -> str:
    """A query of columns k and n."""
    kind = random_of.choice(["table", "join", "join", "join", "group", "window", "all", "filter"]) if depth else "table"
    if kind == "table":
        name = random_of.choice(["orders", "lines", "parts", "holes", "daily"])
        late = random_of.randrange(ROWS // 3)
        filters = ["true", f"k >= {late}", f"n % 7 = {late % 7}", f"k BETWEEN {late} AND {late + 900}", "k IS NOT NULL"]
        if name in ("orders", "daily"):
            filters += 3 * [f"day >= {late // 1500}", f"day = {late // 1500}"]
        return f"SELECT k, n FROM {name} WHERE {random_of.choice(filters)}"
    rows = random_rows(random_of, depth - 1)
    if kind == "group":
        return f"SELECT k, max(n) AS n FROM ({rows}) GROUP BY k"
    if kind == "window":
        parts = random_of.choice(["k", "k", "n % 5"])
        return f"SELECT k, count(n) OVER (PARTITION BY {parts}) AS n FROM ({rows})"
    if kind == "filter":
        return f"SELECT k, n FROM ({rows}) WHERE n % 3 <> {random_of.randrange(3)}"
    other = random_rows(random_of, depth - 1)
    if kind == "all":
        return f"{rows} UNION ALL {other}"
    how = random_of.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
    more = random_of.choice(["", "", " AND a.n >= b.n", " AND a.n % 2 = 0"])
    of_left = how in ("LEFT SEMI JOIN", "LEFT ANTI JOIN")
    columns = "a.k, a.n" if of_left else random_of.choice(["a.k, b.n", "b.k, a.n", "coalesce(a.k, b.k) AS k, a.n"])
    # A row for each key on one side, or joins of joins would grow by nine each time.
    keyed = f"SELECT k, max(n) AS n FROM ({other}) GROUP BY k"
    return f"SELECT {columns} FROM ({rows}) a {how} ({random_of.choice([keyed, other])}) b ON a.k = b.k{more}"
