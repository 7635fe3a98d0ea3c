"""What the benchmark reads: TPC-H's tables, and Iceberg's jar for the comparison with it."""

import os
import subprocess
from pathlib import Path

from demo.data import generate

from .tables import SMALL_TABLES, tpch_tables

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
STANDARD_ERROR = 2
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "colocation"


def tpch(scale_factor: float) -> Path:
    """The folder with the tables as Parquet files, generated once per scale factor and machine."""
    return generate(scale_factor, (*SMALL_TABLES, *(table.name for table in tpch_tables())))


def iceberg_jar() -> Path:
    """Iceberg's runtime for Spark 4.1."""
    return maven_jar(ICEBERG)


def maven_jar(artifact: str) -> Path:
    """The jar of ``group:name:version``, fetched once by Maven and kept outside the checkout."""
    _, name, version = artifact.split(":")
    jar = CACHE / "jars" / f"{name}-{version}.jar"
    if not jar.exists():
        partial = jar.parent / f"partial.{os.getpid()}"
        # Even a quiet Maven writes to standard output, where a program's answer may be awaited.
        subprocess.run(["mvn", "--batch-mode", "--quiet", "dependency:copy", f"-Dartifact={artifact}",
                        f"-DoutputDirectory={partial}"], check=True, stdout=STANDARD_ERROR)  # fmt: skip
        (partial / jar.name).rename(jar)
        partial.rmdir()
    return jar
