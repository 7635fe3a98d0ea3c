"""What statements of this driver committed, as its commits report it."""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def commit_count(spark: "SparkSession") -> int:
    """How many changes of ColocatedTables this driver has made so far."""
    return int(_log(spark).count())


def commits_since(spark: "SparkSession", count: int) -> list[dict[str, Any]]:
    """Those after the first ``count``: table, change, rows and files added, snapshot_id, was_committed_before."""
    found: list[dict[str, Any]] = json.loads(_log(spark).since(count))
    return found


def _log(spark: "SparkSession") -> Any:
    java: Any = spark.sparkContext._jvm
    return java.dev.colocation.spark.write.CommitLog
