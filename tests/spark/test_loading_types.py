"""Columns that are no keys: every type that Parquet holds, whatever names, and rows of many megabytes."""

import uuid

import pytest
from pyspark.sql import SparkSession

from colocation.model.table import ColocatedTableSpec, Column
from colocation.spark import count_exchanges
from tests.spark.catalog_server import load, show
from tests.spark.conftest import add_table
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark

MEBIBYTE = 1 << 20


def test_values_of_every_type(spark: SparkSession, catalog: FakeCatalog) -> None:
    """Nested columns in nested columns, NULL in each, old times, odd names: all come back as they were."""
    rows = spark.sql(
        """SELECT id AS k, IF(id = 3, NULL, ARRAY(NAMED_STRUCT('m', MAP('x', ARRAY(id, NULL)), 'd', NULL))) AS deep,
        IF(id = 4, NULL, MAP(id, NAMED_STRUCT('t', TIMESTAMP '1599-12-31 23:59:59.999999'))) AS m,
        DATE '0001-01-01' AS `a date`, TIMESTAMP_NTZ '1883-11-18 12:03:57' AS `n,t;z`, X'00FF' AS `b=in{ary}`,
        CAST(id AS DECIMAL(18,3)) AS `de.ci.mal`, CAST(NULL AS STRING) AS `back``tick`, '' AS `Ünï`,
        CAST('NaN' AS FLOAT) AS `(f)`, CAST('-0.0' AS DOUBLE) AS __colocation_bucket FROM range(12)"""
    )
    add_table(catalog, "typed", rows, ["k"])
    show(spark, catalog)
    assert sorted(map(repr, spark.table("shop.typed").collect())) == sorted(map(repr, rows.collect()))


def test_semistructured_values(spark: SparkSession, catalog: FakeCatalog) -> None:
    """VARIANT comes back as the same JSON."""
    rows = spark.sql("""SELECT id AS k, PARSE_JSON('{"a": [1, null, "x"]}') AS v FROM range(6)""")
    add_table(catalog, "variants", rows, ["k"])
    show(spark, catalog)
    read = spark.sql("SELECT DISTINCT TO_JSON(v) AS v FROM shop.variants").collect()
    assert [row["v"] for row in read] == ['{"a":[1,null,"x"]}']


def test_columns_of_another_case(spark: SparkSession, catalog: FakeCatalog) -> None:
    """Names are compared without case, as Spark does; the table's spelling is what is stored. Joins are colocated."""
    columns = tuple(Column(name=name, type="bigint") for name in ("Key", "Part", "V"))
    spec = ColocatedTableSpec(
        colocate_with="sales", columns=columns, bucketed_by=("KEY",), partitioned_by=("PART",), sorted_by=("v",)
    )
    catalog.add_table("cased", spec, str(uuid.uuid4()))
    load(spark.range(20).selectExpr("id AS v", "id % 2 AS pArT", "id AS kEY"), "cased", catalog=catalog)
    show(spark, catalog)
    assert spark.sql("SELECT SUM(key), SUM(part), SUM(v) FROM shop.cased").first() == (190, 10, 190)
    assert spark.table("shop.cased").columns == ["Key", "V", "Part"]
    join = spark.sql("SELECT a.v, b.v FROM shop.cased a JOIN shop.cased b ON a.key = b.kEy AND a.PART = b.part")
    assert (join.count(), count_exchanges(join)) == (20, 0)
    assert "Exchange" not in join._jdf.queryExecution().executedPlan().toString()


@pytest.mark.parametrize("name", ["_day", "__day", "_metadata", "a.b"])
def test_odd_names_of_partitions_are_seen(name: str, spark: SparkSession, catalog: FakeCatalog) -> None:
    """Spark passes over folders of some names; of ours, only those that begin with a dot, which the kind refuses."""
    add_table(catalog, "odd", spark.range(9).selectExpr("id AS k", f"id % 2 AS `{name}`"), ["k"], (name,))
    show(spark, catalog)
    assert spark.sql(f"SELECT COUNT(*), SUM(`{name}`) FROM shop.odd").first() == (9, 4)


@pytest.mark.parametrize("type_name", ["varchar(3)", "char(3)"])
def test_lengths_are_checked(type_name: str, spark: SparkSession, catalog: FakeCatalog) -> None:
    """varchar(n) and char(n) are strings up to that length; those of char(n) are padded."""
    columns = (Column(name="k", type=type_name),)
    catalog.add_group(catalog.groups["sales"].spec.model_copy(update={"bucket_key": ("string",)}),
                      catalog.groups["sales"].status)
    spec = ColocatedTableSpec(colocate_with="sales", columns=columns, bucketed_by=("k",))
    catalog.add_table("text", spec, str(uuid.uuid4()))
    load(spark.sql("SELECT * FROM VALUES ('a'), ('a  '), ('abc') AS t(k)"), "text", catalog=catalog)
    with pytest.raises(Exception, match="EXCEED_LIMIT_LENGTH"):
        load(spark.sql("SELECT 'longer' AS k"), "text", catalog=catalog)
    show(spark, catalog)
    short = "a" if type_name == "varchar(3)" else "a  "
    assert sorted(row["k"] for row in spark.table("shop.text").collect()) == [short, "a  ", "abc"]


@pytest.mark.parametrize("type_name", ["interval", "void"])
def test_what_parquet_cannot_hold_is_refused(type_name: str, spark: SparkSession, catalog: FakeCatalog) -> None:
    """Before anything is written, with the column and its type."""
    columns = (Column(name="k", type="bigint"), Column(name="i", type=type_name))
    spec = ColocatedTableSpec(colocate_with="sales", columns=columns, bucketed_by=("k",))
    catalog.add_table("unstorable", spec, str(uuid.uuid4()))
    value = "MAKE_INTERVAL(1)" if type_name == "interval" else "NULL"
    ours = f"column i is {type_name}, which Parquet files cannot hold"
    with pytest.raises(Exception, match=f'{ours}|Cannot use "{type_name.upper()}" type'):
        load(spark.range(3).selectExpr("id AS k", f"{value} AS i"), "unstorable", catalog=catalog)


def test_rows_of_megabytes(spark: SparkSession, catalog: FakeCatalog) -> None:
    """Four hundred mebibytes in rows of four go through executors of 600: no file is in memory as a whole."""
    rows = spark.range(100).selectExpr("id AS k", f"REPEAT(CAST(id % 10 AS STRING), {4 * MEBIBYTE}) AS text")
    assert add_table(catalog, "huge", rows, ["k"]).rows == 100
    spark.conf.set("spark.sql.parquet.columnarReaderBatchSize", "4")
    show(spark, catalog)
    assert spark.sql("SELECT SUM(LENGTH(text)) FROM shop.huge").first()[0] == 400 * MEBIBYTE


@pytest.mark.parametrize("partitions", [40, pytest.param(300, marks=pytest.mark.deep)])
def test_many_partitions(spark: SparkSession, catalog: FakeCatalog, partitions: int) -> None:
    """One writer at a time, however many partitions a load has."""
    rows = spark.range(2000).selectExpr("id % 7 AS k", f"CAST(id % {partitions} AS INT) AS p")
    assert add_table(catalog, "wide", rows, ["k"], ("p",)).partitions == partitions
    show(spark, catalog)
    assert spark.sql("SELECT COUNT(*), COUNT(DISTINCT p) FROM shop.wide").first() == (2000, partitions)


def test_partitions_by_a_timestamp_mean_the_same_in_every_zone(spark: SparkSession, catalog: FakeCatalog) -> None:
    """Also in the hour that the loader's zone has twice."""
    instants = "VALUES (1, 1729987200123456L), (2, 1729990800123456L), (3, -62000000000000000L), (4, 0L), (5, NULL)"
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    rows = spark.sql(f"SELECT k, TIMESTAMP_MICROS(micros) AS at FROM {instants} AS t(k, micros)")
    add_table(catalog, "events", rows.selectExpr("CAST(k AS BIGINT) AS k", "at"), ["k"], ("at",))
    for zone in ("Europe/Berlin", "America/Los_Angeles", "UTC"):
        session = spark.newSession()
        session.conf.set("spark.sql.session.timeZone", zone)
        show(session, catalog)
        found = session.sql("SELECT k, UNIX_MICROS(at) AS micros FROM shop.events").collect()
        assert sorted((row.k, row.micros) for row in found) == [
            (1, 1729987200123456), (2, 1729990800123456), (3, -62000000000000000), (4, 0), (5, None),
        ], zone  # fmt: skip
        one = session.sql("SELECT k FROM shop.events WHERE at = TIMESTAMP_MICROS(1729990800123456)")
        assert [row.k for row in one.collect()] == [2], zone
