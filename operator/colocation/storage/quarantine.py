"""Damaged files, moved out of the readers' path at once and never read again.

They lie below ``.quarantine/<namespace>/<directory>/`` under their own path, so that a report goes on to say of the
bucket that it is corrupt until the file is there again. After a day they are deleted. A file is damaged only when a
manifest that the operator calls live names it with another content, and none names it with the one that it has.
"""

import contextlib
import logging
import os
import stat
from collections.abc import Iterator

from colocation.model.names import QUARANTINE_DIRECTORY
from colocation.model.table_manifest import bucket_of_file_name

from .attempts import Attempts, all_attempted
from .errors import InvalidPath, NotHeld
from .folders import names_in, remove_tree
from .paths import TablePath, file_segments
from .root import DataRoot

QUARANTINE_SECONDS = 86400

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
            os.rename(segments[-1], segments[-1], src_dir_fd=source, dst_dir_fd=target)
            with contextlib.suppress(OSError):  # then it is not kept as long, but no reader sees it
                os.utime(segments[-1], dir_fd=target, follow_symlinks=False)  # it is kept from now on
    except (NotHeld, FileNotFoundError):
        return False
    _log.warning("%s of %s is damaged and was moved into the quarantine", path, table)
    root.ledger.forget(table, [path])
    root.note_change(table)
    return True


def quarantined(root: DataRoot, table: TablePath) -> frozenset[str]:
    """The paths of the table's files in the quarantine."""
    return frozenset(path for path, _ in _files(root, table))


def forget_bucket(root: DataRoot, table: TablePath, bucket: int) -> None:
    """Delete what of a bucket is in the quarantine: the node is to hold nothing of it any more."""
    for path, _ in _files(root, table):
        if bucket_of_file_name(path) == bucket:
            _delete(root, table, path)


def purge(root: DataRoot, keep_seconds: float = QUARANTINE_SECONDS) -> int:
    """Delete what has been in the quarantine for longer; how many files. Folders left empty go with them.

    Raises:
        OSError: a file cannot be deleted; all others are.
    """
    purged = 0
    with all_attempted() as attempt:
        for namespace in root.names((QUARANTINE_DIRECTORY,)):
            with attempt(f"to purge the quarantine of {namespace}"), contextlib.suppress(InvalidPath):
                for directory in root.names((QUARANTINE_DIRECTORY, namespace)):
                    purged += _purge_table(root, TablePath(namespace, directory), keep_seconds, attempt)
    return purged


def _purge_table(root: DataRoot, table: TablePath, keep_seconds: float, attempt: Attempts) -> int:
    purged = 0
    for path, modified_at in _files(root, table):
        if root.ages.is_older(modified_at, keep_seconds):
            with attempt(f"to delete {path} of {table} from the quarantine"):
                _delete(root, table, path)
                purged += 1
    with attempt(f"to remove the quarantine of {table}"):
        _remove_when_empty(root, table)
    return purged


def _delete(root: DataRoot, table: TablePath, path: str) -> None:
    *folders, name = path.split("/")
    with (
        contextlib.suppress(NotHeld, FileNotFoundError),
        root.folder((QUARANTINE_DIRECTORY, *table, *folders)) as folder,
    ):
        os.unlink(name, dir_fd=folder)
    root.note_change(table)


def _remove_when_empty(root: DataRoot, table: TablePath) -> None:
    if not any(True for _ in _files(root, table)):
        with contextlib.suppress(NotHeld), root.folder((QUARANTINE_DIRECTORY, table.namespace)) as folder:
            if table.directory in names_in(folder):
                remove_tree(folder, table.directory)


def _files(root: DataRoot, table: TablePath) -> Iterator[tuple[str, float]]:
    """(path, modification time) of the table's files in the quarantine."""
    found: list[tuple[str, float]] = []
    with contextlib.suppress(NotHeld, InvalidPath, OSError), root.folder((QUARANTINE_DIRECTORY, *table)) as folder:
        for path, _, names, parent in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
            for name in names:
                status = os.stat(name, dir_fd=parent, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    found.append((os.path.normpath(f"{path}/{name}"), status.st_mtime))
    yield from found
