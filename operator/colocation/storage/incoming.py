"""Files being received below ``.incoming``: resumable, read back from the disk, and removed once stale."""

import contextlib
import fcntl
import logging
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType

from colocation.model.clone import clone_directory

from .ages import older
from .errors import NoRoom, NotHeld, StorageError, all_attempted, room_errors
from .folders import FILE_MODE, names_in, open_regular_file, remove_tree
from .ledger import FileIdentity, LedgerEntry, identity_of
from .root import CLONES, UPLOADS, DataRoot
from .verification import hash_descriptor

STALE_SECONDS = 86400
"""An upload or a clone without a write for so long was given up."""

_log = logging.getLogger(__name__)


class IncomingFile(contextlib.AbstractContextManager["IncomingFile"]):
    """A file that is being received. Leaving closes its descriptor; the received bytes stay for ``discard`` or resume.

    Args:
        root: the data root.
        folder: where the file is, below the root.
        name: its name there.
        resume: continue after the bytes that are there; else start over.
    """

    def __init__(self, root: DataRoot, folder: Sequence[str], name: str, resume: bool = False) -> None:
        self.folder = tuple(folder)
        self.name = name
        self.received_bytes = 0
        self._root = root
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (0 if resume else os.O_TRUNC)
        with root.folder(self.folder, create=True) as parent:
            self._descriptor = os.open(name, flags, FILE_MODE, dir_fd=parent)
        try:
            os.fchmod(self._descriptor, FILE_MODE)  # whatever the umask: readers have another user id
            self.received_bytes = os.lseek(self._descriptor, 0, os.SEEK_END)
        except BaseException:
            os.close(self._descriptor)
            raise

    def write(self, block: bytes) -> None:
        """Append a block.

        Raises:
            NoRoom: the disk is full; what was written before stays.
        """
        view = memoryview(block)
        with room_errors():
            while view:
                written = os.write(self._descriptor, view)
                self.received_bytes += written
                view = view[written:]

    def settle(self) -> LedgerEntry:
        """Sync the content and read it back from the disk; returns the ledger entry.

        The file's age starts now, however long it was received. A failure removes everything of the attempt.

        Raises:
            NoRoom: the disk is full.
        """
        try:
            with room_errors():
                os.utime(self._descriptor)
                os.fsync(self._descriptor)
        except (OSError, NoRoom) as error:
            self.discard()  # the kernel now counts its pages as written: a resumed attempt would publish lost bytes
            if isinstance(error, OSError):
                self._root.note_fault(error)
            raise
        try:
            identity, sha256 = hash_descriptor(self._descriptor, past_cache=True)
        except OSError as error:
            self.discard()
            self._root.note_fault(error)
            raise
        return LedgerEntry(identity, sha256, self._root.clock())

    def discard(self) -> None:
        """Remove what was received."""
        with contextlib.suppress(FileNotFoundError, NotHeld), self._root.folder(self.folder) as parent:
            os.unlink(self.name, dir_fd=parent)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)


def received_bytes(root: DataRoot, folder: Sequence[str], name: str) -> int:
    """How many bytes of a file in ``.incoming`` arrived in earlier attempts."""
    try:
        with root.folder(folder) as parent:
            descriptor = open_regular_file(parent, name)
    except NotHeld:
        return 0
    try:
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def remove_stale(root: DataRoot) -> int:
    """Remove uploads and clones without a write for a day; returns how many. What disappears meanwhile is no error.

    Raises:
        OSError: one cannot be removed; all others are.
    """
    removed = 0
    with all_attempted() as attempt:
        for folder, look, remove in ((UPLOADS, _upload, _remove_upload), (CLONES, _clone, remove_tree)):
            with attempt("/".join(folder)), root.folder(folder, create=True) as parent:
                for name in older(root.ages.of("/".join(folder), _looks(parent, look)), STALE_SECONDS):
                    with attempt(f"{'/'.join(folder)}/{name}"), contextlib.suppress(FileNotFoundError):
                        remove(parent, name)
                        removed += 1
    return removed


def _looks(parent: int, look: Callable[[int, str], FileIdentity | None]) -> dict[str, FileIdentity]:
    """The current identity of each entry that may be stale."""
    found = {}
    for name in names_in(parent):
        with contextlib.suppress(FileNotFoundError):
            if (seen := look(parent, name)) is not None:
                found[name] = seen
    return found


def _upload(uploads: int, name: str) -> FileIdentity:
    return identity_of(_status(uploads, name))


def _remove_upload(uploads: int, name: str) -> None:
    os.unlink(name, dir_fd=uploads)


def _clone(clones: int, name: str) -> FileIdentity | None:
    """The identity of a clone's folder, by the newest change in it; None for what is no folder."""
    status = _status(clones, name)
    if not stat.S_ISDIR(status.st_mode):
        return None
    newest = status.st_mtime_ns
    for _, _, files, folder in os.fwalk(name, dir_fd=clones, follow_symlinks=False):
        newest = max(newest, os.fstat(folder).st_mtime_ns, *(_status(folder, file).st_mtime_ns for file in files))
    return FileIdentity(0, newest, status.st_ino)


@contextlib.contextmanager
def uploads_in_use(root: DataRoot) -> Iterator[None]:
    """Held by an agent from before its first upload to after its last; on entry, removes uploads of earlier agents.

    Those cannot be resumed, and where agents restart more often than daily none of them would ever count as stale. Two
    agents may overlap (a rolling update with ``maxSurge``, a pod deleted by force), so each holds a lock, and nothing
    is removed while another agent holds one. A failure here does not keep the agent from starting.
    """
    with contextlib.ExitStack() as held:
        try:
            uploads = held.enter_context(root.folder(UPLOADS, create=True))
            try:
                fcntl.flock(uploads, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_all(uploads)
            except BlockingIOError:
                _log.info("another agent runs on %s; interrupted uploads stay", root.path)
            finally:
                fcntl.flock(uploads, fcntl.LOCK_SH)
        except (OSError, StorageError) as error:
            _log.warning("interrupted uploads cannot be removed: %s", error)
        yield


def _remove_all(folder: int) -> None:
    with all_attempted() as attempt:
        for name in names_in(folder):
            with attempt(name):
                os.unlink(name, dir_fd=folder)


def remove_clone(root: DataRoot, namespace: str, group: str, bucket: int) -> None:
    """Remove the folder of a finished clone, if it exists."""
    *parents, name = clone_directory(namespace, group, bucket).split("/")
    with contextlib.suppress(FileNotFoundError), root.folder(parents, create=True) as clones:
        remove_tree(clones, name)


def _status(folder: int, name: str) -> os.stat_result:
    return os.stat(name, dir_fd=folder, follow_symlinks=False)
