"""Uses the catalog as a user would: SQL alone, in a session that registers nothing.

Prints one COLOCATION_RESULT line: the join's rows and verdicts, what a table is like that was made and dropped, and why
another one was refused.
"""

import json

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from colocation.spark import explain_json, read_metrics

CATALOG = {"spark.sql.catalog.lake": "dev.colocation.spark.catalog.ColocationCatalog"}
JOIN = "SELECT count(*), sum(l_orderkey - o_orderkey) FROM orders JOIN lineitem ON o_orderkey = l_orderkey"
CREATE = """CREATE TABLE {} (n_orderkey BIGINT, n_note STRING) CLUSTERED BY (n_orderkey) INTO {} BUCKETS
            TBLPROPERTIES ('colocate_with' = 'tpch', 'replication_num' = '2')"""


def main() -> None:
    spark = SparkSession.builder.appName("tables-in-sql").config(map=CATALOG).getOrCreate()

    def rows(statement: str) -> list[list[object]]:
        return [list(row) for row in spark.sql(statement).collect()]

    spark.sql("USE lake")
    joined = spark.sql(JOIN)
    result: dict[str, object] = {"rows": [list(row) for row in joined.collect()], **explain_json(joined)}
    result["localBytes"] = read_metrics(spark).local_bytes
    result["foreign"] = rows("SHOW TABLES IN spark_catalog.default")
    spark.sql(CREATE.format("`notes-in-sql`", 8))
    result["made"] = [name for _, name, _ in rows("SHOW TABLES") if name == "notes-in-sql"]
    result["madeRows"] = rows("SELECT count(*) FROM `notes-in-sql` JOIN orders ON n_orderkey = o_orderkey")
    spark.sql("DROP TABLE `notes-in-sql`")
    try:
        spark.sql(CREATE.format("`other-in-sql`", 7))
    except PySparkException as error:
        result["refusal"] = str(error)
    result["left"] = [name for _, name, _ in rows("SHOW TABLES") if name.endswith("-in-sql")]
    print(f"COLOCATION_RESULT {json.dumps(result)}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
