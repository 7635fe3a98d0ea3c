"""A program that appends to one table and names what it committed: what tests kill, or kill executors of.

Arguments: Spark's master, the table's uid, a JSON object of agents' URLs by node, files with the token and the CA, a
folder of its own.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from colocation.model.group import ColocationGroupSpec, ColocationGroupStatus
from colocation.model.table import ColocatedTableSpec, Column
from colocation.spark import configure
from tests.spark import catalog_server
from tests.spark.conftest import BUCKETS, MAP
from tests.unit.spark.fake_catalog import GROUP, NAMESPACE, FakeCatalog

ROWS = 600


def main(master: str, uid: str, urls: str, token: str, ca: str, folder: str) -> None:
    catalog = FakeCatalog(json.loads(urls))
    status = ColocationGroupStatus(stable=True, reason="AllReplicasComplete", backends_per_bucket_seq=MAP)
    catalog.add_group(ColocationGroupSpec(bucket_key=("bigint",), buckets=BUCKETS, replicas=2), status)
    columns = (Column(name="k", type="bigint"),)
    catalog.add_table("killed", ColocatedTableSpec(colocate_with=GROUP, columns=columns, bucketed_by=("k",)), uid)
    builder = configure(SparkSession.builder.master(master), namespace=NAMESPACE, token_file=token, ca_file=ca)
    with catalog_server.running(Path(folder)) as server:
        for key, value in {
            "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.executor.memory": "500m",
            "spark.colocation.retrySeconds": "5", "spark.sql.adaptive.enabled": "false",
            "spark.sql.shuffle.partitions": str(BUCKETS), catalog_server.KUBECONFIG_KEY: str(server.kubeconfig),
        }.items():  # fmt: skip
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        result = catalog_server.load(spark.range(ROWS).selectExpr("id AS k"), "killed", catalog=catalog)
        manifest = catalog.tables["killed"].status.snapshot.manifest_sha256  # type: ignore[union-attr]
        print(f"COMMITTED {result.rows} {manifest}", flush=True)
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
