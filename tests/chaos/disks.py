"""The nodes' disks as they are, whatever reports claim: which committed replicas are whole, and where files are."""

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

from .scene import NAMESPACE, REPLICAS

JsonObject = Mapping[str, Any]
ASIDE = "data-aside"
"""Next to a node's data root: where its content is while its disk is gone."""


@dataclass
class Disks:
    """``damaged``: files whose content is looked at again each time, because a fault has touched them. ``is_thorough``:
    that of all files is.
    """

    damaged: set[Path] = field(default_factory=set)
    is_thorough: bool = False
    _manifests: dict[str, TableManifest] = field(default_factory=dict)

    def missing(self, group: JsonObject, tables: Iterable[JsonObject], reachable: Iterable[str]) -> list[str]:
        """Wanted replicas of a group's tables that are not whole on a node that can be reached: one text for each.

        The map itself has to name as many nodes for each bucket as any spec wants; and a node without the table's
        manifest does not know what it has.
        """
        rows, found = _rows(group), _few_nodes(group, 0, REPLICAS)
        for table in tables:
            found += self._missing(table, rows, set(reachable))
        return found

    def _missing(self, table: JsonObject, rows: list[list[str]], reachable: set[str]) -> list[str]:
        name, digest = table["metadata"]["name"], committed_manifest(table)
        if not digest:
            return []
        manifest = self._manifest(table, digest)
        if manifest is None:
            return [f"{name}: no disk has the manifest {digest[:12]}"]
        wanted = [(file, row) for file in manifest.files for row in rows[file.bucket : file.bucket + 1]]
        found = [
            f"{name} bucket {file.bucket} on {node}: {why}"
            for file, row in wanted
            for node in row
            if (why := self._why_not(node, table, file, reachable))
        ]
        return found + [
            f"{name} on {node}: no manifest {digest[:12]}"
            for node in sorted({node for _, row in wanted for node in row} & reachable)
            if not is_file(self._manifest_path(node, table, digest))
        ]

    def committed(self, table: JsonObject) -> tuple[DataFile, ...]:
        """The files of its snapshot; none when no disk has the manifest."""
        digest = committed_manifest(table)
        manifest = self._manifest(table, digest) if digest else None
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
            looks_closely = self.is_thorough or path in self.damaged
            if looks_closely and hashlib.sha256(path.read_bytes()).hexdigest() != file.sha256:
                return "another content"
        except FileNotFoundError:
            return "no file"
        except OSError as error:
            return f"the disk reports: {error.strerror}"
        return ""

    def _manifest(self, table: JsonObject, digest: str) -> TableManifest | None:
        if digest not in self._manifests:
            for path in self._copies(table, digest):
                with contextlib.suppress(OSError):  # its disk fails
                    self._manifests[digest] = decode_manifest(path.read_bytes(), digest)
        return self._manifests.get(digest)

    def _copies(self, table: JsonObject, digest: str) -> Iterator[Path]:
        paths = (self._manifest_path(node, table, digest) for node in disks.nodes())
        return filter(is_file, paths)

    def _manifest_path(self, node: str, table: JsonObject, digest: str) -> Path:
        return self.folder(node, table) / "manifests" / f"{digest}.json.zst"


def unplaced(group: JsonObject) -> list[str]:
    """Buckets whose map names fewer nodes than the spec wants by now: one text for each.

    After ``spec.replicas`` was raised the replicas of before serve, and the group may be stable, until the others are
    there. A map with fewer nodes than any spec ever wanted is ``missing`` replicas instead.
    """
    return _few_nodes(group, REPLICAS, group["spec"]["replicas"])


def _few_nodes(group: JsonObject, least: int, below: int) -> list[str]:
    """Buckets whose map names at least so many nodes, and fewer than ``below``: one text for each."""
    rows, spec = _rows(group), group["spec"]
    sizes = [len(set(row)) for row in rows] + [0] * (spec["buckets"] - len(rows))
    return [
        f"bucket {bucket} is on {size} of {spec['replicas']} nodes"
        for bucket, size in enumerate(sizes)
        if least <= size < below
    ]


def _rows(group: JsonObject) -> list[list[str]]:
    """The map: the nodes of each bucket."""
    return group.get("status", {}).get("backendsPerBucketSeq") or []


def committed_manifest(table: JsonObject) -> str:
    """The digest of its snapshot's manifest, in hex; empty before its first load."""
    snapshot = table.get("status", {}).get("snapshot")
    return snapshot["manifest"].removeprefix("sha256:") if snapshot else ""


def is_file(path: Path) -> bool:
    """Whether it is there; a disk that fails has none."""
    try:
        return path.is_file()
    except OSError:
        return False
