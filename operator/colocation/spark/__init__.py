"""Spark's side: load DataFrames into ColocatedTables, change these tables, explain their joins."""

from .configuration import configure, jar_path, spark_conf
from .explaining import ReadMetrics, count_exchanges, explain, explain_json, read_metrics
from .write.loading import LoadResult, load
from .write.maintenance import (
    CompactionResult,
    DropResult,
    RebucketResult,
    RollBackResult,
    compact,
    drop_partitions,
    rebucket,
    roll_back,
)

__all__ = [
    "CompactionResult",
    "DropResult",
    "LoadResult",
    "ReadMetrics",
    "RebucketResult",
    "RollBackResult",
    "compact",
    "configure",
    "count_exchanges",
    "drop_partitions",
    "explain",
    "explain_json",
    "jar_path",
    "load",
    "read_metrics",
    "rebucket",
    "roll_back",
    "spark_conf",
]
