"""Nodes' disks and the agents on them: files, manifests, damage; what agents report, and what they are told."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from colocation.model.agent import AgentReport, BucketReport, TableReference, TableReport

GIB = 1 << 30
CAPACITY_BYTES = 100 * GIB


@dataclass(frozen=True)
class File:
    """A table's file, as a manifest lists it."""

    namespace: str
    directory: str
    load: int
    bucket: int
    size_bytes: int


Manifest = frozenset[File]
TableKey = tuple[str, str]


def files_in(manifest: Iterable[File], directory: str) -> Manifest:
    """The files of a manifest where they lie: a table that was dropped and came back has another folder."""
    return frozenset(replace(file, directory=directory) for file in manifest)


@dataclass(frozen=True)
class Recycled:
    """A dropped table in the bin of a node."""

    files: frozenset[File]
    damaged: frozenset[File]
    purge_at: datetime


@dataclass
class Disk:
    """One node's data root. ``manifests``: digests that it has; ``foreign_bytes``: what others keep on the disk."""

    node: str
    files: set[File] = field(default_factory=set)
    damaged: set[File] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)
    foreign_bytes: int = 10 * GIB
    bin: dict[TableKey, Recycled] = field(default_factory=dict)

    @property
    def free_bytes(self) -> int:
        return max(0, CAPACITY_BYTES - self.foreign_bytes - sum(file.size_bytes for file in self.files))

    def intact(self) -> set[File]:
        return self.files - self.damaged

    def put(self, file: File) -> bool:
        """Whether there was room; a damaged file is replaced."""
        if file not in self.files and file.size_bytes > self.free_bytes:
            return False
        self.files.add(file)
        self.damaged.discard(file)
        return True

    def remove(self, files: Iterable[File]) -> None:
        gone = set(files)
        self.files -= gone
        self.damaged -= gone

    def files_of(self, namespace: str, directory: str) -> set[File]:
        return {file for file in self.files if (file.namespace, file.directory) == (namespace, directory)}

    def recycle(self, key: TableKey, purge_at: datetime) -> None:
        """Into the bin; nothing there is no error."""
        files = self.files_of(*key)
        if files:
            self.bin[key] = Recycled(frozenset(files), frozenset(files & self.damaged), purge_at)
            self.remove(files)

    def restore(self, key: TableKey, successor: str) -> None:
        """Out of the bin, or from its place, under another name."""
        if self.files_of(key[0], successor):
            return
        if key in self.bin:
            found = self.bin.pop(key)
            self.files |= files_in(found.files, successor)
            self.damaged |= files_in(found.damaged, successor)
            return
        files = self.files_of(*key)
        damaged = files & self.damaged
        self.remove(files)
        self.files |= files_in(files, successor)
        self.damaged |= files_in(damaged, successor)

    def report(self, tables: tuple[TableReference, ...], manifests: dict[str, Manifest]) -> AgentReport:
        """What the agent would say of the tables."""
        reports = tuple(self._table_report(table, manifests) for table in tables)
        known = {f"{table.namespace}/{table.directory}" for table in tables}
        held = {f"{file.namespace}/{file.directory}" for file in self.files}
        return AgentReport(
            node=self.node,
            revision="",
            capacity_bytes=CAPACITY_BYTES,
            free_bytes=self.free_bytes,
            tables=reports,
            unknown_directories=tuple(sorted(held - known)),
            recycled_directories=tuple(sorted("/".join(key) for key in self.bin)),
        )

    def _table_report(self, table: TableReference, manifests: dict[str, Manifest]) -> TableReport:
        held = {f for f in self.files if (f.namespace, f.directory) == (table.namespace, table.directory)}
        present = table.manifest is not None and table.manifest in self.manifests
        manifest = manifests[table.manifest] if present and table.manifest else frozenset(held)
        wanted = files_in(manifest, table.directory)
        retained = [digest for digest in table.retained_manifests if digest in self.manifests]
        lacking = {f for digest in retained for f in files_in(manifests[digest], table.directory)} - self.intact()
        live = wanted.union(*(files_in(manifests[digest], table.directory) for digest in retained))
        return TableReport(
            namespace=table.namespace,
            directory=table.directory,
            manifest=table.manifest,
            manifest_present=present,
            buckets={bucket: self._bucket_report(wanted, bucket) for bucket in sorted({f.bucket for f in wanted})},
            surplus_bytes=sum(file.size_bytes for file in held - live),
            retained_present=len(retained) == len(table.retained_manifests),
            retained_missing=tuple(sorted({file.bucket for file in lacking})),
        )

    def _bucket_report(self, wanted: Manifest, bucket: int) -> BucketReport:
        files = {file for file in wanted if file.bucket == bucket}
        held, damaged = files & self.files, files & self.damaged
        state = "corrupt" if damaged else "complete" if held == files else "partial" if held else None
        return BucketReport(
            state=state,
            files_wanted=len(files),
            files_held=len(held),
            bytes_wanted=sum(file.size_bytes for file in files),
            bytes_held=sum(file.size_bytes for file in held),
            corrupt_files=tuple(sorted(f"part-{file.load}_{file.bucket:05d}" for file in damaged)),
        )
