"""Times joins on the dev cluster: ``make bench-join``, or ``python -m benchmarks.join [--sf 0.1] [--reuse]``.

Every workload runs in every variant, in turn, in one Spark application, with the nodes' links unshaped and shaped; the
first two rounds warm up. Then a node is killed, and ``colocated`` and ``shuffle`` run again (``…_one_node_down``):
while every bucket has a live replica, both read the same replicas. Writes ``build/bench/join.json`` (a list of rows),
``join.png``, ``join-load.json``: what the loads took compared with Spark's own bucketed write of the same rows, and
``join-locality.json``: of the bytes that an application's first query and all its colocated ones read, how many were on
the node that read them.

``--only`` measures another thing, or one of these alone:

- ``locality``; with ``--executors 12`` four executors per node read.
- ``one-node-down``: ``join-one-node-down.json``.
- ``tpch``: ``join-tpch.json`` has a row for each variant, with the sums of TPC-H's 22 statements.
- ``layouts``: ``join-layouts.json``, joins of a table after 20 small appends, with a hot bucket, with four times the
  buckets, selective joins, and windows.

- ``seconds_median``: from the statement's text to its answer in the driver.
- ``work_cpu_seconds``: of the threads of tasks. ``work_ratio_to_duckdb``: how many times those of DuckDB, which runs
  the statement in one thread on the same files (variant ``duckdb``), outside of the cluster.
- ``shuffle_bytes``: written by shuffles, from Spark's status store.
- ``remote_bytes``: read from another node's agent, from the file system's own counters; the most of all repetitions.
- ``tasks_local_ratio``: of the tasks with input, those that ran on a node that has it; null where Spark knows no place.
- ``ratio_to_shuffle``: how many times as fast as the shuffle. ``ratio_to_floor``: how many times the floor's seconds;
  the floor reads the same columns of the same files, one task per bucket, and joins nothing. ``ratio_to_base``: how
  many times the seconds of the same join of rows that are laid out better.
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
from .joins.measurements import JOINS, LOCALITY, MEASUREMENTS, ONE_NODE_DOWN, OTHER_LAYOUTS, TPCH

OUTPUT = REPOSITORY / "build" / "bench"
ROWS_PER_DAY_AT_SF1 = 300_000
RATE = "1gbit"
NODES = 3


def main(arguments: Sequence[str]) -> int:
    """Exit code 0: measured, whatever the figures; they and the missed goals are printed."""
    options = parse(arguments)
    started = time.monotonic()
    try:
        if options.reuse:
            demo_cluster.use_embedded_cluster()
        else:
            demo_cluster.start(NODES)
            demo_cluster.install_operators(cluster.NAMESPACE, {})
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
    others = [name for name in MEASUREMENTS if name != JOINS]
    parser.add_argument("--only", choices=others, default=JOINS, help="measure this alone")
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
    if options.only == LOCALITY:
        add_locality(measured, options)
    elif options.only == TPCH:
        add_whole_tpch(measured, options)
    elif options.only == OTHER_LAYOUTS:
        add_rows(measured, options, "unshaped")
        write(measured, "join-layouts")
    else:
        if options.only == JOINS:
            add_joins(measured, options)
        add_joins_with_one_node_down(measured, options)
        write(measured, "join" if options.only == JOINS else "join-one-node-down")
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
    cluster.apply_tables(MEASUREMENTS[options.only].tables(rows_per_day))
    loads: list[report.Row] = cluster.submit("load", options.only, rows_per_day, options.executors)
    loads_file.write_text(json.dumps(loads, indent=1))
    cluster.wait_until_stable()
    return loads


def add_joins(measured: Measured, options: argparse.Namespace) -> None:
    """With links as they are, and shaped."""
    for links in ("unshaped", RATE):
        devcluster.shape_links(None if links == "unshaped" else links)
        try:
            found = add_rows(measured, options, links)
        finally:
            devcluster.shape_links(None)
        colocated = [run for run in found["runs"] if run["variant"] == "colocated"]
        write_localities(measured, found["first_query"], colocated, options.executors)
        write(measured, "join")


def add_rows(measured: Measured, options: argparse.Namespace, links: str) -> dict[str, Any]:
    """Every workload in every variant, by one application, and by DuckDB; what the application found."""
    found: dict[str, Any] = cluster.submit("measure", options.only, options.repetitions, options.executors)
    measured.rows += report.rows([*found["runs"], *by_duckdb(found["answers"], options)], links)
    return found


def add_whole_tpch(measured: Measured, options: argparse.Namespace) -> None:
    """All statements of TPC-H; ``join-tpch.json``."""
    found = cluster.submit("measure", TPCH, options.repetitions, options.executors)
    measured.whole_tpch = report.whole_tpch([*found["runs"], *by_duckdb(found["answers"], options)])
    (OUTPUT / "join-tpch.json").write_text(json.dumps(measured.whole_tpch, indent=1))


def by_duckdb(answers: dict[str, Any], options: argparse.Namespace) -> list[report.Row]:
    """The same statements by DuckDB, on the nodes' files; it must find Spark's answers."""
    measurement = MEASUREMENTS[options.only]
    tables = measurement.tables(int(ROWS_PER_DAY_AT_SF1 * options.sf))
    return native.measure(measurement.workloads, tables, inputs.tpch(options.sf), answers, options.repetitions)


def add_locality(measured: Measured, options: argparse.Namespace) -> None:
    """The colocated variant alone."""
    found = cluster.submit("measure", LOCALITY, options.repetitions, options.executors)
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
    found = cluster.submit("measure", ONE_NODE_DOWN, options.repetitions, options.executors)
    measured.rows += report.with_one_node_down(report.rows(found["runs"], "unshaped"))


def write(measured: Measured, name: str) -> None:
    """``<name>.json`` and the picture."""
    (OUTPUT / f"{name}.json").write_text(json.dumps(measured.rows, indent=1))
    chart.draw(measured.rows, OUTPUT / f"{name}.png")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
