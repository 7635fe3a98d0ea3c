"""What clone Jobs report to their node's agent."""

import contextlib
import json
import logging
import os
from collections.abc import Mapping

from colocation.model.agent import CloneProgress
from colocation.model.clone import clone_directory
from colocation.model.names import INCOMING_DIRECTORY

from .errors import UNREADABLE_MEDIUM, InvalidPath, NotHeld
from .folders import FILE_MODE, names_in, open_regular_file
from .ledger import FileIdentity, LedgerEntry
from .paths import TablePath, file_segments, table_path
from .root import CLONES, DataRoot

CHANGED = (INCOMING_DIRECTORY, "changed")
MAX_ANNOUNCEMENT_BYTES = 64 << 20
NOTHING_READ: Mapping[str, LedgerEntry] = {}


PROGRESS_FILE = "progress.json"
MAX_PROGRESS_BYTES = 1 << 16


_log = logging.getLogger(__name__)


def announce(root: DataRoot, table: TablePath, entries: Mapping[str, LedgerEntry] = NOTHING_READ) -> None:
    """Tell the agent that files of the table have just changed. A full disk is no error.

    ``entries``: path -> what was read back from the disk.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    lines = [json.dumps([path, one.sha256, one.verified_at, *one.identity]) for path, one in entries.items()]
    try:
        with root.folder((*CHANGED, table.namespace), create=True) as folder:
            descriptor = os.open(table.directory, flags, FILE_MODE, dir_fd=folder)
            try:
                os.write(descriptor, "".join(f"{line}\n" for line in lines).encode())
            finally:
                os.close(descriptor)
    except OSError as error:
        _log.warning("table %s: the agent notices its new files with the next sweep only: %s", table, error)


def take_announced(root: DataRoot) -> tuple[TablePath, ...]:
    """The tables that were announced since the last call; what was said of their files is in the ledger then."""
    taken = []
    for namespace in root.names(CHANGED):
        with contextlib.suppress(NotHeld, InvalidPath), root.folder((*CHANGED, namespace)) as folder:
            for directory in names_in(folder):
                lines = _taken(folder, directory)
                with contextlib.suppress(InvalidPath):
                    table = table_path(namespace, directory)
                    root.ledger.record_all(table, filter(None, map(_said, lines)))
                    taken.append(table)
    return tuple(taken)


def _taken(folder: int, name: str) -> list[str]:
    """Remove an announcement; its lines, as far as they can be read."""
    with (
        contextlib.suppress(OSError, NotHeld, InvalidPath, UnicodeDecodeError),
        os.fdopen(open_regular_file(folder, name), encoding="utf-8") as file,
    ):
        os.unlink(name, dir_fd=folder)
        return file.read(MAX_ANNOUNCEMENT_BYTES).splitlines()
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)
    return []


def _said(line: str) -> tuple[str, LedgerEntry] | None:
    """What a line says of a file; None when it is cut off, or is no line of ours."""
    try:
        path, sha256, verified_at, size_bytes, modified_nanoseconds, inode = json.loads(line)
        file_segments(path)
        identity = FileIdentity(int(size_bytes), int(modified_nanoseconds), int(inode))
        return path, LedgerEntry(identity, str(sha256), float(verified_at))
    except (ValueError, TypeError, AttributeError, OverflowError, InvalidPath):
        return None


def write_progress(root: DataRoot, progress: CloneProgress) -> None:
    """Replace a clone's progress file in one step; a reader sees the old or the new one."""
    segments = clone_directory(progress.namespace, progress.group, progress.bucket).split("/")
    with root.folder(segments, create=True) as folder:
        name = f".{PROGRESS_FILE}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, FILE_MODE, dir_fd=folder), "w") as file:
            file.write(progress.model_dump_json(by_alias=True))
        os.rename(name, PROGRESS_FILE, src_dir_fd=folder, dst_dir_fd=folder)


def read_progress(root: DataRoot) -> tuple[CloneProgress, ...]:
    """The progress of every clone that lies below ``.incoming``, by folder name; without those that cannot be read."""
    found = []
    for name in root.names(CLONES):
        try:
            with root.folder((*CLONES, name)) as folder, os.fdopen(open_regular_file(folder, PROGRESS_FILE)) as file:
                found.append(CloneProgress.model_validate_json(file.read(MAX_PROGRESS_BYTES)))
        except NotHeld:
            continue  # it has just begun or just ended
        except (InvalidPath, ValueError) as error:
            _log.warning("progress of clone %s cannot be read: %s", name, error)
        except OSError as error:
            if error.errno not in UNREADABLE_MEDIUM:
                raise
            _log.warning("progress of clone %s cannot be read: %s", name, error)
    return tuple(found)
