"""Spark's side: load DataFrames into ColocatedTables, register them as Spark SQL tables, explain their joins."""

from .compaction import CompactionResult, compact
from .configuration import configure, jar_path, spark_conf
from .explaining import count_exchanges, explain, explain_json
from .loading import LoadResult, load
from .metrics import ReadMetrics, read_metrics
from .partition_dropping import DropResult, drop_partitions
from .registrar import RegisteredTable
from .registration import read_snapshot, refresh, register

__all__ = [
    "CompactionResult",
    "DropResult",
    "LoadResult",
    "ReadMetrics",
    "RegisteredTable",
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
    "spark_conf",
]
