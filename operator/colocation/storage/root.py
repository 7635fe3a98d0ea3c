"""DataRoot: the folder that holds everything of a node, and its file system."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from colocation.model.names import INCOMING_DIRECTORY, RECYCLE_DIRECTORY
from colocation.model.table_manifest import manifest_path

from .ages import Ages
from .errors import UNREADABLE_MEDIUM, NotHeld
from .folders import FILE_MODE, ROOT_FLAGS, names_in, open_regular_file, opened_folder, own_folder
from .ledger import BorrowedLedger, Ledger
from .paths import TablePath, file_segments, is_namespace, is_table_directory

LEDGER_DIRECTORY = ".ledger"
UPLOADS = (INCOMING_DIRECTORY, "uploads")
CLONES = (INCOMING_DIRECTORY, "clones")
PROBE_FILE = "probe"

_log = logging.getLogger(__name__)


@dataclass
class _Used:
    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0


class TableLocks:
    """A lock per table that exists only while it is held or waited for, since callers may name any number of tables.

    Safe to share between threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: dict[TablePath, _Used] = {}

    def __len__(self) -> int:
        return len(self._used)

    @contextlib.contextmanager
    def held(self, table: TablePath) -> Iterator[None]:
        """Hold the table's lock until left."""
        with self._lock:
            used = self._used.setdefault(table, _Used())
            used.users += 1
        try:
            with used.lock:
                yield
        finally:
            with self._lock:
                used.users -= 1
                if not used.users:
                    del self._used[table]


class Disk(NamedTuple):
    """Size and free space of the data root's file system, without the share reserved for others.

    ``free_bytes`` is what an unprivileged process may use.
    """

    capacity_bytes: int
    free_bytes: int


class DataRoot:
    """A node's open data root: descriptor, ledger and clocks for everything below it.

    Args:
        path: the folder; it must exist, its own subfolders are made.
        clock: seconds since the epoch.
        monotonic: seconds that never go back.
        owns_ledger: whether this process is the agent, the only writer of the ledger.
        reserved_fraction: share of the file system reserved for others; it counts neither as capacity nor as free.

    Attributes:
        ages: for how long files have been seen unneeded.
        damage_listeners: called with table and path when a published file's content has changed.
        change_listeners: called with the table when this process has published or removed a file of it.
        table_locks: see ``lock_of``.
        fault_listeners: called with the error when a write or a sync of a file failed.
    """

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        owns_ledger: bool = True,
        reserved_fraction: float = 0.0,
    ) -> None:
        self.path = path
        self.reserved_fraction = reserved_fraction
        self.clock = clock
        self.monotonic = monotonic
        self.damage_listeners: list[Callable[[TablePath, str], None]] = []
        self.change_listeners: list[Callable[[TablePath], None]] = []
        self.fault_listeners: list[Callable[[OSError], None]] = []
        self.table_locks = TableLocks()
        self._change_counts: dict[TablePath, int] = {}
        self._changes_lock = threading.Lock()
        self._descriptor = os.open(path, ROOT_FLAGS)
        for segments in (UPLOADS, CLONES, (RECYCLE_DIRECTORY,), (LEDGER_DIRECTORY,)):
            try:
                with self.folder(segments, create=True):
                    pass
            except OSError as error:  # reads still work
                _log.warning("folder %s of %s cannot be made: %s", "/".join(segments), path, error)
        self.ledger = (Ledger if owns_ledger else BorrowedLedger)(path / LEDGER_DIRECTORY / "verified.sqlite")
        self.ages = Ages(self.ledger, monotonic)

    @property
    def descriptor(self) -> int:
        """The descriptor of the root itself."""
        return self._descriptor

    def close(self) -> None:
        """Release the descriptor and the ledger."""
        self.ages.save()
        self.ledger.close()
        os.close(self._descriptor)

    def folder(self, segments: Sequence[str], create: bool = False) -> contextlib.AbstractContextManager[int]:
        """Open a folder below the root; see ``folders.opened_folder``."""
        if create and is_namespace(segments[0]):
            own_folder(self._descriptor, segments[0])
        return opened_folder(self._descriptor, segments, create)

    def own_namespace(self, namespace: str) -> None:
        """Make a namespace's folder before a Spark pod mounts it; names that are not allowed are ignored."""
        if is_namespace(namespace) and not own_folder(self._descriptor, namespace):
            _log.warning(
                "the folder of namespace %s in %s belongs to another user than %d and is not empty; files of the "
                "namespace cannot be written here; give it to that user, or empty it",
                namespace, self.path, os.geteuid(),
            )  # fmt: skip

    @contextlib.contextmanager
    def file(self, table: TablePath, path: str) -> Iterator[int]:
        """Open a published file for reading.

        Raises:
            InvalidPath: the path is not allowed or leads through a link.
            NotHeld: there is no such file.
        """
        descriptor = self.open_file(table, path)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def open_file(self, table: TablePath, path: str) -> int:
        """Open a published file for reading; the caller closes the descriptor. Errors as for ``file``."""
        segments = (*table, *file_segments(path))
        with self.folder(segments[:-1]) as parent:
            return open_regular_file(parent, segments[-1])

    def holds(self, table: TablePath) -> bool:
        """Whether there is a folder of the table."""
        try:
            with self.folder(table):
                return True
        except NotHeld:
            return False

    def tables(self) -> tuple[TablePath, ...]:
        """The folders of all tables, sorted. Leaves out namespaces whose folder the disk cannot read."""
        found = []
        for namespace in self._folders_in((), is_namespace):
            try:
                found += [TablePath(namespace, name) for name in self._folders_in((namespace,), is_table_directory)]
            except OSError as error:
                if error.errno not in UNREADABLE_MEDIUM:
                    raise
                _log.warning("the folder of namespace %s cannot be read: %s", namespace, error)
            except NotHeld:
                continue  # removed meanwhile
        return tuple(sorted(found))

    def lock_of(self, table: TablePath) -> contextlib.AbstractContextManager[None]:
        """The lock to hold from deciding about a table's published files until they are changed (publish, collect,
        delete).
        """
        return self.table_locks.held(table)

    def note_change(self, table: TablePath) -> None:
        """Record that this process has just published or removed a file of the table."""
        with self._changes_lock:
            self._change_counts[table] = self.change_count(table) + 1
        for listener in self.change_listeners:
            listener(table)

    def change_count(self, table: TablePath) -> int:
        """How many changes of the table's files were recorded so far."""
        return self._change_counts.get(table, 0)

    def forget_changes(self, table: TablePath) -> None:
        """Drop the count of a table that is gone."""
        with self._changes_lock:
            self._change_counts.pop(table, None)

    def note_use(self, table: TablePath, manifest: str) -> None:
        """Record that a manifest is about to be used: a load verifies it before it commits.

        Waits for a running deletion of the table, which could not take the use into account. Call it before looking at
        the files.
        """
        with self.lock_of(table):
            self.ages.forget(str(table), [manifest_path(manifest)])

    def note_fault(self, error: OSError) -> None:
        """Record that a write or a sync of a file failed: the disk may be failing."""
        for listener in self.fault_listeners:
            listener(error)

    def names(self, segments: Sequence[str]) -> list[str]:
        """The names in a folder below the root, sorted; none if there is no such folder."""
        try:
            with self.folder(segments) as folder:
                return names_in(folder)
        except NotHeld:
            return []

    def disk(self) -> Disk:
        """Size and free space of the file system, less the reserved share."""
        status = os.fstatvfs(self._descriptor)
        capacity_bytes, free_bytes = status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize
        reserved_bytes = int(capacity_bytes * self.reserved_fraction)
        return Disk(capacity_bytes - reserved_bytes, max(free_bytes - reserved_bytes, 0))

    def check_writable(self) -> None:
        """Write, sync and remove a small file.

        Raises:
            OSError: the root is not writable.
        """
        with self.folder((INCOMING_DIRECTORY,), create=True) as incoming:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(PROBE_FILE, flags, FILE_MODE, dir_fd=incoming)
            try:
                os.write(descriptor, b"\n")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
                os.unlink(PROBE_FILE, dir_fd=incoming)

    def _folders_in(self, segments: Sequence[str], allowed: Callable[[str], bool]) -> list[str]:
        with self.folder(segments) as folder, os.scandir(folder) as entries:
            return [entry.name for entry in entries if allowed(entry.name) and entry.is_dir(follow_symlinks=False)]
