"""What clone Jobs report to their node's agent by files below ``.incoming``: changed tables, and progress.

A clone announces a table by a file below ``.incoming/changed``, with one line of JSON per published file: what it read
back from the disk, which the agent adds to its ledger. The agent reads that small folder every second, and a table's
own folders only when it is announced. It removes an announcement before it reads the table, so later changes are
announced again. A lost announcement (a Job killed between a file and its announcement) costs only time: the sweep finds
the file, and it is hashed again.
"""

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
    """Announce that files of the table have just changed. A full disk is no error.

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
        _log.warning("table %s: the agent will notice its new files only at the next sweep: %s", table, error)


def take_announced(root: DataRoot) -> tuple[TablePath, ...]:
    """Read and remove all announcements: records their entries in the ledger and returns their tables."""
    taken = []
    for namespace in root.names(CHANGED):
        with contextlib.suppress(NotHeld, InvalidPath), root.folder((*CHANGED, namespace)) as folder:
            for directory in names_in(folder):
                lines = _taken(folder, directory)
                with contextlib.suppress(InvalidPath):
                    table = table_path(namespace, directory)
                    root.ledger.record_all(table, filter(None, map(_entry_of, lines)))
                    taken.append(table)
    return tuple(taken)


def _taken(folder: int, name: str) -> list[str]:
    """Remove an announcement; returns its readable lines."""
    with (
        contextlib.suppress(OSError, NotHeld, InvalidPath, UnicodeDecodeError),
        os.fdopen(open_regular_file(folder, name), encoding="utf-8") as file,
    ):
        os.unlink(name, dir_fd=folder)
        return file.read(MAX_ANNOUNCEMENT_BYTES).splitlines()
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)
    return []


def _entry_of(line: str) -> tuple[str, LedgerEntry] | None:
    """The path and entry in a line; None if it is cut off or malformed."""
    try:
        path, sha256, verified_at, size_bytes, modified_nanoseconds, inode = json.loads(line)
        file_segments(path)
        identity = FileIdentity(int(size_bytes), int(modified_nanoseconds), int(inode))
        return path, LedgerEntry(identity, str(sha256), float(verified_at))
    except (ValueError, TypeError, AttributeError, OverflowError, InvalidPath):
        return None


def write_progress(root: DataRoot, progress: CloneProgress) -> None:
    """Replace a clone's progress file in one step."""
    segments = clone_directory(progress.namespace, progress.group, progress.bucket).split("/")
    with root.folder(segments, create=True) as folder:
        name = f".{PROGRESS_FILE}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, FILE_MODE, dir_fd=folder), "w") as file:
            file.write(progress.model_dump_json(by_alias=True))
        os.rename(name, PROGRESS_FILE, src_dir_fd=folder, dst_dir_fd=folder)


def read_progress(root: DataRoot) -> tuple[CloneProgress, ...]:
    """The progress of every clone below ``.incoming``, by folder name. Unreadable ones are left out."""
    found = []
    for name in root.names(CLONES):
        try:
            with root.folder((*CLONES, name)) as folder, os.fdopen(open_regular_file(folder, PROGRESS_FILE)) as file:
                found.append(CloneProgress.model_validate_json(file.read(MAX_PROGRESS_BYTES)))
        except NotHeld:
            continue  # the clone has just started or ended
        except (InvalidPath, ValueError) as error:
            _log.warning("progress of clone %s cannot be read: %s", name, error)
        except OSError as error:
            if error.errno not in UNREADABLE_MEDIUM:
                raise
            _log.warning("progress of clone %s cannot be read: %s", name, error)
    return tuple(found)
