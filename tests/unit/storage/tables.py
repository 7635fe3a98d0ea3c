"""Small tables for tests: contents by path, and the manifest that names them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from colocation.model.agent import AskedTable, TableReference
from colocation.model.table import Column
from colocation.model.table_manifest import DataFile, TableManifest, bucket_of_file_name, manifest_path
from colocation.storage.incoming import IncomingFile
from colocation.storage.paths import TablePath
from colocation.storage.publish import publish_once
from colocation.storage.root import UPLOADS, DataRoot
from tests.support.manifests import encode_manifest

UID = "0a1b2c3d"
BUCKETS = 4


@dataclass(frozen=True)
class Table:
    """A table with its files' contents; ``stored`` is the manifest as written to the disk."""

    path: TablePath
    contents: dict[str, bytes]
    manifest: str
    stored: bytes

    @property
    def reference(self) -> TableReference:
        """The reference that the operator asks agents about."""
        return TableReference(namespace=self.path.namespace, directory=self.path.directory, manifest=self.manifest)

    @property
    def asked(self) -> AskedTable:
        """The reference as part of a conversation."""
        return AskedTable(reference=self.reference, uid=f"{UID}-0000-4000-8000-000000000000", group_uid="group-1",
                          map_version=7)  # fmt: skip

    def contents_of(self, bucket: int) -> dict[str, bytes]:
        """The contents of one bucket's files."""
        return {path: content for path, content in self.contents.items() if bucket_of_file_name(path) == bucket}


def sha256_hex(content: bytes) -> str:
    """The digest as manifests write it."""
    return hashlib.sha256(content).hexdigest()


def data_path(bucket: int, load: str = "1", partition: str = "") -> str:
    """A data file's path."""
    folder = f"{partition}/" if partition else ""
    return f"data/{folder}part-{load}_{bucket:05d}.c000.zstd.parquet"


def make_table(
    contents: dict[str, bytes],
    name: str = "orders",
    namespace: str = "shop",
    snapshot: int = 1,
    parent: str | None = None,
) -> Table:
    """A table of these files."""
    files = tuple(
        DataFile(
            path=path, bucket=bucket_of_file_name(path), rows=1, bytes=len(content), sha256=sha256_hex(content)
        )
        for path, content in contents.items()
    )
    manifest = TableManifest(
        namespace=namespace,
        table=name,
        uid=UID,
        snapshot_id=snapshot,
        parent=parent,
        columns=(Column(name="key", type="bigint"),),
        bucketed_by=("key",),
        buckets=BUCKETS,
        files=files,
    )
    sha256, stored = encode_manifest(manifest)
    return Table(TablePath(namespace, f"{name}-{UID}"), contents, sha256, stored)


def on_disk(root: DataRoot | Path, table: TablePath, path: str) -> Path:
    """The location of a published file."""
    base = root if isinstance(root, Path) else root.path
    return base / table.namespace / table.directory / path


def damage(path: Path) -> None:
    """Flip the first byte in place: same size, same inode, another modification time."""
    content = bytearray(path.read_bytes())
    content[0] ^= 0xFF
    with path.open("r+b") as file:
        file.write(content)


def publish(root: DataRoot, table: TablePath, path: str, content: bytes) -> bool:
    """Publish a file as an upload does; whether it is new."""
    with IncomingFile(root, UPLOADS, sha256_hex(content)) as incoming:
        incoming.write(content)
        return publish_once(root, table, path, incoming, sha256_hex(content), lambda _table, _path: None)


def publish_table(root: DataRoot, table: Table) -> None:
    """Publish a table's files and its manifest."""
    for path, content in table.contents.items():
        publish(root, table.path, path, content)
    publish(root, table.path, manifest_path(table.manifest), table.stored)
