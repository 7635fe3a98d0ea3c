"""What ``colocation load`` reads: any format of Spark, with its options."""

import re
import threading
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from colocation.model.driver_output import WriteProgress, find_progress
from colocation.spark.jobs.load import column_types, load_rows, parse, read
from colocation.spark.jobs.program import printing_progress
from tests.spark.catalog_server import load, serve, show
from tests.spark.conftest import add_table
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark

ROWS = 1_000_000
LINES = "id,name\n1,a\n2,b\n"


@pytest.mark.parametrize("format_name", ["parquet", "json", "orc", "csv"])
def test_files_of_every_format(format_name: str, spark: SparkSession, catalog: FakeCatalog, tmp_path: Path) -> None:
    """What Spark has written is read and loaded; CSV by its header, with types taken from the values."""
    path = str(tmp_path / format_name)
    spark.range(20).selectExpr("CAST(id AS INT) AS id", "'x' AS name").write.format(format_name).option(
        "header", "true"
    ).save(path)
    rows = read(spark, path, format_name, {})
    assert add_table(catalog, "formats", rows, ["id"]).rows == 20
    assert sorted(rows.columns) == ["id", "name"]


@pytest.mark.parametrize(
    ("mark", "read_at", "kind"),
    [
        ("_delta_log", ".", "delta"), (".hoodie", ".", "hudi"), ("metadata/v1.metadata.json", ".", "iceberg"),
        ("metadata/v1.metadata.json", "data", "iceberg"),
    ],
)  # fmt: skip
def test_folders_of_other_tables_are_refused(
    mark: str, read_at: str, kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Their files also hold rows that were deleted."""
    spark.range(3).write.parquet(str(tmp_path / "table" / "data" / "part"))
    found = tmp_path / "table" / mark
    found.parent.mkdir(exist_ok=True)
    found.touch()
    path = str((tmp_path / "table" / read_at).resolve())
    with pytest.raises(ValueError, match=f"is the folder of a table of {kind}; read as parquet it would also give"):
        read(spark, path, "parquet", {})


def test_a_store_that_does_not_answer_is_refused(spark: SparkSession) -> None:
    """Before the connector repeats each request for minutes. (Hadoop's own client of HTTP stands in for S3A here.)"""
    hadoop = spark._jsc.hadoopConfiguration()
    hadoop.set("fs.s3a.impl", "org.apache.hadoop.hdfs.web.WebHdfsFileSystem")
    try:
        with pytest.raises(ValueError, match=r"the store does not answer: .*refused.*; check its address"):
            read(spark, "s3a://127.0.0.1:1/orders", "csv", {})
    finally:
        hadoop.unset("fs.s3a.impl")


def test_a_store_without_tls_is_refused(spark: SparkSession) -> None:
    """An address of https:// whose server speaks HTTP: the connector would repeat that, too."""
    hadoop = spark._jsc.hadoopConfiguration()
    hadoop.set("fs.s3a.impl", "org.apache.hadoop.hdfs.web.SWebHdfsFileSystem")
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as plain:
        threading.Thread(target=plain.serve_forever, daemon=True).start()
        try:
            with pytest.raises(ValueError, match=r"the store does not answer: .*SSL.*; check its address"):
                read(spark, f"s3a://127.0.0.1:{plain.server_port}/orders", "csv", {})
        finally:
            plain.shutdown()
            hadoop.unset("fs.s3a.impl")


def test_tables_of_catalogs_are_read_by_name(spark: SparkSession) -> None:
    """A name whose catalog nothing configures is refused: Iceberg would report that there is no Hive metastore."""
    with pytest.raises(ValueError, match="this session has no catalog raw; name the table CATALOG"):
        read(spark, "raw.orders", "iceberg", {})
    spark.conf.set("spark.sql.catalog.raw", "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog")
    spark.conf.set("spark.sql.catalog.raw.url", "jdbc:derby:memory:raw;create=true")
    spark.conf.set("spark.sql.catalog.raw.driver", "org.apache.derby.jdbc.EmbeddedDriver")
    spark.sql("CREATE TABLE raw.APP.orders (k INT)")
    assert read(spark, "raw.APP.orders", "iceberg", {}).columns == ["k"]


def test_texts_are_loaded_as_the_files_have_them(spark: SparkSession, catalog: FakeCatalog, tmp_path: Path) -> None:
    """Of the postal code 01234 Spark makes a number, in CSV and in the name of a folder."""
    add_table(catalog, "towns", spark.sql("SELECT 0 AS id, '00000' AS Code, 0.5D AS share"), ["id"])
    show(spark, catalog)
    types = column_types(spark, "shop.towns")
    (tmp_path / "towns.csv").write_text("id,code,share\n1,01234,0.50\n2,1e3,1\n")
    spark.sql("SELECT 3 AS id, 0.25D AS share").write.parquet(str(tmp_path / "folders" / "code=007"))
    spark.sql("SELECT 4 AS id, 0.25D AS share, 7 AS code").write.parquet(str(tmp_path / "numbers"))
    for path, format_name in (("towns.csv", "csv"), ("folders", "parquet"), ("numbers", "parquet")):
        load(read(spark, str(tmp_path / path), format_name, {}, types), "towns", catalog=catalog)
    show(spark, catalog)
    rows = {(row.id, row.Code, row.share) for row in spark.table("shop.towns").collect()}
    assert rows == {(0, "00000", 0.5), (1, "01234", 0.5), (2, "1e3", 1), (3, "007", 0.25), (4, "7", 0.25)}


@pytest.mark.parametrize(
    ("format_name", "lines", "rows"),
    [
        pytest.param("csv", "id,share,day\n", [], id="a header only"),
        pytest.param("csv", "id,share,day\n1,,\n2,,2026-11-30\n", [(1, None, None), (2, None, date(2026, 11, 30))],
                     id="CSV"),
        pytest.param("json", '{"id": 1, "share": null, "day": null}', [(1, None, None)], id="JSON"),
    ],
)  # fmt: skip
def test_columns_without_a_value_are_loaded(
    format_name: str, lines: str, rows: list[tuple[Any, ...]], spark: SparkSession, catalog: FakeCatalog, tmp_path: Path
) -> None:
    """Spark takes them for text, which it refuses to write as numbers."""
    add_table(catalog, "shares", spark.sql("SELECT 0L AS id, 0.5D AS share, DATE'2026-01-01' AS day"), ["id"])
    show(spark, catalog)
    (tmp_path / "in").write_text(lines)
    given = read(spark, str(tmp_path / "in"), format_name, {}, column_types(spark, "shop.shares"))
    load(given, "shares", catalog=catalog, mode="overwrite")
    show(spark, catalog)
    assert sorted(map(tuple, spark.table("shop.shares").collect())) == rows


def test_texts_are_no_numbers(spark: SparkSession, catalog: FakeCatalog, tmp_path: Path) -> None:
    """A column with a value that is none of its type is refused, and not read as NULL."""
    add_table(catalog, "counts", spark.sql("SELECT 0L AS id, 1 AS n"), ["id"])
    show(spark, catalog)
    (tmp_path / "in").write_text("id,n\n1,\n2,many\n")
    given = read(spark, str(tmp_path / "in"), "csv", {}, column_types(spark, "shop.counts"))
    with pytest.raises(Exception, match=r"CANNOT_SAFELY_CAST"):
        load(given, "counts", catalog=catalog)


def test_a_csv_file_with_columns_in_another_order_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads it by the order of the first file: amounts would be ids."""
    (tmp_path / "a.csv").write_text("id,amount\n1,10\n")
    (tmp_path / "b.csv").write_text("amount,id\n20,2\n")
    with pytest.raises(Exception, match="CSV header does not conform to the schema"):
        read(spark, str(tmp_path), "csv", {}).collect()


@pytest.mark.parametrize(
    ("options", "columns", "count"),
    [
        pytest.param({}, [("id", "int"), ("name", "string")], 2, id="a-header-and-types"),
        pytest.param({"Header": "false"}, [("_c0", "string"), ("_c1", "string")], 3, id="no-header"),
        pytest.param({"inferschema": "false"}, [("id", "string"), ("name", "string")], 2, id="no-types"),
    ],
)
def test_options_of_csv(
    options: dict[str, str], columns: list[tuple[str, str]], count: int, spark: SparkSession, tmp_path: Path
) -> None:
    """Given options win over ours, whatever their case."""
    file = tmp_path / "lines.csv"
    file.write_text(LINES)
    rows = read(spark, str(file), "csv", options)
    assert (rows.dtypes, rows.count()) == (columns, count)


@pytest.mark.parametrize("format_name", ["parquet", "orc"])
@pytest.mark.parametrize("newer", ["a", "z"], ids=["the first file is newer", "the last file is newer"])
def test_columns_of_newer_files_are_read(format_name: str, newer: str, spark: SparkSession, tmp_path: Path) -> None:
    """Whichever file Spark looks at first; older files have NULL there."""
    for name, columns in (("m", ["id"]), (newer, ["id", "'x' AS note"])):
        spark.range(2).coalesce(1).selectExpr(*columns).write.format(format_name).save(str(tmp_path / name))
    path = str(tmp_path / "*")
    rows = read(spark, path, format_name, {})
    assert sorted(row.note or "" for row in rows.collect()) == ["", "", "x", "x"]
    assert len(read(spark, path, format_name, {"MERGESCHEMA": "false"}).columns) == (2 if newer == "a" else 1)


def test_a_partitions_folder_is_no_input_without_its_column(
    spark: SparkSession, catalog: FakeCatalog, tmp_path: Path
) -> None:
    """Its rows would become those of partition NULL; with basePath they are of their day."""
    lake = str(tmp_path / "orders")
    days = spark.range(20).selectExpr("id AS k", "DATE'2026-11-21' - CAST(id % 2 AS INT) AS day", "'a' AS `Zone`")
    add_table(catalog, "orders", days, ["k"], ("day", "Zone"))
    days.where("k < 10").write.partitionBy("day", "zone").parquet(lake)
    refused = r"^table orders: the input has no column day, Zone: .* is the folder of one partition"
    words = ["orders", "--namespace", "shop", "--mode", "overwrite-partitions"]
    words += ["--from", f"{lake}/day=2026-11-21/zone=a/"]
    with pytest.raises(ValueError, match=rf"{refused}.*; add --option basePath={lake}$"):
        loaded(spark, catalog, words)
    assert loaded(spark, catalog, [*words, "--option", f"basePath={lake}"]) == (5, 1, 2)
    show(spark, catalog)
    counts = spark.sql("SELECT day, count(*) FROM shop.orders GROUP BY day ORDER BY day").collect()
    assert [tuple(row) for row in counts] == [(date(2026, 11, 20), 10), (date(2026, 11, 21), 5)]


def test_columns_that_the_input_lacks_are_refused(spark: SparkSession, catalog: FakeCatalog, tmp_path: Path) -> None:
    """The message names how to load NULL, and what it proposes works."""
    add_table(catalog, "orders", spark.range(3).selectExpr("id AS k", "'x' AS note", "1 AS `a b`"), ["k"])
    spark.range(4).selectExpr("id AS K").write.parquet(str(tmp_path / "old"))
    words = ["orders", "--namespace", "shop", "--from", str(tmp_path / "old")]
    select = "*, NULL AS note, NULL AS `a b`"
    with pytest.raises(ValueError, match=rf"no column note, a b; it has K\. .* --select '{re.escape(select)}'$"):
        loaded(spark, catalog, words)
    assert loaded(spark, catalog, [*words, "--select", *select.split(", ")]) == (4, 1, 2)


def test_columns_that_have_another_name_in_the_input(
    spark: SparkSession, catalog: FakeCatalog, tmp_path: Path
) -> None:
    """What the message proposes works, although the input has a column too many."""
    add_table(catalog, "orders", spark.range(3).selectExpr("id AS k", "'x' AS note"), ["k"])
    spark.range(4).selectExpr("id AS `order id`", "'y' AS note").write.parquet(str(tmp_path / "renamed"))
    words = ["orders", "--namespace", "shop", "--from", str(tmp_path / "renamed")]
    select = "note, `order id` AS k"
    refused = rf"no column k; .* under other names by --select '{re.escape(select)}', for NULL by"
    with pytest.raises(ValueError, match=refused):
        loaded(spark, catalog, words)
    assert loaded(spark, catalog, [*words, "--select", *select.split(", ")]) == (4, 1, 2)


def loaded(spark: SparkSession, catalog: FakeCatalog, words: list[str]) -> tuple[int, int, int]:
    """Rows, partitions and snapshot of the job with this command line."""
    serve(spark, catalog)
    options = parse(words)
    rows = read(spark, options.path, options.format, options.option).selectExpr(*options.select)
    result = load_rows(rows, options)
    return result.rows, result.partitions, result.snapshot_id


def test_a_load_tells_how_far_it_is(
    spark: SparkSession, catalog: FakeCatalog, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows and bytes while a task runs, not only when it has ended."""
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    rows = spark.range(ROWS).selectExpr("id", "repeat(uuid(), 4) AS name")
    with printing_progress(spark, interval_seconds=0.1):
        assert add_table(catalog, "watched", rows, ["id"]).rows == ROWS
    shown = [found for line in capsys.readouterr().out.splitlines() if (found := find_progress(line))]
    writing = [one for one in shown if one.phase == "writing"]
    assert {one.phase for one in shown[:1]} == {"reading"}
    assert {one.rows for one in writing} == {ROWS}
    assert any(_is_in_the_middle(one) for one in writing), shown


def _is_in_the_middle(one: WriteProgress) -> bool:
    return 0 < one.rows_done < one.rows and one.bytes > 0
