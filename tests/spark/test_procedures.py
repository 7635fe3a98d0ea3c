"""Procedures of the catalog, compaction after writes, overwrites of what cannot be read."""

import json
import re
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.cluster_tables import CATALOG, ClusterTables, make_table
from tests.spark.executions import executions
from tests.spark.loopback import LoopbackAgents

pytestmark = pytest.mark.spark

NAMESPACE = "procedures"
IN = f"{CATALOG}.{NAMESPACE}"
DAY = "(id % 2) * INTERVAL '1' DAY"
ODD_ROWS = (
    "id AS k", "CAST(IF(id % 5 = 0, NULL, IF(id % 5 = 1, 'NaN', '-0.0')) AS DOUBLE) AS f", "ARRAY(id, NULL) AS a",
    "TIMESTAMP '1583-01-01 00:00:00.000001' AS t", "ELT(CAST(id % 4 AS INT) + 1, 'a=b/c', '01', 'ü %', NULL) AS p",
)  # fmt: skip


@pytest.fixture
def session(application: SparkSession, tables: ClusterTables) -> SparkSession:
    return tables.configure(application.newSession())


def call(session: SparkSession, procedure: str, *arguments: str) -> dict[str, Any]:
    row = session.sql(f"CALL {CATALOG}.system.{procedure}({', '.join(arguments)})").first()
    assert row is not None
    return row.asDict()


def sorted_rows(rows: DataFrame) -> list[str]:
    return sorted(map(repr, rows.collect()))


def status(tables: ClusterTables, name: str) -> dict[str, Any]:
    found: dict[str, Any] = tables.get(name)["status"]
    return found


def test_compaction_keeps_the_rows(session: SparkSession, tables: ClusterTables) -> None:
    """Loads become one sorted file per bucket and partition, one partition first; again finds nothing to do."""
    table = make_table(
        session, f"{IN}.many", "k BIGINT, f DOUBLE, a ARRAY<BIGINT>, t TIMESTAMP, p STRING", "PARTITIONED BY (p)"
    )
    rows = session.range(120).selectExpr(*ODD_ROWS)
    for start in (0, 40, 80):
        rows.where(f"k >= {start} AND k < {start + 40}").writeTo(table).append()
    # The session's key is that of its statements, not of what a compaction writes.
    session.conf.set("spark.colocation.write.idempotencyKey", "of-the-session")
    named = f"table => '{NAMESPACE}.many'"
    one = call(session, "compact", named, "partitions => array(map('P', '01'))")
    assert (one["partitions"], one["rows"]) == (1, 30)
    done = call(session, "compact", f"table => '{IN}.many'")
    assert (done["partitions"], done["replicas_missing"], done["files_before"] > done["files_after"]) == (3, 0, True)
    assert sorted_rows(session.table(table)) == sorted_rows(rows)
    named_files = f"SELECT *, INPUT_FILE_NAME() AS file FROM {table}"
    read = session.sql(f"SELECT COLLECT_LIST(k) AS keys FROM ({named_files}) GROUP BY p, file")
    keys = [row["keys"] for row in read.collect()]
    assert len(keys) == session.sql(f"SELECT DISTINCT bucket, partition['p'] FROM {table}.files").count()
    assert all(values == sorted(values) for values in keys)
    again = call(session, "compact", named)
    assert (again["files_before"], again["snapshot_id"]) == (0, done["snapshot_id"])
    named_wrongly = r"partition: 'day' is no partition column; the table is partitioned by \(p\): give"
    with pytest.raises(Exception, match=named_wrongly):
        call(session, "compact", named, "partitions => array(map('day', '1'))")


def test_large_buckets_are_compacted_once(session: SparkSession, tables: ClusterTables) -> None:
    """A bucket of many times the target file size becomes files that follow each other: nothing is left to compact."""
    table = make_table(session, f"{IN}.large", "k BIGINT, p STRING", "PARTITIONED BY (p)")
    session.conf.set("spark.colocation.write.targetFileSize", "4k")
    for _ in range(2):
        session.range(0, 20_000, numPartitions=4).selectExpr("id AS k", "'x' AS p").writeTo(table).append()
    named = f"table => '{NAMESPACE}.large'"
    done = call(session, "compact", named)
    assert done["files_before"] > done["files_after"] > 6 and done["rows"] == 40_000
    assert call(session, "compact", named)["files_before"] == 0
    assert session.table(table).count() == 40_000


def write_plan(session: SparkSession) -> str:
    """The plan that the last write has executed."""
    plans = (one.physicalPlanDescription() for one in reversed(executions(session).values()))
    return next(plan for plan in plans if "AppendData" in plan).split("== Initial Plan ==")[0]


def keys_in_files(session: SparkSession, table: str, column: str) -> list[list[int]]:
    """A column's values as each file has them."""
    files = f"SELECT {column} AS value, INPUT_FILE_NAME() AS file FROM {table}"
    return [row[0] for row in session.sql(f"SELECT COLLECT_LIST(value) FROM ({files}) GROUP BY file").collect()]


@pytest.mark.parametrize(("adaptive", "cores", "parts"), [("true", 20, 4), ("false", 6, 1)])
def test_a_compaction_merges_sorted_files(
    session: SparkSession, tables: ClusterTables, adaptive: str, cores: int, parts: int
) -> None:
    """A bucket's files are read side by side and written as they come; parts of the partitions keep more cores busy."""
    session.conf.set("spark.sql.adaptive.enabled", adaptive)
    session.conf.set("spark.sql.leafNodeDefaultParallelism", cores)
    session.conf.set("spark.sql.ui.explainMode", "simple")
    table = f"{IN}.merged_{adaptive}"
    session.sql(f"CREATE TABLE {table} (k BIGINT, n BIGINT, p STRING, d DATE) PARTITIONED BY (p, d) "
                "CLUSTERED BY (k) SORTED BY (k, n) INTO 6 BUCKETS TBLPROPERTIES ('colocate_with'='sales')")  # fmt: skip
    rows = session.range(900).selectExpr(
        "(id * 37) % 300 AS k", "id AS n", "IF(id % 3 = 0, NULL, STRING(id % 3)) AS p",
        "DATE '2026-01-01' + CAST(id % 2 AS INT) AS d")  # fmt: skip
    for part in range(3):
        rows.where(f"n % 9 BETWEEN {part * 3} AND {part * 3 + 2}").writeTo(table).append()
    done = call(session, "compact", f"table => '{table}'")
    plan = write_plan(session)
    assert "Exchange" not in plan and "Sort [" not in plan and plan.count("files merged") == parts
    assert done["rows"] == 900 and sorted_rows(session.table(table)) == sorted_rows(rows)
    orders = keys_in_files(session, table, "k * 1000 + n")
    assert len(orders) == done["files_after"] and all(order == sorted(order) for order in orders)


def test_a_bucket_of_many_files_is_sorted_where_it_is(session: SparkSession, tables: ClusterTables) -> None:
    """More files than can be read side by side are sorted in their task, without a shuffle; other buckets merge."""
    session.conf.set("spark.sql.ui.explainMode", "simple")
    table = make_table(session, f"{IN}.crowded", "k BIGINT, p STRING", "PARTITIONED BY (p)")
    keys = session.range(0, 70_000, numPartitions=70).selectExpr("(id * 7919) % 70000 AS k", "'many' AS p")
    many = keys.where("pmod(hash(k), 6) = 1")
    many.writeTo(table).option("target-file-size", "1").append()
    few = session.range(1000).selectExpr("id AS k", "'few' AS p")
    for _ in range(2):
        few.writeTo(table).append()
    counted = f"SELECT max(files) FROM (SELECT count(*) AS files FROM {table}.files GROUP BY bucket, partition['p'])"
    assert session.sql(counted).first()[0] == 70
    done = call(session, "compact", f"table => '{table}'")
    plan = write_plan(session)
    assert "Exchange" not in plan and "files merged" in plan and len(re.findall(r"\bSort \[", plan)) == 1
    wanted = sorted_rows(many.union(few).union(few))
    assert (done["rows"], session.sql(counted).first()[0]) == (len(wanted), 1)
    assert sorted_rows(session.table(table)) == wanted
    assert all(keys == sorted(keys) for keys in keys_in_files(session, table, "k"))


@pytest.mark.parametrize(("kind", "values", "given"), [
    pytest.param("INT", "CAST(id % 2 AS INT)", "01", id="int"),
    pytest.param("DECIMAL(5,2)", "CAST(id % 2 AS DECIMAL(5,2))", "1.0", id="decimal"),
    pytest.param("DATE", "DATE '2024-01-01' + CAST(id % 2 AS INT)", "2024-1-2", id="date"),
    pytest.param("TIMESTAMP", f"TIMESTAMP '2024-01-01 00:00:00' + {DAY}", "2024-01-02 00:00:00", id="local time"),
    pytest.param("TIMESTAMP", f"TIMESTAMP '2024-01-01 00:00:00Z' + {DAY}", "2024-01-02 00:00:00Z", id="instant"),
    pytest.param("BOOLEAN", "id % 2 = 1", "TRUE", id="boolean"),
])  # fmt: skip
def test_partitions_are_values(
    kind: str, values: str, given: str, session: SparkSession, tables: ClusterTables
) -> None:
    """However a value is spelt, its partition goes; a time without a zone is of the session's."""
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    table = make_table(session, f"{IN}.typed", f"k BIGINT, p {kind}", "PARTITIONED BY (p)")
    session.sql(f"INSERT INTO {table} SELECT id AS k, {values} AS p FROM range(10)")
    named = f"table => '{NAMESPACE}.typed'"
    with pytest.raises(Exception, match=rf"partition: p='x1' is no {kind.lower().split('(')[0]}.*; allowed: "):
        call(session, "drop_partitions", named, "partitions => array(map('p', 'x1'))")
    done = call(session, "drop_partitions", named, f"partitions => array(map('p', '{given}'))")
    kept = [row["k"] for row in session.sql(f"SELECT k FROM {table} ORDER BY k").collect()]
    session.sql(f"DROP TABLE {table}")
    assert (done["rows"], kept) == (5, [0, 2, 4, 6, 8])


NO_VALUES = {
    "i": (r"what CAST\(… AS INT\) takes without loss", ("x", "1.5", "3000000000")),
    "m": (r"what CAST\(… AS DECIMAL\(5,2\)\) takes without loss", ("1.555", "12345", "__HIVE_DEFAULT_PARTITION__")),
    "b": (r"what CAST\(… AS BOOLEAN\) takes without loss", ("maybe",)),
    "d": (
        "a date of year, month and day, such as 2024-01-31",
        ("2024-13-01", "2024-01", "2024", "2024-01-01 10:00:00", "today"),
    ),
    "t": (
        "a date and time, such as 2024-01-31 23:00:00Z, without Z of the session's time zone",
        ("2024", "10:00:00", "yesterday", "2024-01-01 25:00:00"),
    ),
    "n": ("a date and time, such as 2024-01-31 23:00:00", ("2024-02", "x")),
}
"""By column: what is allowed, and what is refused."""


def test_what_is_no_value_of_a_partition_is_refused(session: SparkSession, tables: ClusterTables) -> None:
    """Also what Spark would cast with a loss, or to the first day of a year: it drops rows that no one named."""
    table = make_table(
        session, f"{IN}.refused", "k BIGINT, i INT, m DECIMAL(5,2), b BOOLEAN, d DATE, t TIMESTAMP, n TIMESTAMP_NTZ",
        "PARTITIONED BY (i, m, b, d, t, n)")  # fmt: skip
    session.sql(f"INSERT INTO {table} SELECT 1L, 1, 1.55, true, DATE '2024-01-01', TIMESTAMP '2024-01-01 00:00:00', "
                "TIMESTAMP_NTZ '2024-02-01 00:00:00'")  # fmt: skip
    for column, (allowed, texts) in NO_VALUES.items():
        for text in texts:
            error = rf"partition: {column}='{re.escape(text)}' is no .*; allowed: {allowed}, or NULL"
            with pytest.raises(Exception, match=error):
                call(session, "drop_partitions", f"'{NAMESPACE}.refused'", f"array(map('{column}', '{text}'))")
    assert session.table(table).count() == 1


def test_dropped_partitions(session: SparkSession, tables: ClusterTables) -> None:
    """Some columns of a partition are enough, NULL is one; what is not there is no error, and changes nothing."""
    table = make_table(session, f"{IN}.parts", "k BIGINT, p INT, q STRING", "PARTITIONED BY (p, q)")
    rows = session.range(40).selectExpr("id AS k", "CAST(IF(id % 4 = 0, NULL, id % 4) AS INT) AS p", "'x' AS q")
    named = f"table => '{NAMESPACE}.parts'"
    chosen = "array(map('p', CAST(NULL AS STRING)), map('p', '3', 'q', 'x'))"
    assert call(session, "drop_partitions", named, f"partitions => {chosen}")["snapshot_id"] == 0
    rows.writeTo(table).append()
    done = call(session, "drop_partitions", named, f"partitions => {chosen}")
    assert (done["partitions"], done["rows"], done["snapshot_id"]) == (2, 20, 2)
    assert sorted_rows(session.table(table)) == sorted_rows(rows.where("p IN (1, 2)"))
    again = call(session, "drop_partitions", named, f"partitions => {chosen}")
    assert (again["partitions"], again["snapshot_id"]) == (0, 2)
    with pytest.raises(Exception, match="no partition is given"):
        call(session, "drop_partitions", named, "partitions => array()")
    with pytest.raises(Exception, match=r"partition: it names no column; the table is partitioned by \(p, q\)"):
        call(session, "drop_partitions", named, "partitions => array(map())")
    assert sorted_rows(session.table(table)) == sorted_rows(rows.where("p IN (1, 2)"))


@pytest.mark.parametrize("unknown", ["system.vacuum", "main.compact", "compact", "system.system.compact"])
def test_there_are_no_other_procedures(session: SparkSession, unknown: str) -> None:
    """The error lists those that there are."""
    with pytest.raises(Exception, match=rf"there is no procedure \S+; allowed: .*{CATALOG}\.system\.compact"):
        session.sql(f"CALL {CATALOG}.{unknown}(table => '{NAMESPACE}.none')")


def test_rolled_back(session: SparkSession, tables: ClusterTables) -> None:
    """The rows of that time are there again and nothing else; twice, and back. Only kept snapshots count."""
    table = make_table(session, f"{IN}.back", "k BIGINT, p INT", "PARTITIONED BY (p)")
    first = session.range(40).selectExpr("id AS k", "CAST(id % 2 AS INT) AS p")
    first.writeTo(table).append()
    session.range(40, 60).selectExpr("id AS k", "2 AS p").writeTo(table).append()
    session.sql(f"INSERT OVERWRITE {table} SELECT 7L, 7")
    named = f"table => '{NAMESPACE}.back'"
    assert call(session, "roll_back", named, "snapshot_id => 1L") == {"rows": 40, "snapshot_id": 4}
    assert sorted_rows(session.table(table)) == sorted_rows(first)
    assert call(session, "roll_back", named, "snapshot_id => 4") == {"rows": 40, "snapshot_id": 4}
    assert call(session, "roll_back", named, "snapshot_id => 2") == {"rows": 60, "snapshot_id": 5}
    assert session.table(table).count() == 60
    made = session.sql(f"SELECT operation FROM {table}.snapshots ORDER BY snapshot_id").collect()
    assert [row["operation"] for row in made] == ["append", "append", "overwrite", "roll-back", "roll-back"]
    with pytest.raises(AnalysisException, match=r"procedures\.back keeps no snapshot 9; it keeps: 5 \("):
        call(session, "roll_back", named, "snapshot_id => 9")


def test_a_write_that_compacts(session: SparkSession, tables: ClusterTables) -> None:
    """When the table asks for it; the writer learns of both by the write's id. A failing one fails no write."""
    table = make_table(session, f"{IN}.busy", "k BIGINT")
    tables.change_spec("ct", "busy", compaction={"enabled": True, "maxFilesPerBucket": 1})
    results = []
    for number in range(2):
        session.range(30).selectExpr("id AS k").writeTo(table).option("write-id", f"busy-{number}").append()
        results.append(json.loads(call(session, "write_result", f"id => 'busy-{number}'")["result"]))
    first, second = results
    assert (first["rows"], first["snapshot_id"], first["compaction"], first["compaction_failure"]) == (30, 1, None, "")
    merged = second["compaction"]
    assert (second["snapshot_id"], merged["snapshot_id"], merged["rows"]) == (2, 3, 60)
    assert session.table(table).count() == 60
    with pytest.raises(Exception, match="no write of this application has id 'unknown'"):
        call(session, "write_result", "id => 'unknown'")


@pytest.mark.parametrize("statement", [
    "INSERT OVERWRITE {t} SELECT 7L AS k",
    "INSERT INTO {t} REPLACE WHERE true SELECT 7L AS k",
])  # fmt: skip
def test_overwrites_of_what_cannot_be_read(
    statement: str, session: SparkSession, tables: ClusterTables, agents: LoopbackAgents
) -> None:
    """A manifest that is gone, or a status that was spoiled: reads fail, an overwrite replaces it."""
    table = f"{IN}.lost"
    if not session.catalog.tableExists(table):
        make_table(session, f"{IN}.lost", "k BIGINT")
    session.range(5).selectExpr("id AS k").writeTo(table).append()
    for root in agents.roots.values():
        for manifest in root.glob(f"{NAMESPACE}/lost-*/manifests/*"):
            manifest.unlink()
    with pytest.raises(Exception, match="manifest"):
        session.table(table).count()
    session.sql(statement.format(t=table))
    assert [row["k"] for row in session.table(table).collect()] == [7]
    tables.change("ct", "lost", snapshot={**status(tables, "lost")["snapshot"], "manifest": "sha256:" + "0" * 64})
    session.sql(statement.format(t=table))
    assert [row["k"] for row in session.table(table).collect()] == [7]


def test_an_overwrite_after_the_order_has_changed(session: SparkSession, tables: ClusterTables) -> None:
    """Files of another order take no new ones next to them, and are replaced as a whole."""
    table = make_table(session, f"{IN}.changed", "k BIGINT, v INT")
    session.sql(f"INSERT INTO {table} VALUES (1, 2)")
    tables.change_spec("ct", "changed", sortedBy=["v"])
    with pytest.raises(Exception, match=r"reload all of it with mode overwrite|rows come in another order"):
        session.sql(f"INSERT INTO {table} VALUES (3, 4), (9, 1), (3, 2)")
    session.sql(f"INSERT OVERWRITE {table} SELECT id AS k, CAST(100 - id AS INT) AS v FROM range(50)")
    assert session.table(table).count() == 50


def test_explained_by_call(session: SparkSession) -> None:
    """A row per verdict, or the whole as for people or programs; another format is refused by name."""
    table = make_table(session, f"{IN}.explained")
    join = f"SELECT a.v, count(*) FROM {table} a JOIN {table} b ON a.k = b.k GROUP BY a.v"
    reason = "Inconsistent distribution of table and queries: "
    reason += f"{table} is bucketed by (k), the group-by's keys are ({table}.v)"
    rows = session.sql(f"CALL {CATALOG}.system.explain('{join}')").collect()
    assert [(row["operator"], row["colocate"], row["reason"]) for row in rows] == [
        (f"SortMergeJoin Inner (a.k = b.k) of {table}, {table}", True, ""),
        (f"HashAggregate (a.v) of {table}, {table}", False, reason),
    ]
    assert session.sql(f"CALL {CATALOG}.system.explain('EXPLAIN {join}')").collect() == rows
    text = call(session, "explain", f"'{join}'", "format => 'text'")["text"]
    assert text.startswith("== Physical Plan ==") and f"colocate: false, reason: {reason}" in text
    assert json.loads(call(session, "explain", f"'{join}'", "'json'")["json"])["exchanges"] == 0
    [changed, *_] = session.sql(f"CALL {CATALOG}.system.explain('DELETE FROM {table} WHERE v = 1')").collect()
    assert (changed["operator"], changed["colocate"]) == ("rows that change", True)
    with pytest.raises(Exception, match=r"format 'yaml'; allowed: rows, json, text"):
        call(session, "explain", "'SELECT 1'", "'yaml'")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        call(session, "explain", f"'SELECT * FROM {IN}.none'")
