"""How many rows a registered table has, so that Spark weighs a broadcast by them.

Without this Spark takes the size of the compressed files for the size of the rows, and broadcasts a table of millions
of rows where a join of buckets costs a fraction.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
MAX_ROWS = 10**12
"""Times the bytes of a row this is still a number of Java's; whoever loads tables may write any into their status."""


def tell_row_count(spark: "SparkSession", name: str, rows: int) -> None:
    """Give Spark's catalog the table's statistics: its rows, and their size as Spark reckons it by the columns' types.

    Args:
        spark: the session that has the table.
        name: the table's name, quoted as in SQL.
        rows: from the table's snapshot.
    """
    known = min(rows, MAX_ROWS)
    java: Any = spark.sparkContext._jvm
    java.dev.colocation.spark.plan.TableStatistics.tellRowCount(spark._jsparkSession.sessionState(), name, known)
