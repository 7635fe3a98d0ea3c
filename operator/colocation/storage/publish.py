"""Publishes verified files: a file appears under its path in one step and for good, or not at all.

Order for one file: content synced and read back (``IncomingFile.settle``), ledger written, link or rename, folder
synced. A batch of small files goes through each step together, so that one wait for the disk serves all of them. A kill
in between leaves nothing wrong visible, and a repetition ends the same. A failed sync removes what it was for.
"""

import contextlib
import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from types import TracebackType
from typing import NamedTuple

from .clone_reports import announce
from .errors import ContentConflict, DigestDiffers, NotHeld, room_errors
from .folders import FILE_MODE
from .incoming import IncomingFile
from .ledger import LedgerEntry, identity_of
from .paths import TablePath, file_segments, sha256_of_manifest_path
from .root import DataRoot
from .verification import content_of, hash_descriptor

MAX_ATTEMPTS = 5

ExpectedContent = Callable[[TablePath, str], str | None]
"""The digest that a live manifest gives for a file; None if none names it."""


def replace_published(root: DataRoot, table: TablePath, path: str, incoming: IncomingFile, entry: LedgerEntry) -> None:
    """Publish a settled file, replacing a damaged file under its path if there is one, and report it to the agent.

    Raises:
        InvalidPath: the path is not allowed.
    """
    _publish(root, table, path, incoming, entry, os.rename)
    announce(root, table, {path: entry})


def publish_once(
    root: DataRoot, table: TablePath, path: str, incoming: IncomingFile, sha256: str, expected: ExpectedContent
) -> bool:
    """Publish a received file unless it is published already; returns whether it is new. ``incoming`` is removed.

    A file with other content than its manifest names may be replaced by the right one.

    Raises:
        DigestDiffers: the received content is not ``sha256``.
        ContentConflict: other content is published under this path.
        InvalidPath: the path is not allowed.
    """
    entry = incoming.settle()
    try:
        if entry.sha256 != sha256:
            raise DigestDiffers(
                f"{path}: announced sha-256 {sha256}, received {entry.identity.bytes} bytes with {entry.sha256}; "
                "send it again"
            )
        with root.lock_of(table):
            if _confirmed(root, table, path, sha256):
                return False
            damaged = _is_held(root, table, path)
            if damaged and wanted_content(table, path, expected) != sha256:
                raise ContentConflict(
                    f"{path} is published with another content than {sha256}; published files never change: "
                    "use a new file name"
                )
            _publish(root, table, path, incoming, entry, os.rename if damaged else os.link)
            return True
    finally:
        incoming.discard()


def is_published(root: DataRoot, table: TablePath, path: str, sha256: str) -> bool:
    """Whether this content is published under the path. If so, its age restarts, so no collection deletes it.

    Raises:
        InvalidPath: the path is not allowed.
    """
    with root.lock_of(table):
        return _confirmed(root, table, path, sha256)


def wanted_content(table: TablePath, path: str, expected: ExpectedContent) -> str | None:
    """The digest that the file must have, if known: from a manifest's own name, or from a live manifest."""
    return sha256_of_manifest_path(path) or expected(table, path)


def _confirmed(root: DataRoot, table: TablePath, path: str, sha256: str) -> bool:
    try:
        with root.file(table, path) as descriptor:
            held = content_of(root, table, path, descriptor)
            if held.sha256 != sha256:
                return False
            os.utime(descriptor)
            root.ledger.record(table, path, held._replace(identity=identity_of(os.fstat(descriptor))))
            return True
    except NotHeld:
        return False


def _is_held(root: DataRoot, table: TablePath, path: str) -> bool:
    try:
        with root.file(table, path):
            return True
    except NotHeld:
        return False


def sync_or_take_back(root: DataRoot, table: TablePath, paths: Sequence[str], folder: int) -> None:
    """Make the names of files in one folder durable; on failure remove the files.

    A file whose name may not be durable is no replica, and a repeated upload must not find it.
    """
    try:
        os.fsync(folder)
    except OSError as error:
        for path in paths:
            with contextlib.suppress(OSError):
                os.unlink(path.rpartition("/")[2], dir_fd=folder)
        root.ledger.forget(table, paths)
        root.note_fault(error)
        raise


def _publish(
    root: DataRoot,
    table: TablePath,
    path: str,
    incoming: IncomingFile,
    entry: LedgerEntry,
    place: Callable[..., None],
) -> None:
    segments = (*table, *file_segments(path))
    with root.folder(incoming.folder) as source, room_errors():
        root.ledger.record(table, path, entry)
        for _ in range(MAX_ATTEMPTS):
            with root.folder(segments[:-1], create=True) as target:
                try:
                    place(incoming.name, segments[-1], src_dir_fd=source, dst_dir_fd=target)
                except FileNotFoundError:
                    continue  # a deletion in another process removed the folder while it was empty
                root.note_change(table)
                sync_or_take_back(root, table, [path], target)
                return
    raise NotHeld(f"{path} could not be published: its folder was removed {MAX_ATTEMPTS} times; try again")


class _Received(NamedTuple):
    """A file in ``.incoming`` (``name``) that is to be published under ``path`` of its table."""

    path: str
    name: str
    sha256: str
    descriptor: int


class IncomingBatch(contextlib.AbstractContextManager["IncomingBatch"]):
    """Whole files of one table that are being received. Leaving removes what was not published.

    Args:
        root: the data root.
        table: the table of the files.
        folder: where they are until they are published, below the root.
    """

    def __init__(self, root: DataRoot, table: TablePath, folder: Sequence[str]) -> None:
        self._root = root
        self._table = table
        self._received: list[_Received] = []
        self._stack = contextlib.ExitStack()
        self._folder = self._stack.enter_context(root.folder(folder, create=True))

    def add(self, path: str, content: bytes, sha256: str) -> None:
        """Write a received file into the batch.

        Raises:
            DigestDiffers: the content does not have the announced digest; nothing was written.
            InvalidPath: the path is not allowed.
            NoRoom: the disk is full.
        """
        file_segments(path)
        received = hashlib.sha256(content).hexdigest()
        if received != sha256:
            raise DigestDiffers(f"the content that arrived is {received} instead of {sha256}")
        name = hashlib.sha256(f"{self._table}/{path}".encode()).hexdigest()  # two paths may have the same content
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with room_errors():
            descriptor = os.open(name, flags, FILE_MODE, dir_fd=self._folder)
            self._received.append(_Received(path, name, sha256, descriptor))
            self._stack.callback(os.close, descriptor)
            os.fchmod(descriptor, FILE_MODE)  # whatever the umask: readers have another user id
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]

    def publish(self, syncs: Executor) -> None:
        """Sync all files, several at a time by ``syncs``, then publish them, replacing damaged files under their paths.

        Raises:
            OSError, NoRoom: a sync failed. If it was a file's, nothing was published; if a folder's, its files were
                removed again.
        """
        with room_errors():
            entries = dict(syncs.map(self._settled, self._received))
            self._root.ledger.record_all(self._table, entries.items())
            by_folder: dict[tuple[str, ...], list[_Received]] = defaultdict(list)
            for received in self._received:
                by_folder[file_segments(received.path)[:-1]].append(received)
            for segments, files in by_folder.items():
                self._place(segments, files)
        self._received = []
        self._root.note_change(self._table)
        announce(self._root, self._table, entries)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for received in self._received:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(received.name, dir_fd=self._folder)
        self._stack.close()

    def _settled(self, received: _Received) -> tuple[str, LedgerEntry]:
        """Sync a file's content and read it back; its path and ledger entry. Its age starts now."""
        os.utime(received.descriptor)
        os.fsync(received.descriptor)
        identity, sha256 = hash_descriptor(received.descriptor, past_cache=True)
        if sha256 != received.sha256:
            raise DigestDiffers(f"the disk returns {sha256} instead of {received.sha256}; check the node's disk")
        return received.path, LedgerEntry(identity, received.sha256, self._root.clock())

    def _place(self, segments: tuple[str, ...], files: Sequence[_Received]) -> None:
        """Rename files into a folder of the table, durably."""
        left = list(files)
        for _ in range(MAX_ATTEMPTS):
            with self._root.folder((*self._table, *segments), create=True) as target:
                try:
                    while left:
                        name = left[-1].path.rpartition("/")[2]
                        os.rename(left[-1].name, name, src_dir_fd=self._folder, dst_dir_fd=target)
                        left.pop()
                except FileNotFoundError:
                    continue  # a deletion in another process removed the folder while it was empty
                sync_or_take_back(self._root, self._table, [file.path for file in files], target)
                return
        raise NotHeld(f"{'/'.join(segments)} of {self._table} was removed {MAX_ATTEMPTS} times; try again")
