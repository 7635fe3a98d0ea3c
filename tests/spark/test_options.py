"""Options of reads and writes: each is done, has no effect on rows, or is refused by name.

The operator is a thread that accepts tables; the agents and the API server are real.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.spark.cluster_tables import CATALOG, ClusterTables, make_table

pytestmark = pytest.mark.spark

NAMESPACE = "optional"
IN = f"{CATALOG}.{NAMESPACE}"
JAVA = Path(__file__).parents[2] / "spark_images/coloc-fs"
TABLE = f"{IN}.rows"
PEERS = json.loads((JAVA / "src/test/resources/peer-options.json").read_text())
BEFORE = [(1, 1), (2, 2)]
"""Rows k, p of a table that is partitioned by p."""


@pytest.fixture
def session(application: SparkSession, tables: ClusterTables) -> SparkSession:
    session = tables.configure(application.newSession())
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.sql(f"SHOW TABLES IN {IN}")
    return session


@pytest.fixture
def table(session: SparkSession) -> str:
    """A table with a row in each of two partitions."""
    if not session.catalog.tableExists(TABLE):
        make_table(session, TABLE, "k BIGINT, p BIGINT", "PARTITIONED BY (p)")
    session.sql(f"INSERT OVERWRITE {TABLE} VALUES (1, 1), (2, 2)")
    return TABLE


def found(session: SparkSession, table: str = TABLE) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in session.sql(f"SELECT k, p FROM {table}").collect())


def row(session: SparkSession, key: int, partition: int) -> DataFrame:
    return session.sql(f"SELECT {key}L AS k, {partition}L AS p")


def of_peers(kind: str) -> list[str]:
    return sorted({name for options in PEERS.values() for name in options[kind]})


def with_clause(options: dict[str, str]) -> str:
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
    return f"WITH ({listed})"


def in_sql(statement: str) -> Callable[[DataFrame, str, dict[str, str]], object]:
    def write(rows: DataFrame, table: str, options: dict[str, str]) -> object:
        rows.createOrReplaceTempView("given")
        return rows.sparkSession.sql(f"{statement} {table} {with_clause(options)} SELECT * FROM given")

    return write


OVERWRITES: dict[str, Callable[[DataFrame, str, dict[str, str]], object]] = {
    "saveAsTable": lambda rows, table, options: rows.write.mode("overwrite").options(**options).saveAsTable(table),
    "insertInto": lambda rows, table, options: rows.write.mode("overwrite").options(**options).insertInto(table),
    "insertInto-overwrite": lambda rows, table, options: rows.write.options(**options).insertInto(table, True),
    "writeTo-overwrite": lambda rows, table, options: rows.writeTo(table).options(**options).overwrite(F.lit(True)),
    "writeTo-createOrReplace": lambda rows, table, options: rows.writeTo(table).options(**options).createOrReplace(),
    "writeTo-replace": lambda rows, table, options: rows.writeTo(table).options(**options).replace(),
    "insert-overwrite": in_sql("INSERT OVERWRITE"),
}
APPENDS: dict[str, Callable[[DataFrame, str, dict[str, str]], object]] = {
    "saveAsTable": lambda rows, table, options: rows.write.mode("append").options(**options).saveAsTable(table),
    "insertInto": lambda rows, table, options: rows.write.mode("append").options(**options).insertInto(table),
    "writeTo": lambda rows, table, options: rows.writeTo(table).options(**options).append(),
    "insert-into": in_sql("INSERT INTO"),
}
NARROW: list[dict[str, str]] = [
    {"replaceWhere": "p = 1"},
    {"REPLACEWHERE": "p in (1) and p = 1"},
    {"partitionOverwriteMode": "dynamic"},
    {"PartitionOverwriteMode": "DYNAMIC"},
    {"overwrite-mode": "dynamic"},
    {"Overwrite-Mode": "Dynamic"},
]


@pytest.mark.parametrize("way", OVERWRITES)
def test_an_overwrite_replaces_what_its_options_name(session: SparkSession, table: str, way: str) -> None:
    """Partition 2 was not named, and stays."""
    for key, options in enumerate(NARROW, start=10):
        OVERWRITES[way](row(session, key, 1), table, options)
        assert found(session) == [(2, 2), (key, 1)], options
    OVERWRITES[way](row(session, 3, 3), table, {"partitionOverwriteMode": "static"})
    assert found(session) == [(3, 3)]


CONTRADICTIONS: list[tuple[dict[str, str], str]] = [
    ({"replaceWhere": "p = 1", "partitionOverwriteMode": "dynamic"}, "replaceWhere.*partitionOverwriteMode"),
    ({"overwrite-mode": "static", "partitionOverwriteMode": "dynamic"}, "overwrite-mode.*partitionOverwriteMode"),
    ({"partitionOverwriteMode": "dynamc"}, "partitionOverwriteMode='dynamc'; allowed: dynamic, static"),
    ({"overwrite-mode": ""}, "overwrite-mode=''; allowed: dynamic, static"),
    ({"replaceWhere": "k = 1"}, "only of whole partitions"),
    ({"replaceWhere": "p ="}, "replaceWhere='p ='"),
    ({"replaceWher": "p = 1"}, "option '(?i:replaceWher)' is unknown: it is spelt 'replaceWhere'"),
    ({"replace_where": "p = 1"}, "is unknown: it is spelt 'replaceWhere'"),
    ({"txnAppId": "app"}, "txnAppId.*txnVersion"),
    ({"txnAppId": "app", "txnVersion": "1", "idempotency-key": "other"}, "idempotency-key.*txnAppId"),
    ({"branch": "b"}, "option 'branch' is not taken by a write: tables have neither branches nor tags"),
    ({"versionAsOf": "1"}, "option 'versionAsOf' is not taken by a write: it is of a read|TIME_TRAVEL"),
    ({"anything": "1"}, "option 'anything' is unknown: a write takes .*; leave it out"),
]


@pytest.mark.parametrize("way", OVERWRITES)
def test_what_an_overwrite_does_not_take(session: SparkSession, table: str, way: str) -> None:
    """Nothing is replaced, and the error names what was given."""
    for options, message in CONTRADICTIONS:
        with pytest.raises(Exception, match=message):
            OVERWRITES[way](row(session, 9, 1), table, options)
    assert found(session) == BEFORE


@pytest.mark.parametrize("way", APPENDS)
def test_what_an_append_does_not_take(session: SparkSession, table: str, way: str) -> None:
    """An append replaces nothing, so it takes no condition; one that is repeated under a key is one."""
    with pytest.raises(Exception, match=r"(?i)option replaceWhere is of overwrites, and this write appends"):
        APPENDS[way](row(session, 9, 1), table, {"replaceWhere": "p = 1"})
    APPENDS[way](row(session, 3, 1), table, {"partitionOverwriteMode": "dynamic"})
    for version in ("1", "1", "2", "1"):
        APPENDS[way](row(session, int(version) + 10, 1), table, {"TxnAppId": f"app-{way}", "txnVersion": version})
    assert found(session) == [*sorted([*BEFORE, (3, 1), (11, 1), (12, 1)])]


def test_other_rows_are_named_twice(session: SparkSession, table: str) -> None:
    """A condition or PARTITION and an option of the same write."""
    for options in ({"replaceWhere": "p = 1"}, {"partitionOverwriteMode": "dynamic"}):
        with pytest.raises(Exception, match=r"which rows are replaced is given twice"):
            row(session, 9, 2).writeTo(table).options(**options).overwrite(F.col("p") == 2)
        with pytest.raises(Exception, match=r"which rows are replaced is given twice"):
            session.sql(f"INSERT OVERWRITE {table} {with_clause(options)} PARTITION (p = 2) SELECT 9L")
    for options in ({"replaceWhere": "p = 1"}, {"partitionOverwriteMode": "static"}):
        with pytest.raises(Exception, match=r"which rows are replaced is given twice"):
            row(session, 9, 2).writeTo(table).options(**options).overwritePartitions()
    assert found(session) == BEFORE


def test_the_sessions_mode(session: SparkSession, table: str) -> None:
    """saveAsTable replaces the table whatever the session is set to, so it asks which of both is meant."""
    session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    with pytest.raises(Exception, match=r"saveAsTable .* partitionOverwriteMode"):
        row(session, 3, 1).write.mode("overwrite").saveAsTable(table)
    assert found(session) == BEFORE
    row(session, 3, 1).write.mode("overwrite").option("partitionOverwriteMode", "dynamic").saveAsTable(table)
    assert found(session) == [(2, 2), (3, 1)]
    row(session, 4, 1).write.mode("overwrite").insertInto(table)
    assert found(session) == [(2, 2), (4, 1)]
    session.sql(f"CREATE OR REPLACE TABLE {table} AS SELECT 5L AS k, 5L AS p")
    row(session, 6, 6).writeTo(table).createOrReplace()
    assert found(session) == [(6, 6)]
    row(session, 7, 7).write.mode("overwrite").option("partitionOverwriteMode", "static").saveAsTable(table)
    assert found(session) == [(7, 7)]


def test_older_snapshots_by_options(session: SparkSession, table: str) -> None:
    """As VERSION AS OF and TIMESTAMP AS OF, in any case, of DataFrames and SQL, and of a table's metadata tables."""
    first, at = session.sql(
        f"SELECT snapshot_id, unix_millis(committed_at) FROM {table}.snapshots ORDER BY snapshot_id DESC LIMIT 1"
    ).collect()[0]
    while time.time() * 1000 < at + 1000:  # commits have whole seconds: the next one is in a later second
        time.sleep(0.05)
    row(session, 3, 3).writeTo(table).append()
    moment = session.sql(f"SELECT CAST(timestamp_millis({at}) AS STRING)").collect()[0][0]
    versions = dict.fromkeys(("snapshot-id", "Snapshot-Id", "versionAsOf"), first)
    for name, value in {**versions, "as-of-timestamp": at + 1, "timestampAsOf": moment}.items():
        assert sorted(map(tuple, session.read.option(name, str(value)).table(table).collect())) == BEFORE, name
        assert sorted(map(tuple, session.sql(f"SELECT * FROM {table} WITH ('{name}'='{value}')").collect())) == BEFORE
        counted = session.read.option(name, str(value)).table(f"{table}.files").count()
        assert counted == 2, name
    both = session.sql(f"SELECT a.k FROM {table} a JOIN {table} WITH ('snapshot-id'='{first}') b ON a.k = b.k")
    assert sorted(found[0] for found in both.collect()) == [1, 2]
    session.catalog.setCurrentCatalog(CATALOG)
    session.catalog.setCurrentDatabase(NAMESPACE)
    assert session.read.option("snapshot-id", str(first)).table("rows").count() == 2


READS: list[tuple[dict[str, str], str]] = [
    ({"snapshot-id": "1", "versionAsOf": "2"}, "snapshot-id.*versionAsOf"),
    ({"snapshot-id": "1", "as-of-timestamp": "1"}, "as-of-timestamp.*snapshot-id"),
    ({"as-of-timestamp": "yesterday"}, "as-of-timestamp='yesterday'; allowed: milliseconds"),
    ({"snapshot-id": "main"}, "keeps no snapshot main"),
    ({"snapshotid": "1"}, "is unknown: it is spelt 'snapshot-id'"),
    ({"branch": "b"}, "option 'branch' is not taken by a read: tables have neither branches nor tags"),
    ({"start-snapshot-id": "1"}, "readChangeFeed=true with startingVersion"),
    ({"readChangeFeed": "true"}, "allowed: startingVersion"),
    ({"replaceWhere": "p = 1"}, "is not taken by a read: it is of a write"),
    ({"anything": "1"}, "option 'anything' is unknown: a read takes .*; leave it out"),
]


def test_what_a_read_does_not_take(session: SparkSession, table: str) -> None:
    """Also of the second relation of a table in a query, which Spark takes from the first one."""
    for options, message in READS:
        with pytest.raises(Exception, match=message):
            session.read.options(**options).table(table).collect()
        for read in (table, f"{table} a JOIN {table}", f"{table}.files"):
            with pytest.raises(Exception, match=message):
                session.sql(f"SELECT * FROM {read} {with_clause(options)}").collect()
    with pytest.raises(Exception, match=r"TIME_TRAVEL|time travel"):
        session.sql(f"SELECT * FROM {table} VERSION AS OF 1 WITH ('snapshot-id' = '2')").collect()


def test_which_rows_is_never_silent(session: SparkSession, table: str) -> None:
    """Of each documented option that chooses rows: the read or the write fails and names it."""
    for name in of_peers("read rows"):
        with pytest.raises(Exception, match=rf"(?i){name}|snapshot nothing|nothing.* TIMESTAMP"):
            session.read.option(name, "nothing").table(table).collect()
    for name in of_peers("write rows"):
        with pytest.raises(Exception, match=rf"(?i){name}|nothing"):
            row(session, 9, 1).write.mode("overwrite").option(name, "nothing").insertInto(table)
    assert found(session) == BEFORE


def test_options_without_effect(session: SparkSession, table: str) -> None:
    """Sizes, formats and speed of other projects: code that gives them goes on."""
    assert session.read.options(**dict.fromkeys(PEERS["Iceberg"]["read no_rows"], "1")).table(table).count() == 2
    options = {"compression": "snappy", "mergeSchema": "true", "userMetadata": "x", "snapshot-property.who": "me"}
    row(session, 3, 3).write.mode("append").options(**options).saveAsTable(table)
    assert found(session) == [*BEFORE, (3, 3)]


def test_tables_made_by_data_frames(session: SparkSession, tables: ClusterTables) -> None:
    """bucketBy and sortBy are the table's key, number and order, options its properties; again when rows are added."""
    name = f"{IN}.made"
    made = {"colocate_with": "sales", "Retention_Snapshots": "7"}

    def write(mode: str, key: int, **options: str) -> None:
        writer = row(session, key, 1).write.mode(mode).partitionBy("p").bucketBy(6, "k").sortBy("k")
        writer.options(**options).saveAsTable(name)

    write("overwrite", 1, **made)
    spec = tables.get("made")["spec"]
    assert (spec["buckets"], spec["bucketedBy"], spec["sortedBy"], spec["partitionedBy"]) == (6, ["k"], ["k"], ["p"])
    assert (spec["colocateWith"], spec["retention"]["snapshots"]) == ("sales", 7)
    write("append", 2, **made)
    assert found(session, name) == [(1, 1), (2, 1)]
    with pytest.raises(Exception, match=r"retention_snapshots is 7.* '8'.* ALTER TABLE"):
        write("append", 3, **made | {"retention_snapshots": "8"})
    write("overwrite", 4, partitionOverwriteMode="dynamic", **made)
    assert found(session, name) == [(4, 1)]
    with pytest.raises(Exception, match=r"write\.option"):
        row(session, 5, 1).write.bucketBy(6, "k").saveAsTable(f"{IN}.homeless")
    with pytest.raises(Exception, match=r"bucketBy\(<n>, <columns>\)"):
        row(session, 5, 1).write.option("colocate_with", "sales").saveAsTable(f"{IN}.homeless")
    writer = row(session, 6, 1).writeTo(f"{IN}.v2").partitionedBy(F.bucket(6, "k")).option("colocate_with", "sales")
    writer.create()
    assert tables.get("v2")["spec"]["colocateWith"] == "sales"
    with pytest.raises(Exception, match=r"colocate_with.*'sales'.*'other'"):
        writer.tableProperty("colocate_with", "other").createOrReplace()
    assert sorted(table.name for table in session.catalog.listTables(IN)) == ["made", "rows", "v2"]


def test_options_of_table_definitions(session: SparkSession, tables: ClusterTables) -> None:
    """OPTIONS (…) are properties; the catalog's own API gives the bucket key as one."""
    session.sql(f"CREATE TABLE {IN}.by_options (k BIGINT) USING parquet OPTIONS ('Colocate_With'='sales') "
                "CLUSTERED BY (k) INTO 6 BUCKETS")  # fmt: skip
    assert tables.get("by-options")["spec"]["colocateWith"] == "sales"
    with pytest.raises(Exception, match=r"option 'compression'"):
        session.sql(f"CREATE TABLE {IN}.n (k BIGINT) USING parquet OPTIONS ('compression'='zstd') "
                    "CLUSTERED BY (k) INTO 6 BUCKETS TBLPROPERTIES ('colocate_with'='sales')")  # fmt: skip
    schema = session.table(f"{IN}.by_options").schema
    with pytest.raises(Exception, match=r"no bucket key.*property 'clustered_by'"):
        session.catalog.createTable(f"{IN}.n", schema=schema, source="parquet", colocate_with="sales")
    by_api = f"{IN}.by_api"
    session.catalog.createTable(by_api, schema=schema, source="parquet", colocate_with="sales", clustered_by="k")
    assert tables.get("by-api")["spec"]["bucketedBy"] == ["k"]
    with pytest.raises(Exception, match=r"option 'colocated'"):
        session.catalog.createTable(f"{IN}.n", schema=schema, source="parquet", colocated="sales")


def test_streams_have_their_own_key(session: SparkSession, table: str, tmp_path: Path) -> None:
    """What a stream cannot do is refused when it starts."""
    for number, (options, message) in enumerate([
        ({"idempotency-key": "mine"}, "idempotency-key.* a stream has a key of its own"),
        ({"replaceWhere": "p = 1"}, "replaceWhere' is not taken by a stream's write"),
        ({"partitionOverwriteMode": "dynamic"}, "is not taken by a stream's write"),
        ({"branch": "b"}, "branch"),
        ({"anything": "1"}, "anything' is unknown"),
    ]):  # fmt: skip
        stream = session.readStream.format("rate").load().selectExpr("value AS k", "1L AS p")
        writer = stream.writeStream.option("checkpointLocation", str(tmp_path / str(number))).options(**options)
        query = writer.trigger(availableNow=True).toTable(table)
        with pytest.raises(Exception, match=message):
            query.processAllAvailable()
    assert found(session) == BEFORE


def test_options_of_sql_reach_the_rows(session: SparkSession, table: str) -> None:
    """As those of DataFrames: a repeated append is not computed, and one statement writes once under a key."""
    insert = f"INSERT INTO {table} WITH ('idempotency-key' = 'sql-1') SELECT k, p FROM"
    session.sql(f"{insert} VALUES (3L, 3L) AS t(k, p)")
    session.sql(f"{insert} (SELECT 4L AS k, ASSERT_TRUE(false, 'computed') IS NULL AS no, 4L AS p)")
    twice = f"INSERT INTO {table} WITH ('idempotency-key' = 'sql-2') SELECT id, 4"
    with pytest.raises(Exception, match=r"InvalidOption: .* twice under idempotency key sql-2"):
        session.sql(f"FROM range(2) {twice} {twice} WHERE id > 0")
    assert found(session) == [*BEFORE, (3, 3)]


def test_settings_of_the_session(session: SparkSession, table: str) -> None:
    """Spark takes any name; a key of writes that is misspelt would be none."""
    session.conf.set("spark.colocation.write.idempotencykey", "day-1")
    with pytest.raises(Exception, match=r"spark\.colocation\.write\.idempotencykey, which is unknown; allowed: .*Key"):
        row(session, 3, 3).writeTo(table).append()
    session.conf.unset("spark.colocation.write.idempotencykey")
    with pytest.raises(Exception, match=r"(?i)partitionOverwriteMode"):
        session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamc")
        row(session, 3, 3).write.mode("overwrite").insertInto(table)
    assert found(session) == BEFORE


@pytest.mark.parametrize("criteria", ["USING (p)", "ON {t}.p = s.p"])
def test_replacing_by_the_rows_of_a_query(session: SparkSession, table: str, criteria: str) -> None:
    """Spark 4.3 parses it; no version does it for tables of catalogs, and none replaces the whole table."""
    row(session, 9, 1).createOrReplaceTempView("s")
    with pytest.raises(Exception, match=r"REPLACE|Replace"):
        session.sql(f"INSERT INTO {table} REPLACE {criteria.format(t=table)} SELECT * FROM s")
    assert found(session) == BEFORE
