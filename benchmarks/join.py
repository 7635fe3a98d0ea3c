"""Times joins on the dev cluster: ``make bench-join``, or ``python -m benchmarks.join [--sf 0.1] [--reuse]``.

Every workload runs in every variant, in turn, in one Spark application, with the nodes' links unshaped and shaped; the
first two rounds warm up. Then a node is killed, and ``colocated`` and ``shuffle`` run again (``…_one_node_down``):
while every bucket has a live replica, both read the same replicas. Writes ``build/bench/join.json`` (a list of rows),
``join.png``, ``join-load.json``: what the loads took compared with Spark's own bucketed write of the same rows, and
``join-locality.json``: of the bytes that an application's first query and all its colocated ones read, how many were on
the node that read them. ``--only-locality --executors 12`` measures that alone, with four executors per node.

``--only-tpch`` measures all of TPC-H's statements: ``join-tpch.json`` has a row for each variant, with the sums over
the 22 statements.

- ``seconds_median``: from the statement's text to its answer in the driver.
- ``work_cpu_seconds``: of the threads of tasks. ``work_ratio_to_duckdb``: how many times those of DuckDB, which runs
  the statement in one thread on the same files (variant ``duckdb``), outside of the cluster.
- ``shuffle_bytes``: written by shuffles, from Spark's status store.
- ``remote_bytes``: read from another node's agent, from the file system's own counters; the most of all repetitions.
- ``tasks_local_ratio``: of the tasks with input, those that ran on a node that has it; null where Spark knows no place.
- ``ratio_to_shuffle``: how many times as fast as the shuffle. ``ratio_to_floor``: how many times the floor's seconds;
  the floor reads the same columns of the same files, one task per bucket, and joins nothing.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from demo import cluster as demo_cluster
from demo.shell import REPOSITORY
from devcluster import cluster as devcluster

from .joins import chart, cluster, inputs, native, report
from .joins.tables import all_tables
from .joins.tpch import WHOLE_TPCH
from .joins.workloads import WORKLOADS, Workload

OUTPUT = REPOSITORY / "build" / "bench"
ROWS_PER_DAY_AT_SF1 = 300_000
RATE = "1gbit"
NODES = 3


def main(arguments: Sequence[str]) -> int:
    """Exit code 0: measured, whatever the figures; they and the missed goals are printed."""
    options = parse(arguments)
    started = time.monotonic()
    if options.reuse:
        demo_cluster.use_embedded_cluster()
    else:
        demo_cluster.start(NODES)
        demo_cluster.install_operators(cluster.NAMESPACE, {})
    try:
        measured = measure(options)
    finally:
        if not options.reuse:
            devcluster.end_run()
    print(report.as_text(measured.rows))
    for row in measured.whole_tpch:
        print(f"TPC-H, {row['variant']}: {row['seconds']} s, {row['work_cpu_seconds']} processor seconds of tasks")
    for row in measured.localities:
        print(f"{row['queries']}, {row['executors']} executors: {row['bytes_local_ratio']:.2%} of the bytes were local")
    print(f"load: {report.load_ratio(measured.loads)} times the bucketed write of the same rows times the replicas")
    for miss in report.misses(measured.rows, measured.loads, measured.localities):
        print(f"missed: {miss}")
    print(f"done in {time.monotonic() - started:.0f} s: the figures are in {OUTPUT}")
    return 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with status 2 when it is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.join", description="Times joins on the dev cluster.")
    parser.add_argument("--sf", type=float, default=1.0, help="TPC-H's scale factor; other tables scale with it")
    parser.add_argument("--repetitions", type=int, default=3, help="rounds that count (default: %(default)s)")
    parser.add_argument("--executors", type=int, default=NODES, help="on all nodes together (default: %(default)s)")
    parser.add_argument("--reuse", action="store_true", help="use the dev cluster that runs, with both operators on it")
    parser.add_argument(
        "--only-one-node-down", action="store_true", help="measure only that; rows go to join-one-node-down.json"
    )
    parser.add_argument("--only-tpch", action="store_true", help="measure only all of TPC-H's statements")
    parser.add_argument("--only-locality", action="store_true", help="measure only where colocated queries read")
    parser.add_argument("--keep-data", action="store_true", help="measure only: the tables are loaded already")
    return parser.parse_args(arguments)


@dataclass
class Measured:
    """Rows of the report, what the loads took, from where queries read, and all of TPC-H."""

    rows: list[report.Row] = field(default_factory=list)
    loads: list[report.Row] = field(default_factory=list)
    localities: list[report.Row] = field(default_factory=list)
    whole_tpch: list[report.Row] = field(default_factory=list)


def measure(options: argparse.Namespace) -> Measured:
    """Load, then measure with links as they are and shaped, and with a node down. What is known is written at once."""
    measured = Measured(loads=loaded(options))
    if options.only_locality:
        add_locality(measured, options)
        return measured
    if options.only_tpch:
        add_whole_tpch(measured, options)
        return measured
    if not options.only_one_node_down:
        add_joins(measured, options, "unshaped")
        devcluster.shape_links(RATE)
        try:
            add_joins(measured, options, RATE)
        finally:
            devcluster.shape_links(None)
    add_joins_with_one_node_down(measured, options)
    return measured


def loaded(options: argparse.Namespace) -> list[report.Row]:
    """Load, unless it was done before; what the loads took."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    loads_file = OUTPUT / "join-load.json"
    if options.keep_data:
        kept: list[report.Row] = json.loads(loads_file.read_text())
        return kept
    rows_per_day = int(ROWS_PER_DAY_AT_SF1 * options.sf)
    cluster.prepare(inputs.tpch(options.sf), inputs.iceberg_jar())
    cluster.apply_tables(rows_per_day)
    loads: list[report.Row] = cluster.submit("load", rows_per_day, options.executors)
    loads_file.write_text(json.dumps(loads, indent=1))
    cluster.wait_until_stable()
    return loads


def add_joins(measured: Measured, options: argparse.Namespace, links: str) -> None:
    """Every workload in every variant, by one application."""
    found = cluster.submit("measure", options.repetitions, options.executors)
    measured.rows += report.rows([*found["runs"], *by_duckdb(WORKLOADS, found["answers"], options)], links)
    colocated = [run for run in found["runs"] if run["variant"] == "colocated"]
    write_localities(measured, found["first_query"], colocated, options.executors)
    write(measured, "join")


def add_whole_tpch(measured: Measured, options: argparse.Namespace) -> None:
    """All statements of TPC-H; ``join-tpch.json``."""
    found = cluster.submit("measure-tpch", options.repetitions, options.executors)
    measured.whole_tpch = report.whole_tpch([*found["runs"], *by_duckdb(WHOLE_TPCH, found["answers"], options)])
    (OUTPUT / "join-tpch.json").write_text(json.dumps(measured.whole_tpch, indent=1))


def by_duckdb(workloads: Sequence[Workload], answers: dict[str, Any], options: argparse.Namespace) -> list[report.Row]:
    """The same statements by DuckDB, on the nodes' files; it must find Spark's answers."""
    tables = all_tables(int(ROWS_PER_DAY_AT_SF1 * options.sf))
    return native.measure(workloads, tables, inputs.tpch(options.sf), answers, options.repetitions)


def add_locality(measured: Measured, options: argparse.Namespace) -> None:
    """The colocated variant alone."""
    found = cluster.submit("measure-locality", options.repetitions, options.executors)
    write_localities(measured, found["first_query"], found["runs"], options.executors)


def write_localities(
    measured: Measured, first: dict[str, Any], colocated: list[dict[str, Any]], executors: int
) -> None:
    """``join-locality.json``."""
    measured.localities.append(report.locality("first query", [first], executors))
    measured.localities.append(report.locality("all workloads", colocated, executors))
    (OUTPUT / "join-locality.json").write_text(json.dumps(measured.localities, indent=1))


def add_joins_with_one_node_down(measured: Measured, options: argparse.Namespace) -> None:
    """Kill a node for good, and measure before the group gives it up."""
    victim = cluster.node_to_lose()
    devcluster.kill_node(int(victim.removeprefix("node-")))
    cluster.wait_until_unstable()
    found = cluster.submit("measure-one-node-down", options.repetitions, options.executors)
    measured.rows += report.with_one_node_down(report.rows(found["runs"], "unshaped"))
    write(measured, "join-one-node-down" if options.only_one_node_down else "join")


def write(measured: Measured, name: str) -> None:
    """``<name>.json`` and the picture."""
    (OUTPUT / f"{name}.json").write_text(json.dumps(measured.rows, indent=1))
    chart.draw(measured.rows, OUTPUT / f"{name}.png")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
