"""``/app/join.py`` of the examples: a join, its rows, and whether it needs a shuffle."""

from pyspark.sql import SparkSession

from colocation.spark.jobs.program import print_result, stop

JOIN = "SELECT count(*) AS n FROM orders JOIN lineitem ON o_orderkey = l_orderkey"

if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    spark.sql("USE colocation")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    [verdict, *_] = spark.sql(f"CALL colocation.system.explain('{JOIN}')").collect()
    print_result({"rows": spark.sql(JOIN).collect()[0].n, "colocate": verdict.colocate})
    stop(spark)
