"""Changes of tables that clone Jobs tell their node's agent: an empty file per table below ``.incoming/changed``.

The agent looks into that one small folder every second, and at a table's own folders only when the table is announced
there. It removes an announcement before it looks at the table, so a change that follows is announced anew. An
announcement that is lost (a Job killed between a file and its announcement) costs time only: the sweep finds the file.
"""

import contextlib
import logging
import os

from colocation.model.names import INCOMING_DIRECTORY

from .errors import InvalidPath, NotHeld
from .folders import FILE_MODE, names_in
from .paths import TablePath, table_path
from .root import DataRoot

CHANGED = (INCOMING_DIRECTORY, "changed")

_log = logging.getLogger(__name__)


def announce(root: DataRoot, table: TablePath) -> None:
    """Tell the agent that files of the table have just changed. A full disk is no error."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with root.folder((*CHANGED, table.namespace), create=True) as folder:
            os.close(os.open(table.directory, flags, FILE_MODE, dir_fd=folder))
    except OSError as error:
        _log.warning("table %s: the agent notices its new files with the next sweep only: %s", table, error)


def take_announced(root: DataRoot) -> tuple[TablePath, ...]:
    """The tables that were announced since the last call."""
    taken = []
    with root.folder(CHANGED, create=True) as changed:
        namespaces = names_in(changed)
    for namespace in namespaces:
        with contextlib.suppress(NotHeld, InvalidPath), root.folder((*CHANGED, namespace)) as folder:
            for directory in names_in(folder):
                with contextlib.suppress(OSError):
                    os.unlink(directory, dir_fd=folder)
                with contextlib.suppress(InvalidPath):
                    taken.append(table_path(namespace, directory))
    return tuple(taken)
