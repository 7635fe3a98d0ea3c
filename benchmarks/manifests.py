"""What a manifest of many files costs: `python -m benchmarks.manifests`, see `--help` for sizes.

For each format a JVM of its own reads one manifest through the `coloc://` file system. Seconds are processor seconds of
one thread, so that other work on the machine matters little. Writes build/bench/manifests.json:

- ``stored_bytes``: as agents hold it.
- ``open_seconds``, ``open_heap_mib``: an executor finds one file that its disk holds: time, memory that stays.
- ``next_bucket_seconds``: a file of another bucket.
- ``list_seconds``: a driver lists all files.
- ``plan_seconds``, ``plan_heap_mib``: Spark plans a scan of all of them; memory that stays, listing and plan.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from colocation.model.table import Column
from colocation.model.table_manifest import FORMAT_VERSION, PLAIN_FORMAT, DataFile, TableManifest, manifest_path
from colocation.spark.configuration import jar_path
from tests.support.manifests import encode_manifest

OUTPUT = Path("build/bench/manifests.json")
NAMESPACE, DIRECTORY = "shop", "orders-0a1b2c3d"
MIB = 1 << 20


def manifest_of(file_count: int, buckets: int) -> TableManifest:
    """A file for each bucket and day, named as loads name them."""
    files = []
    for number in range(file_count):
        day, bucket = divmod(number, buckets)
        name = f"{number * 2654435761 % (1 << 32):08x}-{number:08x}"
        files.append(
            DataFile(
                path=f"data/day=2024-{day:03d}/part-{name}-1_{bucket:05d}.c000.zstd.parquet",
                bucket=bucket, partition={"day": f"2024-{day:03d}"}, rows=100_000, bytes=1_000_000 + number,
                sha256=os.urandom(32).hex(),
            )
        )  # fmt: skip
    return TableManifest(
        namespace=NAMESPACE, table="orders", uid="0a1b2c3d", snapshot_id=1, buckets=buckets, files=tuple(files),
        columns=(Column(name="key", type="bigint"), Column(name="day", type="string")),
        bucketed_by=("key",), partitioned_by=("day",),
    )  # fmt: skip


class Measured:
    """One JVM: seconds and MiB of what it does."""

    def __init__(self, root: Path, sha256: str) -> None:
        self._location = f"coloc://{NAMESPACE}/{DIRECTORY}/{sha256}/data"
        self.spark = (
            SparkSession.builder.master("local[1]")
            .config("spark.jars", os.environ["COLOCATION_JAR"])
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "3g")
            .config("spark.hadoop.fs.coloc.impl", "dev.colocation.spark.ColocFileSystem")
            .config("spark.hadoop.fs.coloc.data.root", str(root))
            .config("spark.sql.sources.useListFilesFileSystemList", "coloc,s3a")
            .getOrCreate()
        )
        self._jvm: Any = self.spark._jvm
        self._files = self._path(self._location).getFileSystem(self.spark._jsc.hadoopConfiguration())

    def _path(self, text: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(text)

    def heap_mib(self) -> float:
        """What stays."""
        runtime = self._jvm.java.lang.Runtime.getRuntime()
        for _ in range(3):
            self._jvm.java.lang.System.gc()
        return float(runtime.totalMemory() - runtime.freeMemory()) / MIB

    def find(self, path: str) -> float:
        """Seconds to find a file."""
        started = self._seconds()
        self._files.getFileStatus(self._path(self._location.removesuffix("data") + path))
        return self._seconds() - started

    def _seconds(self) -> float:
        """Of a processor, that the thread which serves this process has taken so far."""
        return float(self._jvm.java.lang.management.ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime()) / 1e9

    def listing(self) -> float:
        """Seconds to list all files."""
        started = self._seconds()
        self._files.listFiles(self._path(self._location), True)
        return self._seconds() - started

    def plan(self) -> tuple[float, Any]:
        """Seconds to plan a scan of all files, and the plan."""
        started = self._seconds()
        rows = self.spark.read.schema("key bigint, day string").parquet(self._location)
        rows._jdf.queryExecution().executedPlan().execute().getNumPartitions()
        return self._seconds() - started, rows


def measure(root: Path, sha256: str, paths: list[str]) -> dict[str, float]:
    """One manifest in this process' JVM."""
    jvm = Measured(root, sha256)
    before = jvm.heap_mib()
    found = {"open_seconds": jvm.find(paths[0]), "open_heap_mib": jvm.heap_mib() - before}
    found["next_bucket_seconds"] = jvm.find(paths[1])
    found["list_seconds"] = jvm.listing()
    found["plan_seconds"], plan = jvm.plan()
    found["plan_heap_mib"] = jvm.heap_mib() - before
    del plan
    return found


def main() -> None:
    """Store the manifest in both formats, and read each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=256_000)
    parser.add_argument("--buckets", type=int, default=1_000)
    parser.add_argument("--jar", help="another release's, which reads format 1")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        root, sha256, *paths = options.one
        print(json.dumps(measure(Path(root), sha256, paths)))
        return
    manifest = manifest_of(options.files, options.buckets)
    results: dict[str, Any] = {"files": options.files, "buckets": options.buckets}
    with tempfile.TemporaryDirectory(prefix="bench-manifests-") as folder:
        for newest_format in (PLAIN_FORMAT,) if options.jar else (PLAIN_FORMAT, FORMAT_VERSION):
            sha256, stored = encode_manifest(manifest, newest_format)
            target = Path(folder) / NAMESPACE / DIRECTORY / manifest_path(sha256)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(stored)
            paths = [manifest.files[1].path, manifest.files[2].path]
            child = [sys.executable, "-m", "benchmarks.manifests", "--one", folder, sha256, *paths]
            environment = {**os.environ, "COLOCATION_JAR": options.jar or str(jar_path())}
            run = subprocess.run(child, check=True, stdout=subprocess.PIPE, text=True, env=environment)
            answer = run.stdout.splitlines()[-1]
            results[f"format_{newest_format}"] = {"stored_bytes": len(stored), **json.loads(answer)}
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
