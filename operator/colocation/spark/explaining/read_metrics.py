"""How many bytes queries read from local disk and from other nodes, as the executors counted them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class ReadMetrics:
    """Bytes and files read through ``coloc://``. A file that was read from both places counts in both."""

    local_bytes: int
    remote_bytes: int
    local_files: int
    remote_files: int

    def __sub__(self, mark: "ReadMetrics") -> "ReadMetrics":
        return ReadMetrics(
            self.local_bytes - mark.local_bytes,
            self.remote_bytes - mark.remote_bytes,
            self.local_files - mark.local_files,
            self.remote_files - mark.remote_files,
        )


def read_metrics(spark: "SparkSession", since: ReadMetrics | None = None) -> ReadMetrics:
    """What the application's finished tasks have read since it started, or since an earlier answer.

    Queries that run at the same time are counted together.

    Raises:
        RuntimeError: the application was started without the jar of the ``coloc://`` file system.
    """
    from py4j.java_gateway import JavaPackage

    java: Any = spark.sparkContext._jvm
    counted = java.dev.colocation.spark.fs.ReadMetrics
    if isinstance(counted, JavaPackage):
        raise RuntimeError(
            "this application has no jar of the coloc:// file system: start its session with "
            "colocation.spark.configure(SparkSession.builder, …), or with what colocation.spark.spark_conf(…) says"
        )
    totals = ReadMetrics(*counted.totals())
    return totals - since if since else totals
