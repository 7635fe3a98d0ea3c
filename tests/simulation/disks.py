"""Nodes' disks: files, manifests, damage, the recycle bin; what stands there is what an agent can report."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from colocation.model.agent import BucketReport, ReplicaState, TableReference, TableReport
from colocation.model.conditions import Reason
from colocation.storage.ages import compared, older
from colocation.storage.ledger import FileIdentity, Sighting

GIB = 1 << 30
CAPACITY_BYTES = 100 * GIB
LOOKS = FileIdentity(0, 0, 0)
"""Of every file: none is written again with another content."""
Item = TypeVar("Item")
TableKey = tuple[str, str]
"""(namespace, directory)."""


@dataclass(frozen=True)
class File:
    """A table's file, as a manifest lists it. ``load`` is the number of the load that wrote it."""

    namespace: str
    directory: str
    load: int
    bucket: int
    size_bytes: int
    partition: int = 0

    @property
    def key(self) -> TableKey:
        return self.namespace, self.directory

    def __hash__(self) -> int:
        return hash((self.directory, self.load, self.bucket, self.partition))


Manifest = frozenset[File]


def files_in(manifest: Iterable[File], directory: str) -> Manifest:
    """The files of a manifest where they lie: a table that was dropped and came back has another folder."""
    return frozenset(file if file.directory == directory else replace(file, directory=directory) for file in manifest)


def file_name(file: File) -> str:
    """As Spark calls it."""
    return f"part-{file.load}_{file.bucket:05d}.c000.zstd.parquet"


@dataclass(frozen=True)
class Folder:
    """A table's folder, or one in the bin: file, or manifest -> since when its node's agents have seen it unneeded, by
    the node's own clock, in seconds; None = it is needed, or was not looked at.
    """

    files: dict[File, float | None]
    manifests: dict[str, float | None]


@dataclass(frozen=True)
class Recycled:
    """A folder in the bin. ``purge_at``: on a clock that does not jump, in seconds."""

    folder: Folder
    purge_at: float


class DiskFailed(Exception):
    """A write did not come to the disk."""


class Disk:
    """One node's data root.

    ``id``: of its marker, empty where disks have none. ``capacity_bytes``: its size. ``fault``: what is wrong,
    since ``fault_since``.

    Args:
        node: its name.
        manifests: digest -> manifest, of all manifests that ever were: a digest states what is in it.
        seconds: the node's own clock.
        changed: called after every change.
    """

    def __init__(
        self,
        node: str,
        manifests: dict[str, Manifest],
        seconds: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        self.node = node
        self.folders: dict[TableKey, Folder] = {}
        self.bin: dict[TableKey, Recycled] = {}
        self.damaged: set[File] = set()
        self.id = ""
        self.capacity_bytes = CAPACITY_BYTES
        self.fault: Reason | None = None
        self.fault_since = 0.0
        self.foreign_bytes = 10 * GIB
        self.is_full_for_ever = False
        self.versions: dict[TableKey, int] = {}
        self._manifests = manifests
        self.seconds = seconds
        self._changed = changed
        self._reports: dict[TableKey, tuple[TableReference, int, TableReport]] = {}

    @property
    def free_bytes(self) -> int:
        used = sum(file.size_bytes for folder in self.folders.values() for file in folder.files)
        used += sum(file.size_bytes for one in self.bin.values() for file in one.folder.files)
        return max(0, self.capacity_bytes - self.foreign_bytes - used)

    @property
    def takes_writes(self) -> bool:
        """Whether what is written comes to the disk, room or not."""
        return self.fault in (None, Reason.DISK_FULL)

    @property
    def is_readable(self) -> bool:
        """Whether what is stored here can be read now."""
        return self.fault is not Reason.DISK_MISSING

    def set_fault(self, fault: Reason | None, now: float) -> None:
        """It becomes sick, or well again."""
        self.fault, self.fault_since = fault, now
        self._changed()

    def _check_writable(self) -> None:
        if not self.takes_writes:
            raise DiskFailed(str(self.fault))

    def holds(self, file: File) -> bool:
        """Whether the file is here and whole."""
        folder = self.folders.get(file.key)
        return folder is not None and file in folder.files and file not in self.damaged

    def holds_all(self, files: Iterable[File]) -> bool:
        return all(self.holds(file) for file in files)

    def files(self) -> list[File]:
        """All that lie in tables' folders, damaged ones too, in a fixed order."""
        return [file for key in sorted(self.folders) for file in self.folders[key].files]

    def folders_of(self, namespace: str, table: str, kept_until: float = 0.0) -> Iterator[Folder]:
        """All of a table's name, in their places, and those in the bin that are not purged before."""
        recycled = [(key, one.folder) for key, one in self.bin.items() if one.purge_at > kept_until]
        folders = [*self.folders.items(), *recycled]
        return (folder for key, folder in folders if key[0] == namespace and key[1].rpartition("-")[0] == table)

    def files_of(self, key: TableKey) -> list[File]:
        folder = self.folders.get(key)
        return list(folder.files) if folder else []

    def put(self, file: File) -> bool:
        """Whether there was room on a disk that takes it; a damaged file is replaced."""
        if not self.takes_writes:
            return False
        folder = self._folder(file.key)
        if file not in folder.files and file.size_bytes > self.free_bytes:
            return False
        folder.files[file] = None
        self.damaged.discard(file)
        self._touch(file.key)
        return True

    def put_manifest(self, key: TableKey, digest: str) -> bool:
        """Whether the disk takes it."""
        if not self.takes_writes:
            return False
        self._folder(key).manifests[digest] = None
        self._touch(key)
        return True

    def need(self, key: TableKey, digests: Iterable[str]) -> None:
        """These manifests are live."""
        if (folder := self.folders.get(key)) is not None:
            folder.manifests.update(dict.fromkeys(folder.manifests.keys() & set(digests)))

    def damage(self, file: File) -> None:
        self.damaged.add(file)
        self._touch(file.key)

    def remove(self, files: Iterable[File]) -> None:
        self._check_writable()
        for file in files:
            del self.folders[file.key].files[file]
            self.damaged.discard(file)
            self._touch(file.key)

    def remove_manifests(self, key: TableKey, digests: Iterable[str]) -> None:
        self._check_writable()
        for digest in digests:
            del self.folders[key].manifests[digest]
            self._touch(key)

    def garbage(
        self, key: TableKey, live: Iterable[str], grace_seconds: float, bucket: int | None = None
    ) -> tuple[set[File], set[str]]:
        """The files (of one bucket, or all) and the manifests that no live manifest has named for the grace: as
        `colocation.storage.removal` has it.
        """
        folder = self.folders.get(key, Folder({}, {}))
        named = {file for digest in live for file in self._files(digest, key)}
        files = {file for file in folder.files if bucket in (None, file.bucket)} - named
        old_files = _old(folder.files, files, self.seconds(), grace_seconds, bucket is None)
        manifests = folder.manifests.keys() - set(live)
        old = _old(folder.manifests, manifests, self.seconds(), grace_seconds, is_all=True)
        spared = {file for digest in manifests - old for file in self._files(digest, key)}
        return old_files - spared, old

    def recycle(self, key: TableKey, purge_at: float) -> None:
        """Into the bin, with what is stored there of this table already; nothing in its place is no error."""
        self._check_writable()
        folder, before = self.folders.pop(key, None), self.bin.get(key)
        if folder is None:
            return
        if before is not None:
            folder = Folder(folder.files | before.folder.files, folder.manifests | before.folder.manifests)
            purge_at = max(purge_at, before.purge_at)
        self.bin[key] = Recycled(folder, purge_at)
        self._touch(key)

    def restore(self, key: TableKey, successor: str) -> None:
        """Out of the bin, and from its place, to another table, which keeps what it has; nothing there is no error."""
        self._check_writable()
        recycled, target = self.bin.pop(key, None), (key[0], successor)
        in_place = self.folders.pop(key, None) if target != key else None
        for folder in (in_place, recycled.folder if recycled else None):
            if folder is not None:
                self._hand_over(folder, successor, self._folder(target))
                self._touch(key)
                self._touch(target)

    def _hand_over(self, folder: Folder, successor: str, target: Folder) -> None:
        for file in folder.files:
            moved = replace(file, directory=successor)
            if moved not in target.files:
                target.files[moved] = None
                self.damaged |= {moved} if file in self.damaged else set()
            self.damaged.discard(file)
        for digest in folder.manifests:
            target.manifests.setdefault(digest, None)

    def purge(self, key: TableKey) -> None:
        """A folder of the bin goes for good."""
        self.damaged -= set(self.bin.pop(key).folder.files)
        self._touch(key)

    def _folder(self, key: TableKey) -> Folder:
        return self.folders.setdefault(key, Folder({}, {}))

    def _touch(self, key: TableKey) -> None:
        self.versions[key] = self.versions.get(key, 0) + 1
        self._changed()

    # Reports

    def report(self, reference: TableReference) -> TableReport:
        """What an agent reports of a table: as `colocation.storage.report` has it."""
        key = (reference.namespace, reference.directory)
        version = self.versions.get(key, 0)
        known = self._reports.get(key)
        if known is None or known[:2] != (reference, version):
            known = self._reports[key] = (reference, version, self._report(reference, key))
        return known[2]

    def _report(self, reference: TableReference, key: TableKey) -> TableReport:
        folder = self.folders.get(key, Folder({}, {}))
        known = [self._files(digest, key) for digest in reference.retained_manifests if digest in folder.manifests]
        present = reference.manifest is None or reference.manifest in folder.manifests
        wanted = self._files(reference.manifest, key) if present and reference.manifest else frozenset[File]()
        lacking = {file for files in known for file in files if not self.holds(file)}
        live = wanted.union(*known)
        return TableReport(
            namespace=reference.namespace,
            directory=reference.directory,
            manifest=reference.manifest,
            manifest_present=present,
            buckets={bucket: self._bucket(wanted, bucket) for bucket in sorted({file.bucket for file in wanted})},
            surplus_bytes=sum(file.size_bytes for file in folder.files if file not in live),
            retained_present=len(known) == len(reference.retained_manifests),
            retained_missing=tuple(sorted({file.bucket for file in lacking})),
            retained_only=tuple(sorted({f.bucket for files in known for f in files} - {f.bucket for f in wanted})),
            unnamed_buckets=() if present else tuple(sorted({file.bucket for file in folder.files})),
        )

    def _files(self, digest: str, key: TableKey) -> Manifest:
        """Of a manifest that Spark never wrote (a tenant's patch names any) nothing is known."""
        return files_in(self._manifests.get(digest, frozenset()), key[1])

    def _bucket(self, wanted: Manifest, bucket: int) -> BucketReport:
        files = sorted((file for file in wanted if file.bucket == bucket), key=file_name)
        lying = self.folders[files[0].key].files if files else {}
        held = [file for file in files if file in lying and file not in self.damaged]
        damaged = [file for file in files if file in lying and file in self.damaged]
        whole: ReplicaState | None = "complete" if len(held) == len(files) else "partial" if held else None
        return BucketReport(
            state="corrupt" if damaged else whole,
            files_wanted=len(files),
            files_held=len(held),
            bytes_wanted=sum(file.size_bytes for file in files),
            bytes_held=sum(file.size_bytes for file in held),
            corrupt_files=tuple(sorted(file_name(file) for file in damaged)),
            held_files=f"{sum(1 << position for position, file in enumerate(files) if file in held):0{len(files)}x}",
        )


def _old(
    lying: dict[Item, float | None], unneeded: Iterable[Item], now: float, grace_seconds: float, is_all: bool
) -> set[Item]:
    """Those that have been unneeded for the grace; since when the others have been is noted."""
    known = {item: Sighting(LOOKS, since, 0) for item, since in lying.items() if since is not None}
    ages, new = compared(known, dict.fromkeys(unneeded, LOOKS), now)
    lying.update({item: sighting.since for item, sighting in new.items()})
    if is_all:
        lying.update(dict.fromkeys(known.keys() - ages.keys()))
    return set(older(ages, grace_seconds))
