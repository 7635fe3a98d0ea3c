"""The peers' jars for Spark 4.1."""

from pathlib import Path

from benchmarks.joins.inputs import iceberg_jar, maven_jar

DELTA_VERSION = "4.3.1"
DELTA = ("delta-spark_4.1_2.13", "delta-storage", "delta-kernel-api", "delta-kernel-defaults",
         "delta-kernel-unitycatalog")  # fmt: skip


def peers_jars() -> list[Path]:
    """Iceberg's runtime, and Delta's jars, which have no such bundle."""
    return [iceberg_jar(), *(maven_jar(f"io.delta:{name}:{DELTA_VERSION}") for name in DELTA)]
