"""A table of random bytes in a node's data root, as if it had been loaded there, and an agent that serves it."""

import contextlib
import hashlib
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.two_nodes import running
from colocation.model.agent import AskedTable, TableReference
from colocation.model.table import Column
from colocation.model.table_manifest import DataFile, TableManifest, manifest_path
from colocation.storage.ledger import LedgerEntry, identity_of
from colocation.storage.paths import TablePath
from colocation.storage.root import DataRoot
from tests.support.manifests import encode_manifest

UID = "0a1b2c3d"
PORT = 8440
READY_SECONDS = 60.0
MIB = 1 << 20


@dataclass(frozen=True)
class ServedTable:
    """``bytes`` of all its data files."""

    path: TablePath
    manifest: str
    buckets: int
    files: tuple[DataFile, ...]

    @property
    def bytes(self) -> int:
        """Of all data files."""
        return sum(file.bytes for file in self.files)

    @property
    def asked(self) -> AskedTable:
        """The table in a question to an agent."""
        reference = TableReference(
            namespace=self.path.namespace, directory=self.path.directory, manifest=self.manifest
        )
        return AskedTable(reference=reference, uid=UID, group_uid=UID, map_version=1)


def make_served_table(root_path: Path, name: str, file_bytes: int, file_count: int, buckets: int) -> ServedTable:
    """Write a table below a data root: files, manifest, and their rows in the ledger."""
    root_path.mkdir(parents=True, exist_ok=True)
    table = TablePath("shop", f"{name}-{UID}")
    folder = root_path / table.namespace / table.directory
    (folder / "data").mkdir(parents=True)
    (folder / "manifests").mkdir()
    files = tuple(_write(folder, number, number % buckets, file_bytes) for number in range(file_count))
    manifest = TableManifest(
        namespace=table.namespace, table=name, uid=UID, snapshot_id=1, buckets=buckets,
        columns=(Column(name="key", type="bigint"),), bucketed_by=("key",), files=files,
    )  # fmt: skip
    sha256, stored = encode_manifest(manifest)
    (folder / manifest_path(sha256)).write_bytes(stored)
    os.sync()
    with contextlib.closing(DataRoot(root_path)) as root:
        for file in files:
            identity = identity_of((folder / file.path).stat())
            root.ledger.record(table, file.path, LedgerEntry(identity, file.sha256, time.time()))
    return ServedTable(table, sha256, buckets, files)


@contextlib.contextmanager
def serving(
    root: Path, node: str, address: str, certificates: Path, prefix: Sequence[str] = (), port: int = PORT
) -> Iterator[int]:
    """An agent at ``address``; its process id. ``prefix`` is a command line to start it by."""
    command = [sys.executable, "-m", "benchmarks.agent_process", "--node", node, "--data-root", str(root),
               "--host", address, "--port", str(port), "--certificates", str(certificates)]  # fmt: skip
    with running([*prefix, *command]) as process:
        _wait_until_ready(f"http://{address}:{port + 1}/readyz")
        yield process.pid


def _write(folder: Path, number: int, bucket: int, file_bytes: int) -> DataFile:
    path = f"data/part-{number:05d}_{bucket:05d}.c000.zstd.parquet"
    content = os.urandom(file_bytes)
    (folder / path).write_bytes(content)
    return DataFile(path=path, bucket=bucket, rows=1, bytes=file_bytes, sha256=hashlib.sha256(content).hexdigest())


def _wait_until_ready(url: str) -> None:
    give_up_at = time.monotonic() + READY_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5.0):
                return
        except (urllib.error.URLError, OSError):
            if time.monotonic() > give_up_at:
                raise
            time.sleep(0.05)
