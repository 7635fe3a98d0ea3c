"""A program whose JVM loads the classes that tests' JVMs need; it writes them into an archive when it ends.

Arguments: a folder for its tables, and the archive. Drivers, the standalone cluster's parts, and the servers are one
JVM here: it queries by itself, by a Hive metastore, by Thrift and Connect, then as the driver of a small cluster.
"""

import os
import sys
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.support.ports import free_ports

OTHERS = (
    "org.apache.spark.deploy.SparkSubmit",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.sql.hive.thriftserver.SparkSQLCLIDriver",
)
"""Main classes of JVMs next to the driver's."""
STATEMENTS = (
    "CREATE TABLE sold (id BIGINT, price DECIMAL(9,2), day STRING) USING parquet PARTITIONED BY (day)",
    "INSERT INTO sold SELECT id, id / 7, CAST(id % 3 AS STRING) FROM range(100)",
    "CREATE TABLE bought (id BIGINT, at TIMESTAMP, names ARRAY<STRING>) USING parquet "
    "CLUSTERED BY (id) SORTED BY (id) INTO 3 BUCKETS",
    "INSERT INTO bought SELECT id, timestamp_seconds(id), array('a', 'b') FROM range(100)",
    "SELECT day, count(*), sum(price), max(at) FROM sold JOIN bought USING (id) GROUP BY day ORDER BY day",
    "SELECT id, row_number() OVER (PARTITION BY day ORDER BY price) FROM sold LEFT JOIN bought USING (id) LIMIT 5",
    "SELECT count(DISTINCT id) FROM (SELECT id FROM sold UNION ALL SELECT id FROM bought WHERE id IN (1, 2))",
    "SELECT /*+ BROADCAST(bought) */ count(*) FROM sold JOIN bought USING (id) WHERE id > (SELECT min(id) FROM sold)",
    "INSERT OVERWRITE sold PARTITION (day = '1') SELECT id, 1.5 FROM bought",
    "EXPLAIN FORMATTED SELECT day, count(*) FROM sold GROUP BY day",
    "DESCRIBE TABLE EXTENDED sold",
    "SHOW CREATE TABLE bought",
    "SHOW TABLES",
    "ALTER TABLE sold ADD COLUMNS (more INT)",
    "DROP TABLE sold",
    "DROP TABLE bought",
)


def session(master: str, folder: str, **more: str) -> SparkSession:
    """Another application in the same JVM."""
    options = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        **more,
    }
    builder = SparkSession.builder.master(master)
    for key, value in options.items():
        builder = builder.config(key, value)
    return builder.enableHiveSupport().getOrCreate()


def ask_all(spark: SparkSession) -> None:
    """All statements, and one that is wrong."""
    for statement in STATEMENTS:
        spark.sql(statement).collect()
    try:
        spark.sql("SELECT nothing FROM nowhere").collect()
    except AnalysisException:
        spark.createDataFrame([(1, "a")], "id BIGINT, name STRING").write.mode("overwrite").saveAsTable("made")


def ask_servers(spark: SparkSession, java: Any, thrift_port: int, connect_port: int) -> None:
    """One statement by JDBC, one by Connect; their clients live in this JVM and process."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    java.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2.startWithContext(spark._jsparkSession.sqlContext())
    java.java.lang.Class.forName("org.apache.hive.jdbc.HiveDriver")
    url = f"jdbc:hive2://127.0.0.1:{thrift_port}/default"
    connection = java.java.sql.DriverManager.getConnection(url, "user", "")
    connection.createStatement().executeQuery("SELECT id, name FROM made").next()
    connection.close()
    client = ConnectSession.builder.remote(f"sc://127.0.0.1:{connect_port}").create()
    client.sql("SELECT id, name FROM made").collect()
    client.stop()


def main(folder: str, archive: str) -> None:
    Path(folder).mkdir(exist_ok=True)
    os.environ["PYSPARK_SUBMIT_ARGS"] = f'--driver-java-options "-XX:ArchiveClassesAtExit={archive}" pyspark-shell'
    thrift_port, connect_port = free_ports(2)
    alone = session("local[2]", folder, **{
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": str(connect_port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.hadoop.hive.server2.thrift.port": str(thrift_port),
        "spark.hadoop.hive.server2.thrift.bind.host": "127.0.0.1",
    })  # fmt: skip
    java: Any = SparkContext._jvm
    ask_all(alone)
    ask_servers(alone, java, thrift_port, connect_port)
    alone.stop()
    with_cluster = session("local-cluster[1,1,600]", folder, **{"spark.executor.memory": "600m"})
    with_cluster.sql("SELECT id, count(*) FROM made JOIN made AS other USING (id) GROUP BY id").collect()
    for name in OTHERS:
        java.java.lang.Class.forName(name)
    with_cluster.stop()
    process = SparkContext._gateway.proc
    process.stdin.close()
    process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
