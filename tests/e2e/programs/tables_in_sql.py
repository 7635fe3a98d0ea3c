"""Uses the catalog as a user would: SQL alone.

Prints one COLOCATION_RESULT line: the join's rows and verdicts, what a table is like that was made, written, compacted
in part and dropped, and why another one was refused.
"""

import json

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from colocation.spark import compact, explain_json, read_metrics

JOIN = "SELECT count(*), sum(l_orderkey - o_orderkey) FROM orders JOIN lineitem ON o_orderkey = l_orderkey"
CREATE = """CREATE TABLE {} (n_orderkey BIGINT, n_note STRING) CLUSTERED BY (n_orderkey) INTO {} BUCKETS
            TBLPROPERTIES ('colocate_with' = 'tpch', 'replication_num' = '2')"""
CREATE_AS = """CREATE TABLE `copies-in-sql` CLUSTERED BY (c_orderkey) INTO 8 BUCKETS
               TBLPROPERTIES ('colocate_with' = 'tpch', 'replication_num' = '2')
               AS SELECT n_orderkey AS c_orderkey, count(*) AS c_notes FROM `notes-in-sql` GROUP BY n_orderkey"""
NOTES = "SELECT count(*), sum(n_orderkey - o_orderkey) FROM `notes-in-sql` JOIN orders ON n_orderkey = o_orderkey"
COPIES = "SELECT count(*), sum(c_notes) FROM `copies-in-sql` JOIN orders ON c_orderkey = o_orderkey"


def main() -> None:
    spark = SparkSession.builder.appName("tables-in-sql").getOrCreate()

    def rows(statement: str) -> list[list[object]]:
        return [list(row) for row in spark.sql(statement).collect()]

    spark.sql("USE colocation")
    joined = spark.sql(JOIN)
    result: dict[str, object] = {"rows": [list(row) for row in joined.collect()], **explain_json(joined)}
    result["localBytes"] = read_metrics(spark).local_bytes
    result["foreign"] = rows("SHOW TABLES IN spark_catalog.default")
    spark.sql(CREATE.format("`notes-in-sql`", 8))
    result["made"] = [name for _, name, _ in rows("SHOW TABLES") if name == "notes-in-sql"]
    spark.sql("INSERT INTO `notes-in-sql` SELECT o_orderkey, 'first' FROM orders")
    # One bucket has two files now, and only they are merged: executors elsewhere must find what the driver reads.
    spark.sql("INSERT INTO `notes-in-sql` VALUES (1, 'second')")
    merged = compact(spark, "notes-in-sql")
    result["merged"] = [merged.files_before, merged.files_after]
    result["notes"] = rows(NOTES)
    spark.sql(CREATE_AS)
    copies = spark.sql(COPIES)
    result["copies"] = [list(row) for row in copies.collect()]
    result["copiesJoin"] = explain_json(copies)["joins"][0]["colocate"]
    spark.sql("DROP TABLE `copies-in-sql`")
    spark.sql("DROP TABLE `notes-in-sql`")
    try:
        spark.sql(CREATE.format("`other-in-sql`", 7))
    except PySparkException as error:
        result["refusal"] = str(error)
    result["left"] = [name for _, name, _ in rows("SHOW TABLES") if str(name).endswith("-in-sql")]
    print(f"COLOCATION_RESULT {json.dumps(result)}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
