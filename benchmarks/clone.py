"""How long the repair of a lost node's buckets takes, compared with a raw copy of the same bytes: `make bench-clone`.

Two nodes are two network namespaces of this machine with one link, unshaped and shaped by ``tc``. Agents and clone
programs are the real ones, each a process; Kubernetes is not there. So ``verdict_to_stable_seconds`` begins where the
operator would create the first Job and ends when the target's agent reports every bucket complete; it lacks what the
API server and the kubelet take. ``job_start_seconds``, which it holds, is what the clone programs' start takes
(interpreter and imports), measured alone, as many at a time as run in a wave.

The raw copy of the table's folder, between the same two nodes: ``tar`` through ``socat``, then ``sync``, then
``sha256sum`` of every file. Both run in turn, ``--rounds`` times; the row holds the medians. Needs root.

Writes build/bench/clone.json, a list of rows: ``file_mib, bytes, link, raw_copy_seconds, verdict_to_stable_seconds,
job_start_seconds, waves, ratio`` with ratio = (verdict_to_stable - job_start) / raw_copy, and of the raw copy
``raw_transfer_seconds, raw_sync_seconds, raw_hash_seconds``. Before these, rows of ``clone_manifests``.
"""

import argparse
import contextlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from benchmarks.clone_manifests import SHAPES, measure_manifests
from benchmarks.served_table import MIB, ServedTable, make_served_table, serving
from benchmarks.two_nodes import LINKS, SOURCE_ADDRESS, TARGET_ADDRESS, TwoNodes, two_nodes
from colocation.agentclient import AgentClient, Credentials
from colocation.model.agent import InventoryRequest
from colocation.model.clone import CloneSource, CloneSpec, spec_to_environment
from colocation.model.names import agent_certificate_name
from colocation.model.snapshot import Limits
from tests.unit.agent.harness import make_pki

OUTPUT = Path("build/bench/clone.json")
SIZES = {"64MiB": (64 * MIB, 512 * MIB), "1MiB": (MIB, 512 * MIB), "64KiB": (64 << 10, 128 * MIB)}
"""Name -> bytes of a file, bytes of the table."""
BUCKETS = 4
CLONES_AT_ONCE = Limits().max_concurrent_clones_per_node
SOURCE_PORT, TARGET_PORT, RAW_PORT = 8440, 8450, 8460
POLL_SECONDS = 0.02
GROUP = "sales"


class RawCopy(NamedTuple):
    """Seconds."""

    transfer: float
    sync: float
    hash: float


class Bench(NamedTuple):
    """Two nodes, and a folder with certificates, a token and both data roots."""

    nodes: TwoNodes
    folder: Path

    @property
    def source(self) -> Path:
        """The source's data root."""
        return self.folder / "source"


def raw_copy(bench: Bench, table: ServedTable) -> RawCopy:
    """Copy the table's folder over the link by common programs, and hash it there."""
    target = bench.folder / "raw"
    target.mkdir()
    receive = f"socat -u -b 1048576 TCP-LISTEN:{RAW_PORT},reuseaddr STDOUT | tar -xf - -C {target}"
    peer = f"TCP:{TARGET_ADDRESS}:{RAW_PORT},retry=99,interval=0.01"
    send = f"tar -cf - -C {bench.source} {table.path} | socat -u -b 1048576 STDIN {peer}"
    started = time.monotonic()
    with subprocess.Popen(["bash", "-c", receive]) as receiver:
        subprocess.run(bench.nodes.on_source(["bash", "-c", send]), check=True)
        receiver.wait()
    transferred = time.monotonic()
    subprocess.run(["sync", "-f", str(target)], check=True)
    synced = time.monotonic()
    hashed = subprocess.run(f"find {target} -type f -print0 | xargs -0 sha256sum", shell=True, check=True,
                            capture_output=True)  # fmt: skip
    assert hashed.stdout.count(b"\n") == len(table.files) + 1
    ended = time.monotonic()
    shutil.rmtree(target)
    return RawCopy(transferred - started, synced - transferred, ended - synced)


@contextlib.contextmanager
def empty_target(bench: Bench) -> Iterator[AgentClient]:
    """A target node that has just come: an empty data root, and its agent."""
    root = bench.folder / "target"
    root.mkdir()
    credentials = Credentials(bench.folder / "token", bench.folder / "ca.crt")
    with serving(root, "target", "127.0.0.1", bench.folder, port=TARGET_PORT):
        yield AgentClient(f"https://127.0.0.1:{TARGET_PORT}", credentials)
    shutil.rmtree(root)


def repair(bench: Bench, table: ServedTable, client: AgentClient, program: list[str]) -> float:
    """Clone every bucket, as many at a time as an operator would; seconds until the agent reports all of it."""

    def clone(bucket: int) -> None:
        spec = CloneSpec(
            namespace="shop", group=GROUP, bucket=bucket, target="target", tables=(table.asked.reference,),
            sources=(CloneSource(node="source", url=f"https://{SOURCE_ADDRESS}:{SOURCE_PORT}"),),
        )  # fmt: skip
        environment = {
            **spec_to_environment(spec),
            "COLOCATION_DATA_ROOT": str(bench.folder / "target"),
            "COLOCATION_TOKEN_DIRECTORY": str(bench.folder),
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": ":".join(sys.path),
        }
        subprocess.run([*program, "-m", "colocation.clone"], check=True, env=environment, capture_output=True)

    started = time.monotonic()
    with ThreadPoolExecutor(CLONES_AT_ONCE) as threads:
        list(threads.map(clone, range(table.buckets)))
    while not is_complete(client, table):
        time.sleep(POLL_SECONDS)
    return time.monotonic() - started


def is_complete(client: AgentClient, table: ServedTable) -> bool:
    """Whether the agent reports every bucket as complete."""
    report = client.inventory(InventoryRequest(changed=(table.asked,)))
    assert report is not None
    states = [bucket.state for one in report.tables for bucket in one.buckets.values()]
    return len(states) == table.buckets and set(states) == {"complete"}


def job_start_seconds() -> float:
    """What the start of a wave of clone programs takes."""

    def start(_number: int) -> None:
        subprocess.run([sys.executable, "-c", "import colocation.clone.__main__"], check=True)

    started = time.monotonic()
    with ThreadPoolExecutor(CLONES_AT_ONCE) as threads:
        list(threads.map(start, range(CLONES_AT_ONCE)))
    return time.monotonic() - started


def measure(bench: Bench, table: ServedTable, link: str, rounds: int, program: list[str]) -> dict[str, object]:
    """One row."""
    bench.nodes.shape(link)
    raw, repaired, starts = [], [], []
    for _ in range(rounds):
        raw.append(raw_copy(bench, table))
        with empty_target(bench) as client:
            repaired.append(repair(bench, table, client, program))
        starts.append(job_start_seconds())
    waves = -(-table.buckets // CLONES_AT_ONCE)
    return row(table, link, raw, repaired, starts, waves)


def row(
    table: ServedTable, link: str, raw: list[RawCopy], repaired: list[float], starts: list[float], waves: int
) -> dict[str, object]:
    """The medians of what was measured."""
    raw_seconds = statistics.median(map(sum, raw))
    repair_seconds = statistics.median(repaired)
    start_seconds = statistics.median(starts) * waves
    return {
        "file_mib": table.files[0].bytes / MIB,
        "bytes": table.bytes,
        "link": link,
        "raw_copy_seconds": round(raw_seconds, 3),
        "verdict_to_stable_seconds": round(repair_seconds, 3),
        "job_start_seconds": round(start_seconds, 3),
        "waves": waves,
        "ratio": round((repair_seconds - start_seconds) / raw_seconds, 2),
        "raw_transfer_seconds": round(statistics.median(one.transfer for one in raw), 3),
        "raw_sync_seconds": round(statistics.median(one.sync for one in raw), 3),
        "raw_hash_seconds": round(statistics.median(one.hash for one in raw), 3),
    }


def run(sizes: list[str], links: list[str], rounds: int, program: list[str], folder: Path,
        report: Callable[[dict[str, object]], None]) -> None:  # fmt: skip
    """Measure every size over every link."""
    make_pki(folder, node_names=[agent_certificate_name("source")])
    (folder / "token").write_text("benchmark")
    with two_nodes() as nodes:
        bench = Bench(nodes, folder)
        for size in sizes:
            file_bytes, total_bytes = SIZES[size]
            table = make_served_table(bench.source, "orders", file_bytes, total_bytes // file_bytes, BUCKETS)
            with serving(bench.source, "source", SOURCE_ADDRESS, folder, nodes.on_source(()), SOURCE_PORT):
                for link in links:
                    report(measure(bench, table, link, rounds, program))
            shutil.rmtree(bench.source)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", action="append", choices=SIZES, help="default: all")
    parser.add_argument("--link", action="append", choices=LINKS, help="default: all")
    parser.add_argument("--group", action="append", choices=SHAPES, help="default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--program", nargs="+", default=[sys.executable], help="Python, or a profiler in front of it")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args()
    rows: list[dict[str, object]] = []

    def report(measured: dict[str, object]) -> None:
        rows.append(measured)
        print(json.dumps(measured), flush=True)
        given.output.parent.mkdir(parents=True, exist_ok=True)
        given.output.write_text(json.dumps(rows, indent=2) + "\n")

    for group in given.group or list(SHAPES):
        with tempfile.TemporaryDirectory(prefix="colocation-bench-") as folder:
            report(measure_manifests(group, Path(folder)))
    with tempfile.TemporaryDirectory(prefix="colocation-bench-") as folder:
        run(given.size or list(SIZES), given.link or list(LINKS), given.rounds, given.program, Path(folder), report)


if __name__ == "__main__":
    main()
