"""Damaged files, moved out of the readers' path at once and never read again.

They lie below ``.quarantine/<namespace>/<directory>/`` under their own path, so that a report goes on to say of the
bucket that it is corrupt until the file is there again. Then, and after a day, they are deleted: see
``quarantine_purge``. A file is damaged only when a manifest that the operator calls live names it with another content,
and none names it with the one that it has.
"""

import contextlib
import logging
import os
import stat

from colocation.model.names import QUARANTINE_DIRECTORY
from colocation.model.table_manifest import bucket_of_file_name

from .errors import InvalidPath, NotHeld
from .hashing import FileIdentity, identity_of
from .paths import TablePath, file_segments
from .root import DataRoot

_log = logging.getLogger(__name__)


def set_aside(root: DataRoot, table: TablePath, path: str) -> bool:
    """Move a damaged file into the quarantine, over an older one of its path; whether it was there.

    The caller holds the table's lock, and has found it damaged.

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
            with contextlib.suppress(OSError):  # what matters is that no reader sees it
                os.utime(segments[-1], dir_fd=target, follow_symlinks=False)  # should it go back, it is looked at again
    except (NotHeld, FileNotFoundError):
        return False
    _log.warning("%s of %s is damaged and was moved into the quarantine", path, table)
    root.ledger.forget(table, [path])
    root.note_change(table)
    return True


def _move(name: str, source: int, target: int) -> None:
    """Of two links to one file a rename moves none."""
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
    """Delete what of a bucket is in the quarantine: the node is to hold nothing of it any more."""
    for path in files_in_quarantine(root, table):
        if bucket_of_file_name(path) == bucket:
            delete(root, table, path)


def delete(root: DataRoot, table: TablePath, path: str) -> None:
    """Delete a file of the quarantine."""
    *folders, name = path.split("/")
    with (
        contextlib.suppress(NotHeld, FileNotFoundError),
        root.folder((QUARANTINE_DIRECTORY, *table, *folders)) as folder,
    ):
        os.unlink(name, dir_fd=folder)
    root.ages.forget(place_of(table), [path])
    root.note_change(table)


def place_of(table: TablePath) -> str:
    """The table's quarantine, as ``ages`` calls it."""
    return f"{QUARANTINE_DIRECTORY}/{table}"


def remove_when_empty(root: DataRoot, table: TablePath) -> None:
    """Remove the empty folders of a table from the quarantine. No file goes: a disk that fails may show none."""
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
