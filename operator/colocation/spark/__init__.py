"""Spark's side: load DataFrames into ColocatedTables, register them as Spark SQL tables, explain their joins."""

from .configuration import configure, jar_path, spark_conf
from .explaining import count_exchanges, explain, explain_json
from .loading import LoadResult, load
from .metrics import ReadMetrics, read_metrics
from .registration import RegisteredTable, register

__all__ = [
    "LoadResult",
    "ReadMetrics",
    "RegisteredTable",
    "configure",
    "count_exchanges",
    "explain",
    "explain_json",
    "jar_path",
    "load",
    "read_metrics",
    "register",
    "spark_conf",
]
