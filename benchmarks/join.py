"""Times joins on the dev cluster: ``make bench-join``, or ``python -m benchmarks.join [--sf 0.1] [--reuse]``.

Every workload runs in every variant, in turn, in one Spark application, with the nodes' links unshaped and shaped; the
first two rounds warm up. Then a node is killed, and ``colocated`` and ``shuffle`` run again (``…_one_node_down``):
while every bucket has a live replica, both read the same replicas. Writes ``build/bench/join.json`` (a list of rows),
``join.png``, and ``join-load.json``: what the loads took beside Spark's own bucketed write of the same rows.

- ``seconds_median``: from the statement's text to its answer in the driver.
- ``shuffle_bytes``: written by shuffles, from Spark's status store.
- ``remote_bytes``: read from another node's agent, from the file system's own counters; the most of all repetitions.
- ``tasks_local_ratio``: of the tasks with input, those that ran where it lies; null where Spark knows no place.
- ``ratio_to_shuffle``: how many times as fast as the shuffle. ``ratio_to_floor``: how many times the floor's seconds;
  the floor reads the same columns of the same files, one task per bucket, and joins nothing.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence

from demo import cluster as demo_cluster
from demo.shell import REPOSITORY
from devcluster import cluster as devcluster

from .joins import chart, cluster, inputs, report

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
        rows, loads = measure(options)
    finally:
        if not options.reuse:
            devcluster.end_run()
    write(rows, loads, "join-one-node-down" if options.only_one_node_down else "join")
    print(report.as_text(rows))
    print(f"load: {report.load_ratio(loads)} times the bucketed write of the same rows times the replicas")
    for miss in report.misses(rows, loads):
        print(f"missed: {miss}")
    print(f"done in {time.monotonic() - started:.0f} s: the figures are in {OUTPUT}")
    return 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with status 2 when it is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.join", description="Times joins on the dev cluster.")
    parser.add_argument("--sf", type=float, default=1.0, help="TPC-H's scale factor; other tables scale with it")
    parser.add_argument("--repetitions", type=int, default=3, help="rounds that count (default: %(default)s)")
    parser.add_argument("--reuse", action="store_true", help="use the dev cluster that runs, with both operators on it")
    parser.add_argument(
        "--only-one-node-down", action="store_true", help="measure only that; rows go to join-one-node-down.json"
    )
    parser.add_argument("--keep-data", action="store_true", help="measure only: the tables are loaded already")
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> tuple[list[report.Row], list[report.Row]]:
    """Load, then measure with links as they are and shaped."""
    loads_file = OUTPUT / "join-load.json"
    if options.keep_data:
        loads = json.loads(loads_file.read_text())
    else:
        cluster.prepare(inputs.tpch(options.sf), inputs.iceberg_jar())
        cluster.apply_tables(int(ROWS_PER_DAY_AT_SF1 * options.sf))
        loads = cluster.submit("load", int(ROWS_PER_DAY_AT_SF1 * options.sf))
        loads_file.parent.mkdir(parents=True, exist_ok=True)
        loads_file.write_text(json.dumps(loads, indent=1))
        cluster.wait_until_stable()
    rows = []
    if not options.only_one_node_down:
        rows = report.rows(cluster.submit("measure", options.repetitions), "unshaped")
        devcluster.shape_links(RATE)
        try:
            rows += report.rows(cluster.submit("measure", options.repetitions), RATE)
        finally:
            devcluster.shape_links(None)
    return rows + measure_with_one_node_down(options.repetitions), loads


def measure_with_one_node_down(repetitions: int) -> list[report.Row]:
    """Kill a node for good, and measure before the group gives it up."""
    victim = cluster.node_to_lose()
    devcluster.kill_node(int(victim.removeprefix("node-")))
    cluster.wait_until_unstable()
    runs = cluster.submit("measure-one-node-down", repetitions)
    return report.with_one_node_down(report.rows(runs, "unshaped"))


def write(rows: list[report.Row], loads: list[report.Row], name: str) -> None:
    """``<name>.json``, ``join-load.json`` and the picture."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / f"{name}.json").write_text(json.dumps(rows, indent=1))
    (OUTPUT / "join-load.json").write_text(json.dumps(loads, indent=1))
    chart.draw(rows, OUTPUT / f"{name}.png")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
