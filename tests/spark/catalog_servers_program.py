"""A driver with a Thrift server and a Spark Connect server, and a client of each; prints what they have found.

Arguments: a folder, and JSON with Spark's configuration and the statement to ask.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from colocation.spark import configure
from tests.integration.control_plane import free_ports

SPARK_HOME = Path(pyspark.__file__).parent
CONNECT_CLIENT = Path(__file__).with_name("ConnectQuery.java")
CONNECT_TIMEOUT_SECONDS = 200
OPENED = ("java.lang", "java.nio", "java.util", "sun.nio.ch")


def by_connect(port: int, statement: str) -> int:
    """The statement's answer by Spark Connect's JVM client, whose classes stand in the place of Spark's own."""
    jars = [
        str(jar) for jar in (SPARK_HOME / "jars").glob("*.jar")
        if not jar.name.startswith(("spark-sql_", "spark-connect_"))
    ]  # fmt: skip
    path = os.pathsep.join([str(SPARK_HOME / "jars" / "connect-repl" / "*"), *jars])
    opened = [option for name in OPENED for option in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
    command = ["java", *opened, "-cp", path, str(CONNECT_CLIENT), f"sc://127.0.0.1:{port}", statement]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=CONNECT_TIMEOUT_SECONDS)
    found = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert found, done.stderr[-3000:]
    return int(found[0].removeprefix("FOUND "))


def by_thrift(spark: SparkSession, port: int, statement: str) -> int:
    """The statement's answer over JDBC."""
    java: Any = spark.sparkContext._jvm
    server = java.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
    started = server.startWithContext(spark._jsparkSession.sqlContext())
    java.java.lang.Class.forName("org.apache.hive.jdbc.HiveDriver")
    connection = java.java.sql.DriverManager.getConnection(f"jdbc:hive2://127.0.0.1:{port}/default", "user", "")
    rows = connection.createStatement().executeQuery(statement)
    assert rows.next()
    value = int(rows.getLong(1))
    connection.close()
    started.stop()
    return value


def main(folder: str, given: str) -> None:
    settings = json.loads(given)
    thrift_port, connect_port = free_ports(2)
    builder = configure(SparkSession.builder.master("local[1]"))
    for key, value in {
        **settings["conf"],
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "spark.hadoop.hive.server2.thrift.port": str(thrift_port),
        "spark.hadoop.hive.server2.thrift.bind.host": "127.0.0.1",
        "spark.plugins": "dev.colocation.spark.ColocationPlugin,org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(connect_port),
    }.items():
        builder = builder.config(key, value)
    spark = builder.enableHiveSupport().getOrCreate()
    statement = settings["statement"]
    found = {
        "scala": int(spark._jsparkSession.sql(statement).head().getLong(0)),
        "connect": by_connect(connect_port, statement),
        "thrift": by_thrift(spark, thrift_port, statement),
        "databases": [row[0] for row in spark.sql("SHOW NAMESPACES IN spark_catalog").collect()],
    }
    print("FOUND " + json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
