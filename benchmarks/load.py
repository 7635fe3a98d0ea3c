"""How fast tables are written, compared with Spark's own bucketed tables: `make bench-load`.

The same rows, from the same source, by `df.writeTo(table).append()` into a ColocatedTable of 8 buckets with 2 replicas,
and by `df.write.bucketBy(8, "k").sortBy("k")` into a table of Spark's own, in turn, ``--rounds`` times after one round
that warms up. Three nodes on loopback, each with an agent (a process of its own, TLS, nginx before it, everything
synced) and an executor of one core and ``--memory``; all share this machine's cores and its disk.

Writes build/bench/load.json, one row per workload: ``workload, rows, rounds, seconds`` and ``rows_per_second`` (ours),
``spark_bucketed_seconds`` and ``bucketed_rows_per_second``, ``replicas``;
``seconds_ratio`` (also as ``ratio``), ``file_bytes_ratio`` (what is on the nodes in the end) and
``written_bytes_ratio`` (what all processes have written to disk on the way): ours over Spark's times the replicas.
Goal: 1.2. ``files``: of one replica.

``--workloads large`` is one that does not fit into the executors' memory: five times as many narrow rows, 100 million
by default.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from benchmarks.served_table import serving
from colocation.spark import configure
from tests.integration.control_plane import free_ports, running_plane
from tests.spark.cluster_tables import CATALOG, ClusterTables
from tests.spark.standalone import NODE_VARIABLE, standalone_cluster
from tests.unit.agent.harness import make_pki

OUTPUT = Path("build/bench/load.json")
NAMESPACE = "bench"
NODES = ("node-1", "node-2", "node-3")
BUCKETS, REPLICAS = 8, 2
MAP = tuple((NODES[bucket % 3], NODES[(bucket + 1) % 3]) for bucket in range(BUCKETS))
GOAL = 1.2


@dataclass(frozen=True)
class Workload:
    """Rows as expressions over ``range(rows)``."""

    name: str
    columns: tuple[str, ...]
    rows: int


def workloads(rows: int) -> tuple[Workload, ...]:
    """Narrow rows, five times as many of them, and a tenth as many wide ones."""
    key = "hash(id) * 1000003L + id AS k"
    texts = (f"md5(cast(id + {column} AS string)) AS text{column}" for column in range(6))
    return (
        Workload("narrow", (key, "id AS v"), rows),
        Workload("large", (key, "id AS v"), 5 * rows),
        Workload("wide", (key, "id AS v", "rand(7) AS x", *texts), rows // 10),
    )


class Bench:
    """One application on three nodes.

    Args:
        spark: the application.
        tables: objects of the benchmark's namespace.
        roots: the nodes' data roots.
        warehouse: Spark's.
    """

    def __init__(self, spark: SparkSession, tables: ClusterTables, roots: Sequence[Path], warehouse: Path) -> None:
        self._spark = spark
        self._tables = tables
        self._roots = roots
        self._warehouse = warehouse
        self._made = 0

    def measure(self, workload: Workload, rounds: int) -> dict[str, object]:
        """One row of the report: medians of the ratios' parts."""
        runs = [(self._ours(workload), self._peers(workload)) for _ in range(rounds + 1)][1:]
        ours, peers = (
            {key: statistics.median(run[side][key] for run in runs) for key in runs[0][side]} for side in (0, 1)
        )
        ratios = {f"{key}_ratio": round(ours[key] / peers[key] / REPLICAS, 2) for key in ours if key != "files"}
        return {
            "workload": workload.name,
            "rows": workload.rows,
            "rounds": rounds,
            "seconds": round(ours["seconds"], 3),
            "spark_bucketed_seconds": round(peers["seconds"], 3),
            "replicas": REPLICAS,
            "ratio": ratios["seconds_ratio"],
            "rows_per_second": round(workload.rows / ours["seconds"]),
            "bucketed_rows_per_second": round(workload.rows / peers["seconds"]),
            "files": ours["files"],
            **ratios,
        }

    def _ours(self, workload: Workload) -> dict[str, float]:
        self._made += 1
        name = f"{workload.name}-{self._made}"
        self._tables.add_table(name, self._rows(workload).limit(0), ["k"])
        table = f"{CATALOG}.{NAMESPACE}.`{name}`"
        return self._timed(workload, lambda rows: rows.writeTo(table).append(), self._roots, REPLICAS)

    def _peers(self, workload: Workload) -> dict[str, float]:
        def write(rows: DataFrame) -> None:
            bucketed = rows.write.format("parquet").option("compression", "zstd").bucketBy(BUCKETS, "k").sortBy("k")
            bucketed.saveAsTable("peer")

        try:
            return self._timed(workload, write, [self._warehouse], 1)
        finally:
            self._spark.sql("DROP TABLE IF EXISTS peer")

    def _timed(
        self, workload: Workload, write: Callable[[DataFrame], None], roots: Sequence[Path], copies: int
    ) -> dict[str, float]:
        for root in roots:
            for old in root.iterdir():
                if old.is_dir() and not old.name.startswith("."):
                    shutil.rmtree(old)
        os.sync()
        written, started = written_bytes(), time.monotonic()
        write(self._rows(workload))
        os.sync()
        seconds = time.monotonic() - started
        files = [file for root in roots for file in root.rglob("*.parquet")]
        return {
            "seconds": seconds,
            "file_bytes": sum(file.stat().st_size for file in files),
            "written_bytes": written_bytes() - written,
            "files": len(files) / copies,
        }

    def _rows(self, workload: Workload) -> DataFrame:
        return self._spark.range(workload.rows).selectExpr(*workload.columns)


def written_bytes() -> int:
    """To disk, by all processes that this one has started, and theirs, as far as they live.

    What was deleted before the kernel wrote it, such as a file that was sent at once, does not count.
    """
    parents = {int(one.name): _parent(one) for one in Path("/proc").iterdir() if one.name.isdigit()}
    total = 0
    for process in parents:
        ancestor: int | None = process
        while ancestor and ancestor != os.getpid():
            ancestor = parents.get(ancestor)
        if ancestor:
            with contextlib.suppress(OSError):
                lines = (line.split(": ") for line in Path(f"/proc/{process}/io").read_text().splitlines())
                counters = {name: int(value) for name, value in lines}
                total += counters["write_bytes"] - counters["cancelled_write_bytes"]
    return total


def _parent(process: Path) -> int | None:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


@contextlib.contextmanager
def running_bench(folder: Path, memory: str) -> Iterator[Bench]:
    """Agents, an API server and Spark."""
    certificates = folder / "certificates"
    make_pki(certificates)
    token = folder / "token"
    token.write_text("benchmark")
    roots = {node: folder / "nodes" / node for node in NODES}
    with contextlib.ExitStack() as stack:
        urls = {}
        for node, root in roots.items():
            root.mkdir(parents=True)
            address = f"127.0.0.{11 + NODES.index(node)}"
            [port] = free_ports(1)
            stack.enter_context(serving(root, node, address, certificates, port=port))
            urls[node] = f"https://{address}:{port}"
        plane = stack.enter_context(running_plane())
        tables = ClusterTables(plane, cast(Any, SimpleNamespace(urls=urls)), NAMESPACE)
        tables.add_group("sales", ["bigint"], MAP)
        url = stack.enter_context(standalone_cluster(folder, NODES, memory))
        warehouse = folder / "warehouse"
        warehouse.mkdir()
        builder = configure(
            SparkSession.builder.master(url).appName("bench-load"),
            namespace=NAMESPACE,
            data_root=str(folder / "nodes" / f"${{env.{NODE_VARIABLE}}}"),
            token_file=str(token),
            ca_file=str(certificates / "ca.crt"),
        )
        for key, value in {
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": memory,
            "spark.sql.warehouse.dir": str(warehouse),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        stack.callback(spark.stop)
        yield Bench(tables.configure(spark), tables, list(roots.values()), warehouse)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description="Times loads on this machine.")
    parser.add_argument("--rows", type=int, default=20_000_000, help="narrow rows (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="that count (default: %(default)s)")
    parser.add_argument("--memory", default="2g", help="of an executor (default: %(default)s)")
    names, usual = [one.name for one in workloads(0)], ["narrow", "wide"]
    parser.add_argument("--workloads", nargs="+", default=usual, choices=names, help="default: %(default)s")
    given = parser.parse_args()
    chosen = [one for one in workloads(given.rows) if one.name in given.workloads]
    with (
        tempfile.TemporaryDirectory(prefix="colocation-bench-") as folder,
        running_bench(Path(folder), given.memory) as bench,
    ):
        rows = [bench.measure(workload, given.rounds) for workload in chosen]
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(rows, indent=1))
    for row in rows:
        print(json.dumps(row))
        for ratio in ("seconds_ratio", "file_bytes_ratio", "written_bytes_ratio"):
            if cast(float, row[ratio]) > GOAL:
                print(f"missed: {row['workload']} {ratio} {row[ratio]}, goal {GOAL}")


if __name__ == "__main__":
    main()
