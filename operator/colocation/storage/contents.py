"""The contents of a table's ``data`` folder, kept in memory and updated at the cost of what changed.

A folder with an unchanged modification time holds the same names, so a quiet pass stats folders and no files. Damage
inside a file does not show in its folder: a sweep stats every file, and a scrub hashes them (see ``inventory``).
"""

import logging
import os
import stat
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from colocation.model.base import MAX_KEY_COLUMNS
from colocation.model.table_manifest import DATA_DIRECTORY, MANIFEST_DIRECTORY

from .errors import UNREADABLE_MEDIUM, InvalidPath, NotHeld
from .folders import FOLDER_FLAGS
from .ledger import FileIdentity, LedgerEntry, identity_of
from .paths import TablePath, is_data_file_name, is_partition_folder
from .root import DataRoot
from .verification import UNREADABLE

SETTLING_NANOSECONDS = 2_000_000_000
"""A folder changed so shortly before it was listed may change again within one tick of the file system's clock."""

_log = logging.getLogger(__name__)


class HeldFile(NamedTuple):
    """A file on the disk; ``sha256`` is None until this content was hashed."""

    identity: FileIdentity
    sha256: str | None


@dataclass(slots=True)
class _Folder:
    signature: tuple[int, int]
    settled: bool
    files: dict[str, HeldFile] = field(default_factory=dict)
    subfolders: dict[str, "_Folder | None"] = field(default_factory=dict)


class TableContents:
    """The data files of one table. Not safe to share between threads: ``TableInventory`` holds a lock.

    ``generation`` grows with every change that is noticed.
    """

    def __init__(self, root: DataRoot, table: TablePath) -> None:
        self.generation = 0
        self._root = root
        self._table = table
        self._tree: _Folder | None = None
        self._manifests: tuple[int, int] | None = None
        self._manifest_count = 0
        self._recorded: dict[str, LedgerEntry] | None = None

    def refresh(self, sweep: bool = False) -> None:
        """Notice changes since the last call; ``sweep`` also stats every file."""
        first = self._tree is None
        self._recorded = self._root.ledger.entries(self._table) if first else None
        manifests = None
        try:
            with self._root.folder(self._table) as folder:
                manifests = _signature(_stat_folder(folder, MANIFEST_DIRECTORY))
                if manifests != self._manifests:
                    self._manifest_count = _count_of_names(folder, MANIFEST_DIRECTORY)
                tree = self._refreshed(folder, (DATA_DIRECTORY,), self._tree, sweep)
        except (NotHeld, InvalidPath):
            tree = None
        self.generation += manifests != self._manifests
        self._manifests = manifests
        if tree is None and self._tree is not None:
            self.generation += 1
        self._tree = tree
        if self._recorded:
            self._forget_all_but(self.files().keys())
        self._recorded = None

    def count(self) -> int:
        """How many files the table has, including manifests.

        For a file that is alone in many nested folders each folder counts, since all take memory.
        """
        folders = list(_folders(self._tree))
        return max(sum(len(one.files) for one in folders), len(folders) - 1) + self._manifest_count

    def files(self) -> dict[str, HeldFile]:
        """Every data file by its path relative to the table's folder."""
        return dict(_walk(DATA_DIRECTORY, self._tree))

    def learn(self, path: str, entry: LedgerEntry) -> None:
        """Apply the result of a hash if the file still looks as it did then."""
        self._note(path, entry.sha256, entry.identity)

    def mark_unreadable(self, path: str) -> None:
        """Count a file as damaged until it is replaced: the disk cannot open it."""
        self._note(path, UNREADABLE)

    def unlearn(self, path: str) -> None:
        """Count a file as not hashed."""
        self._note(path, None)

    def _note(self, path: str, sha256: str | None, identity: FileIdentity | None = None) -> None:
        """Set what is known of a file's content, if the file is held, and looks like ``identity`` if that is given."""
        *folders, name = path.split("/")
        folder = self._tree
        for step in folders[1:]:
            folder = folder.subfolders.get(step) if folder else None
        if folder is None or name not in folder.files:
            return
        held = folder.files[name]
        if held.sha256 != sha256 and identity in (None, held.identity):
            folder.files[name] = HeldFile(held.identity, sha256)
            self.generation += 1

    def _refreshed(self, parent: int, path: tuple[str, ...], known: _Folder | None, sweep: bool) -> _Folder | None:
        """Update the folder ``path``, whose parent is open; None if it is gone or unreadable."""
        try:
            return self._read_folder(parent, path, known, sweep)
        except OSError as error:
            if error.errno not in UNREADABLE_MEDIUM:
                raise
            _log.warning("%s of %s cannot be read; its files count as missing: %s", "/".join(path), self._table, error)
            return None

    def _read_folder(self, parent: int, path: tuple[str, ...], known: _Folder | None, sweep: bool) -> _Folder | None:
        status = _stat_folder(parent, path[-1])
        if status is None:
            return None
        signature = (status.st_ino, status.st_mtime_ns)
        same = known is not None and known.signature == signature and known.settled and not sweep
        if known is not None and same and not known.subfolders:
            return known
        try:
            descriptor = os.open(path[-1], FOLDER_FLAGS, dir_fd=parent)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            folder = known if known is not None and same else self._listed(descriptor, path, known)
            for name in list(folder.subfolders):
                before = folder.subfolders[name]
                after = self._refreshed(descriptor, (*path, name), before, sweep)
                folder.subfolders[name] = after
                self.generation += (before is None) != (after is None)
            return folder
        finally:
            os.close(descriptor)

    def _listed(self, descriptor: int, path: tuple[str, ...], known: _Folder | None) -> _Folder:
        status = os.fstat(descriptor)
        settled = status.st_mtime_ns < time.time_ns() - SETTLING_NANOSECONDS
        listed = _Folder((status.st_ino, status.st_mtime_ns), settled)
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if len(path) <= MAX_KEY_COLUMNS and is_partition_folder(entry.name):
                        listed.subfolders[entry.name] = known.subfolders.get(entry.name) if known else None
                elif is_data_file_name(entry.name) and entry.is_file(follow_symlinks=False):
                    held = self._held(entry, path, known)
                    if held is not None:
                        listed.files[entry.name] = held
        if known is None or known.files != listed.files or known.subfolders.keys() != listed.subfolders.keys():
            self.generation += 1
        self._forget_gone(path, known, listed)
        return listed

    def _held(self, entry: os.DirEntry[str], path: tuple[str, ...], known: _Folder | None) -> HeldFile | None:
        try:
            identity = identity_of(entry.stat(follow_symlinks=False))
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in UNREADABLE_MEDIUM:
                raise
            _log.warning("%s/%s of %s cannot be read: %s", "/".join(path), entry.name, self._table, error)
            return None
        before = known.files.get(entry.name) if known else None
        if before is not None and before.identity == identity and before.sha256 is not None:
            return before
        full_path = "/".join((*path, entry.name))
        if self._recorded is not None:
            recorded = self._recorded.get(full_path)
        else:
            recorded = self._root.ledger.entry(self._table, full_path)
        return HeldFile(identity, recorded.sha256 if recorded and recorded.identity == identity else None)

    def _forget_all_but(self, held: Collection[str]) -> None:
        recorded = self._recorded or {}
        gone = [path for path in recorded if path.startswith(f"{DATA_DIRECTORY}/") and path not in held]
        self._root.ledger.forget(self._table, gone)

    def _forget_gone(self, path: tuple[str, ...], known: _Folder | None, listed: _Folder) -> None:
        gone = known.files.keys() - listed.files.keys() if known else ()
        if gone:
            self._root.ledger.forget(self._table, ["/".join((*path, name)) for name in gone])


def _stat_folder(parent: int, name: str) -> os.stat_result | None:
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return status if stat.S_ISDIR(status.st_mode) else None


def _signature(status: os.stat_result | None) -> tuple[int, int] | None:
    return None if status is None else (status.st_ino, status.st_mtime_ns)


def _count_of_names(parent: int, name: str) -> int:
    try:
        descriptor = os.open(name, FOLDER_FLAGS, dir_fd=parent)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    try:
        with os.scandir(descriptor) as entries:
            return sum(1 for _ in entries)
    finally:
        os.close(descriptor)


def _folders(folder: _Folder | None) -> Iterator[_Folder]:
    if folder is not None:
        yield folder
        for subfolder in folder.subfolders.values():
            yield from _folders(subfolder)


def _walk(path: str, folder: _Folder | None) -> Iterator[tuple[str, HeldFile]]:
    if folder is None:
        return
    for name, held in folder.files.items():
        yield f"{path}/{name}", held
    for name, subfolder in folder.subfolders.items():
        yield from _walk(f"{path}/{name}", subfolder)
