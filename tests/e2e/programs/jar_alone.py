"""Joins and writes by SQL alone, in an image that lacks our Python package, and has our jar by ``spark.jars``.

Prints one COLOCATION_RESULT line: the join's rows and verdicts, the bytes that its tasks read on their own node and
from others, and what a write committed before it was taken back.
"""

import json
from typing import Any

from pyspark.sql import SparkSession

JOIN = "SELECT count(*), sum(l_orderkey - o_orderkey) FROM orders JOIN lineitem ON o_orderkey = l_orderkey"
LAST = "SELECT snapshot_id, operation, rows FROM orders.snapshots ORDER BY snapshot_id DESC LIMIT 1"


def main() -> None:
    spark = SparkSession.builder.appName("jar-alone").getOrCreate()

    def rows(statement: str) -> list[list[Any]]:
        return [list(row) for row in spark.sql(statement).collect()]

    namespace = spark.conf.get("spark.colocation.namespace")
    spark.sql(f"USE colocation.`{namespace}`")
    result: dict[str, Any] = {"rows": rows(JOIN), "joins": rows(f"CALL colocation.system.explain('{JOIN}')")}
    java: Any = spark.sparkContext._jvm
    result["bytes"] = list(java.dev.colocation.spark.fs.ReadMetrics.totals())[:2]
    before = rows(LAST)
    spark.sql("INSERT INTO orders SELECT * FROM orders WHERE o_orderkey = 1")
    result["committed"] = rows(LAST)
    spark.sql(f"CALL colocation.system.roll_back(table => '{namespace}.orders', snapshot_id => {before[0][0]})")
    result["rowsAfter"] = [before[0][2], rows(LAST)[0][2]]
    print(f"COLOCATION_RESULT {json.dumps(result)}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
