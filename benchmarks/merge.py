"""How fast rows change in place, compared with Iceberg, Delta and overwritten partitions: `make bench-merge`.

The same rows and the same statements in every variant, in turn, in one Spark application on this machine; a node's
agent (a process of its own, TLS, nginx before it) serves our tables. ``--rounds`` times after one round that warms up.
Before each statement its table is brought back to its loaded rows. After each, the table's rows must be those that
DuckDB has after the same statement; else the benchmark fails.

Writes build/bench/merge.json, one row per workload and variant:

- ``seconds_median``: from the statement's text until its files are on the disk (``sync``).
- ``cpu_seconds``: of its tasks. ``all_cpu_seconds``: of Spark's whole process, the agents and the API server.
- ``exchanges``, ``broadcasts``, ``sorts``: operators in the final plans of all queries that the statement ran.
- ``bytes_written``: of the files that it left, by all replicas. ``data_files``: how many of them hold rows.
- ``rows_changed``: updated, deleted and inserted ones, by DuckDB.
- ``ratio``: its seconds over ours. Figures of different runs do not compare.
"""

import argparse
import contextlib
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from pyspark.sql import SparkSession

from benchmarks.joins.measuring import Stages
from benchmarks.merges.expected import Expected, expected
from benchmarks.merges.jars import peers_jars
from benchmarks.merges.measuring import BROADCAST, SHUFFLE, SORT, NewFiles, Operators, cpu_seconds
from benchmarks.merges.report import Row, misses, row_of, with_ratios
from benchmarks.merges.tables import BUCKETS, HEXADECIMAL_IN_SPARK, Table, digest_of, tables
from benchmarks.merges.variants import DATABASE, ICEBERG_CATALOG, Colocated, Delta, Iceberg, Overwritten, Variant
from benchmarks.merges.workloads import WORKLOADS, Workload
from benchmarks.served_table import serving
from colocation.spark import jar_path, spark_conf
from tests.integration.control_plane import free_ports, running_plane
from tests.spark.cluster_tables import ClusterTables
from tests.spark.standalone import NODE_VARIABLE
from tests.unit.agent.harness import make_pki

OUTPUT = Path("build/bench/merge.json")
NAMESPACE = "bench"
NODES = ("node-1", "node-2")
EXTENSIONS = (
    "dev.colocation.spark.ColocationExtensions",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "io.delta.sql.DeltaSparkSessionExtension",
)


class WrongRows(Exception):
    """A variant's rows after a statement are not DuckDB's."""


class Bench:
    """All variants in one application.

    Args:
        spark: the application.
        variants: with their tables loaded.
        tables: by name.
        source: a folder of Parquet files per table.
    """

    def __init__(
        self, spark: SparkSession, variants: Sequence[Variant], tables: dict[str, Table], source: Path
    ) -> None:
        self._spark = spark
        self._variants = variants
        self._tables = tables
        self._source = source

    def load(self, used: set[str]) -> None:
        """The tables that some workloads use, into all variants."""
        for name in sorted(used):
            rows = self._spark.read.parquet(str(self._source / name))
            for variant in self._variants:
                started = time.monotonic()
                variant.make(self._tables[name], rows)
                print(f"loaded {name} into {variant.name} in {time.monotonic() - started:.1f} s", flush=True)

    def measure(self, workload: Workload, rounds: int, warm_up_rounds: int) -> list[Row]:
        """The workload's rows of the report. There and back again, so that no variant always follows the same other."""
        wanted = expected(workload, self._tables, self._source)
        runs: defaultdict[str, list[Row]] = defaultdict(list)
        for number in range(-warm_up_rounds, rounds):
            for variant in self._variants if number % 2 else reversed(self._variants):
                run = self._run(workload, variant, wanted)
                print(workload.name, variant.name, number, run, flush=True)
                if number >= 0:
                    runs[variant.name].append(run)
        return [row_of(workload.name, name, runs[name], wanted.rows_changed) for name in runs]

    def _run(self, workload: Workload, variant: Variant, wanted: Expected) -> Row:
        with _conf(self._spark, variant.conf):
            variant.restore()
            os.sync()
            stages, operators, files = Stages(self._spark), Operators(self._spark), NewFiles(variant.folders)
            processors, started = cpu_seconds(), time.perf_counter()
            variant.run(workload)
            returned = time.perf_counter()
            os.sync()
            synced = time.perf_counter()
            counted, ran = operators.counted(), stages.measured()
            run = {
                "seconds": synced - started,
                "seconds_of_sync": synced - returned,
                "cpu_seconds": cast(float, ran["executor_cpu_seconds"]),
                "all_cpu_seconds": cpu_seconds() - processors,
                "exchanges": counted[SHUFFLE],
                "broadcasts": counted[BROADCAST],
                "sorts": counted[SORT],
                "bytes_written": files.bytes(),
                "data_files": files.data_files(),
            }
            self._check(workload, variant, wanted)
        return run

    def _check(self, workload: Workload, variant: Variant, wanted: Expected) -> None:
        digest = digest_of(HEXADECIMAL_IN_SPARK, self._tables[workload.target])
        row = self._spark.sql(f"SELECT {digest} FROM {variant.table(workload.target)}").first()
        assert row is not None
        found = tuple(int(value) for value in row)
        if found != wanted.digest:
            raise WrongRows(f"{workload.name}, {variant.name}: {found}; by DuckDB {wanted.digest}")


@contextlib.contextmanager
def _conf(spark: SparkSession, conf: dict[str, str]) -> Iterator[None]:
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in conf:
            spark.conf.unset(key)


@contextlib.contextmanager
def running_bench(
    folder: Path, rows: int, memory: str, replicas: int, names: Sequence[str], broadcast: str
) -> Iterator[Bench]:
    """Agents, an API server and Spark, with the source's rows made; ``names`` of the variants."""
    with contextlib.ExitStack() as stack:
        certificates = folder / "certificates"
        make_pki(certificates)
        token = folder / "token"
        token.write_text("benchmark")
        nodes = NODES[:replicas]
        roots = tuple(folder / "nodes" / node for node in nodes)
        urls = {}
        for number, (node, root) in enumerate(zip(nodes, roots, strict=True)):
            root.mkdir(parents=True)
            address, [port] = f"127.0.0.{11 + number}", free_ports(1)
            stack.enter_context(serving(root, node, address, certificates, port=port))
            urls[node] = f"https://{address}:{port}"
        plane = stack.enter_context(running_plane())
        cluster = ClusterTables(plane, cast(Any, SimpleNamespace(urls=urls)), NAMESPACE)
        cluster.add_group("sales", ["bigint"], (nodes,) * BUCKETS, replicas)
        ours = spark_conf(NAMESPACE, str(roots[0]), str(token), str(certificates / "ca.crt"))
        os.environ[NODE_VARIABLE] = nodes[0]
        builder = SparkSession.builder.master("local[2]").appName("bench-merge")
        for key, value in {**ours, **_session_conf(folder, memory, broadcast)}.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        stack.callback(spark.stop)
        spark.sparkContext.setLogLevel("ERROR")
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        cluster.configure(spark)
        peers = folder / "peers"
        variants: list[Variant] = [
            Colocated(spark, cluster, roots),
            copied := Iceberg("copy-on-write", spark, peers),
            Iceberg("merge-on-read", spark, peers, copied),
            delta := Delta(False, spark, peers),
            Delta(True, spark, peers, delta),
            Overwritten(spark, peers),
        ]
        made = {table.name: table for table in tables(rows)}
        for table in made.values():
            spark.sql(table.select).coalesce(2).write.parquet(str(folder / "source" / table.name))
        chosen = [variant for variant in variants if not names or variant.name in names]
        chosen = [*dict.fromkeys(variant.sources for variant in chosen if variant.sources not in chosen), *chosen]
        yield Bench(spark, chosen, made, folder / "source")


def _session_conf(folder: Path, memory: str, broadcast: str) -> dict[str, str]:
    iceberg = f"spark.sql.catalog.{ICEBERG_CATALOG}"
    return {
        "spark.jars": ",".join(str(jar) for jar in (jar_path(), *peers_jars())),
        "spark.sql.extensions": ",".join(EXTENSIONS),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        iceberg: "org.apache.iceberg.spark.SparkCatalog",
        f"{iceberg}.type": "hadoop",
        f"{iceberg}.warehouse": str(folder / "peers"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": memory,
        "spark.sql.shuffle.partitions": str(BUCKETS),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.autoBroadcastJoinThreshold": broadcast,
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def measure(
    folder: Path, rows: int, rounds: int, warm_up_rounds: int, memory: str, replicas: int,
    workloads: Sequence[Workload], variants: Sequence[str], broadcast: str,
) -> list[Row]:  # fmt: skip
    """All rows of the report."""
    with running_bench(folder, rows, memory, replicas, variants, broadcast) as bench:
        bench.load({name for one in workloads for name in one.tables})
        return [row for one in workloads for row in bench.measure(one, rounds, warm_up_rounds)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.merge", description="Times changes of rows.")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of each large table (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="that count (default: %(default)s)")
    parser.add_argument("--warm-up-rounds", type=int, default=1, help="before them (default: %(default)s)")
    parser.add_argument("--memory", default="3g", help="of Spark's process (default: %(default)s)")
    parser.add_argument("--replicas", type=int, default=1, choices=(1, 2), help="of our tables (default: %(default)s)")
    parser.add_argument("--broadcast", default="-1", help="what Spark may broadcast, such as 10m (default: nothing)")
    parser.add_argument("--workloads", nargs="+", choices=[one.name for one in WORKLOADS], help="default: all")
    parser.add_argument("--variants", nargs="+", default=[], help="default: all")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="default: %(default)s")
    given = parser.parse_args()
    workloads = [one for one in WORKLOADS if not given.workloads or one.name in given.workloads]
    with tempfile.TemporaryDirectory(prefix="colocation-bench-") as folder:
        rows = measure(Path(folder), given.rows, given.rounds, given.warm_up_rounds, given.memory, given.replicas,
                       workloads, given.variants, given.broadcast)  # fmt: skip
    rows = with_ratios(rows)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(rows, indent=1))
    for row in rows:
        print(json.dumps(row))
    for miss in misses(rows):
        print(f"missed: {miss}")


if __name__ == "__main__":
    main()
