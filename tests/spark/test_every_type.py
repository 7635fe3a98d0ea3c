"""Every type that Spark can write, by every way in: it comes back equal, or is refused by name."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.ml.feature import StandardScaler
from pyspark.ml.functions import array_to_vector, vector_to_array
from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.spark.cluster_tables import CATALOG, ClusterTables

pytestmark = pytest.mark.spark

NAMESPACE = "alltypes"
IN = f"{CATALOG}.{NAMESPACE}"
LAYOUT = "CLUSTERED BY (k) INTO 6 BUCKETS TBLPROPERTIES ('colocate_with'='sales')"
KEPT = {
    "BOOLEAN": "true",
    "TINYINT": "-1Y",
    "SMALLINT": "-1S",
    "INT": "-1",
    "BIGINT": "-1L",
    "FLOAT": "FLOAT('-0.0')",
    "DOUBLE": "DOUBLE('NaN')",
    "DECIMAL(9,2)": "1.50BD",
    "DECIMAL(38,18)": "1.000000000000000001BD",
    "STRING": "''",
    "STRING COLLATE UTF8_LCASE": "'Ab' COLLATE UTF8_LCASE",
    "ARRAY<STRING COLLATE UNICODE_CI>": "ARRAY('Ab' COLLATE UNICODE_CI)",
    "CHAR(3)": "'a'",
    "VARCHAR(3)": "'a '",
    "BINARY": "X'00FF'",
    "DATE": "DATE '0001-01-01'",
    "TIMESTAMP": "TIMESTAMP '1599-12-31 23:59:59.999999'",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ '1883-11-18 12:03:57'",
    "VARIANT": "PARSE_JSON('[1, null]')",
    "INTERVAL YEAR TO MONTH": "INTERVAL '-1-2' YEAR TO MONTH",
    "INTERVAL MONTH": "INTERVAL '7' MONTH",
    "INTERVAL DAY TO SECOND": "INTERVAL '-1 02:03:04.000005' DAY TO SECOND",
    "INTERVAL HOUR TO MINUTE": "INTERVAL '1:02' HOUR TO MINUTE",
    "ARRAY<INTERVAL DAY>": "ARRAY(INTERVAL '3' DAY, NULL)",
    "ARRAY<MAP<STRING, STRUCT<a: INT, b: CHAR(2)>>>": "ARRAY(MAP('x', NAMED_STRUCT('a', 1, 'b', 'y')))",
    "STRUCT<`b c`: INT, `d>`: STRING>": "NAMED_STRUCT('b c', 1, 'd>', 'y')",
    "STRUCT<a: INT COMMENT 'it\\'s', s: ARRAY<STRUCT<b: STRING COMMENT 'of, this: >'>>>":
        "NAMED_STRUCT('a', 1, 's', ARRAY(NAMED_STRUCT('b', 'x')))",
}  # fmt: skip
"""Types, and a value of each."""
REFUSED = {
    "MAKE_INTERVAL(1)": "INTERVAL|'interval'",
    "NULL": "VOID|'void'",
    "ARRAY(MAKE_INTERVAL(1))": "INTERVAL|'interval'",
}
Write = Callable[[SparkSession, str, DataFrame], None]


@pytest.fixture(scope="module")
def source(application: SparkSession, tables: ClusterTables) -> str:
    """A table of Spark's own with a column of each type, in one row of values and one of NULLs."""
    session = tables.configure(application.newSession())
    session.conf.set("spark.sql.session.timeZone", "UTC")
    columns = ", ".join(f"c{number} {name}" for number, name in enumerate(KEPT))
    name = "spark_catalog.default.every_type"
    session.sql(f"CREATE TABLE {name} (k BIGINT, {columns}) USING parquet")
    session.sql(f"INSERT INTO {name} VALUES (1, {', '.join(KEPT.values())}), (2, {', '.join(['NULL'] * len(KEPT))})")
    return name


@pytest.fixture(scope="module")
def given_rows(application: SparkSession, source: str) -> list[str]:
    """The source's rows, as ``shown``."""
    session = application.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return shown(session.table(source))


def shown(rows: DataFrame) -> list[str]:
    """Rows as text: JSON and casts show what Python's values hide."""
    columns = [f"TO_JSON(STRUCT(`{name}`)) AS `{name}`" for name in rows.columns]
    return sorted(map(repr, rows.selectExpr(*columns).collect()))


def types(rows: DataFrame) -> list[str]:
    return [field.dataType.simpleString() for field in rows.schema.fields]


def create_as(session: SparkSession, table: str, rows: DataFrame) -> None:
    rows.createOrReplaceTempView("given")
    session.sql(f"CREATE TABLE {table} {LAYOUT} AS SELECT * FROM given")


def replace_as(session: SparkSession, table: str, rows: DataFrame) -> None:
    create_as(session, table, rows.limit(0))
    session.sql(f"CREATE OR REPLACE TABLE {table} AS SELECT * FROM given")
    rows.writeTo(table).replace()


def write_to(session: SparkSession, table: str, rows: DataFrame) -> None:
    rows.writeTo(table).partitionedBy(F.bucket(6, "k")).tableProperty("colocate_with", "sales").create()


MAKING: dict[str, Write] = {"create as": create_as, "replace as": replace_as, "writeTo": write_to}


def insert(session: SparkSession, table: str, rows: DataFrame) -> None:
    rows.createOrReplaceTempView("given")
    session.sql(f"INSERT INTO {table} SELECT * FROM given")


def by_name(session: SparkSession, table: str, rows: DataFrame) -> None:
    rows.createOrReplaceTempView("given")
    session.sql(f"INSERT INTO {table} BY NAME SELECT * FROM given")


def append(session: SparkSession, table: str, rows: DataFrame) -> None:
    rows.writeTo(table).append()


def save(session: SparkSession, table: str, rows: DataFrame) -> None:
    rows.write.mode("append").saveAsTable(table)


def insert_into(session: SparkSession, table: str, rows: DataFrame) -> None:
    rows.write.insertInto(table)


FILLING: dict[str, Write] = {
    "insert": insert, "by name": by_name, "append": append, "save": save, "insert into": insert_into,
}  # fmt: skip


@pytest.mark.parametrize("way", MAKING)
def test_tables_made_of_rows(way: str, session: SparkSession, source: str, given_rows: list[str]) -> None:
    """Types, values and comments of fields are those of Spark's own table."""
    table, given = f"{IN}.made", session.table(source)
    session.sql(f"DROP TABLE IF EXISTS {table}")
    MAKING[way](session, table, given)
    assert shown(session.table(table)) == given_rows
    assert types(session.table(table)) == types(given)
    statement = session.sql(f"SHOW CREATE TABLE {table}").first()[0]
    assert "COMMENT 'it\\'s'" in statement and "COMMENT 'of, this: >'" in statement
    session.sql(f"DROP TABLE {table}")
    session.sql(statement)
    assert types(session.table(table)) == types(given)


def test_tables_filled_with_rows(
    session: SparkSession, tables: ClusterTables, source: str, given_rows: list[str], tmp_path: Path
) -> None:
    """By each way, files and streams too; and values are found by a condition."""
    table, given = f"{IN}.filled", session.table(source)
    columns = ", ".join(f"c{number} {name}" for number, name in enumerate(KEPT))
    session.sql(f"CREATE TABLE {table} (k BIGINT, {columns}) {LAYOUT}")
    for way, write in FILLING.items():
        session.sql(f"TRUNCATE TABLE {table}")
        write(session, table, given)
        assert shown(session.table(table)) == given_rows, way
    session.sql(f"TRUNCATE TABLE {table}")
    tables.load(given, "filled")
    given.write.parquet(str(tmp_path / "rows"))
    read = session.readStream.schema(given.schema).parquet(str(tmp_path / "rows"))
    streamed = read.writeStream.option("checkpointLocation", str(tmp_path / "at"))
    streamed.trigger(availableNow=True).toTable(table).awaitTermination()
    assert shown(session.table(table)) == sorted(given_rows * 2)
    names = {name: f"c{number}" for number, name in enumerate(KEPT)}
    for condition in (
        f"{names['STRING COLLATE UTF8_LCASE']} = 'aB'", f"{names['CHAR(3)']} = 'a'", f"{names['VARCHAR(3)']} = 'a '",
        f"{names['INTERVAL DAY TO SECOND']} < INTERVAL '-1' DAY", f"{names['INTERVAL MONTH']} = INTERVAL '7' MONTH",
        f"{names['FLOAT']} = 0", f"{names['DOUBLE']} = DOUBLE('NaN')",
    ):  # fmt: skip
        assert session.sql(f"SELECT k FROM {table} WHERE {condition}").collect() == [(1,), (1,)], condition


@pytest.mark.parametrize("way", MAKING)
def test_what_files_cannot_hold(way: str, session: SparkSession) -> None:
    """Named with its type; and no table is left."""
    for value, refused in REFUSED.items():
        with pytest.raises(Exception, match=refused):
            MAKING[way](session, f"{IN}.refused", session.sql(f"SELECT 1L AS k, {value} AS v"))
    assert not session.catalog.tableExists(f"{IN}.refused")


@pytest.mark.parametrize("way", MAKING)
def test_user_defined_types(way: str, session: SparkSession) -> None:
    """Files would hold a vector as a plain struct, which no estimator takes; the error names how to keep it."""
    values = [(1, Vectors.dense(1.0, 2.0)), (2, Vectors.sparse(2, {1: 4.0}))]
    vectors = session.createDataFrame(values, ["k", "features"])
    refused = r"column features has the user-defined type .*VectorUDT, .*vector_to_array\(features\)"
    session.sql(f"DROP TABLE IF EXISTS {IN}.vectors")
    for rows in (vectors, vectors.selectExpr("k", "ARRAY(STRUCT(features)) AS features")):
        with pytest.raises(Exception, match=refused):
            MAKING[way](session, f"{IN}.vectors", rows)
    stored = vectors.select("k", vector_to_array(F.col("features")).alias("features"))
    MAKING[way](session, f"{IN}.vectors", stored)
    read = session.table(f"{IN}.vectors").select(array_to_vector(F.col("features")).alias("features"))
    scaled = StandardScaler(inputCol="features", outputCol="scaled").fit(read)
    assert sorted(scaled.mean.toArray()) == [0.5, 3.0]


def test_user_defined_types_in_tables_that_are_there(session: SparkSession) -> None:
    """A column that is declared as the plain struct stays that."""
    table = f"{IN}.plain"
    session.sql(f"CREATE TABLE {table} (k BIGINT, features STRUCT<type: TINYINT, size: INT, indices: ARRAY<INT>, "
                f"`values`: ARRAY<DOUBLE>>) {LAYOUT}")  # fmt: skip
    vectors = session.createDataFrame([(1, Vectors.dense(1.0, 2.0))], ["k", "features"])
    for write in FILLING.values():
        write(session, table, vectors)
    found = session.sql(f"SELECT features.`values`, COUNT(*) FROM {table} GROUP BY 1").collect()
    assert found == [([1.0, 2.0], len(FILLING))]


def test_columns_that_no_file_has_are_dropped(session: SparkSession, tables: ClusterTables) -> None:
    """Before the first load any; after it those that came later. The rows, and other columns, stay."""
    table = f"{IN}.narrow"
    session.sql(f"CREATE TABLE {table} (k BIGINT, v INT, w INT, p INT) PARTITIONED BY (p) {LAYOUT}")
    session.sql(f"ALTER TABLE {table} DROP COLUMN w")
    session.sql(f"INSERT INTO {table} VALUES (1, 10, 100)")
    session.sql(f"ALTER TABLE {table} ADD COLUMNS (x STRING, y INT)")
    session.sql(f"ALTER TABLE {table} DROP COLUMNS (x, y)")
    assert session.table(table).collect() == [(1, 10, 100)]
    session.sql(f"ALTER TABLE {table} ADD COLUMN x INT")
    session.sql(f"INSERT INTO {table} VALUES (2, 20, 7, 200)")
    assert sorted(session.table(table).collect()) == [(1, 10, None, 100), (2, 20, 7, 200)]
    session.sql(f"ALTER TABLE {table} RENAME COLUMN v TO renamed")
    session.sql(f"INSERT INTO {table} VALUES (3, 30, 8, 300)")  # its manifest has the new name, its files the old one
    laid_out, held = "laid out by it", "files hold it"
    for name, why in {"renamed": held, "x": held, "k": laid_out, "p": laid_out}.items():
        with pytest.raises(Exception, match=f"DROP COLUMN or REPLACE COLUMNS of {name}; .*{why}"):
            session.sql(f"ALTER TABLE {table} DROP COLUMN {name}")
    session.sql(f"ALTER TABLE {table} DROP COLUMN IF EXISTS z")
    assert session.table(table).columns == ["k", "renamed", "x", "p"]
    assert [row.operation for row in session.table(f"{table}.snapshots").orderBy("snapshot_id").collect()] == [
        "append", "drop-columns", "append", "append"]
