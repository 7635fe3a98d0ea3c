"""The DDL of a registered table."""

from colocation.model.table import Column
from colocation.model.table_manifest import TableManifest
from colocation.spark.read.table_statement import TableName, create_table_statements, mark

MANIFEST = TableManifest(
    namespace="my-shop",
    table="line-items",
    uid="u",
    snapshot_id=1,
    columns=(
        Column(name="id", type="long"),
        Column(name="code", type="varchar(10)"),
        Column(name="tags", type="array<string>"),
        Column(name="day", type="date"),
    ),
    bucketed_by=("id", "code"),
    partitioned_by=("day",),
    sorted_by=("id", "day"),
    buckets=8,
)
TARGET = TableName("my_shop", "line_items", mark("my-shop", "line-items-u"))
MARKED = "TBLPROPERTIES ('colocation.dev/table'='my-shop/line-items-u')"
START = (
    "CREATE TABLE `spark_catalog`.`my_shop`.`line_items` (`id` long, `code` string, `tags` array<string>, `day` date) "
    "USING parquet OPTIONS ('parquet.page.verify-checksum.enabled' 'true') "
)


def test_bucketed() -> None:
    """Buckets as the manifest has them; a partition column is no sort column in Spark."""
    assert create_table_statements(MANIFEST, TARGET, "coloc://x", bucketed=True) == [
        START + "PARTITIONED BY (`day`) CLUSTERED BY (`id`, `code`) SORTED BY (`id`) INTO 8 BUCKETS "
        "LOCATION 'coloc://x' COMMENT 'snapshot 1, in 8 buckets, of coloc://x' " + MARKED
    ]


def test_plain() -> None:
    """Without buckets Spark sees an ordinary partitioned table of the same files."""
    assert create_table_statements(MANIFEST, TARGET, "coloc://x", bucketed=False) == [
        START + "PARTITIONED BY (`day`) LOCATION 'coloc://x' "
        "COMMENT 'snapshot 1, without its buckets, of coloc://x' " + MARKED
    ]


def test_renamed_columns() -> None:
    """Files keep a column's first name; queries see the present one through a view, and buckets stay visible."""
    columns = (MANIFEST.columns[0], Column(name="label", type="string", stored_as="code"))
    renamed = MANIFEST.model_copy(update={"columns": columns, "bucketed_by": ("id",), "partitioned_by": ()})
    table, view = create_table_statements(renamed, TARGET, "coloc://x", bucketed=True)
    assert table.startswith("CREATE TABLE `spark_catalog`.`my_shop`.`line_items__stored` (`id` long, `code` string)")
    assert table.endswith(MARKED)
    assert view == (
        "CREATE VIEW `spark_catalog`.`my_shop`.`line_items` COMMENT 'snapshot 1, in 8 buckets, of coloc://x' "
        + MARKED + " AS SELECT `id` AS `id`, `code` AS `label` "
        "FROM `spark_catalog`.`my_shop`.`line_items__stored`"
    )
