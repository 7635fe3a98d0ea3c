"""A driver with a Thrift server and a Spark Connect server over one Hive metastore, until its standard input ends.

Arguments: a folder, and Spark's configuration as JSON. Prints ``READY`` with the ports. Each line of its standard
input is a statement, whose first value Scala's session finds and prints after ``FOUND``.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from colocation.spark import configure
from tests.support.ports import free_ports


def main(folder: str, given: str) -> None:
    thrift_port, connect_port = free_ports(2)
    builder = configure(SparkSession.builder.master("local[3]"))
    for key, value in {
        **json.loads(given),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
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
    java: Any = spark.sparkContext._jvm
    server = java.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
    server.startWithContext(spark._jsparkSession.sqlContext())
    print(f"READY {json.dumps({'thrift': thrift_port, 'connect': connect_port})}", flush=True)
    for line in sys.stdin:
        print(f"FOUND {spark._jsparkSession.sql(line).head().get(0)}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
