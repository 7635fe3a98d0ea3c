"""Measures the operator on a real API server with fake agents: `make bench-control-plane`, or
`python -m benchmarks.control_plane [--row small|large] [--nodes 20 --groups 100 --tables 400 …]`.

Two rows, a list in build/bench/control_plane.json: 20 nodes, 100 groups, 400 tables, which the operator places itself
(``first_placement_seconds``); and 1,000 nodes, 1,000 groups, 20,000 tables of 2,000 partitions, which it finds as an
earlier operator left them. etcd and kube-apiserver are real, nodes are objects, agents one process (fake_agents.py).

- ``first_pass_seconds``: from the start of the operator's process until the status of every group answers: stable, for
  the newest spec, with all tables. What an earlier operator said of that was taken out of the statuses.
- ``api_calls_per_minute_quiet``: the operator's requests to the API server while nothing changes (from its audit log),
  with the share of the full lists that come every five minutes; ``by_call`` lists them. Nodes send heartbeats.
- ``cpu_seconds_per_minute_quiet``: of the operator's processes in that time, with the same share.
- ``watch_events``: that the API server sent in that time, of the kinds that the operator watches.
- ``reconcile_p50_ms``, ``reconcile_p99_ms``: from a change of a group's spec to the status that answers it.
- ``commit_to_status_p50_seconds``, ``…_p99_seconds``: a load puts its files, then commits by a patch of the table's
  status, at a steady pace, each to another table. From the patch until a watch shows a status of the table's group
  that remembers this snapshot and is stable. ``unstable_words``: statuses in between that were not stable.
- ``node_lost_to_status_seconds``: from the patch that makes a Node not ready (its agent hangs from then on) until all
  groups whose map names it report that they are not stable.
- ``pass_p50_ms``, ``pass_p99_ms``: duration of all passes of the run, from the operator's histogram.
- ``peak_rss_mib``: of the operator's processes.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks import control_plane_phases as phases
from benchmarks.apiserver import Json, running_apiserver
from benchmarks.control_plane_objects import ClusterSize
from benchmarks.control_plane_phases import Bench, Row
from benchmarks.control_plane_population import (
    addresses,
    forget_verdicts,
    load_all,
    make_empty_groups,
    make_namespaces,
    make_nodes,
    make_settled_groups,
)
from benchmarks.fake_agents import running_agents
from benchmarks.group_watch import GroupWatch
from benchmarks.operator_process import OPERATOR_USER, running_operator
from tests.support.certificates import self_signed

OUTPUT = Path("build/bench/control_plane.json")


SMALL = Row(ClusterSize(nodes=20, groups=100, tables=400), is_placed=False)
LARGE = Row(ClusterSize(nodes=1000, groups=1000, tables=20_000), is_placed=True, changes=30)
ROWS = {"small": SMALL, "large": LARGE}


@contextmanager
def running(row: Row, folder: Path) -> Iterator[Bench]:
    """API server, nodes and agents, and an operator that may be started; all ended when the context is left."""
    size = row.size
    with ExitStack() as stack:
        server = stack.enter_context(running_apiserver(folder, OPERATOR_USER))
        server.plane.serve_crds()
        certificate, key = self_signed(folder, "colocation-agent")
        log = Path(os.environ.get("COLOCATION_BENCH_LOGS", folder))
        agents = stack.enter_context(running_agents(addresses(size), certificate, key, log / "agents.log"))
        namespaces = make_namespaces(server, size)
        make_nodes(server, size, row.is_placed)
        operator = stack.enter_context(running_operator(server.plane, folder, certificate, log / "operator.log"))
        if row.is_placed:
            make_settled_groups(server, agents, size, namespaces)
        yield Bench(row, server, agents, operator, GroupWatch(server, operator.check))


def measure(row: Row, folder: Path) -> Json:
    """The whole run.

    Raises:
        RuntimeError: the operator does not get to where it should be in time.
    """
    size, began = row.size, time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {what}", file=sys.stderr, flush=True)

    say(f"making {size.nodes} nodes, {size.groups} groups, {size.tables} tables")
    with running(row, folder) as bench:
        found: Json = {"nodes": size.nodes, "groups": size.groups, "tables": size.tables}
        if not row.is_placed:
            say("the operator places the groups")
            found["first_placement_seconds"] = _place(bench)
        say("first pass")
        found["first_pass_seconds"] = phases.first_pass(bench)
        say(f"first pass: {found['first_pass_seconds']} s; waiting for calm")
        phases.wait_until_calm(bench)
        say("quiet")
        quiet = phases.quiet(bench)
        say(f"quiet: {quiet}; changes of specs")
        found |= phases.spec_changes(bench)
        say("commits")
        found |= phases.commits(bench)
        say("full lists")
        found |= phases.resync(bench, quiet)
        say("a node is lost")
        found["node_lost_to_status_seconds"] = phases.lose_node(bench)
        found["pass_p50_ms"], found["pass_p99_ms"] = bench.operator.pass_milliseconds()
        bench.operator.stop()
        found["peak_rss_mib"] = bench.operator.peak_rss_mib
        say("done")
    return found


def _place(bench: Bench) -> float:
    """Seconds until the operator has placed all groups; then all tables are loaded, and it ends."""
    row, size = bench.row, bench.row.size
    bench.operator.start(row.resync_seconds)
    started = time.monotonic()
    make_empty_groups(bench.server, size)
    phases.wait_until_settled(bench)
    seconds = round(time.monotonic() - started, 1)
    load_all(bench.server, bench.agents)
    phases.wait_until_settled(bench, are_loaded=True)
    bench.operator.stop()
    forget_verdicts(bench.server, size)
    return seconds


def write(measured: Json) -> None:
    """Put a row in the place of the one of the same size, and keep the others."""
    rows: list[Json] = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else []
    same = ("nodes", "groups", "tables")
    rows = [row for row in rows if [row.get(name) for name in same] != [measured[name] for name in same]]
    rows = sorted([*rows, measured], key=lambda row: row["nodes"])
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(rows, indent=2) + "\n")


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that all that runs is ended
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", choices=sorted(ROWS), action="append", help="default: both")
    for name in ("nodes", "groups", "tables"):
        parser.add_argument(f"--{name}", type=int, help="a row of another size, placed already")
    given = parser.parse_args()
    rows = [ROWS[name] for name in given.row or ROWS]
    if given.nodes or given.groups or given.tables:
        size = ClusterSize(given.nodes or 20, given.groups or 100, given.tables or 400)
        rows = [Row(size, is_placed=True, changes=30)]
    for row in rows:
        with tempfile.TemporaryDirectory(prefix="colocation-bench-") as folder:
            measured = measure(row, Path(folder))
        print(json.dumps(measured, indent=2))
        write(measured)
    print(f"written to {OUTPUT}")


if __name__ == "__main__":
    main()
