"""Small files that are received, synced and published together: one wait for the disk for all of them.

Order: contents written, all of them synced, ledger written, every file renamed, every folder synced once. So no file
appears under its path before the whole batch is on the disk; killed anywhere in between, nothing wrong is visible and a
repetition ends the same. When one sync fails nothing that it was for is trusted or kept.
"""

import contextlib
import hashlib
import os
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Executor
from types import TracebackType
from typing import NamedTuple

from .announcements import announce
from .errors import DigestDiffers, NotHeld
from .folders import FILE_MODE
from .hashing import hash_descriptor
from .incoming import room_errors
from .ledger import LedgerEntry
from .paths import TablePath, file_segments
from .publish import MAX_ATTEMPTS, sync_or_take_back
from .root import DataRoot


class _Received(NamedTuple):
    """A file in ``.incoming``, by its name there, that is wanted under ``path`` of its table."""

    path: str
    name: str
    sha256: str
    descriptor: int


class IncomingBatch(contextlib.AbstractContextManager["IncomingBatch"]):
    """Whole files of one table on their way in. On leaving, what was not published is removed.

    Args:
        root: the data root.
        table: whose files they are.
        folder: where they lie until they are published, below the root.
    """

    def __init__(self, root: DataRoot, table: TablePath, folder: Sequence[str]) -> None:
        self._root = root
        self._table = table
        self._received: list[_Received] = []
        self._stack = contextlib.ExitStack()
        self._folder = self._stack.enter_context(root.folder(folder, create=True))

    def add(self, path: str, content: bytes, sha256: str) -> None:
        """Take in a file.

        Raises:
            DigestDiffers: the content is not what was announced; nothing was written.
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
        """Bring all files to the disk, ``syncs`` waiting for several of them at a time, then publish them.

        A file takes the place of whatever lies under its path: a damaged file, or nothing.

        Raises:
            OSError, NoRoom: a sync failed. If a content's, nothing was published; if a folder's, its files were taken
                back.
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
        """Bring a file's content to the disk and read it back; its path and what the ledger shall know of it.

        Its age begins now.
        """
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
