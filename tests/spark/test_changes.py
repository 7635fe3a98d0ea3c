"""``SELECT … FROM t CHANGES FROM VERSION a TO VERSION b`` of Spark 4.2: the rows that these commits changed."""

from typing import Any

import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from colocation.spark import compact
from tests.spark.cluster_tables import CATALOG, ClusterTables, make_table

VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))

pytestmark = [pytest.mark.spark, pytest.mark.skipif(VERSION < (4, 2), reason="CHANGES is of Spark 4.2 and newer")]

NAMESPACE = "changes"
IN = f"{CATALOG}.{NAMESPACE}"


@pytest.fixture
def session(application: SparkSession, tables: ClusterTables) -> SparkSession:
    return tables.configure(application.newSession())


@pytest.fixture
def table(session: SparkSession, request: pytest.FixtureRequest) -> str:
    name = f"{IN}.t{abs(hash(request.node.name)) % 10**9}"
    return make_table(session, name, "k BIGINT, p INT", "PARTITIONED BY (p)")


def append(session: SparkSession, table: str, *keys: int, partition: int = 0) -> None:
    session.sql(f"INSERT INTO {table} VALUES " + ", ".join(f"({key}, {partition})" for key in keys))


def changes(session: SparkSession, table: str, clause: str, columns: str = "k") -> list[Any]:
    """What a clause gives, sorted."""
    rows = session.sql(f"SELECT {columns} FROM {table} CHANGES {clause}").collect()
    return sorted(tuple(row) if len(row) > 1 else row[0] for row in rows)


def test_rows_of_appends(session: SparkSession, table: str) -> None:
    """Each with its commit's id and time; a compaction between them changes nothing."""
    append(session, table, *range(10))
    append(session, table, *range(10, 20))
    compact(session, table.rpartition(".")[2], namespace=NAMESPACE, catalog=CATALOG)
    append(session, table, 20, partition=1)
    operations = session.sql(f"SELECT operation FROM {table}.snapshots ORDER BY snapshot_id").collect()
    assert [row.operation for row in operations] == ["append", "append", "compact", "append"]
    assert changes(session, table, "FROM VERSION 1 TO VERSION 4") == list(range(21))
    assert changes(session, table, "FROM VERSION 1", "k, _commit_version, _change_type, p") == [
        (key, 1 if key < 10 else 2 if key < 20 else 4, "insert", 0 if key < 20 else 1) for key in range(21)
    ]
    assert changes(session, table, "FROM VERSION 3 TO VERSION 3") == []
    committed = f"SELECT committed_at FROM {table}.snapshots WHERE snapshot_id = _commit_version"
    late = f"SELECT 1 FROM {table} CHANGES FROM VERSION 1 WHERE _commit_timestamp <> ({committed})"
    assert session.sql(late).collect() == []
    columns = session.sql(f"SELECT * FROM {table} CHANGES FROM VERSION 2").schema
    assert columns.simpleString() == (
        "struct<k:bigint,p:int,_change_type:string,_commit_version:bigint,_commit_timestamp:timestamp>"
    )
    later = session.read.option("startingVersion", 2).changes(table)
    assert sorted(row.k for row in later.collect()) == list(range(10, 21))
    assert session.read.changes(table).count() == 21


def test_ranges(session: SparkSession, table: str) -> None:
    """Bounds are inclusive unless they are said to be exclusive; two ranges that meet have each commit once."""
    for key in (1, 2, 3):
        append(session, table, key)
    snapshots = session.table(f"{table}.snapshots").orderBy("snapshot_id")
    times = [row[0] for row in snapshots.selectExpr("CAST(committed_at AS STRING)").collect()]
    for clause, keys in [
        ("FROM VERSION 0 TO VERSION 1", [1]),
        ("FROM VERSION '2'", [2, 3]),
        ("FROM VERSION 1 EXCLUSIVE TO VERSION 3 EXCLUSIVE", [2]),
        ("FROM VERSION 1 EXCLUSIVE TO VERSION 1", []),
        ("FROM VERSION 3 EXCLUSIVE", []),
        ("FROM TIMESTAMP '2020-01-01'", [1, 2, 3]),
        ("FROM TIMESTAMP '2020-01-01' TO TIMESTAMP '2020-01-02'", []),
        (f"FROM TIMESTAMP '{times[2]}' EXCLUSIVE", []),
    ]:
        assert changes(session, table, clause) == keys, clause
    met = [
        *changes(session, table, f"FROM TIMESTAMP '2020-01-01' TO TIMESTAMP '{times[1]}'"),
        *changes(session, table, f"FROM TIMESTAMP '{times[1]}' EXCLUSIVE"),
    ]
    assert sorted(met) == [1, 2, 3]
    empty = make_table(session, f"{IN}.empty")
    assert changes(session, empty, "FROM VERSION 0") == []


def test_ranges_that_are_none(session: SparkSession, table: str) -> None:
    """Each error names what is allowed."""
    append(session, table, 1)
    append(session, table, 2)
    for clause, error in [
        ("FROM VERSION 3", "CHANGES FROM VERSION '3'; allowed: 0 to 2, the table's newest"),
        ("FROM VERSION 1 TO VERSION 3", "TO VERSION '3'; allowed: 0 to 2"),
        ("FROM VERSION 'first'", "VERSION 'first'; allowed: 0 to 2"),
        ("FROM VERSION 2 TO VERSION 1", "FROM VERSION '2' TO VERSION '1'; allowed: a range that begins before it ends"),
        ("FROM TIMESTAMP '2021-01-01' TO TIMESTAMP '2020-01-01'", "allowed: a range that begins before"),
        ("FROM TIMESTAMP '2999-01-01'", "allowed: a time that has come"),
        ("FROM VERSION 1 WITH (versionAsOf = 1)", "'versionAsOf' is not taken by a read of CHANGES: it is of a read"),
        ("FROM VERSION 1 WITH (foo = 1)", "'foo' is unknown"),
    ]:
        with pytest.raises(AnalysisException, match=error):
            changes(session, table, clause)
    options = "WITH (deduplicationMode = 'netChanges', computeUpdates = true)"
    assert changes(session, table, f"FROM VERSION 2 {options}") == [2]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        changes(session, f"{IN}.absent", "FROM VERSION 1")
    with pytest.raises(AnalysisException, match="snapshots has no CHANGES"):
        changes(session, f"{table}.snapshots", "FROM VERSION 1")
    session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('retention_snapshots' = '1')")
    for key in (3, 4, 5):
        append(session, table, key)
    with pytest.raises(AnalysisException, match=r"SnapshotExpired: .*oldest .* is 4,.* begin with VERSION 4 EXCLUSIVE"):
        changes(session, table, "FROM VERSION 4")
    with pytest.raises(AnalysisException, match="SnapshotExpired"):
        changes(session, table, "FROM TIMESTAMP '2020-01-01'")
    assert changes(session, table, "FROM VERSION 4 EXCLUSIVE") == [5]


def test_commits_that_are_no_appends(session: SparkSession, table: str) -> None:
    """Rows of replaced files that are still there are no changes; the clause's options choose others."""
    append(session, table, 1, 2)
    append(session, table, 3, partition=1)
    session.sql(f"INSERT OVERWRITE {table} VALUES (2, 0), (3, 1), (4, 1)")
    session.sql(f"DELETE FROM {table} WHERE p = 1")
    each = "k, _change_type, _commit_version"
    assert changes(session, table, "FROM VERSION 3", each) == [
        (1, "delete", 3), (3, "delete", 4), (4, "delete", 4), (4, "insert", 3)
    ]  # fmt: skip
    assert changes(session, table, "FROM VERSION 2 WITH (deduplicationMode = 'netChanges')", each) == [(1, "delete", 3)]
    every = changes(session, table, "FROM VERSION 3 TO VERSION 3 WITH (deduplicationMode = 'none')", each)
    assert every == [
        (1, "delete", 3), (2, "delete", 3), (2, "insert", 3), (3, "delete", 3), (3, "insert", 3), (4, "insert", 3)
    ]  # fmt: skip
    session.sql(f"INSERT OVERWRITE {table} VALUES (2, 7)")
    assert changes(session, table, "FROM VERSION 5 WITH (computeUpdates = 'true')", f"{each}, p") == [
        (2, "update_postimage", 5, 7), (2, "update_preimage", 5, 0)
    ]  # fmt: skip
    with pytest.raises(AnalysisException, match="allowed: dropCarryovers, netChanges"):
        changes(session, table, "FROM VERSION 5 WITH (computeUpdates = 'true', deduplicationMode = 'none')")


def test_streams_name_their_substitute(session: SparkSession, table: str) -> None:
    """By either way in."""
    for query in (
        lambda: session.sql(f"SELECT * FROM STREAM {table} CHANGES FROM VERSION 1"),
        lambda: session.readStream.option("startingVersion", 1).changes(table),
    ):
        with pytest.raises(AnalysisException, match=r"CHANGES of .* cannot be read as a stream.*readStream"):
            query()


def test_columns_are_those_of_the_ranges_end(session: SparkSession) -> None:
    """As `VERSION AS OF` has them; an open range has the table's. Lengths of texts and other names change no value."""
    table = make_table(session, f"{IN}.columns", "k BIGINT, c CHAR(3), s STRING")
    session.sql(f"INSERT INTO {table} VALUES (1, 'a', 'x')")
    session.sql(f"ALTER TABLE {table} ADD COLUMNS (n INT)")
    session.sql(f"INSERT INTO {table} VALUES (2, 'b', 'y', 7)")
    session.sql(f"ALTER TABLE {table} RENAME COLUMN s TO d")
    assert changes(session, table, "FROM VERSION 1 TO VERSION 1", "k, c, s") == [(1, "a  ", "x")]
    assert changes(session, table, "FROM VERSION 1 TO VERSION 2", "k, s, coalesce(n, 0)") == [(1, "x", 0), (2, "y", 7)]
    assert changes(session, table, "FROM VERSION 1 WHERE c = 'b'", "k, d, n") == [(2, "y", 7)]
    clash = make_table(session, f"{IN}.clash", "k BIGINT, _Change_type STRING")
    with pytest.raises(AnalysisException, match="has a column _change_type"):
        changes(session, clash, "FROM VERSION 0")


def files_read(rows: DataFrame) -> int:
    """How many files the plan's one scan opens."""
    plan = rows._jdf.queryExecution().executedPlan()
    rows.collect()
    scans = plan.collectLeaves()
    text = scans.head().toString()
    assert "FileScan parquet" in text, text
    return int(scans.head().metrics().apply("numFiles").value())


def test_conditions_leave_out_files(session: SparkSession, table: str) -> None:
    """Those on the table's partitions, and those on commits; columns that no one asks for are not read."""
    session.conf.set("spark.sql.adaptive.enabled", "false")
    append(session, table, *range(20))
    append(session, table, *range(20, 40), partition=1)
    append(session, table, 40)
    clause = f"SELECT k FROM {table} CHANGES FROM VERSION 1"
    every = files_read(session.sql(clause))
    assert files_read(session.sql(f"{clause} WHERE k >= 0 AND p = 1")) < every
    assert files_read(session.sql(f"{clause} WHERE _commit_version = 3")) == 1
    assert files_read(session.sql(f"{clause} WHERE _change_type = 'delete'")) == 0
    latest = session.sql(f"SELECT max(_commit_timestamp) AS t FROM {table} CHANGES FROM VERSION 1").collect()[0].t
    assert session.sql(f"{clause} WHERE _commit_timestamp > TIMESTAMP '{latest}'").collect() == []
    scan = session.sql(f"SELECT p, _commit_version FROM {table} CHANGES FROM VERSION 1")
    assert "ReadSchema: struct<>" in scan._jdf.queryExecution().executedPlan().toString()


def test_joins_have_no_shuffle(session: SparkSession, table: str) -> None:
    """Changes are as bucketed as their table; a view of them, a name of the current namespace and an alias are read."""
    other = make_table(session, f"{IN}.other")
    session.sql(f"INSERT INTO {other} SELECT id, id * 10 FROM range(20)")
    append(session, table, *range(10))
    append(session, table, *range(10, 15), partition=1)
    session.sql(f"CREATE OR REPLACE TEMP VIEW late AS SELECT * FROM {table} CHANGES FROM VERSION 1 EXCLUSIVE")
    joined = session.sql(f"SELECT late.k, v, p FROM late JOIN {other} AS o ON o.k = late.k")
    assert "Exchange" not in joined._jdf.queryExecution().executedPlan().toString()
    assert joined.agg(F.count("*"), F.sum("v"), F.sum("p")).collect()[0] == (5, 600, 5)
    session.sql(f"USE {IN}")
    name = table.rpartition(".")[2]
    assert session.sql(f"SELECT {name}.k FROM {name} CHANGES FROM VERSION 2 WHERE p = 1").count() == 5
    later = f"{name} CHANGES FROM VERSION 2 AS b"
    twice = f"SELECT count(*) FROM {name} CHANGES FROM VERSION 1 AS a JOIN {later} ON a.k = b.k"
    assert session.sql(twice).collect()[0][0] == 5
    assert session.sql(f"SELECT k FROM IDENTIFIER('{table}') CHANGES FROM VERSION 2").count() == 5


def test_rows_written_elsewhere(session: SparkSession, table: str) -> None:
    """An incremental copy: what came since the last time; a range may be of the table that it is written into."""
    append(session, table, 1, 2)
    append(session, table, 3)
    copy = make_table(session, f"{IN}.copy", "k BIGINT, p INT, since BIGINT")
    session.sql(f"INSERT INTO {copy} SELECT k, p, _commit_version FROM {table} CHANGES FROM VERSION 1 EXCLUSIVE")
    assert session.table(copy).collect() == [(3, 0, 2)]
    session.sql(f"INSERT OVERWRITE {table} SELECT k, p FROM {table} CHANGES FROM VERSION 2")
    assert [row.k for row in session.table(table).collect()] == [3]
