"""Files on their way in: written below ``.incoming``, resumable, hashed as the disk gives them back, cleaned up when
stale.
"""

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
"""An upload or a clone that nobody wrote to for so long was given up."""

_log = logging.getLogger(__name__)


class IncomingFile(contextlib.AbstractContextManager["IncomingFile"]):
    """A file being received. On leaving, its descriptor is closed; what was received stays for ``discard`` or resume.

    Args:
        root: the data root.
        folder: where it lies, below the root.
        name: its name there.
        resume: go on after what is there already; else begin anew.
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
        """Bring the content to the disk and read it back from there; what it is, for the ledger.

        Its age begins now, however long it was received. A failure leaves nothing of the attempt behind.

        Raises:
            NoRoom: the disk is full.
        """
        try:
            with room_errors():
                os.utime(self._descriptor)
                os.fsync(self._descriptor)
        except (OSError, NoRoom) as error:
            self.discard()  # its pages count as written from now on: whoever resumed it would publish what is not there
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
    """How much of a file in ``.incoming`` arrived in earlier attempts."""
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
    """Remove uploads and clones that nobody wrote to for a day; how many. What goes by itself meanwhile is no error.

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
    """How each of those that may be stale looks now."""
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
    """By the newest change of its folder or of anything in it; None for what is no clone's folder."""
    status = _status(clones, name)
    if not stat.S_ISDIR(status.st_mode):
        return None
    newest = status.st_mtime_ns
    for _, _, files, folder in os.fwalk(name, dir_fd=clones, follow_symlinks=False):
        newest = max(newest, os.fstat(folder).st_mtime_ns, *(_status(folder, file).st_mtime_ns for file in files))
    return FileIdentity(0, newest, status.st_ino)


@contextlib.contextmanager
def uploads_in_use(root: DataRoot) -> Iterator[None]:
    """Held by an agent from before its first upload to after its last one. What earlier agents left goes first: nobody
    resumes it, and where agents start more often than daily none of it would ever be known to be stale.

    Two agents may overlap (a rolling update with ``maxSurge``, a pod deleted by force), so each holds a lock, and
    nothing is removed while another one does. A disk on which this fails keeps no agent from starting.
    """
    with contextlib.ExitStack() as held:
        try:
            uploads = held.enter_context(root.folder(UPLOADS, create=True))
            try:
                fcntl.flock(uploads, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_all(uploads)
            except BlockingIOError:
                _log.info("another agent runs on %s; uploads that were cut off stay", root.path)
            finally:
                fcntl.flock(uploads, fcntl.LOCK_SH)
        except (OSError, StorageError) as error:
            _log.warning("uploads that were cut off cannot be removed: %s", error)
        yield


def _remove_all(folder: int) -> None:
    with all_attempted() as attempt:
        for name in names_in(folder):
            with attempt(name):
                os.unlink(name, dir_fd=folder)


def remove_clone(root: DataRoot, namespace: str, group: str, bucket: int) -> None:
    """Remove the folder of a clone that has finished; nothing there is no error."""
    *parents, name = clone_directory(namespace, group, bucket).split("/")
    with contextlib.suppress(FileNotFoundError), root.folder(parents, create=True) as clones:
        remove_tree(clones, name)


def _status(folder: int, name: str) -> os.stat_result:
    return os.stat(name, dir_fd=folder, follow_symlinks=False)
