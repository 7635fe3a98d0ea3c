"""The DDL of a registered table."""

from colocation.model.table import Column
from colocation.model.table_manifest import TableManifest
from colocation.spark.table_statement import create_table_statement

MANIFEST = TableManifest(
    namespace="my-shop",
    table="orders",
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
START = "CREATE TABLE `my-shop`.`orders` (`id` long, `code` string, `tags` array<string>, `day` date) USING parquet "


def test_bucketed() -> None:
    """Buckets as the manifest has them; a partition column is no sort column in Spark."""
    assert create_table_statement(MANIFEST, "coloc://x", bucketed=True) == (
        START + "PARTITIONED BY (`day`) CLUSTERED BY (`id`, `code`) SORTED BY (`id`) INTO 8 BUCKETS LOCATION 'coloc://x'"
    )


def test_plain() -> None:
    """Without buckets Spark sees an ordinary partitioned table of the same files."""
    assert create_table_statement(MANIFEST, "coloc://x", bucketed=False) == (
        START + "PARTITIONED BY (`day`) LOCATION 'coloc://x'"
    )
