"""CHAR(n) and VARCHAR(n): values are equal, and in one bucket, wherever they came from; as in Spark's own tables."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from colocation.model.names import table_directory
from colocation.spark import count_exchanges, explain_json
from tests.spark.cluster_tables import CATALOG, ClusterTables
from tests.spark.conftest import MAP
from tests.spark.loopback import LoopbackAgents

pytestmark = pytest.mark.spark

NAMESPACE = "texts"
IN = f"{CATALOG}.{NAMESPACE}"
BUCKETS = "INTO 6 BUCKETS TBLPROPERTIES ('colocate_with'='texts')"
COLUMNS = "k CHAR(5), c CHAR(5), s ARRAY<CHAR(5)>, way STRING"
DDL = f"({COLUMNS}) PARTITIONED BY (way) CLUSTERED BY (k) {BUCKETS}"
VALUES = ("a", "b  ", "ä c")
AS_STRING, NO_PADDING = "spark.sql.legacy.charVarcharAsString", "spark.sql.readSideCharPadding"


@pytest.fixture(scope="module")
def texts(tables: ClusterTables, application: SparkSession) -> ClusterTables:
    """A table ``literals`` of the three values; and Spark's own, which holds them padded."""
    tables.add_group("texts", ["string"], MAP)
    session = tables.configure(application.newSession())
    listed = ", ".join(f"('{value}', '{value}', ARRAY('{value}'), 'base')" for value in VALUES)
    session.sql(f"CREATE TABLE {IN}.literals {DDL}")
    session.sql(f"INSERT INTO {IN}.literals VALUES {listed}")
    session.sql(f"CREATE TABLE spark_catalog.default.padded ({COLUMNS}) USING parquet")
    session.sql(f"INSERT INTO spark_catalog.default.padded VALUES {listed}")
    return tables


@pytest.fixture
def session(texts: ClusterTables, application: SparkSession) -> SparkSession:
    return texts.configure(application.newSession())


def rows_of(session: SparkSession, way: str, padded: bool) -> DataFrame:
    if padded:
        return session.sql(f"SELECT k, c, s, '{way}' AS way FROM spark_catalog.default.padded")
    listed = ", ".join(f"('{value}', '{value}', ARRAY('{value}'), '{way}')" for value in VALUES)
    return session.sql(f"SELECT * FROM VALUES {listed} AS t(k, c, s, way)")


def insert(session: SparkSession, table: str, rows: DataFrame) -> None:
    rows.createOrReplaceTempView("given")
    session.sql(f"INSERT INTO {table} SELECT * FROM given")


def insert_by_name(session: SparkSession, table: str, rows: DataFrame) -> None:
    rows.select("way", "s", "c", "k").createOrReplaceTempView("given")
    session.sql(f"INSERT INTO {table} BY NAME SELECT * FROM given")


def overwrite(session: SparkSession, table: str, rows: DataFrame) -> None:
    rows.writeTo(table).overwritePartitions()


def save(session: SparkSession, table: str, rows: DataFrame) -> None:
    rows.write.mode("append").saveAsTable(table)


def insert_into(session: SparkSession, table: str, rows: DataFrame) -> None:
    rows.write.insertInto(table)


def insert_as_strings(session: SparkSession, table: str, rows: DataFrame) -> None:
    session.conf.set(AS_STRING, "true")
    insert(session, table, rows)
    session.conf.unset(AS_STRING)


WAYS: dict[str, Callable[[SparkSession, str, DataFrame], None]] = {
    "insert": insert, "by name": insert_by_name, "overwrite": overwrite, "save": save, "insert into": insert_into,
    "as strings": insert_as_strings,
}  # fmt: skip


def stream(session: SparkSession, table: str, rows: DataFrame, folder: Path) -> None:
    plain = rows.select("k", "c", "s", "way")
    plain.write.parquet(str(folder / "rows"))
    read = session.readStream.schema("k STRING, c STRING, s ARRAY<STRING>, way STRING").parquet(str(folder / "rows"))
    write = read.writeStream.option("checkpointLocation", str(folder / "at"))
    write.trigger(availableNow=True).toTable(table).awaitTermination()


def test_values_are_equal_wherever_they_came_from(
    session: SparkSession, texts: ClusterTables, tmp_path: Path
) -> None:
    """By every way in, padded or not: joins without a shuffle, filters, groups, buckets."""
    table = f"{IN}.ways"
    session.sql(f"CREATE TABLE {table} {DDL}")
    done = []
    for padded in (False, True):
        for name, write in WAYS.items():
            done.append(f"{name} {padded}")
            write(session, table, rows_of(session, done[-1], padded))
        done += [f"stream {padded}", f"load {padded}"]
        stream(session, table, rows_of(session, done[-2], padded), tmp_path / str(padded))
        texts.load(rows_of(session, done[-1], padded), "ways")
    join = session.sql(f"SELECT w.way, w.s, b.s FROM {table} w JOIN {IN}.literals b ON w.k = b.k AND w.c = b.c")
    assert count_exchanges(join) == 0
    assert sorted(row.way for row in join.collect()) == sorted(done * 3)
    assert join.where("w.s <> b.s").count() == 0
    for condition in ("k = 'a'", "k = 'a  '", "c IN ('zz', 'a')", "s[0] = 'a    '", "'a' <=> k"):
        found = session.sql(f"SELECT way FROM {table} WHERE {condition}").collect()
        assert sorted(row.way for row in found) == sorted(done), condition
    groups = session.sql(f"SELECT k, COUNT(*) AS n, MAX(LENGTH(c)) AS most FROM {table} GROUP BY k")
    assert [tuple(row) for row in groups.orderBy("k").collect()] == [
        (value.ljust(5), len(done), 5) for value in ("a", "b", "ä c")
    ]
    assert count_exchanges(groups) == 0
    wrong = session.table(table).selectExpr(
        "CAST(REGEXP_EXTRACT(INPUT_FILE_NAME(), '_([0-9]+)[.]', 1) AS INT) AS named", "PMOD(HASH(k), 6) AS bucket"
    ).where("named <> bucket")
    assert wrong.count() == 0


@pytest.mark.parametrize("source", ["spark_catalog.default.padded", f"{IN}.literals"])
def test_tables_of_a_query(source: str, session: SparkSession) -> None:
    """CREATE TABLE AS SELECT and REPLACE TABLE AS SELECT keep the type; so do copies by DataFrames."""
    table = f"{IN}.made"
    query = f"PARTITIONED BY (way) CLUSTERED BY (k) {BUCKETS} AS SELECT k, c, s, 'made' AS way FROM {source}"
    session.sql(f"CREATE OR REPLACE TABLE {table} {query}")
    session.sql(f"CREATE OR REPLACE TABLE {table} {query}")
    session.table(source).selectExpr("k", "c", "s", "'made' AS way").writeTo(table).replace()
    assert "CHAR(5)" in str(session.sql(f"SHOW CREATE TABLE {table}").first())
    join = session.sql(f"SELECT 1 FROM {table} w JOIN {IN}.literals b ON w.k = b.k")
    assert (join.count(), count_exchanges(join)) == (3, 0)


@pytest.mark.parametrize("conf", [{}, {NO_PADDING: "false"}, {AS_STRING: "true"}], ids=["default", "raw", "strings"])
def test_joins_whatever_the_session_pads(conf: dict[str, str], session: SparkSession) -> None:
    """Spark's switches change how texts are compared with literals, and not what is stored: joins stay right."""
    for key, value in conf.items():
        session.conf.set(key, value)
    rows_of(session, "again", False).createOrReplaceTempView("given")
    session.sql(f"CREATE OR REPLACE TABLE {IN}.again {DDL}")
    session.sql(f"INSERT INTO {IN}.again SELECT * FROM given")
    join = session.sql(f"SELECT 1 FROM {IN}.again w JOIN {IN}.literals b ON w.k = b.k AND w.c = b.c")
    assert join.count() == 3
    assert session.sql(f"SELECT DISTINCT LENGTH(k) FROM {IN}.again").collect() == [(5,)]


def test_partitions_by_fixed_texts(session: SparkSession) -> None:
    """Values of partitions are padded, too, in statements as in rows."""
    table = f"{IN}.parted"
    session.sql(f"CREATE TABLE {table} (k CHAR(3), p CHAR(3)) PARTITIONED BY (p) CLUSTERED BY (k) {BUCKETS}")

    def found() -> list[str]:
        return sorted(row.p for row in session.table(table).collect())

    session.sql(f"INSERT INTO {table} VALUES ('a', 'x'), ('b', 'y  '), ('c', 'z')")
    session.sql(f"INSERT INTO {table} PARTITION (p = 'x') SELECT 'd'")
    assert found() == ["x  ", "x  ", "y  ", "z  "]
    session.sql(f"INSERT OVERWRITE {table} PARTITION (p = 'x') SELECT 'e'")
    assert found() == ["x  ", "y  ", "z  "]
    assert session.sql(f"SELECT k FROM {table} WHERE p = 'y'").collect() == [("b  ",)]
    assert len(session.sql(f"SHOW PARTITIONS {table} PARTITION (p = 'y')").collect()) == 1
    session.sql(f"ALTER TABLE {table} DROP PARTITION (p = 'y')")
    assert found() == ["x  ", "z  "]
    session.sql(f"INSERT INTO {table} REPLACE WHERE p = 'z' VALUES ('f', 'z')")
    assert session.sql(f"SELECT k FROM {table} WHERE p = 'z'").collect() == [("f  ",)]
    session.sql(f"CALL {CATALOG}.system.drop_partitions('{NAMESPACE}.parted', array(map('p', 'z')))")
    assert found() == ["x  "]
    session.sql(f"INSERT INTO {table} VALUES ('g', 'w'), ('h', 'v')")
    session.sql(f"DELETE FROM {table} WHERE p IN ('w', 'q')")
    session.sql(f"DELETE FROM {table} WHERE p > 'w'")
    assert found() == ["v  "]
    session.sql(f"DELETE FROM {table} WHERE p = 'v'")
    assert found() == []


def test_texts_too_long(session: SparkSession) -> None:
    """Blanks behind the length go, anything else is refused; a VARCHAR keeps the blanks that fit."""
    table = f"{IN}.long"
    session.sql(f"CREATE TABLE {table} (k CHAR(3), v VARCHAR(3)) CLUSTERED BY (k) {BUCKETS}")
    for switch in ("false", "true"):
        session.conf.set(AS_STRING, switch)
        for wrong in ("'abcd', 'x'", "'x', 'abcd'"):
            with pytest.raises(Exception, match="EXCEED_LIMIT_LENGTH"):
                session.sql(f"INSERT INTO {table} VALUES ({wrong})")
        session.sql(f"INSERT INTO {table} VALUES ('a      ', 'a      '), ('b', 'b ')")
    found = session.table(table).distinct().orderBy("k").collect()
    assert [tuple(row) for row in found] == [("a  ", "a  "), ("b  ", "b ")]


def test_lengths_that_differ(session: SparkSession) -> None:
    """As in Spark: of two CHAR columns the shorter one is padded, a STRING is compared as it is."""
    other = f"{IN}.longer"
    session.sql(f"CREATE TABLE {other} (k CHAR(9), v STRING) CLUSTERED BY (k) {BUCKETS}")
    session.sql(f"INSERT INTO {other} VALUES ('a', 'a'), ('b', 'b    ')")
    longer = f"SELECT 1 FROM {IN}.literals a JOIN {other} b ON a.k = b.k"
    assert session.sql(longer).count() == 2
    assert not explain_json(longer, session)["joins"][0]["colocate"]
    assert session.sql(f"SELECT 1 FROM {IN}.literals a JOIN {other} b ON a.k = b.v").count() == 1


def give_files(texts: ClusterTables, agents: LoopbackAgents, source: str, target: str) -> None:
    """Another table's snapshot, whose texts are not padded, becomes the table's."""
    given, table = texts.get(source), texts.get(target)
    for root in agents.roots.values():
        there, wanted = (
            root / NAMESPACE / table_directory(found["metadata"]["name"], found["metadata"]["uid"])
            for found in (given, table)
        )
        shutil.copytree(there, wanted, dirs_exist_ok=True)
    texts.change("ct", target, snapshot=given["status"]["snapshot"])


def test_rows_of_before(session: SparkSession, texts: ClusterTables, agents: LoopbackAgents) -> None:
    """Files that an earlier release wrote: values are shown padded; joins shuffle until all rows are written again."""
    layout = f"CLUSTERED BY (k) {BUCKETS}"
    session.sql(f"CREATE TABLE {IN}.unpadded (k VARCHAR(5), c STRING, v VARCHAR(9)) {layout}")
    session.sql(f"INSERT INTO {IN}.unpadded VALUES ('a', 'x', 'longer'), ('b  ', 'yyy', 'longer')")
    table = f"{IN}.before"
    session.sql(f"CREATE TABLE {table} (k CHAR(5), c CHAR(2), v VARCHAR(2)) {layout}")
    give_files(texts, agents, "unpadded", "before")
    query = f"SELECT 1 FROM {table} w JOIN {IN}.literals b ON w.k = b.k"

    def colocated() -> bool:
        assert session.sql(query).count() == 2
        assert session.sql(f"SELECT k, c FROM {table} WHERE k = 'a' AND c = 'x'").collect()[0] == ("a    ", "x ")
        [join] = explain_json(query, session)["joins"]
        if not join["colocate"]:
            assert "column k of the bucket key is char(5), and its files hold values that are not padded" in str(join)
        return bool(join["colocate"])

    assert not colocated()
    session.sql(f"INSERT INTO {table} VALUES ('c', 'z', 'v')")
    session.sql(f"CALL {CATALOG}.system.compact('{NAMESPACE}.before')")
    assert not colocated()
    with pytest.raises(Exception, match="EXCEED_LIMIT_LENGTH"):
        session.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table}")
    session.sql(f"INSERT OVERWRITE {table} SELECT k, LEFT(c, 2), 'v' FROM {table}")
    assert colocated()


def test_a_compaction_of_rows_of_before(session: SparkSession, texts: ClusterTables, agents: LoopbackAgents) -> None:
    """It takes them as they are, and they are still shown padded."""
    session.sql(f"CREATE TABLE {IN}.twice (k VARCHAR(5), c STRING) CLUSTERED BY (k) {BUCKETS}")
    for _ in range(2):
        session.sql(f"INSERT INTO {IN}.twice VALUES ('a', 'x')")
    session.sql(f"CREATE TABLE {IN}.merged (k CHAR(5), c CHAR(2)) CLUSTERED BY (k) {BUCKETS}")
    give_files(texts, agents, "twice", "merged")
    [done] = session.sql(f"CALL {CATALOG}.system.compact('{NAMESPACE}.merged')").collect()
    assert (done["files_before"], done["files_after"]) == (2, 1)
    assert [tuple(row) for row in session.table(f"{IN}.merged").collect()] == [("a    ", "x ")] * 2
