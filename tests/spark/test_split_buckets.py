"""A few large buckets are read by more tasks: each bucket of all tables of a stage is cut at the same keys."""

import re

import pytest
from pyspark.sql import SparkSession

from colocation.model.group import ColocationGroupSpec, ColocationGroupStatus
from colocation.spark import explain_json
from tests.spark.catalog_server import load
from tests.spark.conftest import BUCKETS, MAP, add_table
from tests.spark.loopback import LoopbackAgents
from tests.spark.sorted_tables import answer, load_events, opened, plan_of
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark

TASKS = "spark.colocation.minPartitionNum"
BYTES = "spark.colocation.minPartitionBytes"
AUTOMATIC = "spark.sql.sources.bucketing.autoBucketedScan.enabled"

KEYS = {
    "smallint": "CAST(id % 97 - 48 AS SMALLINT)",
    "int": "CAST(id % 97 - 48 AS INT)",
    "date": "date_add(DATE'1969-12-01', CAST(id % 97 AS INT))",
    "timestamp": "timestamp_micros(id % 97 * 3600000000)",
    "timestamp_ntz": "CAST(timestamp_micros(id % 97 * 3600000000) AS TIMESTAMP_NTZ)",
    "decimal(12,2)": "CAST(id % 97 - 48 AS DECIMAL(12, 2)) / 4",
    "string": "concat(repeat(substr('abéz', CAST(id % 4 AS INT) + 1, 1), 40), id % 97)",
}

HOT = {"day": ("2020-02-29", "DATE'2020-02-29'"), "null": ("NULL", "CAST(NULL AS DATE)")}


@pytest.fixture(scope="module")
def tables(application: SparkSession, agents: LoopbackAgents) -> FakeCatalog:
    """Every bucket of the events has rows of every range; ``ordered`` is sorted by another column than its key."""
    catalog = load_events(application, agents)
    by_another = application.sql("SELECT id % 97 AS k, id AS n FROM range(500)")
    add_table(catalog, "ordered", by_another, ["k"], sorted_by=("n",))
    return catalog


@pytest.fixture(scope="module")
def of_key_types(application: SparkSession, tables: FakeCatalog) -> None:
    """A table for each type of keys, and tables with a key that many rows have."""
    for place, (key, of_rows) in enumerate(KEYS.items()):
        tables.add_group(
            ColocationGroupSpec(bucket_key=(key,), buckets=BUCKETS, replicas=2),
            ColocationGroupStatus(stable=True, reason="AllReplicasComplete", backends_per_bucket_seq=MAP),
            name=f"by{place}",
        )
        for first in (0, 300):
            rows = application.sql(f"SELECT CAST(if(id % 13 = 0, NULL, {of_rows}) AS {key}) AS k, id AS n "
                                   f"FROM range({first}, {first + 300})")  # fmt: skip
            if first == 0:
                add_table(tables, f"keyed{place}", rows, ["k"], group=f"by{place}")
            else:
                load(rows, f"keyed{place}", catalog=tables)
    for key, (_, hot) in HOT.items():
        rows = application.sql(f"SELECT if(id < 2000, {hot}, date_add(DATE'2020-01-01', CAST(id % 97 AS INT))) AS k, "
                               "id AS n FROM range(4000)")  # fmt: skip
        add_table(tables, f"hot{key}", rows.where("n < 2000"), ["k"], group="by2")
        load(rows.where("n >= 2000"), f"hot{key}", catalog=tables)


@pytest.fixture(
    scope="module",
    params=[pytest.param("true", id="adaptive"), pytest.param("false", id="static", marks=pytest.mark.deep)],
)
def session(application: SparkSession, tables: FakeCatalog, request: pytest.FixtureRequest) -> SparkSession:
    """One for all tests: what a test sets it takes back."""
    spark = opened(application.newSession(), tables, request.param)
    spark.conf.set(BYTES, "1")
    spark.udf.register("plus_one", lambda value: value + 1, "long")
    return spark


def compared(session: SparkSession, statement: str) -> tuple[str, str]:
    """The plans of a statement by buckets and by ranges of them, which have the same answer."""
    session.conf.set(TASKS, "1")
    whole = session.sql(statement)
    expected = answer(whole)
    session.conf.set(TASKS, "24")
    split = session.sql(statement)
    assert answer(split) == expected and expected
    return plan_of(whole), plan_of(split)


def ranges(plan: str) -> list[int]:
    return [int(found) for found in re.findall(rf", {BUCKETS} buckets in (\d+) ranges", plan)]


@pytest.mark.parametrize("statement", [
    pytest.param("SELECT l.k, l.n, r.word FROM single l JOIN single r ON l.k = r.k WHERE l.n < 300", id="join"),
    pytest.param("SELECT l.k, l.n, r.word FROM appended l JOIN daily r ON l.k = r.k WHERE l.n < 300",
                 id="merged files"),
    pytest.param("SELECT l.k, l.n, r.n AS m FROM both l JOIN daily r ON l.k = r.k AND l.day = r.day",
                 id="partitions"),
    pytest.param("SELECT l.k, l.n, r.n AS m FROM single l LEFT JOIN single r ON l.k = r.k AND r.n < 90",
                 id="left"),
    pytest.param("SELECT r.k, l.n, r.n AS m FROM appended l RIGHT JOIN single r ON l.k = r.k AND l.n < 90",
                 id="right"),
    pytest.param("SELECT l.k, r.k AS j, l.n, r.n AS m FROM single l FULL JOIN appended r ON l.k = r.k AND l.n < 90",
                 id="full"),
    pytest.param("SELECT k, n FROM single l WHERE EXISTS (SELECT 1 FROM daily r WHERE l.k = r.k AND r.n < 90)",
                 id="semi"),
    pytest.param("SELECT k, n FROM single l WHERE NOT EXISTS (SELECT 1 FROM daily r WHERE l.k = r.k AND r.n < 90)",
                 id="anti"),
    pytest.param("SELECT /*+ SHUFFLE_HASH(r) */ l.k, l.n, r.n AS m FROM single l JOIN daily r ON l.k = r.k", id="hash"),
    pytest.param("SELECT l.k, l.n, r.n AS m, w.word FROM single l JOIN single r ON l.k = r.k "
                 "JOIN (SELECT /*+ BROADCAST(b) */ DISTINCT n % 7 AS d, word FROM daily b WHERE n < 50) w "
                 "ON l.n % 7 = w.d WHERE l.n < 60", id="broadcast"),
    pytest.param("SELECT k, count(*) AS c, sum(n) AS s, max(word) AS w FROM appended GROUP BY k", id="group-by"),
    pytest.param("SELECT k, day, count(DISTINCT n) AS c FROM daily GROUP BY k, day", id="distinct"),
    pytest.param("SELECT k, count(DISTINCT n) AS c, count(DISTINCT word) AS w FROM daily GROUP BY k",
                 id="several distinct"),
    pytest.param("SELECT l.k, plus_one(l.n) AS m, r.n FROM single l JOIN single r ON l.k = r.k WHERE l.n < 90",
                 id="function of Python"),
    pytest.param("SELECT k, day, count(*) AS c FROM single GROUP BY ROLLUP(k, day)", id="rollup"),
    pytest.param("SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n) AS r FROM daily", id="window"),
    pytest.param("SELECT k, n FROM (SELECT k, n, rank() OVER (PARTITION BY k ORDER BY n DESC) AS r FROM single) "
                 "WHERE r < 3", id="first rows"),
    pytest.param("SELECT k, n, part FROM single LATERAL VIEW explode(split(word, '')) p AS part WHERE k IN "
                 "(SELECT k FROM daily GROUP BY k HAVING sum(n) > 1500)", id="generated rows"),
    pytest.param("SELECT s.k, s.c, l.n FROM (SELECT k, count(*) AS c FROM daily GROUP BY k) s "
                 "JOIN single l ON s.k = l.k",
                 id="group-by, join"),
    pytest.param("SELECT k, n FROM (SELECT k, n FROM single GROUP BY k, n) UNION ALL "
                 "SELECT k, n FROM (SELECT k, n FROM daily GROUP BY k, n)", id="union"),
    pytest.param("SELECT l.n % 10 AS d, sum(r.n) AS s FROM single l JOIN appended r ON l.k = r.k GROUP BY l.n % 10",
                 id="shuffled after the join"),
    pytest.param("SELECT l.k, l.n, r.n AS m FROM single l JOIN single r ON l.k = r.k ORDER BY l.n, m LIMIT 20",
                 id="top"),
])  # fmt: skip
def test_rows_that_meet_are_in_the_same_range(session: SparkSession, statement: str) -> None:
    """Every operator that needs rows of a key together finds them, NULL keys included."""
    whole, split = compared(session, statement)
    scans = split.count("SortedBucketScan")
    assert ranges(whole) == [] and ranges(split) == [ranges(split)[0]] * scans
    assert ranges(split)[0] >= 3 * BUCKETS
    assert split.count("Exchange") == whole.count("Exchange")


@pytest.mark.usefixtures("of_key_types")
@pytest.mark.parametrize("place", range(len(KEYS)), ids=list(KEYS))
def test_keys(session: SparkSession, place: int) -> None:
    """Of each type that manifests have bounds of; of texts, files tell where to cut."""
    table = f"keyed{place}"
    _, split = compared(session, f"SELECT l.k, l.n, r.n AS m FROM {table} l JOIN {table} r ON l.k = r.k AND r.n < 100")
    assert len(ranges(split)) == 2
    _, split = compared(session, f"SELECT k, count(*) AS c FROM {table} GROUP BY k")
    assert len(ranges(split)) == 1


@pytest.mark.parametrize("statement", [
    pytest.param("SELECT l.k, l.n, spark_partition_id() AS p FROM single l JOIN single r ON l.k = r.k",
                 id="the task's number"),
    pytest.param("SELECT k, count(*) AS c FROM (SELECT k, n FROM single UNION ALL SELECT id, id FROM range(90)) "
                 "GROUP BY k", id="union with rows from elsewhere"),
    pytest.param("SELECT /*+ MERGE(r) */ l.k, l.n, r.id FROM single l JOIN range(90) r ON l.k = r.id",
                 id="rows from elsewhere"),
    pytest.param("SELECT k, max(n) AS n FROM ordered GROUP BY k", id="sorted by another column"),
])  # fmt: skip
def test_what_is_not_cut(session: SparkSession, statement: str) -> None:
    """Rows of other files or of other operators lie as they lie."""
    _, split = compared(session, statement)
    assert ranges(split) == []


def test_tasks(session: SparkSession) -> None:
    """As many as are asked for, unless ranges would be too small; buckets keep one task each where Spark is set so."""
    statement = "SELECT l.k, r.n FROM single l JOIN single r ON l.k = r.k"
    counts = []
    for name, value in ((TASKS, "24"), (TASKS, str(BUCKETS)), (TASKS, "24"), (AUTOMATIC, "false"), (AUTOMATIC, "true"),
                        (BYTES, "1g"), (BYTES, "1")):  # fmt: skip
        session.conf.set(name, value)
        counts.append(session.sql(statement).rdd.getNumPartitions())
    assert counts[0] >= 18 and counts[0] % BUCKETS == 0
    assert counts == [counts[0], BUCKETS, counts[0], BUCKETS, counts[0], BUCKETS, counts[0]]


@pytest.mark.usefixtures("of_key_types")
@pytest.mark.parametrize("key", HOT)
def test_a_key_that_alone_is_hot(session: SparkSession, key: str) -> None:
    """Its rows stay in one task; plan and verdict name it, where it fills files."""
    session.conf.set(TASKS, "24")
    found = session.sql(f"SELECT k, count(*) AS c FROM hot{key} GROUP BY k")
    found.collect()
    [report] = explain_json(found)["aggregates"]
    hot = rf"{BUCKETS} buckets in \d+ ranges, of which {HOT[key][0]} alone has \d+ % of the bytes"
    assert re.fullmatch(hot, report["note"]) and re.search(hot, plan_of(found)), report


def test_cached_rows_stay_in_their_buckets(session: SparkSession) -> None:
    """A join of cached rows of a group needs no shuffle."""
    session.conf.set(TASKS, "24")
    cached = session.sql("SELECT l.k, l.n, r.n AS m FROM single l JOIN daily r ON l.k = r.k WHERE l.n < 300").cache()
    try:
        joined = cached.join(session.table("single"), "k")
        rows = joined.count()
        plan = joined._jdf.queryExecution().executedPlan().toString()
        assert rows > 0 and "hashpartitioning" not in plan
    finally:
        cached.unpersist(blocking=True)
