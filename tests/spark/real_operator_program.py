"""``python -m tests.spark.real_operator_program <folder> <namespace>``: a user's session; statements' rows as JSON.

``folder``: with the account's ``kubeconfig``, its ``token`` for agents, and their ``ca.crt``.
"""

import json
import sys

from pyspark.sql import SparkSession

from colocation.spark import configure
from tests.spark.cluster_tables import CATALOG, CATALOG_CLASS, CATALOG_KEY

BUCKETED = "CLUSTERED BY (k) INTO 4 BUCKETS TBLPROPERTIES ('replication_num'='2')"
STATEMENTS = (
    f"CREATE TABLE t (k BIGINT, v BIGINT, w STRING) {BUCKETED}",
    "INSERT INTO t VALUES (1, 10, 'a'), (2, NULL, 'b')",
    f"CREATE OR REPLACE TABLE t {BUCKETED} AS SELECT k, v FROM t",
    "SELECT * FROM t ORDER BY k",
    f"REPLACE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL) {BUCKETED}",
    "ALTER TABLE t ADD COLUMN x INT",
    "INSERT INTO t VALUES (7, 8, 9), (0, 0, NULL)",
    "SELECT * FROM t ORDER BY k",
)


def user_session(folder: str, namespace: str) -> SparkSession:
    """A session of the account whose files are in the folder, with the namespace as the current one."""
    builder = configure(
        SparkSession.builder.master("local[2]"),
        namespace=namespace, data_root=f"{folder}/nothing", token_file=f"{folder}/token", ca_file=f"{folder}/ca.crt",
    )  # fmt: skip
    for key, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "700m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        CATALOG_KEY: CATALOG_CLASS,
        f"{CATALOG_KEY}.kubeconfig": f"{folder}/kubeconfig",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sql(f"USE {CATALOG}.{namespace}")
    return session


def main() -> None:
    """Run them."""
    folder, namespace = sys.argv[1:]
    session = user_session(folder, namespace)
    rows = [[list(row) for row in session.sql(statement).collect()] for statement in STATEMENTS]
    print(json.dumps([one for statement, one in zip(STATEMENTS, rows, strict=True) if statement.startswith("SELECT")]))
    session.stop()


if __name__ == "__main__":
    main()
