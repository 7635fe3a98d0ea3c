"""Prices of orders, from the tables of examples/shop. All are of group sales, so they join bucket by bucket."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.functions import sum as total

spark = SparkSession.active()
BY_ORDER = {"colocate_with": "sales", "clustered_by": "o_orderkey"}


@dp.table(table_properties=BY_ORDER, partition_cols=["o_orderdate"])
def order_log() -> DataFrame:
    """Each run appends the orders that were added since the one before."""
    return spark.readStream.table("orders")


@dp.temporary_view
def item_totals() -> DataFrame:
    """Is not stored."""
    return spark.read.table("lineitem").groupBy("l_orderkey").agg(total("l_extendedprice").alias("price"))


@dp.materialized_view(table_properties=BY_ORDER, comment="what each order costs")
def order_totals() -> DataFrame:
    """Each run computes it from all rows."""
    items = spark.read.table("item_totals")
    joined = spark.read.table("order_log").join(items, col("o_orderkey") == col("l_orderkey"))
    return joined.select("o_orderkey", "o_orderdate", "price")
