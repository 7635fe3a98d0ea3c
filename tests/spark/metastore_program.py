"""A program that registers tables in a Hive metastore, as a company has one, and says what is there afterwards.

Arguments: a folder for metastore and warehouse, and which of two drivers it is (``first``, ``second``).
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from colocation.model.group import ColocationGroupSpec, ColocationGroupStatus
from colocation.model.table import ColocatedTableSpec, Column
from colocation.spark import configure
from tests.spark import catalog_server
from tests.unit.spark.fake_catalog import GROUP, NAMESPACE, FakeCatalog

KEY = Column(name="k", type="bigint")
TABLES = ("orders", "lines", "dropped")


def catalog_of(driver: str) -> FakeCatalog:
    """Tables that were never loaded: no agent is asked. Between the drivers all were made anew, and one dropped."""
    catalog = FakeCatalog({})
    status = ColocationGroupStatus(stable=True, backends_per_bucket_seq=(("node-1",), ("node-1",)))
    catalog.add_group(ColocationGroupSpec(bucket_key=("bigint",), buckets=2, replicas=1), status)
    columns = (KEY,) if driver == "first" else (KEY, Column(name="added", type="string"))
    for name in TABLES:
        spec = ColocatedTableSpec(colocate_with=GROUP, columns=columns, bucketed_by=("k",))
        catalog.add_table(name, spec, f"{driver}-0000-0000")
    if driver == "second":
        del catalog.tables["dropped"]
    return catalog


def main(folder: str, driver: str) -> None:
    builder = configure(SparkSession.builder.master("local[1]"), namespace=NAMESPACE)
    with catalog_server.running(Path(folder)) as server:
        for key, value in {
            "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
            catalog_server.KUBECONFIG_KEY: str(server.kubeconfig),
        }.items():  # fmt: skip
            builder = builder.config(key, value)
        spark = builder.enableHiveSupport().getOrCreate()
        if driver == "first":
            spark.sql("CREATE DATABASE shop")
            spark.sql("CREATE TABLE shop.orders STORED AS PARQUET AS SELECT id AS k FROM range(42)")
        registered = catalog_server.register(spark, catalog_of(driver))
        print("FOUND " + json.dumps({
            "registered": {table.table: table.registered for table in registered},
            "tables": sorted(table.name for table in spark.catalog.listTables("shop")),
            "rows": spark.table("shop.orders").count(),
            "columns": spark.table("shop.lines").columns,
            "files": len(list(Path(folder, "warehouse", "shop.db", "orders").glob("part-*"))),
        }), flush=True)  # fmt: skip
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
