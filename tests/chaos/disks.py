"""The nodes' disks as they are, whatever any report says: which committed replicas are whole, and where files lie."""

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from colocation.model.names import table_directory
from colocation.model.table_manifest import DataFile, TableManifest, decode_manifest
from demo import disks

from .scene import NAMESPACE

JsonObject = Mapping[str, Any]


@dataclass
class Disks:
    """``damaged``: files whose content is looked at again each time, because a fault has touched them."""

    damaged: set[Path] = field(default_factory=set)
    _manifests: dict[str, TableManifest] = field(default_factory=dict)

    def missing(self, group: JsonObject, tables: Iterable[JsonObject], reachable: Iterable[str]) -> list[str]:
        """Wanted replicas of a group's tables that are not whole on a node that can be reached: one text for each."""
        rows = group.get("status", {}).get("backendsPerBucketSeq") or []
        return [
            f"{table['metadata']['name']} bucket {file.bucket} on {node}: {why}"
            for table in tables
            for file in self.committed(table)
            for node in (rows[file.bucket] if file.bucket < len(rows) else ())
            if (why := self._why_not(node, table, file, set(reachable)))
        ]

    def committed(self, table: JsonObject) -> tuple[DataFile, ...]:
        """The files of its snapshot; none when no disk has the manifest."""
        snapshot = table.get("status", {}).get("snapshot")
        manifest = self._manifest(table, snapshot["manifest"].removeprefix("sha256:")) if snapshot else None
        return manifest.files if manifest else ()

    def holders(self, table: JsonObject, file: DataFile) -> list[str]:
        """Nodes whose disk has the file whole."""
        return [node for node in disks.nodes() if not self._problem(self.path(node, table, file), file)]

    def path(self, node: str, table: JsonObject, file: DataFile) -> Path:
        """Where the node has it, if it does."""
        return self.folder(node, table) / file.path

    def folder(self, node: str, table: JsonObject) -> Path:
        """The table's folder on a node."""
        metadata = table["metadata"]
        return disks.data_root(node) / NAMESPACE / table_directory(metadata["name"], metadata["uid"])

    def _why_not(self, node: str, table: JsonObject, file: DataFile, reachable: set[str]) -> str:
        if node not in reachable:
            return "the node is away"
        return self._problem(self.path(node, table, file), file)

    def _problem(self, path: Path, file: DataFile) -> str:
        try:
            with path.open("rb") as opened:  # a disk that fails tells sizes all the same
                size = os.fstat(opened.fileno()).st_size
            if size != file.bytes:
                return f"{size} bytes of {file.bytes}"
            if path in self.damaged and hashlib.sha256(path.read_bytes()).hexdigest() != file.sha256:
                return "another content"
        except FileNotFoundError:
            return "no file"
        except OSError as error:
            return f"the disk says: {error.strerror}"
        return ""

    def _manifest(self, table: JsonObject, digest: str) -> TableManifest | None:
        if digest not in self._manifests:
            for path in self._copies(table, digest):
                with contextlib.suppress(OSError):  # its disk fails
                    self._manifests[digest] = decode_manifest(path.read_bytes(), digest)
        return self._manifests.get(digest)

    def _copies(self, table: JsonObject, digest: str) -> Iterator[Path]:
        paths = (self.folder(node, table) / "manifests" / f"{digest}.json.zst" for node in disks.nodes())
        return (path for path in paths if path.is_file())
