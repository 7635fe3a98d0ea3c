"""Writes through the catalog as users know them from SQL and DataFrames; every answer is DuckDB's.

The operator is a thread that accepts tables; the agents and the API server are real.
"""

import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from colocation.spark import drop_partitions, explain_json
from tests.spark.cluster_tables import CATALOG, ClusterTables, make_table
from tests.spark.conftest import MAP
from tests.spark.executions import executions, run_after
from tests.spark.loopback import LoopbackAgents

pytestmark = pytest.mark.spark

NAMESPACE = "written"
IN = f"{CATALOG}.{NAMESPACE}"
DYNAMIC = "spark.sql.sources.partitionOverwriteMode"
SALES = "TBLPROPERTIES ('colocate_with'='sales')"


def pairs(session: SparkSession, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in session.sql(f"SELECT k, v FROM {table}").collect())


def rows(session: SparkSession, values: dict[int, int]) -> DataFrame:
    listed = ", ".join(f"({key}L, {value}L)" for key, value in values.items())
    return session.sql(f"SELECT * FROM VALUES {listed} AS t(k, v)")


def status(tables: ClusterTables, name: str) -> dict[str, Any]:
    found: dict[str, Any] = tables.get(name)["status"]
    return found


STORY = [
    ("INSERT INTO {t} VALUES (1, 10, 'a', DATE '2026-01-01'), (2, 20, NULL, DATE '2026-01-02')", None),
    ("INSERT INTO {t} (dt, note, v, k) SELECT DATE '2026-01-02', NULL, NULL, 3", None),
    ("INSERT INTO {t} PARTITION (dt = '2026-01-03') SELECT 4, 40, 'd'",
     "INSERT INTO {t} SELECT 4, 40, 'd', DATE '2026-01-03'"),
    ("INSERT INTO {t} SELECT k + 10, v, note, dt FROM {t} WHERE v IS NOT NULL", None),
    ("INSERT OVERWRITE {t} PARTITION (dt = '2026-01-01') SELECT 5, 50, 'e'",
     "DELETE FROM {t} WHERE dt = DATE '2026-01-01'; INSERT INTO {t} SELECT 5, 50, 'e', DATE '2026-01-01'"),
    ("INSERT OVERWRITE {t} PARTITION (dt = '2026-01-09') SELECT k, v, note FROM {t} WHERE k > 1000", "SELECT 1"),
    ("DYNAMIC INSERT OVERWRITE {t} SELECT k * 100, v, note, dt FROM {t} WHERE k = 3",
     "CREATE TEMP TABLE r AS SELECT k * 100, v, note, dt FROM {t} WHERE k = 3; "
     "DELETE FROM {t} WHERE dt = DATE '2026-01-02'; INSERT INTO {t} SELECT * FROM r"),
    ("DELETE FROM {t} WHERE dt = '2026-01-03'", None),
    ("DELETE FROM {t} WHERE dt IN (DATE '2026-01-07', DATE '2026-01-01') AND dt = DATE '2026-01-01'",
     "DELETE FROM {t} WHERE dt = DATE '2026-01-01'"),
    ("DELETE FROM {t} WHERE dt = DATE '2026-01-05' OR dt IS NULL OR dt = DATE '2026-01-06'", None),
    ("INSERT INTO {t} VALUES (7, 7, 'x', NULL)", None),
    ("INSERT OVERWRITE {t} SELECT k + 1, v, note, dt FROM {t}",
     "CREATE TEMP TABLE w AS SELECT k + 1, v, note, dt FROM {t}; DELETE FROM {t}; INSERT INTO {t} SELECT * FROM w"),
    ("DELETE FROM {t} WHERE dt IS NULL", None),
    ("TRUNCATE TABLE {t}", "DELETE FROM {t}"),
    ("INSERT INTO {t} VALUES (9, 9, 'again', DATE '2026-02-01')", None),
    ("INSERT INTO {t} (dt, k) VALUES (DATE '2026-02-02', 10)", None),
    ("INSERT INTO {t} BY NAME SELECT 'named' AS note, 11 AS k", None),
    ("INSERT OVERWRITE {t} PARTITION (dt = '2026-02-03') (K) SELECT v FROM {t} WHERE k = 9",
     "INSERT INTO {t} (k, dt) VALUES (9, DATE '2026-02-03')"),
]  # fmt: skip
"""Statements for Spark, and for DuckDB where it needs other words."""


def test_a_story_in_sql(session: SparkSession) -> None:
    """After each statement the table holds what DuckDB's does, without a refresh."""
    table = make_table(session, f"{IN}.story", "k BIGINT, v BIGINT, note STRING, dt DATE", "PARTITIONED BY (dt)")
    with duckdb.connect() as database:
        database.execute("CREATE TABLE story (k BIGINT, v BIGINT, note VARCHAR, dt DATE)")
        for statement, other in STORY:
            session.conf.set(DYNAMIC, "dynamic" if statement.startswith("DYNAMIC ") else "static")
            session.sql(statement.removeprefix("DYNAMIC ").format(t=table))
            database.execute((other or statement).format(t="story"))
            found = [tuple(row) for row in session.table(table).collect()]
            expected = database.execute("SELECT * FROM story").fetchall()
            assert sorted(found, key=repr) == sorted(expected, key=repr), statement


def test_columns_that_may_not_be_left_out(session: SparkSession) -> None:
    """By a session's setting; else they are NULL."""
    table = make_table(session, f"{IN}.whole")
    setting = "spark.sql.defaultColumn.useNullsForMissingDefaultValues"
    session.conf.set(setting, "false")
    with pytest.raises(AnalysisException, match="CANNOT_FIND_DATA"):
        session.sql(f"INSERT INTO {table} (k) VALUES (1)")
    session.sql(f"INSERT INTO {table} (v, k) VALUES (2, 1)")
    assert pairs(session, table) == [(1, 2)]
    session.conf.unset(setting)
    session.sql(f"INSERT INTO {table} BY NAME SELECT 3 AS k")
    session.sql(f"INSERT INTO {table} (k) VALUES (4)")
    assert pairs(session, table) == [(1, 2), (3, None), (4, None)]


def test_data_frames(session: SparkSession, tables: ClusterTables) -> None:
    """writeTo, insertInto and saveAsTable: by name or by position as in Spark."""
    table = f"{IN}.frames"
    start = rows(session, {1: 1, 2: 2})
    start.writeTo(table).partitionedBy(F.bucket(6, "k")).tableProperty("colocate_with", "sales").create()
    start.select("v", "k").selectExpr("v + 2 AS v", "k + 2 AS k").writeTo(table).append()
    assert pairs(session, table) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    rows(session, {5: 5}).write.insertInto(table)
    rows(session, {6: 6}).select("v", "k").write.mode("append").saveAsTable(table)
    assert pairs(session, table)[4:] == [(5, 5), (6, 6)]
    rows(session, {7: 7}).writeTo(table).overwrite(F.lit(True))
    assert pairs(session, table) == [(7, 7)]
    rows(session, {8: 8}).writeTo(table).overwritePartitions()
    assert pairs(session, table) == [(8, 8)]
    rows(session, {9: 9}).writeTo(table).createOrReplace()
    assert pairs(session, table) == [(9, 9)]
    rows(session, {1: 0}).write.mode("overwrite").saveAsTable(table)
    assert pairs(session, table) == [(1, 0)]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        rows(session, {3: 3}).write.bucketBy(6, "k").sortBy("v").saveAsTable(table)


def test_one_query_into_several_tables(session: SparkSession) -> None:
    """Hive's `FROM … INSERT … INSERT …`: each table gets its rows, sorted as files are, by one commit."""
    low = make_table(session, f"{IN}.low")
    high = make_table(session, f"{IN}.high", "k BIGINT, v BIGINT, p INT", "PARTITIONED BY (p)")
    for adaptive in ("true", "false"):
        session.conf.set("spark.sql.adaptive.enabled", adaptive)
        session.sql(
            f"FROM (SELECT id AS k FROM range(0, 40, 1, 3) ORDER BY k DESC) "
            f"INSERT OVERWRITE {low} SELECT k, 0 WHERE k < 20 INSERT INTO {high} SELECT k, 1, k % 2 WHERE k >= 20"
        )
    assert pairs(session, low) == [(k, 0) for k in range(20)]
    assert pairs(session, high) == sorted([(k, 1) for k in range(20, 40)] * 2)
    snapshots = session.sql(f"SELECT rows FROM {high}.snapshots ORDER BY snapshot_id").collect()
    assert [row["rows"] for row in snapshots] == [20, 40]


def test_one_query_twice_into_a_table(session: SparkSession) -> None:
    """Two commits; with a key the second would be taken for a repetition of the first, and its rows would be lost."""
    table = make_table(session, f"{IN}.twice")
    statement = f"FROM range(4) INSERT INTO {table} SELECT id, 0 INSERT INTO {table} SELECT id, 1 WHERE id > 2"
    session.sql(statement)
    written = [(0, 0), (1, 0), (2, 0), (3, 0), (3, 1)]
    assert pairs(session, table) == written
    session.conf.set("spark.colocation.write.idempotencyKey", "once")
    with pytest.raises(
        Exception, match=r"InvalidOption: .* writes table .*twice twice under idempotency key once; allowed: once"
    ):
        session.sql(statement)
    assert pairs(session, table) == written
    other = make_table(session, f"{IN}.not_twice")
    session.sql(f"FROM range(1) INSERT INTO {table} SELECT id, 2 INSERT INTO {other} SELECT id, 2")
    assert (pairs(session, table)[1], pairs(session, other)) == ((0, 2), [(0, 2)])


@pytest.mark.parametrize("nothing", ["v = 1 AND v = 2", "v = 7"])
def test_a_key_of_a_statement_that_found_nothing(session: SparkSession, nothing: str) -> None:
    """The next statement of that key is a repetition, whatever rows were written meanwhile."""
    table = f"{IN}.nothing_of_{len(nothing)}"
    layout = f"PARTITIONED BY (v) CLUSTERED BY (k) INTO 6 BUCKETS {SALES}"
    session.sql(f"CREATE TABLE {table} (k BIGINT, v INT) {layout}")
    session.sql(f"INSERT INTO {table} VALUES (1, 1)")
    session.conf.set("spark.colocation.write.idempotencyKey", "nothing")
    for condition in (nothing, "v = 1"):
        session.sql(f"DELETE FROM {table} WHERE {condition}")
    assert pairs(session, table) == [(1, 1)]


def test_a_repeated_replacement(session: SparkSession, tables: ClusterTables) -> None:
    """Rows that were written since stay, and so does a table to which the key is known from another statement."""
    table = f"{IN}.replaced_once"
    for _ in range(2):
        writer = rows(session, {1: 1}).writeTo(table).option("idempotency-key", "made")
        writer.partitionedBy(F.bucket(6, "k")).tableProperty("colocate_with", "sales").createOrReplace()
        session.sql(f"INSERT INTO {table} WITH ('idempotency-key'='added') VALUES (2, 2)")
        assert pairs(session, table) == [(1, 1), (2, 2)]
    session.conf.set("spark.colocation.write.idempotencyKey", "added")
    session.sql(f"CREATE OR REPLACE TABLE {table} AS SELECT 3L AS k, 'another' AS note")
    assert pairs(session, table) == [(1, 1), (2, 2)]


def test_the_option_of_dynamic_overwrites(session: SparkSession, tables: ClusterTables) -> None:
    """It is said of one write, as of a write of Spark's own files; other partitions stay."""
    table = make_table(session, f"{IN}.optional", partitions="PARTITIONED BY (v)")
    rows(session, {1: 1, 2: 2}).writeTo(table).append()
    dynamic = rows(session, {3: 1}).write.option("partitionOverwriteMode", "dynamic").mode("overwrite")
    dynamic.insertInto(table)
    assert pairs(session, table) == [(2, 2), (3, 1)]
    rows(session, {4: 1}).write.mode("overwrite").insertInto(table)
    assert pairs(session, table) == [(4, 1)]


def test_tables_made_of_queries(session: SparkSession, tables: ClusterTables) -> None:
    """A failed query leaves no table, and no change of one."""
    made, clustered = f"{IN}.made", f"CLUSTERED BY (k) INTO 6 BUCKETS {SALES}"
    session.sql(f"CREATE TABLE {made} {clustered} AS SELECT id AS k, id * 2 AS v FROM range(20)")
    assert len(pairs(session, made)) == 20
    fails = "SELECT id AS k, ASSERT_TRUE(id < 10, 'no') IS NULL AS v FROM range(20)"
    with pytest.raises(Exception, match="no"):
        session.sql(f"CREATE TABLE {IN}.failed {clustered} AS {fails}")
    assert not session.catalog.tableExists(f"{IN}.failed")
    with pytest.raises(Exception, match="no"):
        session.sql(f"CREATE OR REPLACE TABLE {made} {clustered} AS {fails}")
    assert len(pairs(session, made)) == 20 and session.table(made).dtypes[1] == ("v", "bigint")
    session.sql(f"CREATE OR REPLACE TABLE {made} {clustered} AS SELECT k, v + 1 AS v FROM {made} WHERE k < 3")
    assert pairs(session, made) == [(0, 1), (1, 3), (2, 5)]
    session.sql(f"REPLACE TABLE {made} {clustered} AS SELECT k, 'text' AS note FROM {made}")
    assert session.table(made).columns == ["k", "note"] and session.table(made).count() == 3
    assert session.sql(f"SELECT * FROM {made} VERSION AS OF 1").columns == ["k", "v"]
    with pytest.raises(AnalysisException, match=r"bucketedBy cannot change from .* make a new table"):
        session.sql(f"REPLACE TABLE {made} CLUSTERED BY (note) INTO 6 BUCKETS AS SELECT * FROM {made}")
    with pytest.raises(AnalysisException, match="column note as int, since older snapshots hold it as string: give"):
        session.sql(f"CREATE OR REPLACE TABLE {made} AS SELECT k, 1 AS note FROM {made}")
    session.sql(f"REPLACE TABLE {made} (k BIGINT, w INT) {clustered}")
    assert session.table(made).columns == ["k", "w"] and session.table(made).count() == 0


def test_partition_columns_that_are_not_the_querys_last(session: SparkSession, tables: ClusterTables) -> None:
    """All are BIGINT: rows in another order than the table's would have each value in a wrong column."""
    made, layout = f"{IN}.moved", f"PARTITIONED BY (p, q) CLUSTERED BY (k) INTO 6 BUCKETS {SALES}"
    query = "SELECT q, v, p, k FROM VALUES (1L, 20L, 300L, 4000L), (2L, 10L, 400L, 3000L) AS t(k, v, p, q)"
    expected = [(1, 20, 300, 4000), (2, 10, 400, 3000)]

    def holds(rows: list[tuple[int, ...]]) -> bool:
        assert session.table(made).columns == ["v", "k", "p", "q"]
        return sorted(tuple(row) for row in session.table(made).select("k", "v", "p", "q").collect()) == rows

    session.sql(f"CREATE TABLE {made} {layout} AS {query}")
    assert holds(expected)
    session.sql(f"CREATE OR REPLACE TABLE {made} AS SELECT q + 1 AS q, v, p, k FROM {made}")
    assert holds([(k, v, p, q + 1) for k, v, p, q in expected])
    session.sql(f"DROP TABLE {made}")
    writer = session.sql(query).writeTo(made).partitionedBy("p", "q", F.bucket(6, "k"))
    writer.tableProperty("colocate_with", "sales").create()
    assert holds(expected)
    session.sql(query).write.mode("overwrite").saveAsTable(made)
    assert holds(expected)


TYPED = """SELECT IF(id = 3, NULL, id) AS k, IF(id % 4 = 0, NULL, DATE '0001-01-01') AS `a date`,
IF(id = 3, NULL, ARRAY(NAMED_STRUCT('m', MAP('x', ARRAY(id, NULL)), 'd', CAST(NULL AS INT)))) AS deep,
TIMESTAMP '1599-12-31 23:59:59.999999' AS t, TIMESTAMP_NTZ '1883-11-18 12:03:57' AS `n,t;z`, X'00FF' AS `b=in{ary}`,
CAST(id AS DECIMAL(18,3)) AS `de.ci.mal`, CAST(id AS DECIMAL(38,10)) AS wide, CAST(NULL AS STRING) AS `back``tick`,
'' AS `Ünï`, CAST('NaN' AS FLOAT) AS `(f)`, IF(id % 2 = 0, CAST('-0.0' AS DOUBLE), 0.0D) AS z,
PARSE_JSON('{"a": [1]}') AS json, CAST(id % 3 AS STRING) AS p FROM range(30)"""


@pytest.mark.parametrize(
    "way",
    ["sql", "writeTo", "stream", *(pytest.param(way, marks=pytest.mark.deep) for way in ("insertInto", "saveAsTable"))],
)
def test_values_of_every_type(
    way: str, session: SparkSession, tables: ClusterTables, agents: LoopbackAgents, tmp_path: Path
) -> None:
    """Each way of writing: values come back as they were, in the bucket of Spark's hash, in sorted files."""
    source = session.sql(TYPED).select("*", F.col("z").alias("s"))
    name = f"typed-{way.lower()}"
    table = f"{IN}.`{name}`"
    columns = ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in source.schema)
    session.sql(f"CREATE TABLE {table} ({columns}) PARTITIONED BY (p) "
                f"CLUSTERED BY (k) SORTED BY (k) INTO 6 BUCKETS {SALES}")  # fmt: skip
    source = source.select(*map(quoted, session.table(table).columns))
    if way == "sql":
        source.createOrReplaceTempView("source")
        session.sql(f"INSERT INTO {table} SELECT * FROM source")
    elif way == "writeTo":
        source.writeTo(table).append()
    elif way == "insertInto":
        source.write.insertInto(table)
    elif way == "saveAsTable":
        source.write.mode("append").saveAsTable(table)
    else:
        source.write.parquet(str(tmp_path / "source"))
        stream = session.readStream.schema(source.schema).parquet(str(tmp_path / "source"))
        query = stream.writeStream.option("checkpointLocation", str(tmp_path / "at"))
        query.trigger(availableNow=True).toTable(table).awaitTermination()
    shown = [F.to_json("json").alias("json") if name == "json" else quoted(name) for name in source.columns]
    read = session.table(table)
    assert sorted(map(repr, read.select(*shown).collect())) == sorted(map(repr, source.select(*shown).collect()))
    wrong = read.selectExpr(
        "CAST(REGEXP_EXTRACT(_metadata.file_name, '_([0-9]+)[.]', 1) AS INT) AS named", "PMOD(HASH(k), 6) AS bucket"
    ).where("named <> bucket")
    assert wrong.count() == 0
    for file in data_files(agents, name):
        stored = pq.read_table(file, columns=["k"], partitioning=None)["k"].to_pylist()
        assert stored == sorted(stored, key=lambda value: -math.inf if value is None else value)
        assert "INT96" not in str(pq.read_metadata(file).schema) and "p" not in pq.read_schema(file).names


def test_streams_check_the_lengths_of_texts(session: SparkSession, tables: ClusterTables, tmp_path: Path) -> None:
    """As statements do: else the table's own rows could not be written again."""
    table = f"{IN}.short"
    session.sql(f"CREATE TABLE {table} (k BIGINT, s VARCHAR(3), c CHAR(2), a ARRAY<CHAR(2)>) "
                f"CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")  # fmt: skip

    def stream(name: str, values: str) -> None:
        rows = session.sql(f"SELECT * FROM VALUES {values} AS t(k, s, c, a)")
        rows.write.parquet(str(tmp_path / name))
        read = session.readStream.schema(rows.schema).parquet(str(tmp_path / name))
        write = read.writeStream.option("checkpointLocation", str(tmp_path / f"{name}-at"))
        write.trigger(availableNow=True).toTable(table).awaitTermination()

    stream("good", "(1L, 'abc', 'x', ARRAY('y')), (2L, NULL, 'xy', NULL)")
    for number, values in enumerate(("'abcd', 'x', ARRAY('y')", "'a', 'xyz', ARRAY('y')", "'a', 'x', ARRAY('xyz')")):
        with pytest.raises(Exception, match="EXCEED_LIMIT_LENGTH"):
            stream(f"long-{number}", f"(3L, {values})")
    found = session.sql(f"SELECT * FROM {table} ORDER BY k").collect()
    assert [tuple(row) for row in found] == [(1, "abc", "x ", ["y "]), (2, None, "xy", None)]


KEYS = """SELECT IF(id % 7 = 0, NULL, CONCAT('key ', id)) AS a, CAST(id AS DECIMAL(20,2)) AS b, id % 2 = 0 AS h,
CASE id % 4 WHEN 0 THEN CAST('-0.0' AS DOUBLE) WHEN 1 THEN 0.0D WHEN 2 THEN CAST('NaN' AS DOUBLE) END AS c,
DATE_SUB(DATE '1582-10-20', CAST(id AS INT)) AS d, TIMESTAMP_MICROS(-id * 1000000007) AS e, CAST(CAST(id AS STRING)
AS BINARY) AS f, CAST(id AS TINYINT) AS g, CAST(id AS DECIMAL(9,1)) AS i, CAST(-id AS FLOAT) AS j FROM range(60)"""


def test_keys_and_partitions_of_any_name(session: SparkSession, tables: ClusterTables) -> None:
    """Names that SQL takes in back quotes only, also where Spark reserves words."""
    table = f"{IN}.odd"
    session.conf.set("spark.sql.ansi.enforceReservedKeywords", "true")
    for name in ("Order Key", "select", "x.y", "Päth`s", "1", "a=b/c %41"):
        key, part = quoted(name), quoted(f"of {name}")
        session.sql(f"CREATE TABLE {table} ({key} BIGINT, v INT, {part} INT) PARTITIONED BY ({part}) "
                    f"CLUSTERED BY ({key}) SORTED BY ({key}, v) INTO 6 BUCKETS {SALES}")  # fmt: skip
        session.sql(f"INSERT INTO {table} VALUES (1, 10, 100), (2, 20, 200)")
        session.sql(f"INSERT OVERWRITE {table} PARTITION ({part} = 200) ({key}, v) SELECT {key} + 1, 30 FROM {table}")
        session.sql(f"DELETE FROM {table} WHERE {part} < 200")
        assert sorted(tuple(row) for row in session.table(table).collect()) == [(2, 30, 200), (3, 30, 200)]
        joined = f"SELECT a.v FROM {table} a JOIN {table} b ON a.{key} = b.{key}"
        assert [join["colocate"] for join in explain_json(joined, session)["joins"]] == [True]
        session.sql(f"DROP TABLE {table}")


def test_keys_of_every_type(session: SparkSession, tables: ClusterTables) -> None:
    """A row's bucket is Spark's hash of its key; Python's loader agrees."""
    source = session.sql(KEYS)
    tables.add_group("keyed", [field.dataType.simpleString() for field in source.schema], MAP)
    names = ", ".join(source.columns)
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in source.schema)
    session.sql(f"CREATE TABLE {IN}.keyed ({columns}) CLUSTERED BY ({names}) INTO 6 BUCKETS "
                "TBLPROPERTIES ('colocate_with'='keyed')")  # fmt: skip
    source.writeTo(f"{IN}.keyed").append()
    tables.load(source, "keyed")
    read = session.table(f"{IN}.keyed")
    assert sorted(map(repr, read.collect())) == sorted(map(repr, source.union(source).collect()))
    named = "CAST(REGEXP_EXTRACT(_metadata.file_name, '_([0-9]+)[.]', 1) AS INT)"
    assert read.where(f"{named} <> PMOD(HASH({names}), 6)").count() == 0
    groups = session.sql(f"SELECT {names}, count(*) AS n FROM {IN}.keyed GROUP BY {names}")
    assert {row["n"] for row in groups.collect()} == {2}


def test_both_zeros_as_partitions(session: SparkSession, tables: ClusterTables) -> None:
    """Two partitions, which sort as equal: rows that come mixed are still written in one file of each bucket."""
    table = f"{IN}.zeros"
    for kind in ("DOUBLE", "FLOAT"):
        session.sql(f"CREATE TABLE {table} (k BIGINT, zero {kind}) PARTITIONED BY (zero) "
                    f"CLUSTERED BY (k) SORTED BY (k) INTO 6 BUCKETS {SALES}")  # fmt: skip
        session.sql(f"INSERT INTO {table} SELECT id, CAST(-(id % 2) AS {kind}) * CAST(0 AS {kind}) FROM range(1200)")
        found = session.sql(f"SELECT partition['zero'], count(*), sum(rows) FROM {table}.files GROUP BY 1 ORDER BY 1")
        assert [tuple(row) for row in found.collect()] == [("-0.0", 6, 600), ("0.0", 6, 600)]
        session.sql(f"DROP TABLE {table}")


def test_rows_that_were_committed_since_a_query_was_analyzed_are_not_lost(
    session: SparkSession, tables: ClusterTables
) -> None:
    """A DataFrame reads the snapshot on which it was made; what it would replace by now has more rows."""
    table = f"{IN}.reread"
    session.sql(f"CREATE TABLE {table} (k BIGINT, v BIGINT) CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")
    session.sql(f"INSERT INTO {table} VALUES (1, 1)")
    made = session.table(table).selectExpr("k", "v + 1 AS v")
    session.sql(f"INSERT INTO {table} VALUES (2, 2)")
    for write in (
        lambda: made.writeTo(table).overwrite(F.lit(True)),
        lambda: made.write.mode("overwrite").insertInto(table),
        lambda: made.writeTo(table).createOrReplace(),
    ):
        with pytest.raises(SparkRuntimeException, match="was read as of snapshot 1, and by now it has snapshot 2"):
            write()
    assert pairs(session, table) == [(1, 1), (2, 2)]
    made.writeTo(table).append()
    assert pairs(session, table) == [(1, 1), (1, 2), (2, 2)]
    session.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table} VERSION AS OF 2")
    assert pairs(session, table) == [(1, 1), (2, 2)]
    session.sql(f"CREATE OR REPLACE TABLE {table} AS SELECT k, v + 1 AS v FROM {table}")
    assert pairs(session, table) == [(1, 2), (2, 3)]


def test_rows_that_were_committed_between_analysis_and_run_are_not_lost(session: SparkSession) -> None:
    """An overwrite replaces the rows that its query has read, whether by its own table or not."""
    table, other = make_table(session, f"{IN}.overtaken"), make_table(session, f"{IN}.overtaking")
    session.sql(f"INSERT INTO {table} VALUES (1, 1)")
    for source, key in ((table, 2), (other, 3)):
        with pytest.raises(SparkRuntimeException, match=r"LoadConflict: .* was overtaken: it began on snapshot"):
            run_after(session, f"INSERT OVERWRITE {table} SELECT k, v + 1 FROM {source}",
                      lambda added=key: session.sql(f"INSERT INTO {table} VALUES ({added}, {added})"))  # fmt: skip
    assert pairs(session, table) == [(1, 1), (2, 2), (3, 3)]


def test_a_table_that_took_the_name_after_the_analysis(session: SparkSession) -> None:
    """It gets none of the rows."""
    table = make_table(session, f"{IN}.renewed")

    def renew() -> None:
        session.sql(f"DROP TABLE {table}")
        make_table(session, table)

    with pytest.raises(SparkRuntimeException, match="was dropped and recreated meanwhile; start again"):
        run_after(session, f"INSERT INTO {table} VALUES (1, 1)", renew)
    assert pairs(session, table) == []


def test_rows_that_were_committed_since_a_query_was_analyzed_and_cached_are_not_lost(
    session: SparkSession, tables: ClusterTables
) -> None:
    """Spark puts its cache in the place of what it has cached: a query, a part of one, or a subquery."""
    table = make_table(session, f"{IN}.cached_read")
    session.sql(f"INSERT INTO {table} VALUES (1, 1)")
    read = session.table(table)
    part = read.selectExpr("k", "v + 1 AS v")
    of_subquery = session.sql(f"SELECT 5L AS k, (SELECT max(v) FROM {table}) AS v").select("k", "v")
    session.sql(f"INSERT INTO {table} VALUES (2, 2)")
    read.cache()
    whole = read.where("k > 0").cache()
    for query in (part, of_subquery, whole):
        with pytest.raises(SparkRuntimeException, match="was read as of snapshot 1, and by now it has snapshot 2"):
            query.writeTo(table).overwrite(F.lit(True))
    assert pairs(session, table) == [(1, 1), (2, 2)]
    session.table(table).cache().selectExpr("k", "v + 1 AS v").writeTo(table).overwrite(F.lit(True))
    assert pairs(session, table) == [(1, 2), (2, 3)]


def test_rows_that_were_committed_after_a_restore_of_etcd_are_not_lost(
    session: SparkSession, tables: ClusterTables
) -> None:
    """The next commit has the id of a snapshot that the copy lacked, on which a DataFrame was made."""
    table = make_table(session, f"{IN}.restored")
    session.sql(f"INSERT INTO {table} VALUES (1, 1)")
    copy = status(tables, "restored")
    session.sql(f"INSERT INTO {table} VALUES (2, 2)")
    made = session.table(table).selectExpr("k", "v + 1 AS v")
    tables.change("ct", "restored", snapshot=copy["snapshot"], history=copy.get("history"))
    session.sql(f"INSERT INTO {table} VALUES (3, 3)")
    for write in (
        lambda: made.writeTo(table).overwrite(F.lit(True)),
        lambda: made.writeTo(table).createOrReplace(),
    ):
        with pytest.raises(SparkRuntimeException, match=r"LoadConflict: .* was read as of snapshot 2"):
            write()
    assert pairs(session, table) == [(1, 1), (3, 3)]


def test_a_sessions_idea_of_timestamps_changes_no_table(session: SparkSession, tables: ClusterTables) -> None:
    """A column stays what it was made as, in files and in folders, for this session and all others."""
    table = f"{IN}.instants"
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    session.sql(f"CREATE TABLE {table} (k BIGINT, ts TIMESTAMP, at ARRAY<TIMESTAMP>, p TIMESTAMP) PARTITIONED BY (p) "
                f"CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")  # fmt: skip
    insert = f"INSERT INTO {table} SELECT {{}}, TIMESTAMP {{t}}, array(TIMESTAMP {{t}}), TIMESTAMP {{t}}"
    time = {"t": "'2026-01-01 09:00:00'"}
    session.sql(insert.format(1, **time))
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    session.sql(insert.format(2, **time))
    assert [field.dataType.simpleString() for field in session.table(table).schema] == [
        "bigint", "timestamp", "array<timestamp>", "timestamp",
    ]  # fmt: skip
    session.conf.set("spark.sql.session.timeZone", "UTC")
    instants = "date_format(ts, 'd HH'), date_format(at[0], 'd HH'), date_format(p, 'd HH')"
    found = session.sql(f"SELECT k, {instants} FROM {table} ORDER BY k").collect()
    assert [tuple(row) for row in found] == [(1, "1 00", "1 00", "1 00"), (2, "1 00", "1 00", "1 00")]
    assert session.sql(f"SELECT count(DISTINCT partition) FROM {table}.partitions").first()[0] == 1
    session.conf.unset("spark.sql.timestampType")
    session.sql(f"DROP TABLE {table}")


def test_a_sessions_settings_of_parquet_change_no_file(
    session: SparkSession, tables: ClusterTables, agents: LoopbackAgents
) -> None:
    """Decimals are integers, times are microseconds."""
    table = make_table(session, f"{IN}.alike", "k BIGINT, d DECIMAL(9,1), t TIMESTAMP")
    session.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    session.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    session.sql(f"INSERT INTO {table} VALUES (1, 0.5, TIMESTAMP '2026-01-01 09:00:00')")
    schema = pq.read_metadata(data_files(agents, "alike")[0]).schema
    assert [schema.column(place).physical_type for place in range(3)] == ["INT64", "INT32", "INT64"]


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def data_files(agents: LoopbackAgents, name: str) -> list[Path]:
    return [
        path for root in agents.roots.values() for path in root.glob(f"{NAMESPACE}/{name}-????????/data/**/*.parquet")
    ]


def test_joins_of_written_tables_do_not_shuffle(session: SparkSession, tables: ClusterTables) -> None:
    """Also when a partition is so large that a bucket's rows are in several files."""
    one, two = make_table(session, f"{IN}.one"), make_table(session, f"{IN}.two")
    many = session.range(0, 60_000, 1, 4).selectExpr("id AS k", "id AS v")
    many.writeTo(one).option("target-file-size", "40k").append()
    rows(session, {1: 1, 59_999: 2}).writeTo(two).append()
    files = session.sql(f"SELECT bucket, count(*) AS files FROM {one}.files GROUP BY 1").collect()
    assert {row["bucket"] for row in files} == set(range(6)) and max(row["files"] for row in files) > 1
    join = f"SELECT a.k, b.v FROM {one} a JOIN {two} b ON a.k = b.k"
    assert sorted(tuple(row) for row in session.sql(join).collect()) == [(1, 1), (59_999, 2)]
    assert [found["colocate"] for found in explain_json(join, session)["joins"]] == [True]
    assert session.table(one).selectExpr("sum(v)").collect()[0][0] == 60_000 * 59_999 // 2


def test_metrics(session: SparkSession, tables: ClusterTables) -> None:
    """Spark's UI shows what a write has done."""
    table = make_table(session, f"{IN}.measured")
    rows(session, {key: key for key in range(9)}).writeTo(table).append()
    last = list(executions(session).values())[-1]
    values = session._jsparkSession.sharedState().statusStore().executionMetrics(last.executionId())
    metrics = [last.metrics().apply(index) for index in range(last.metrics().size())]
    assert {metric.name() for metric in metrics} >= {"replicas missing", "seconds sending"}
    files = [metric.accumulatorId() for metric in metrics if metric.name() == "files written"]
    written = session.sql(f"SELECT count(*) FROM {table}.files").collect()[0][0]
    assert {values.apply(number) for number in files if values.contains(number)} == {str(written)}
    store, numbers = session.sparkContext._jsc.sc().statusStore(), last.stages().toList()
    shown = [0, 0]
    for place in range(numbers.size()):
        with suppress(Py4JJavaError):  # skipped stages, which wrote nothing, go first when the store is full
            stage = store.lastStageAttempt(numbers.apply(place))
            shown = [shown[0] + stage.outputBytes(), shown[1] + stage.outputRecords()]
    [in_files] = session.sql(f"SELECT sum(bytes), sum(rows) FROM {table}.files").collect()
    assert shown == [*in_files]


def test_caches_and_other_sessions(session: SparkSession, application: SparkSession, tables: ClusterTables) -> None:
    """A commit is seen at once, also where an older state is cached."""
    table, other = make_table(session, f"{IN}.cached"), tables.configure(application.newSession())
    rows(session, {1: 1}).writeTo(table).append()
    session.sql(f"CACHE TABLE {table}")
    assert pairs(session, table) == [(1, 1)]
    rows(other, {2: 2}).writeTo(table).append()
    assert pairs(session, table) == [(1, 1), (2, 2)] == pairs(other, table)


CONDITIONS_OF_NO_MERGE = {"1 = (SELECT 1)": "[Ss]ubquer", "max(1) > 0": "[Aa]ggregat", "rand() < 2": "[Dd]eterministic"}
CLAUSES_OF_MERGE = (
    "AND {} WHEN MATCHED THEN DELETE", "WHEN MATCHED AND {} THEN DELETE", "WHEN MATCHED AND {} THEN UPDATE SET v = 2",
    "WHEN NOT MATCHED BY SOURCE AND {} THEN DELETE", "WHEN NOT MATCHED AND {} THEN INSERT (k, v, p) VALUES (2, 2, 2)",
)  # fmt: skip


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE {t} SET v = rand()", "INVALID_NON_DETERMINISTIC_EXPRESSIONS"),
        ("DELETE FROM {t} WHERE v < rand()", "INVALID_NON_DETERMINISTIC_EXPRESSIONS"),
        ("UPDATE {t} SET v = 'text'", "INCOMPATIBLE_DATA_FOR_TABLE|CAST_INVALID_INPUT"),
        ("UPDATE {t} SET w = 1", "UNRESOLVED_COLUMN"),
        ("MERGE INTO {t} USING (SELECT 1 AS k FROM range(2)) s ON s.k = {t}.k WHEN MATCHED THEN UPDATE SET v = 2",
         "MERGE_CARDINALITY_VIOLATION"),
        *((f"MERGE INTO {{t}} USING (SELECT 1 AS k) s ON s.k = {{t}}.k {clause.format(condition)}", message)
          for condition, message in CONDITIONS_OF_NO_MERGE.items() for clause in CLAUSES_OF_MERGE),
        ("INSERT INTO {t} SELECT 1", "INSERT_COLUMN_ARITY_MISMATCH"),
        ("INSERT INTO {t} SELECT 1, 'text', 1", "INCOMPATIBLE_DATA_FOR_TABLE|CAST_INVALID_INPUT"),
    ],
)
def test_what_is_refused(session: SparkSession, tables: ClusterTables, statement: str, message: str) -> None:
    """Nothing is changed, and the error names what to use."""
    table = f"{IN}.refusing"
    if not session.catalog.tableExists(table):
        make_table(session, f"{IN}.refusing", "k BIGINT, v BIGINT, p INT", "PARTITIONED BY (p)")
        session.sql(f"INSERT INTO {table} VALUES (1, 1, 1)")
    with pytest.raises(Exception, match=message):
        session.sql(statement.format(t=table))
    assert pairs(session, table) == [(1, 1)]


def test_rows_that_no_rule_has_sorted_are_refused(session: SparkSession, tables: ClusterTables) -> None:
    """Readers trust the order of rows in files: where Spark left the rule out, nothing is written."""
    table = make_table(session, f"{IN}.unsorted")
    session.conf.set("spark.sql.optimizer.excludedRules", "dev.colocation.spark.write.DistributeRows")
    one_bucket = "SELECT id AS k, id AS v FROM range(0, 100, 1, 1) WHERE pmod(hash(id), 6) = 0"
    with pytest.raises(Exception, match="rows come in another order than k, by which files are sorted"):
        session.sql(f"INSERT INTO {table} {one_bucket} ORDER BY k DESC")
    assert pairs(session, table) == []


def test_empty_text_and_null_are_one_partition(session: SparkSession, tables: ClusterTables) -> None:
    """Rows of both are sorted each by themselves, and merged when they are read: a join finds all of them."""
    table = make_table(session, f"{IN}.texts", "k BIGINT, v BIGINT, p STRING", "PARTITIONED BY (p)")
    keys = [row[0] for row in session.sql("SELECT id FROM range(0, 100, 1, 1) WHERE pmod(hash(id), 6) = 0").collect()]
    values = ", ".join(f"({key}, 0, {partition})" for key, partition in zip(keys, ["''", "NULL"] * 50, strict=False))
    session.sql(f"INSERT INTO {table} VALUES {values}")
    assert pairs(session, table) == [(key, 0) for key in keys]
    assert session.sql(f"SELECT /*+ MERGE(b) */ a.k FROM {table} a JOIN {table} b ON a.k = b.k").count() == len(keys)


TEXTS = [
    "a/b", "a=b", "100%", "%2F", " leads", "trails ", "Ünï 雪", "back\\slash", "q\"uote's", "NULL", "007", "x" * 253,
]  # fmt: skip


def test_texts_of_partitions(session: SparkSession, tables: ClusterTables) -> None:
    """Each is the value that was written, to every statement that names it; one that cannot be is refused."""
    table = make_table(session, f"{IN}.named", "k BIGINT, v BIGINT, p STRING", "PARTITIONED BY (p)")
    written = {(number, 0, text) for number, text in enumerate(TEXTS)}
    session.createDataFrame(sorted(written), "k BIGINT, v BIGINT, p STRING").writeTo(table).append()

    def found(source: str) -> set[tuple[Any, ...]]:
        return {tuple(row) for row in session.sql(f"SELECT k, v, p FROM {source}").collect()}

    assert found(table) == written
    join = f"SELECT a.k FROM {table} a JOIN {table} b ON a.k = b.k AND a.p = b.p"
    assert session.sql(join).count() == len(TEXTS)
    session.conf.set(DYNAMIC, "dynamic")
    session.sql(f"INSERT OVERWRITE {table} SELECT k, 1, p FROM {table} WHERE k % 2 = 0")
    changed = {(number, 1 - number % 2, text) for number, text in enumerate(TEXTS)}
    assert found(table) == changed and found(f"{table} VERSION AS OF 1") == written
    for number, text in enumerate(TEXTS):
        same = F.col("p") == F.lit(text)
        assert [row["k"] for row in session.table(table).where(same).collect()] == [number]
    session.sql(f"DELETE FROM {table} WHERE p IN ('a/b', '100%', ' leads', 'NULL')")
    dropped = drop_partitions(session, "named", [{"p": "%2F"}, {"p": "trails "}, {"p": "7"}], NAMESPACE, CATALOG)
    gone = {"a/b", "100%", " leads", "NULL", "%2F", "trails "}
    assert dropped.partitions == 2 and found(table) == {row for row in changed if row[2] not in gone}
    for text, message in {
        "'__HIVE_DEFAULT_PARTITION__'": "by which folders mean NULL; allowed: any other",
        f"'{'x' * 254}'": r"has a name of 256 bytes \(p=x+…\); allowed: 255",
        "concat('a', char(0))": "a text with the character NUL, which no folder's name can hold",
    }.items():
        with pytest.raises(SparkRuntimeException, match=f"^SchemaMismatch: partition column p holds .* ?{message}"):
            session.sql(f"INSERT INTO {table} VALUES (1, 1, {text})")
