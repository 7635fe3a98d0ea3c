"""Spark's side: load DataFrames into ColocatedTables, register them as Spark SQL tables, explain their joins."""

from .configuration import configure, jar_path, spark_conf
from .explaining.explain import count_exchanges, explain, explain_json
from .read.metrics import ReadMetrics, read_metrics
from .read.registration import RegisteredTable, read_snapshot, refresh, register
from .write.loading import LoadResult, load
from .write.maintenance import CompactionResult, DropResult, RollBackResult, compact, drop_partitions, roll_back

__all__ = [
    "CompactionResult",
    "DropResult",
    "LoadResult",
    "ReadMetrics",
    "RegisteredTable",
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
    "read_snapshot",
    "refresh",
    "register",
    "roll_back",
    "spark_conf",
]
