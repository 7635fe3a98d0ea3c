"""After the first load: compaction, dropped partitions, new and renamed columns, loads of nothing."""

import datetime
from dataclasses import replace
from decimal import Decimal

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession

from colocation.model.table import Column, Compaction
from colocation.spark.write.maintenance import PartitionValue
from tests.spark.catalog_server import compact, drop_partitions, load, show
from tests.spark.conftest import BUCKETS, add_table
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark

ODD_ROWS = (
    "id AS k", "CAST(IF(id % 5 = 0, NULL, IF(id % 5 = 1, 'NaN', '-0.0')) AS DOUBLE) AS `f.`", "ARRAY(id, NULL) AS a",
    "TIMESTAMP '1583-01-01 00:00:00.000001' AS t", "ELT(CAST(id % 4 AS INT) + 1, 'a=b/c', '01', 'ü %', NULL) AS p",
)  # fmt: skip


def change_columns(catalog: FakeCatalog, name: str, *columns: Column) -> None:
    """As ``kubectl apply`` does."""
    table = catalog.tables[name]
    catalog.tables[name] = replace(table, spec=table.spec.model_copy(update={"columns": columns}))


def stored(spark: SparkSession, catalog: FakeCatalog, name: str) -> list[str]:
    show(spark, catalog)
    table = spark.table(f"shop.{name}")
    return sorted(map(repr, table.select(*sorted(f"`{column}`" for column in table.columns)).collect()))


def in_order(rows: DataFrame) -> list[str]:
    return sorted(map(repr, rows.select(*sorted(f"`{column}`" for column in rows.columns)).collect()))


@pytest.mark.deep
def test_compaction_keeps_the_rows(spark: SparkSession, catalog: FakeCatalog) -> None:
    """Three loads become one file per bucket and partition; a second compaction finds nothing to do."""
    rows = [spark.range(start, start + 40).selectExpr(*ODD_ROWS) for start in (0, 40, 80)]
    add_table(catalog, "many", rows[0], ["k"], ("p",))
    for more in rows[1:]:
        load(more, "many", catalog=catalog)
    before = catalog.tables["many"].status.snapshot
    result = compact(spark, "many", catalog=catalog)
    after = catalog.tables["many"].status
    assert (before.rows, after.snapshot.rows, result.replicas_missing) == (120, 120, 0)
    assert after.snapshot.files == before.files - result.files_before + result.files_after <= 4 * BUCKETS
    assert [entry.id for entry in after.history] == [3, 2, 1]
    assert stored(spark, catalog, "many") == in_order(rows[0].union(rows[1]).union(rows[2]))
    assert compact(spark, "many", catalog=catalog).files_before == 0
    assert catalog.tables["many"].status.snapshot == after.snapshot


def test_compaction_of_one_partition(spark: SparkSession, catalog: FakeCatalog) -> None:
    """Other partitions stay as they are, and the merged files are sorted by the key."""
    rows = spark.range(600).selectExpr("(id * 37) % 600 AS k", "CAST(id % 2 AS INT) AS p")
    add_table(catalog, "one", rows.where("k < 300"), ["k"], ("p",))
    load(rows.where("k >= 300"), "one", catalog=catalog)
    result = compact(spark, "one", partitions=[{"P": 1}], catalog=catalog)
    assert (result.partitions, result.rows) == (1, 300)
    show(spark, catalog)
    files = "SELECT *, INPUT_FILE_NAME() AS f FROM shop.one"
    read = spark.sql(f"SELECT p, COLLECT_LIST(k) AS keys FROM ({files}) GROUP BY p, f")
    keys = [(row["p"], row["keys"]) for row in read.collect()]
    assert all(values == sorted(values) for _, values in keys)
    assert sum(1 for p, _ in keys if p == 1) == result.files_after
    with pytest.raises(AnalysisException, match=r"partitioned by \(p\)"):
        compact(spark, "one", partitions=[{"day": 1}], catalog=catalog)


def test_an_append_during_a_compaction_stays(spark: SparkSession, catalog: FakeCatalog) -> None:
    """The compaction goes on top of what was appended; what was overwritten meanwhile it gives up."""
    rows = spark.range(30).selectExpr("id AS k")
    add_table(catalog, "busy", rows, ["k"])
    load(rows, "busy", catalog=catalog)
    catalog.before_commit = lambda: load(spark.range(100, 110).selectExpr("id AS k"), "busy", catalog=catalog)
    compact(spark, "busy", catalog=catalog)
    assert len(stored(spark, catalog, "busy")) == 70
    catalog.before_commit = lambda: load(rows, "busy", mode="overwrite", catalog=catalog)
    with pytest.raises(SparkRuntimeException, match=r"^LoadConflict: .*compact was overtaken: .* no longer committed"):
        compact(spark, "busy", catalog=catalog)
    assert stored(spark, catalog, "busy") == in_order(rows)


def test_a_load_compacts_above_the_threshold(spark: SparkSession, catalog: FakeCatalog) -> None:
    """With ``spec.compaction`` the load that makes a bucket crowded merges it; a failure there is only reported."""
    rows = spark.range(12).selectExpr("CAST(0 AS BIGINT) AS k", "id AS v")
    add_table(catalog, "auto", rows, ["k"])
    table = catalog.tables["auto"]
    compaction = Compaction(enabled=True, max_files_per_bucket=2)
    catalog.tables["auto"] = replace(table, spec=table.spec.model_copy(update={"compaction": compaction}))
    assert load(rows, "auto", catalog=catalog).compaction is None
    result = load(rows, "auto", catalog=catalog)
    assert result.compaction is not None and result.compaction_failure == ""
    assert (result.compaction.files_before, result.compaction.files_after, result.compaction.rows) == (3, 1, 36)
    assert (result.snapshot_id, result.compaction.snapshot_id) == (3, 4)


def test_dropped_partitions(spark: SparkSession, catalog: FakeCatalog) -> None:
    """Exactly the named partitions go, NULL too; the older snapshot stays in the history; repeating changes nothing."""
    rows = spark.range(40).selectExpr("id AS k", "CAST(IF(id % 4 = 0, NULL, id % 4) AS INT) AS P", "id % 2 = 0 AS q")
    add_table(catalog, "parts", rows, ["k"], ("P", "q"))
    result = drop_partitions(spark, "parts", [{"p": None}, {"p": 1, "q": False}, {"p": 3, "q": True}], catalog=catalog)
    assert (result.partitions, result.rows) == (2, 20)
    assert [entry.id for entry in catalog.tables["parts"].status.history] == [1]
    assert stored(spark, catalog, "parts") == in_order(rows.where("P IN (2, 3)"))
    again = drop_partitions(spark, "parts", [{"p": None}], catalog=catalog)
    assert (again.partitions, again.snapshot_id) == (0, 2)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("DATE '2024-01-02'", datetime.date(2024, 1, 2)), ("1.50BD", Decimal("1.50")), ("true", True), ("7", 7),
        ("TIMESTAMP '2024-01-02 03:00:00.5Z'", datetime.datetime(2024, 1, 2, 3, 0, 0, 500000, datetime.UTC)),
        ("TIMESTAMP_NTZ '2024-01-02 03:00:00'", datetime.datetime(2024, 1, 2, 3)),
    ],
)  # fmt: skip
def test_partitions_by_values_of_python(
    spark: SparkSession, catalog: FakeCatalog, column: str, value: PartitionValue
) -> None:
    """Their partition goes, and no other."""
    add_table(catalog, "typed", spark.range(8).selectExpr("id AS k", f"IF(id < 3, {column}, NULL) AS p"), ["k"], ("p",))
    result = drop_partitions(spark, "typed", [{"p": value}], catalog=catalog)
    assert (result.partitions, result.rows) == (1, 3)


def test_columns_are_added_and_renamed(spark: SparkSession, catalog: FakeCatalog) -> None:
    """Old rows have NULL in a new column; a renamed one keeps its rows, in old files, new files and merged ones."""
    old = spark.range(20).selectExpr("id AS k", "id * 2 AS price")
    add_table(catalog, "grown", old, ["k"])
    change_columns(
        catalog, "grown", Column(name="k", type="bigint"), Column(name="cost", type="bigint", stored_as="price"),
        Column(name="note", type="string"),
    )  # fmt: skip
    new = spark.range(20, 40).selectExpr("'x' AS note", "id * 2 AS cost", "id AS k")
    with pytest.raises(ValueError, match="the columns cost, k, and not note; "):
        load(new.drop("note"), "grown", catalog=catalog)
    load(new, "grown", catalog=catalog)
    expected = in_order(spark.range(40).selectExpr("id AS k", "id * 2 AS cost", "IF(id < 20, NULL, 'x') AS note"))
    assert stored(spark, catalog, "grown") == expected
    compact(spark, "grown", catalog=catalog)
    assert stored(spark, catalog, "grown") == expected


def test_columns_that_files_cannot_have_are_refused(spark: SparkSession, catalog: FakeCatalog) -> None:
    """Rows that are there fit no new required column, no other type and no missing column: both sides are named."""
    add_table(catalog, "fixed", spark.range(5).selectExpr("id AS k", "1 AS v"), ["k"])
    for columns, rows, words in (
        ([Column(name="v", type="bigint")], ["CAST(1 AS BIGINT) AS v"], "column v has type int and should be bigint"),
        ([], [], "column v .int. exists and is no longer in the spec"),
        (
            [Column(name="v", type="int"), Column(name="w", type="int", nullable=False)], ["1 AS v", "2 AS w"],
            "column w .int. is new and would have to be nullable",
        ),
    ):  # fmt: skip
        change_columns(catalog, "fixed", Column(name="k", type="bigint"), *columns)
        given = spark.range(3).selectExpr("id AS k", *rows)
        with pytest.raises(Exception, match=words):
            load(given, "fixed", catalog=catalog)
    change_columns(catalog, "fixed", Column(name="k", type="bigint"))
    assert load(spark.range(3).selectExpr("id AS k"), "fixed", mode="overwrite", catalog=catalog).rows == 3


def test_loads_of_nothing(spark: SparkSession, catalog: FakeCatalog) -> None:
    """Append and overwrite-partitions of no rows change nothing; overwrite with none empties the table."""
    rows = spark.range(10).selectExpr("id AS k", "1 AS p")
    add_table(catalog, "emptied", rows, ["k"], ("p",))
    committed = catalog.tables["emptied"].status.snapshot
    for mode in ("append", "overwrite-partitions"):
        result = load(rows.where("k < 0"), "emptied", mode=mode, catalog=catalog)
        assert (result.files, result.snapshot_id, catalog.tables["emptied"].status.snapshot) == (0, 1, committed)
    assert load(rows.where("k < 0"), "emptied", mode="overwrite", catalog=catalog).snapshot_id == 2
    assert stored(spark, catalog, "emptied") == []
    assert catalog.tables["emptied"].status.history == (committed,)
