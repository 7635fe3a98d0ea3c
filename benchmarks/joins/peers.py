"""The same rows as Spark's own bucketed tables and as Iceberg's, on a shared directory: both join without a shuffle."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .tables import SMALL_TABLES, TPCH_FOLDER, Table
from .variants import ICEBERG, ICEBERG_CATALOG, PEERS, SMALL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARED = "file:///bench/peers"


def write_bucketed(rows: "DataFrame", table: Table, mode: str) -> None:
    """One sorted zstd file per bucket and partition, which is the layout that suits Spark best."""
    spark = rows.sparkSession
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {PEERS}")
    writer = (
        rows.repartition(table.buckets, table.key)
        .write.mode(mode)
        .option("compression", "zstd")
        .bucketBy(table.buckets, table.key)
        .sortBy(*table.sorted_by)
    )
    if table.partitioned_by:
        writer = writer.partitionBy(*table.partitioned_by)
    writer.option("path", f"{SHARED}/{table.name}").saveAsTable(f"{PEERS}.{table.name}")


def create_iceberg(spark: "SparkSession", table: Table) -> None:
    """An Iceberg table with its own bucket transform; Iceberg clusters the rows itself."""
    columns = ", ".join(f"{name} {type_name}" for name, type_name in table.columns)
    transforms = ", ".join((*table.partitioned_by, f"bucket({table.buckets}, {table.key})"))
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {ICEBERG}")
    spark.sql(f"DROP TABLE IF EXISTS {ICEBERG}.{table.name}")
    spark.sql(f"CREATE TABLE {ICEBERG}.{table.name} ({columns}) USING iceberg PARTITIONED BY ({transforms})")


def append_iceberg(rows: "DataFrame", table: Table) -> None:
    """Add rows to the table."""
    rows.writeTo(f"{ICEBERG}.{table.name}").append()


def register_peers(spark: "SparkSession", tables: Sequence[Table]) -> None:
    """Tell a new session of the bucketed tables and of the plain ones; Iceberg's catalog is on disk."""
    for database in (PEERS, SMALL):
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {database}")
    for name in SMALL_TABLES:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {SMALL}.{name} USING parquet "
                  f"LOCATION 'file://{TPCH_FOLDER}/{name}.parquet'")  # fmt: skip
    for table in tables:
        columns = ", ".join(f"{name} {type_name}" for name, type_name in table.columns)
        partitions = f"PARTITIONED BY ({', '.join(table.partitioned_by)})" if table.partitioned_by else ""
        spark.sql(f"CREATE TABLE {PEERS}.{table.name} ({columns}) USING parquet {partitions} "
                  f"CLUSTERED BY ({table.key}) SORTED BY ({', '.join(table.sorted_by)}) INTO {table.buckets} BUCKETS "
                  f"LOCATION '{SHARED}/{table.name}'")  # fmt: skip
        if table.partitioned_by:
            spark.sql(f"MSCK REPAIR TABLE {PEERS}.{table.name}")


def iceberg_conf() -> dict[str, str]:
    """What a session needs for Iceberg tables and storage-partitioned joins."""
    catalog = f"spark.sql.catalog.{ICEBERG_CATALOG}"
    return {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": f"{SHARED}/iceberg",
        "spark.sql.sources.v2.bucketing.enabled": "true",
        "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
        "spark.sql.iceberg.planning.preserve-data-grouping": "true",
    }
