"""Joins orders and lineitem again and again for some time, in one session.

Arguments: seconds, and the folder where executors look for replicas: one that is not there makes every read remote.
Prints one COLOCATION_RESULT line: the joins' different answers, how many joins there were, and the bytes from agents.
"""

import json
import sys
import time

from pyspark.sql import SparkSession

from colocation.spark import read_metrics

JOIN = "SELECT count(*), sum(l_orderkey - o_orderkey) FROM orders JOIN lineitem ON o_orderkey = l_orderkey"


def main(seconds: float, data_root: str) -> None:
    spark = SparkSession.builder.appName("restarts").getOrCreate()
    spark.conf.set("spark.colocation.dataRoot", data_root)
    namespace = spark.conf.get("spark.colocation.namespace")
    spark.sql(f"USE colocation.`{namespace}`")
    ends_at, answers = time.monotonic() + seconds, []
    while time.monotonic() < ends_at:
        answers.append(tuple(spark.sql(JOIN).collect()[0]))
    result = {"joins": len(answers), "answers": sorted(set(answers)), "remoteBytes": read_metrics(spark).remote_bytes}
    print(f"COLOCATION_RESULT {json.dumps(result)}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2])
