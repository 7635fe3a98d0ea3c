"""Measures a node agent's inventory: `python -m benchmarks.agent_inventory`, see `--help` for sizes.

Tables with tiny files lie on the disk as loads leave them; the inventory looks at all of them as the agent does. Writes
build/bench/agent_inventory.json:

- ``scan_seconds``, ``hash_seconds``: looking at all files that no ledger knows, then hashing them.
- ``first_seconds``: the first answer after a start, from the ledger: what a restarted agent needs.
- ``quiet_seconds``: the answer when nothing has changed, which a held question needs every second.
- ``look_seconds``: a look at all folders, which comes at most after fifty times as long.
- ``changed_seconds``: the answer after one file of one table was published.
- ``sweep_seconds``: a look at every file.
- ``manifest_bytes``, ``manifest_text_bytes``: one table's manifest as stored, and its JSON.
- ``rss_mib``: of this process with everything loaded; ``bytes_per_file``: its growth by the inventory.
"""

import argparse
import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from colocation.agent.conversation import Conversation
from colocation.agent.inventory_answers import Answers
from colocation.model.agent import AskedTable, InventoryRequest, TableReference
from colocation.model.table import Column
from colocation.model.table_manifest import DataFile, TableManifest, manifest_path
from colocation.storage.disk_health import DiskHealth
from colocation.storage.inventory import Inventory, hash_unverified, sweep
from colocation.storage.paths import TablePath
from colocation.storage.root import DataRoot
from colocation.storage.verification import unlimited
from tests.support.manifests import encode_manifest
from tests.unit.storage.tables import publish

OUTPUT = Path("build/bench/agent_inventory.json")
NAMESPACE = "shop"
CONTENT = b"sixteen bytes..."
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def make_table(root: DataRoot, number: int, partitions: int, buckets: int) -> tuple[TableReference, int, int]:
    """A loaded table on the disk: (reference, bytes of its manifest, of the manifest's JSON)."""
    name = f"table-{number:03d}"
    uid = hashlib.sha256(name.encode()).hexdigest()[:8]
    table = TablePath(NAMESPACE, f"{name}-{uid}")
    files = tuple(data_files(partitions, buckets))
    for file in files:
        write(root.path / table.namespace / table.directory / file.path, CONTENT)
    columns = (Column(name="key", type="bigint"), Column(name="day", type="int"))
    manifest = TableManifest(
        namespace=NAMESPACE, table=name, uid=uid, snapshot_id=1, columns=columns, bucketed_by=("key",),
        partitioned_by=("day",), buckets=buckets, files=files,
    )  # fmt: skip
    sha256, stored = encode_manifest(manifest)
    write(root.path / table.namespace / table.directory / manifest_path(sha256), stored)
    reference = TableReference(namespace=NAMESPACE, directory=table.directory, manifest=sha256)
    return reference, len(stored), len(manifest.model_dump_json(by_alias=True))


def first_verification(root: DataRoot) -> tuple[float, float]:
    """Seconds to look at all files, and to hash them."""
    inventory = Inventory(root)
    scanned = seconds(lambda: sweep(inventory))
    return scanned, seconds(lambda: hash_unverified(inventory, unlimited))


def table_of(reference: TableReference) -> TablePath:
    """The table's folder."""
    return TablePath(reference.namespace, reference.directory)


def data_files(partitions: int, buckets: int) -> Iterator[DataFile]:
    """One file for each partition and bucket."""
    for partition in range(partitions):
        for bucket in range(buckets):
            path = f"data/day={partition}/part-0123456789ab_{bucket:05d}.c000.zstd.parquet"
            yield DataFile(
                path=path, bucket=bucket, partition={"day": str(partition)}, rows=1, bytes=len(CONTENT), sha256=SHA256
            )


def write(path: Path, content: bytes) -> None:
    """A file, without the syncs of a real load."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def rss_mib() -> int:
    """Of this process now."""
    [kib] = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{os.getpid()}/status").read_text())
    return int(kib) // 1024


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    work()
    return round(time.perf_counter() - started, 3)


def look_at_all(inventory: Inventory) -> None:
    """Find what has changed."""
    for table in inventory.tables():
        table.look()


def sweep_all(inventory: Inventory) -> None:
    """Delete what is garbage."""
    for table in inventory.tables():
        table.sweep()


def measure(folder: Path, tables: int, partitions: int, buckets: int) -> dict[str, float]:
    """The whole run."""
    root, before_mib = DataRoot(folder), rss_mib()
    made = [make_table(root, number, partitions, buckets) for number in range(tables)]
    references = [reference for reference, _, _ in made]
    scanned, hashed = first_verification(root)
    root.close()
    time.sleep(3)  # folders that changed within the last two seconds are listed again
    root = DataRoot(folder)
    inventory = Inventory(root)
    conversation = Conversation()
    answers = Answers("node-1", root, inventory, conversation, DiskHealth(root, "node-1"))
    asked = tuple(AskedTable(reference=reference, uid=reference.directory) for reference in references)
    request = InventoryRequest(session="bench", changed=asked)
    question = conversation.take(request).question
    first = seconds(lambda: answers.answer(question, None))
    report = answers.answer(question, None)
    assert report is not None
    assert all(bucket.state == "complete" for table in report.tables for bucket in table.buckets.values())
    revision = int(report.revision.rpartition("-")[2])
    quiet = seconds(lambda: answers.answer(question, revision))
    look = seconds(lambda: look_at_all(inventory))
    publish(root, table_of(references[0]), "data/day=0/part-9_00000.c000.zstd.parquet", b"new")
    changed = seconds(lambda: answers.answer(question, revision))
    swept = seconds(lambda: sweep_all(inventory))
    files = tables * partitions * buckets
    after_mib = rss_mib()
    root.close()
    return {
        "tables": tables, "partitions": partitions, "buckets": buckets, "files": files, "scan_seconds": scanned,
        "hash_seconds": hashed, "first_seconds": first,
        "quiet_seconds": quiet, "look_seconds": look, "changed_seconds": changed, "sweep_seconds": swept,
        "manifest_bytes": made[0][1], "manifest_text_bytes": made[0][2], "rss_mib": after_mib,
        "bytes_per_file": round((after_mib - before_mib) * (1 << 20) / files),
        "request_bytes": len(request.model_dump_json()),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--buckets", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="colocation-bench-") as folder:
        measured = measure(Path(folder), given.tables, given.partitions, given.buckets)
    print(json.dumps(measured, indent=2))
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(measured, indent=2) + "\n")


if __name__ == "__main__":
    main()
