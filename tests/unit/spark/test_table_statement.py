"""The DDL of a registered table."""

from colocation.model.table import Column
from colocation.model.table_manifest import TableManifest
from colocation.spark.table_statement import create_table_statements

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
START = (
    "CREATE TABLE `my_shop`.`line_items` (`id` long, `code` string, `tags` array<string>, `day` date) USING parquet "
)


def test_bucketed() -> None:
    """Buckets as the manifest has them; a partition column is no sort column in Spark."""
    assert create_table_statements(MANIFEST, "line-items", "coloc://x", bucketed=True) == [
        START + "PARTITIONED BY (`day`) CLUSTERED BY (`id`, `code`) SORTED BY (`id`) INTO 8 BUCKETS "
        "LOCATION 'coloc://x' COMMENT 'snapshot 1, in 8 buckets, of coloc://x'"
    ]


def test_plain() -> None:
    """Without buckets Spark sees an ordinary partitioned table of the same files."""
    assert create_table_statements(MANIFEST, "line-items", "coloc://x", bucketed=False) == [
        START + "PARTITIONED BY (`day`) LOCATION 'coloc://x' "
        "COMMENT 'snapshot 1, without its buckets, of coloc://x'"
    ]


def test_renamed_columns() -> None:
    """Files keep a column's first name; queries see the present one through a view, and buckets stay visible."""
    columns = (MANIFEST.columns[0], Column(name="label", type="string", stored_as="code"))
    renamed = MANIFEST.model_copy(update={"columns": columns, "bucketed_by": ("id",), "partitioned_by": ()})
    table, view = create_table_statements(renamed, "line-items", "coloc://x", bucketed=True)
    assert table.startswith("CREATE TABLE `my_shop`.`line_items__stored` (`id` long, `code` string) USING parquet")
    assert view == (
        "CREATE VIEW `my_shop`.`line_items` COMMENT 'snapshot 1, in 8 buckets, of coloc://x' "
        "AS SELECT `id` AS `id`, `code` AS `label` "
        "FROM `my_shop`.`line_items__stored`"
    )
