"""The newest row of each customer, from a table of changes. Auto CDC is in Spark 4.2 and newer."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
BY_CUSTOMER = {"colocate_with": "sales", "clustered_by": "c_custkey"}


@dp.temporary_view
def changes() -> DataFrame:
    """Rows that were appended to the table of changes since the last run."""
    return spark.readStream.table("customer_changes")


dp.create_streaming_table("customers", table_properties=BY_CUSTOMER)
dp.create_auto_cdc_flow(
    target="customers",
    source="changes",
    keys=["c_custkey"],
    sequence_by="version",
    apply_as_deletes="op = 'D'",
    except_column_list=["op", "version"],
)
