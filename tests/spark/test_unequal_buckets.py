"""Tables that have a multiple of their group's buckets: alone, joined with others, changed and rebucketed."""

import functools
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.errors import PySparkException, SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession

from colocation.spark import explain_json
from tests.integration.accounts import kubeconfig_of_account, user_roles
from tests.integration.control_plane import ControlPlane
from tests.spark.cluster_tables import CATALOG, CATALOG_KEY, ClusterTables
from tests.spark.conftest import MAP
from tests.spark.executions import run_after
from tests.spark.loopback import LoopbackAgents, on_nth_upload
from tests.spark.sorted_tables import ADAPTIVE, MERGED, plan_of, restored
from tests.spark.sql_clients import client_conf

pytestmark = pytest.mark.spark

NAMESPACE = "unequal"
TASKS = "spark.colocation.minPartitionNum"
BYTES = "spark.colocation.minPartitionBytes"
IN = f"{CATALOG}.{NAMESPACE}"
NUMBERS = {"six": 6, "twelve": 12, "more": 12, "many": 24}
COLUMNS = "k BIGINT, n BIGINT, word STRING, day INT"
ROWS = """
SELECT /*+ COALESCE(1) */ if(id % 11 = 0, NULL, id * {factor} % 67) AS k, id AS n, concat('w', id % 5) AS word,
       CAST(id % 3 AS INT) AS day
FROM range({first}, {last}) AS t(id)
"""


def make(
    session: SparkSession, name: str, buckets: int, partitions: str = "", group: str = "sales", order: str = ""
) -> str:
    """An empty table; its name. Group sales has six buckets."""
    session.sql(f"CREATE TABLE {IN}.{name} ({COLUMNS}) {partitions} CLUSTERED BY (k) {order} INTO {buckets} BUCKETS "
                f"TBLPROPERTIES ('colocate_with'='{group}')")  # fmt: skip
    return f"{IN}.{name}"


@pytest.fixture
def facts(session: SparkSession) -> Iterator[SparkSession]:
    """Tables of 6, 12 and 24 buckets with several files in each, and views that compute the same rows."""
    for factor, (name, buckets) in enumerate(NUMBERS.items(), 1):
        if not session.catalog.tableExists(f"{IN}.{name}"):
            made = make(session, name, buckets, "PARTITIONED BY (day)" if name == "more" else "")
            for first in (0, 150):
                session.sql(f"INSERT INTO {made} {ROWS.format(factor=factor, first=first, last=first + 150)}")
        session.sql(ROWS.format(factor=factor, first=0, last=300)).createOrReplaceTempView(f"plain_{name}")
    yield from restored(session)


@functools.cache
def database() -> duckdb.DuckDBPyConnection:
    """The rows of ``facts`` in DuckDB."""
    made = duckdb.connect(config={"default_null_order": "nulls_first"})
    for factor, name in enumerate(NUMBERS, 1):
        made.execute(f"CREATE TABLE plain_{name} AS {ROWS.format(factor=factor, first=0, last=300)}")
    return made


def duckdb_answer(query: str) -> list[tuple[Any, ...]]:
    """All rows of a query of ``facts``, sorted."""
    text = re.sub("LEFT (SEMI|ANTI) JOIN", r"\1 JOIN", query.format(**{name: f"plain_{name}" for name in NUMBERS}))
    return sorted(database().execute(text).fetchall(), key=str)


def answer(rows: DataFrame) -> list[tuple[Any, ...]]:
    """All rows, sorted."""
    return sorted((tuple(row) for row in rows.collect()), key=str)


def tasks(rows: DataFrame) -> int:
    """Of the last stage."""
    return int(rows.rdd.getNumPartitions())


def read_in_ranges(session: SparkSession) -> None:
    """Small buckets, too, so that a join of tables of six buckets and more has about 24 tasks."""
    session.conf.set(TASKS, "24")
    session.conf.set(BYTES, "1")


def check(session: SparkSession, query: str) -> DataFrame:
    """Compare a query's rows with DuckDB's; ``{six}`` stands for a table."""
    found = session.sql(query.format(**{name: f"{IN}.{name}" for name in NUMBERS}))
    rows = answer(found)
    assert rows == duckdb_answer(query) and rows
    return found


def test_one_table(facts: SparkSession) -> None:
    """Each file has the rows of one of the table's buckets, and its name has the group's bucket, too."""
    for name, buckets in NUMBERS.items():
        named = "_metadata.file_path, '-[0-9]+(-g[0-9]+)?_([0-9]+)[.]'"
        places = facts.sql(
            f"SELECT DISTINCT pmod(hash(k), {buckets}), pmod(hash(k), 6), regexp_extract({named}, 1), "
            f"regexp_extract({named}, 2) FROM {IN}.{name}"
        ).collect()
        assert len(places) > buckets / 2
        for bucket, place, mark, number in places:
            assert (int(number), mark) == (bucket, "" if buckets == 6 else f"-g{place:05d}"), name
    assert "INTO 24 BUCKETS" in facts.sql(f"SHOW CREATE TABLE {IN}.many").collect()[0][0]
    facts.conf.set(ADAPTIVE, "false")
    found = check(facts, "SELECT k, count(*), sum(n) FROM {many} GROUP BY k")
    plan = plan_of(found)
    assert "Exchange" not in plan and tasks(found) == 24


JOINS = {
    "equal": ("SELECT * FROM {twelve} a JOIN {more} b ON a.k = b.k", 12),
    "half": ("SELECT * FROM {twelve} a JOIN {six} b ON a.k = b.k", 6),
    "half of more": ("SELECT * FROM {many} a JOIN {twelve} b ON a.k = b.k", 12),
    "left": ("SELECT * FROM {six} a LEFT JOIN {many} b ON a.k = b.k", 6),
    "right": ("SELECT * FROM {six} a RIGHT JOIN {more} b ON a.k = b.k AND a.n > 20", 6),
    "full": ("SELECT * FROM {many} a FULL JOIN {six} b ON a.k = b.k", 6),
    "anti": ("SELECT * FROM {many} a WHERE NOT EXISTS (SELECT 1 FROM {six} b WHERE a.k = b.k AND b.n > 100)", 6),
    "in": ("SELECT * FROM {many} a WHERE k IN (SELECT k FROM {more} WHERE n > 100)", 12),
    "three": ("SELECT * FROM {many} a JOIN {twelve} b ON a.k = b.k JOIN {six} c ON b.k = c.k", 6),
    "group": ("SELECT a.k, count(*), max(b.n) FROM {many} a JOIN {six} b ON a.k = b.k GROUP BY a.k", 6),
    "window": (
        "SELECT a.k, a.n, b.n, row_number() OVER (PARTITION BY a.k ORDER BY a.n, b.n) FROM {many} a "
        "JOIN {twelve} b ON a.k = b.k", 12,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "adaptive"), [
    *((name, "true") for name in JOINS),
    *(pytest.param(name, "false", marks=() if name in ("full", "three") else pytest.mark.deep) for name in JOINS),
])  # fmt: skip
def test_joins_need_no_shuffle(facts: SparkSession, name: str, adaptive: str) -> None:
    """By the smaller number, also in ranges. Files of a task are merged; only a window sorts, by its other columns."""
    facts.conf.set(ADAPTIVE, adaptive)
    query, number = JOINS[name]
    for in_ranges in (False, True):
        if in_ranges:
            read_in_ranges(facts)
        found = check(facts, query)
        plan = plan_of(found)
        assert "Exchange" not in plan and MERGED in plan
        assert plan.count("Sort [") == (1 if name == "window" else 0), plan
        assert tasks(found) % number == 0 and (tasks(found) > number) == in_ranges, tasks(found)


@pytest.mark.parametrize("adaptive", ["true", pytest.param("false", marks=pytest.mark.deep)])
def test_eight_sixteen_and_thirty_two_in_one_query(facts: SparkSession, tables: ClusterTables, adaptive: str) -> None:
    """A task reads one, two and four buckets, or the same range of each."""
    facts.conf.set(ADAPTIVE, adaptive)
    if not facts.catalog.tableExists(f"{IN}.of8"):
        tables.add_group("eight", ["bigint"], (*MAP, *MAP)[:8])
        for number in (8, 16, 32):
            name = make(facts, f"of{number}", number, group="eight")
            for part in ("n < 150", "n >= 150"):
                facts.sql(f"INSERT INTO {name} SELECT k, n, word, day FROM plain_six WHERE {part}")
    query = "SELECT a.k, b.n AS n, c.n AS m FROM {{}}{} a JOIN {{}}{} b ON a.k = b.k JOIN {{}}{} c ON a.k = c.k"
    all_numbers = ((8, 16, 32), (32, 8, 16), (32, 16, 32), (8, 16, 16))
    for numbers, in_ranges in itertools.product(all_numbers, (False, True)):
        facts.conf.set(TASKS, "32" if in_ranges else "1")
        facts.conf.set(BYTES, "1")
        text = query.format(*numbers)
        found = facts.sql(text.replace("{}", f"{IN}.of"))
        assert answer(found) == duckdb_answer(re.sub(r"\{\}[0-9]+", "plain_six", text))
        plan, least = plan_of(found), min(numbers)
        assert "Exchange" not in plan and "Sort [" not in plan
        assert tasks(found) % least == 0 and (tasks(found) > least) == in_ranges, numbers


def test_tasks(facts: SparkSession) -> None:
    """One for each bucket of the smaller number where buckets are small, or files are in another order."""
    by_another = make(facts, "another", 24, "PARTITIONED BY (day)", "sales", "SORTED BY (n)")
    facts.sql(f"INSERT INTO {by_another} SELECT k, n, word, day FROM plain_six")
    query = f"SELECT a.k, b.n FROM {{}} a JOIN {IN}.six b ON a.k = b.k"
    assert tasks(facts.sql(query.format(f"{IN}.many"))) == 6
    read_in_ranges(facts)
    assert tasks(facts.sql(query.format(by_another))) == 6
    assert tasks(facts.sql(query.format(f"{IN}.many"))) >= 18


def test_cached_joins(facts: SparkSession) -> None:
    """Cached rows stay in the buckets by which they were read, so that their joins need no shuffle."""
    cached = facts.sql(f"SELECT a.k, a.n, b.n AS m FROM {IN}.many a JOIN {IN}.six b ON a.k = b.k").cache()
    try:
        assert cached.rdd.getNumPartitions() == 6 and cached.count() > 0
        joined = cached.join(facts.table(f"{IN}.six"), "k")
        assert answer(joined) and "hashpartitioning" not in plan_of(joined)
    finally:
        cached.unpersist(blocking=True)


def test_verdicts_name_the_number(facts: SparkSession) -> None:
    """A join of tables with different numbers is colocated; after it has run, its ranges are named, too."""
    query = JOINS["half"][0].format(twelve=f"{IN}.twelve", six=f"{IN}.six")
    note = f"the 12 buckets of {IN}.twelve are read as 6"
    rows = facts.sql(query)
    assert [(join["colocate"], join["note"]) for join in explain_json(rows)["joins"]] == [(True, note)]
    read_in_ranges(facts)
    rows = facts.sql(query)
    rows.collect()
    in_ranges = f"6 buckets in {tasks(rows)} ranges; {note}"
    assert [join["note"] for join in explain_json(rows)["joins"]] == [in_ranges]
    facts.conf.set(ADAPTIVE, "false")
    [called] = facts.sql(f"CALL {CATALOG}.system.explain('{query}')").collect()
    assert called["colocate"] and called["reason"] == in_ranges


def test_small_tables_are_broadcast(facts: SparkSession) -> None:
    """A table that is broadcast does not make the others coarser."""
    facts.conf.set(ADAPTIVE, "false")
    facts.conf.set("spark.sql.autoBroadcastJoinThreshold", "10m")
    found = check(facts, "SELECT a.k, count(b.n) FROM {many} a LEFT JOIN {six} b ON a.k = b.k GROUP BY a.k")
    assert "BroadcastHashJoin" in plan_of(found) and tasks(found) == 24


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.deep if seed > 5 else ()) for seed in range(12)])
def test_random_queries(facts: SparkSession, seed: int) -> None:
    """Equal to DuckDB's, under settings that change plans."""
    random_of = random.Random(seed)
    settings = {
        ADAPTIVE: ("true", "false"),
        "spark.sql.autoBroadcastJoinThreshold": ("-1", "1k", "10m"),
        "spark.sql.bucketing.coalesceBucketsInJoin.enabled": ("true", "false"),
        "spark.sql.codegen.wholeStage": ("true", "false"),
        "spark.colocation.trustSortedFiles": ("true", "false"),
        "spark.sql.sources.bucketing.autoBucketedScan.enabled": ("true", "false"),
        "spark.sql.join.preferSortMergeJoin": ("true", "false"),
        TASKS: ("1", "4", "60"),
        BYTES: ("1", "64m"),
    }
    for _ in range(4):
        for key, values in settings.items():
            facts.conf.set(key, random_of.choice(values))
        chosen = [random_of.choice(list(NUMBERS)) for _ in range(random_of.randint(2, 4))]
        query = f"SELECT t0.k AS k, t0.n AS n, t0.day AS day FROM {{{chosen[0]}}} t0"
        for place, name in enumerate(chosen[1:], 1):
            how = random_of.choice(["JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
            more = random_of.choice(["", f" AND t{place}.n % 3 = 0", f" AND t{place}.day = t0.day"])
            side = f"{{{name}}}" if random_of.random() < 0.5 else (
                f"(SELECT k, max(n) AS n, max(day) AS day FROM {{{name}}} GROUP BY k)")  # fmt: skip
            query += f" {how} {side} t{place} ON t0.k = t{place}.k{more}"
        if "JOIN" not in query.replace("LEFT ANTI JOIN", ""):
            query += " WHERE t0.n > 20"
        query = random_of.choice([
            "SELECT k, count(*) AS c, sum(n) AS s FROM ({}) GROUP BY k",
            "SELECT k, n, sum(n) OVER (PARTITION BY k ORDER BY n, day) AS s FROM ({})",
            "SELECT * FROM ({}) UNION ALL SELECT k, n, day FROM {{many}} WHERE k < 9",
            "SELECT count(*) AS c, sum(n) AS s, count(DISTINCT k) AS d FROM ({})",
            "SELECT x.k, x.n, (SELECT max(n) FROM {{six}} s WHERE s.k = x.k) AS m FROM ({}) x",
        ]).format(query)  # fmt: skip
        found = facts.sql(query.format(**{name: f"{IN}.{name}" for name in NUMBERS}))
        assert answer(found) == duckdb_answer(query), query


@pytest.mark.parametrize(
    ("target", "source"),
    [
        ("twelve", "six"),
        ("six", "twelve"),
        pytest.param("twelve", "many", marks=pytest.mark.deep),
        pytest.param("many", "more", marks=pytest.mark.deep),
    ],
)
def test_rows_are_written_into_their_buckets(facts: SparkSession, target: str, source: str) -> None:
    """Rows that lie in other buckets are shuffled: inserted, merged, updated, deleted, compacted."""
    name = make(facts, f"{target}_from_{source}", NUMBERS[target])
    facts.sql(f"INSERT INTO {name} SELECT k, n, word, day FROM {IN}.{source}")
    facts.sql(f"INSERT INTO {name} SELECT k, n + 1000, word, day FROM {IN}.{target} WHERE n < 50")
    largest = f"SELECT k, max(n) AS n FROM {IN}.{source} WHERE k < 30 GROUP BY k"
    facts.sql(f"MERGE INTO {name} t USING ({largest}) s ON t.k = s.k WHEN MATCHED AND t.n % 2 = 0 THEN DELETE "
              "WHEN MATCHED THEN UPDATE SET word = concat('m', s.n)")  # fmt: skip
    facts.sql(f"UPDATE {name} SET k = k + 100 WHERE n % 7 = 0")
    facts.sql(f"DELETE FROM {name} WHERE k IN (SELECT k FROM {IN}.{source} WHERE n > 250)")
    facts.sql(f"CALL {CATALOG}.system.compact(table => '{NAMESPACE}.{target}_from_{source}')")
    first = f"SELECT k, n, word, day FROM plain_{source}"
    second = f"SELECT k, n + 1000, word, day FROM plain_{target} WHERE n < 50"
    expected = (
        f"WITH rows AS ({first} UNION ALL {second}), "
        f"s AS (SELECT k, max(n) AS n FROM plain_{source} WHERE k < 30 GROUP BY k), "
        "merged AS (SELECT r.k, r.n, if(s.k IS NULL, word, concat('m', s.n)) AS word, day FROM rows r "
        "LEFT JOIN s ON r.k = s.k WHERE s.k IS NULL OR r.n % 2 != 0), "
        "moved AS (SELECT if(n % 7 = 0, k + 100, k) AS k, n, word, day FROM merged) "
        f"SELECT * FROM moved WHERE NOT coalesce(k IN (SELECT k FROM plain_{source} WHERE n > 250), false)"
    )
    assert answer(facts.table(name)) == duckdb_answer(expected)
    wrong = facts.sql(f"SELECT 1 FROM {name} WHERE pmod(hash(k), {NUMBERS[target]}) != "
                      "CAST(regexp_extract(_metadata.file_path, '_([0-9]+)[.]', 1) AS INT)")  # fmt: skip
    assert wrong.isEmpty()
    joined = "SELECT count(*) FROM {} a JOIN {} b ON a.k = b.k"
    assert answer(facts.sql(joined.format(name, f"{IN}.six"))) == duckdb_answer(joined.format(f"({expected})", "{six}"))


def rebucket(session: SparkSession, name: str, buckets: int) -> dict[str, Any]:
    """What the procedure did."""
    call = f"CALL {CATALOG}.system.rebucket(table => '{NAMESPACE}.{name}', buckets => {buckets})"
    return dict(session.sql(call).collect()[0].asDict())


def test_rebucketing(facts: SparkSession, tables: ClusterTables) -> None:
    """One commit that changes no row. Older snapshots keep their number; a repetition does nothing."""
    name = make(facts, "grows", 6, "PARTITIONED BY (day)")
    facts.sql(f"INSERT INTO {name} SELECT k, n, word, day FROM plain_six")
    before = answer(facts.table(name))
    done = rebucket(facts, "grows", 24)
    assert (done["buckets_before"], done["buckets"], done["rows"], done["snapshot_id"]) == (6, 24, len(before), 2)
    table = tables.get("grows")
    assert (table["spec"]["buckets"], table["status"]["snapshot"]["buckets"]) == (24, 24)
    assert table["status"]["snapshot"]["operation"] == "rebucket" and "buckets" not in table["status"]["history"][0]
    tables.change_spec("ct", "grows", buckets=None)  # as if it had been interrupted after the commit
    assert rebucket(facts, "grows", 24)["files_before"] == 0 and tables.get("grows")["status"]["snapshot"]["id"] == 2
    assert tables.get("grows")["spec"]["buckets"] == 24
    assert answer(facts.table(name)) == answer(facts.sql(f"SELECT * FROM {name} VERSION AS OF 1")) == before
    both = facts.sql(f"SELECT a.k, a.n, b.n FROM {name} a JOIN {name} VERSION AS OF 1 b ON a.k = b.k")
    assert answer(both) == duckdb_answer("SELECT a.k, a.n, b.n FROM plain_six a JOIN plain_six b ON a.k = b.k")
    assert "Exchange" not in plan_of(both)
    reader = facts.read.option("readChangeFeed", "true").option("startingVersion", 2)
    assert reader.table(name).isEmpty()
    facts.sql(f"INSERT INTO {name} SELECT k, n + 5000, word, day FROM plain_six")
    facts.sql(f"DELETE FROM {name} WHERE n = 7")
    assert reader.table(name).count() == len(before) + 1
    tables.change("ct", "grows", buckets=6)  # of the group, as the operator writes it
    assert rebucket(facts, "grows", 6)["buckets_before"] == 24
    assert tables.get("grows")["spec"]["buckets"] == 6 and "buckets" not in tables.get("grows")["status"]["snapshot"]
    assert facts.table(name).count() == 2 * len(before) - 1


def test_no_rows_are_written_without_the_right_to_change_the_table(
    facts: SparkSession, tables: ClusterTables, tmp_path: Path
) -> None:
    """The commit needs fewer rights than the spec, which is set after it: that is asked first."""
    facts.sql(f"INSERT INTO {make(facts, 'foreign', 6)} SELECT k, n, word, day FROM plain_six LIMIT 3")
    user = facts.newSession()
    tables.configure(user)
    user.conf.set(f"{CATALOG_KEY}.kubeconfig", str(kubeconfig_of_account(tables.plane, NAMESPACE, tmp_path)))
    tables.plane.kubectl("apply", "-f", "-", stdin=user_roles())
    binding = ("create", "rolebinding", "loads", "--clusterrole=colocation-user", f"--serviceaccount={NAMESPACE}:spark")
    assert tables.plane.kubectl(*binding, "-n", NAMESPACE).returncode == 0
    with pytest.raises(Exception, match="foreign: this account may not see or change it"):
        rebucket(user, "foreign", 12)
    assert tables.get("foreign")["status"]["snapshot"]["id"] == 1


def test_what_is_no_multiple(facts: SparkSession) -> None:
    """The error names the numbers."""
    with pytest.raises(Exception, match=r"buckets is 9; table .* is in a group of 6 buckets; allowed: 6 or a multiple"):
        rebucket(facts, "six", 9)
    with pytest.raises(Exception, match="buckets is 3"):
        rebucket(facts, "six", 3)


def test_an_empty_table(facts: SparkSession, tables: ClusterTables) -> None:
    """Rows that come later have the new number."""
    name = make(facts, "empty", 6)
    assert rebucket(facts, "empty", 12)["rows"] == 0
    facts.sql(f"INSERT INTO {name} SELECT k, n, word, day FROM plain_six")
    assert tables.get("empty")["status"]["snapshot"]["buckets"] == tables.get("empty")["spec"]["buckets"] == 12
    assert answer(facts.table(name)) == answer(facts.table("plain_six"))


def test_rows_that_were_analyzed_before(facts: SparkSession, tables: ClusterTables) -> None:
    """A DataFrame that was made before writes by the new number; a plan that was made by the old one is refused."""
    name = make(facts, "race", 6)
    facts.sql(f"INSERT INTO {name} SELECT k, n, word, day FROM plain_six")
    other = tables.configure(facts.newSession())
    writer = facts.table("plain_six").select("k", "n", "word", "day").writeTo(name)
    rebucket(other, "race", 12)
    writer.append()
    assert re.search("INTO 12 BUCKETS", facts.sql(f"SHOW CREATE TABLE {name}").collect()[0][0])
    insert = f"INSERT INTO {name} SELECT k, n, word, day FROM plain_six"
    with pytest.raises(SparkRuntimeException, match=r"had 12 buckets .*, now it has 24.* colocation doctor"):
        run_after(facts, insert, lambda: rebucket(other, "race", 24))
    assert facts.table(name).count() == 2 * facts.table("plain_six").count()


def test_writers_during_a_rebucketing_lose_no_row(facts: SparkSession, tables: ClusterTables) -> None:
    """Appends and changes of the number at once: each stands, or fails with LoadConflict and leaves nothing."""
    name = make(facts, "written", 6)
    facts.sql(f"INSERT INTO {name} SELECT k, n, word, day FROM plain_six")
    appended, ended = threading.Event(), threading.Event()

    def stands(session: SparkSession, statement: str) -> bool:
        try:
            session.sql(statement)
        except PySparkException as error:
            assert "LoadConflict" in str(error)
            return False
        return True

    def write(first: int) -> list[int]:
        session = tables.configure(facts.newSession())
        stood: list[int] = []
        for batch in itertools.count(first, 2):
            if ended.wait(0.3):
                return stood
            if stands(session, f"INSERT INTO {name} SELECT id, {batch}, 'batch', 0 FROM range(40)"):
                stood.append(batch)
                appended.set()
        raise AssertionError("unreachable")

    tables.change("ct", "written", buckets=6)  # of the group, as the operator writes it
    with ThreadPoolExecutor(2) as threads:
        writing = [threads.submit(write, first) for first in (1000, 1001)]
        call = f"CALL {CATALOG}.system.rebucket(table => '{NAMESPACE}.written', buckets => {{}})"
        numbers = []
        try:
            for number in (12, 24, 6, 12):
                numbers += [number] if stands(facts, call.format(number)) else []
                appended.clear()
                assert appended.wait(60), "appends are refused"
        finally:
            ended.set()
        stood = [batch for one in writing for batch in one.result()]
    numbers += [rebucket(facts, "written", 24)["buckets"]]
    assert stood and tables.get("written")["spec"]["buckets"] == numbers[-1]
    batches = facts.createDataFrame([(batch,) for batch in stood], "n BIGINT")
    expected = facts.table("plain_six").select("k", "n", "word", "day").union(
        batches.crossJoin(facts.range(40)).selectExpr("id AS k", "n", "'batch' AS word", "0 AS day"))
    assert answer(facts.table(name)) == answer(expected)
    joined = facts.sql(f"SELECT a.k, count(*) FROM {name} a JOIN {IN}.six b ON a.k = b.k GROUP BY a.k")
    assert answer(joined) == answer(
        expected.join(facts.table("plain_six").select("k"), "k").groupBy("k").count())


@pytest.mark.deep
def test_a_rebucketing_that_is_killed(
    facts: SparkSession, tables: ClusterTables, agents: LoopbackAgents, plane: ControlPlane, tmp_path: Path
) -> None:
    """SIGKILL of its driver in the middle of the uploads: the table is as it was, and the next one does it."""
    name = make(facts, "killed", 6)
    facts.sql(f"INSERT INTO {name} SELECT k, n, word, day FROM plain_six")
    before = tables.get("killed")
    conf = {key.replace(CATALOG, "colocation"): value for key, value in client_conf(agents, plane).items()}
    conf |= {"spark.master": "local[2]", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    options = " ".join(f"--conf {key}={value}" for key, value in conf.items())
    command = [sys.executable, "-m", "colocation.spark.jobs.rebucket", "killed", "--buckets", "24", "-n", NAMESPACE]
    with (tmp_path / "rebucket.log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell", "SPARK_LOCAL_DIRS": str(tmp_path)},
        )  # fmt: skip
    happened = on_nth_upload(agents, 5, lambda: os.killpg(process.pid, signal.SIGKILL))
    try:
        process.wait(timeout=240)
    finally:
        agents.on_access = lambda access: None
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert happened.is_set(), (tmp_path / "rebucket.log").read_text()
    after = tables.get("killed")
    assert (after["spec"], after["status"]["snapshot"]) == (before["spec"], before["status"]["snapshot"])
    assert answer(facts.table(name)) == answer(facts.table("plain_six").select("k", "n", "word", "day"))
    done = rebucket(facts, "killed", 24)
    assert (done["buckets_before"], done["buckets"], done["rows"]) == (6, 24, 300)
    assert answer(facts.table(name)) == answer(facts.table("plain_six").select("k", "n", "word", "day"))
