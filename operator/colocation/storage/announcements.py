"""Changes of tables that clone Jobs tell their node's agent: a file per table below ``.incoming/changed``.

The agent looks into that one small folder every second, and at a table's own folders only when the table is announced
there. A file holds a line of JSON for each file that was published: what a Job read back from the disk, which the agent
takes into its ledger. It removes an announcement before it reads it and looks at the table, so a change that follows is
announced anew. An announcement that is lost (a Job killed between a file and its announcement) costs time only: the
sweep finds the file, and it is hashed again.
"""

import contextlib
import json
import logging
import os
from collections.abc import Mapping

from colocation.model.names import INCOMING_DIRECTORY

from .errors import InvalidPath, NotHeld
from .folders import FILE_MODE, names_in, open_regular_file
from .hashing import FileIdentity
from .ledger import LedgerEntry
from .paths import TablePath, file_segments, table_path
from .root import DataRoot

CHANGED = (INCOMING_DIRECTORY, "changed")
MAX_ANNOUNCEMENT_BYTES = 64 << 20
NOTHING_READ: Mapping[str, LedgerEntry] = {}

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
