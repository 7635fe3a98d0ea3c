"""What a clone takes for the manifests of its group before the first byte of a file: rows of `make bench-clone`.

The source is a node with nothing but manifests; the target has none. The clone's program is the real one. It pulls
every manifest, finds what its bucket lacks, asks for the first file, and ends, as the source has none. Its peak memory
is the kernel's (VmHWM). Rows: ``group, manifests, files_of_bucket, peak_mib, first_byte_seconds``.
"""

import hashlib
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.served_table import UID, serving
from colocation.model.agent import TableReference
from colocation.model.clone import CloneSource, CloneSpec, spec_to_environment
from colocation.model.names import agent_certificate_name
from colocation.model.table import Column
from colocation.model.table_manifest import DataFile, TableManifest, manifest_path
from colocation.storage.paths import TablePath
from tests.support.manifests import encode_manifest
from tests.unit.agent.harness import make_pki

BUCKET = 1
BUCKETS = 64
PORT = 8460
MIB = 1 << 20
POLL_SECONDS = 0.02


class Shape(NamedTuple):
    """A group: how many tables, snapshots of each, and files of each snapshot."""

    tables: int
    snapshots: int
    files: int


SHAPES = {
    "1000 tables": Shape(1000, 1, 256),
    "3 tables x 262144 files x 10 snapshots": Shape(3, 10, 262_144),
}


def write_manifests(root: Path, shape: Shape) -> list[TableReference]:
    """The manifests of every snapshot, below a data root: each replaces a hundredth of the files of the one before."""
    tables = []
    for number in range(shape.tables):
        table = TablePath("shop", f"t{number}-{UID}")
        folder = root / table.namespace / table.directory
        (folder / "manifests").mkdir(parents=True)
        digests = []
        for snapshot in range(shape.snapshots):
            sha256, stored = encode_manifest(_manifest(table, snapshot, shape.files))
            (folder / manifest_path(sha256)).write_bytes(stored)
            digests.append(sha256)
        tables.append(
            TableReference(
                namespace="shop", directory=table.directory, manifest=digests[-1],
                retained_manifests=tuple(reversed(digests[:-1])),
            )
        )  # fmt: skip
    return tables


def _manifest(table: TablePath, snapshot: int, files: int) -> TableManifest:
    changed = files // 100
    return TableManifest(
        namespace=table.namespace, table=table.table, uid=UID, snapshot_id=snapshot + 1, buckets=BUCKETS,
        columns=(Column(name="key", type="bigint"),), bucketed_by=("key",),
        files=tuple(_file(number, snapshot if number < changed else 0) for number in range(files)),
    )  # fmt: skip


def _file(number: int, load: int) -> DataFile:
    path = f"data/day={number // BUCKETS % 1000}/part-{number:06d}-{load}_{number % BUCKETS:05d}.c000.zstd.parquet"
    digest = hashlib.sha256(path.encode()).hexdigest()
    partition = {"day": str(number // BUCKETS % 1000)}
    return DataFile(path=path, bucket=number % BUCKETS, partition=partition, rows=1, bytes=4096, sha256=digest)


def measure_manifests(name: str, folder: Path) -> dict[str, object]:
    """One row."""
    shape = SHAPES[name]
    source, target = folder / "source", folder / "target"
    target.mkdir(parents=True)
    make_pki(folder, node_names=[agent_certificate_name("source")])
    (folder / "token").write_text("benchmark")
    tables = write_manifests(source, shape)
    spec = CloneSpec(
        namespace="shop", group="sales", bucket=BUCKET, target="target", tables=tuple(tables),
        sources=(CloneSource(node="source", url=f"https://127.0.0.1:{PORT}"),),
    )  # fmt: skip
    with serving(source, "source", "127.0.0.1", folder, port=PORT):
        started = time.monotonic()
        usage = _run(spec, target, folder)
        seconds = time.monotonic() - started
    return {
        "group": name,
        "manifests": shape.tables * shape.snapshots,
        "files_of_bucket": shape.tables * shape.files // BUCKETS,
        "peak_mib": round(usage / MIB),
        "first_byte_seconds": round(seconds, 1),
    }


def _run(spec: CloneSpec, target: Path, folder: Path) -> int:
    """Run a clone's program until it fails for lack of the first file; its peak memory in bytes."""
    environment = {
        **spec_to_environment(spec),
        "COLOCATION_DATA_ROOT": str(target),
        "COLOCATION_TOKEN_DIRECTORY": str(folder),
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": ":".join(sys.path),
    }
    peak_kib, messages = 0, folder / "messages"
    with (
        messages.open("wb") as errors,
        subprocess.Popen([sys.executable, "-m", "colocation.clone"], env=environment, stderr=errors) as process,
    ):
        while process.poll() is None:
            peak_kib = max(peak_kib, _peak_kib(process.pid))
            time.sleep(POLL_SECONDS)
    message = messages.read_bytes()
    assert process.returncode == 1 and b".parquet" in message, message[-2000:]
    return peak_kib << 10


def _peak_kib(process: int) -> int:
    """Of a process, since its program began (``ru_maxrss`` begins with that of the process that forked it)."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:  # it has just ended
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)
