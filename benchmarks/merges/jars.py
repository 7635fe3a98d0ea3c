"""The peers' jars for Spark 4.1, fetched once by Maven and kept outside the checkout."""

import subprocess
from pathlib import Path

from benchmarks.joins.inputs import CACHE, iceberg_jar

DELTA_VERSION = "4.3.1"
DELTA = ("delta-spark_4.1_2.13", "delta-storage", "delta-kernel-api", "delta-kernel-defaults",
         "delta-kernel-unitycatalog")  # fmt: skip


def peers_jars() -> list[Path]:
    """Iceberg's runtime, and Delta's jars, which have no such bundle."""
    return [iceberg_jar(), *(_delta_jar(name) for name in DELTA)]


def _delta_jar(name: str) -> Path:
    jar = CACHE / "jars" / f"{name}-{DELTA_VERSION}.jar"
    if not jar.exists():
        subprocess.run(["mvn", "--batch-mode", "--quiet", "dependency:copy",
                        f"-Dartifact=io.delta:{name}:{DELTA_VERSION}", f"-DoutputDirectory={jar.parent}"],
                       check=True)  # fmt: skip
    return jar
