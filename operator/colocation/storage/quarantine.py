"""The quarantine: damaged files, moved out of the readers' path at once, and put back if they turn out to be good.

They are below ``.quarantine/<namespace>/<directory>/`` under their own path, so that reports call the bucket corrupt
until the file is there again. A file is damaged only if a manifest that the operator calls live names it with other
content, and none names it with the content that it has.

A disk, or the way to it, may fail for minutes, on all nodes together, and an unreadable file may be the only copy. So a
file is deleted only after a day, and only once the same content is verified in its place or no live manifest names it.
Until then it is read again and again.
"""

import contextlib
import logging
import os
import stat
from collections.abc import Callable, Iterator

from colocation.model.names import QUARANTINE_DIRECTORY
from colocation.model.table_manifest import bucket_of_file_name

from .ages import older
from .errors import UNREADABLE_MEDIUM, Attempts, FileChanged, InvalidPath, NotHeld, all_attempted
from .folders import open_regular_file
from .ledger import FileIdentity, LedgerEntry, identity_of
from .paths import TablePath, file_segments
from .publish import sync_or_take_back
from .root import DataRoot
from .verification import content_of, hash_descriptor, unlimited

QUARANTINE_SECONDS = 86400
"""A file is kept at least so long."""
RETRY_SECONDS = 600
"""A file is read again at most so often."""

LiveDigests = Callable[[TablePath, str], frozenset[str] | None]
"""The digests that live manifests give for a file; empty if none names it, None if unknown."""

_log = logging.getLogger(__name__)


def set_aside(root: DataRoot, table: TablePath, path: str) -> bool:
    """Move a damaged file into the quarantine, over an older one of its path; False if it was not there.

    The caller holds the table's lock and has found the file damaged.

    Raises:
        InvalidPath: the path is not allowed.
    """
    segments = file_segments(path)
    try:
        with (
            root.folder((*table, *segments[:-1])) as source,
            root.folder((QUARANTINE_DIRECTORY, *table, *segments[:-1]), create=True) as target,
        ):
            _move(segments[-1], source, target)
            with contextlib.suppress(OSError):  # the move is what matters
                os.utime(segments[-1], dir_fd=target, follow_symlinks=False)  # if it goes back, it is hashed again
    except (NotHeld, FileNotFoundError):
        return False
    _log.warning("%s of %s is damaged and was moved into the quarantine", path, table)
    root.ledger.forget(table, [path])
    root.note_change(table)
    return True


def _move(name: str, source: int, target: int) -> None:
    """Rename a file; removes it instead if both names are links to one file, which a rename would leave alone."""
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(_stat(name, source), _stat(name, target)):
            os.unlink(name, dir_fd=source)
            return
    os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)


def _stat(name: str, folder: int) -> os.stat_result:
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def quarantined(root: DataRoot, table: TablePath) -> frozenset[str]:
    """The paths of the table's files in the quarantine."""
    return frozenset(files_in_quarantine(root, table))


def forget_bucket(root: DataRoot, table: TablePath, bucket: int) -> None:
    """Delete the quarantined files of a bucket that the node no longer holds."""
    for path in files_in_quarantine(root, table):
        if bucket_of_file_name(path) == bucket:
            delete(root, table, path)


def delete(root: DataRoot, table: TablePath, path: str) -> None:
    """Delete a quarantined file."""
    *folders, name = path.split("/")
    with (
        contextlib.suppress(NotHeld, FileNotFoundError),
        root.folder((QUARANTINE_DIRECTORY, *table, *folders)) as folder,
    ):
        os.unlink(name, dir_fd=folder)
    root.ages.forget(place_of(table), [path])
    root.note_change(table)


def place_of(table: TablePath) -> str:
    """The name of the table's quarantine in ``ages``."""
    return f"{QUARANTINE_DIRECTORY}/{table}"


def remove_when_empty(root: DataRoot, table: TablePath) -> None:
    """Remove a table's empty folders from the quarantine.

    Removes no files: a failing disk may list none where there are some.
    """
    with (
        contextlib.suppress(NotHeld, InvalidPath, OSError),
        root.folder((QUARANTINE_DIRECTORY, table.namespace)) as folder,
    ):
        for _, names, _, parent in os.fwalk(table.directory, topdown=False, follow_symlinks=False, dir_fd=folder):
            for name in names:
                with contextlib.suppress(OSError):
                    os.rmdir(name, dir_fd=parent)
        os.rmdir(table.directory, dir_fd=folder)


def files_in_quarantine(root: DataRoot, table: TablePath) -> dict[str, FileIdentity]:
    """The table's files in the quarantine, by path."""
    found = {}
    with contextlib.suppress(NotHeld, InvalidPath, OSError), root.folder((QUARANTINE_DIRECTORY, *table)) as folder:
        for path, _, names, parent in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
            for name in names:
                status = os.stat(name, dir_fd=parent, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    found[os.path.normpath(f"{path}/{name}")] = identity_of(status)
    return found


class QuarantinePurge:
    """Puts good files back and deletes those no longer needed. One per agent, used by one thread at a time.

    ``pace``: see ``verification.hash_descriptor``.
    """

    def __init__(self, root: DataRoot, live_digests: LiveDigests, pace: Callable[[int], None] = unlimited) -> None:
        self._root = root
        self._live_digests = live_digests
        self._pace = pace
        self._read_at: dict[tuple[TablePath, str], float] = {}

    def run(self) -> int:
        """Put good files back, delete unneeded ones and empty folders; returns how many files left the quarantine.

        Raises:
            OSError: a file cannot be deleted or put back; all others are.
        """
        left, last, self._read_at = 0, self._read_at, {}
        with all_attempted() as attempt:
            for namespace in self._root.names((QUARANTINE_DIRECTORY,)):
                with attempt(f"to purge the quarantine of {namespace}"), contextlib.suppress(InvalidPath):
                    for directory in self._root.names((QUARANTINE_DIRECTORY, namespace)):
                        left += self._purge_table(TablePath(namespace, directory), last, attempt)
        return left

    def _purge_table(self, table: TablePath, last: dict[tuple[TablePath, str], float], attempt: Attempts) -> int:
        left = 0
        files = files_in_quarantine(self._root, table)
        old = older(self._root.ages.of(place_of(table), files), QUARANTINE_SECONDS)
        for path in files:
            if (table, path) in last:
                self._read_at[table, path] = last[table, path]
            with (
                attempt(f"to take {path} of {table} from the quarantine"),
                contextlib.suppress(InvalidPath),  # a link in the table's place
            ):
                left += self._take(table, path, is_old=path in old)
        with attempt(f"to remove the quarantine of {table}"):
            remove_when_empty(self._root, table)
        return left

    def _take(self, table: TablePath, path: str, is_old: bool) -> bool:
        """Decide on one file; whether it left the quarantine."""
        digests = self._live_digests(table, path)
        if digests is None:
            return False
        held = self._content_in_place(table, path) if digests else None
        if digests and held is None:
            return self._put_back_if_good(table, path, digests)
        if is_old and (held is None or held in digests):
            delete(self._root, table, path)
            return True
        return False

    def _content_in_place(self, table: TablePath, path: str) -> str | None:
        """The digest of the file in the quarantined one's place; None if none can be read there."""
        try:
            with self._root.file(table, path) as descriptor:
                return content_of(self._root, table, path, descriptor).sha256
        except (NotHeld, InvalidPath, FileChanged):
            return None
        except OSError as error:
            if error.errno not in UNREADABLE_MEDIUM:
                raise
            return None

    def _put_back_if_good(self, table: TablePath, path: str, digests: frozenset[str]) -> bool:
        now = self._root.monotonic()
        if now - self._read_at.get((table, path), -RETRY_SECONDS) < RETRY_SECONDS:
            return False
        self._read_at[table, path] = now
        try:
            with self._opened(table, path) as (folder, name, descriptor):
                identity, sha256 = hash_descriptor(descriptor, self._pace, past_cache=True)
                if sha256 not in digests:
                    return False
                with self._root.lock_of(table):
                    if identity_of(os.stat(name, dir_fd=folder, follow_symlinks=False)) != identity:
                        return False
                    os.fsync(descriptor)
                    return self._put_back(table, path, folder, LedgerEntry(identity, sha256, self._root.clock()))
        except (NotHeld, InvalidPath, FileChanged, FileNotFoundError, FileExistsError) as error:
            _log.info("%s of %s stays in the quarantine: %s", path, table, error)
        except OSError as error:
            if error.errno not in UNREADABLE_MEDIUM:
                raise
            _log.warning("%s of %s stays in the quarantine, it cannot be read: %s", path, table, error)
        return False

    @contextlib.contextmanager
    def _opened(self, table: TablePath, path: str) -> Iterator[tuple[int, str, int]]:
        """Folder, name and descriptor of a quarantined file."""
        *folders, name = file_segments(path)
        with self._root.folder((QUARANTINE_DIRECTORY, *table, *folders)) as folder:
            descriptor = open_regular_file(folder, name)
            try:
                yield folder, name, descriptor
            finally:
                os.close(descriptor)

    def _put_back(self, table: TablePath, path: str, source: int, entry: LedgerEntry) -> bool:
        """Publish the file (see ``publish``), but never over another. The caller holds the table's lock."""
        *folders, name = file_segments(path)
        with self._root.folder((*table, *folders), create=True) as target:
            self._root.ledger.record(table, path, entry)
            os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
            self._root.note_change(table)
            sync_or_take_back(self._root, table, [path], target)
        delete(self._root, table, path)
        _log.warning("%s of %s can be read again, is good, and was put back from the quarantine", path, table)
        return True
