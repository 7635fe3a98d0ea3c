"""Which of the files that a manifest names lie here as it says, at the cost of those files alone."""

import os
from collections.abc import Iterable

from .errors import InvalidPath, NotHeld
from .folders import UNREADABLE_MEDIUM
from .hashing import FileChanged, identity_of
from .ledger import LedgerEntry
from .paths import TablePath
from .root import DataRoot
from .verification import hash_content
from .wanted import WantedFile


def unheld_files(root: DataRoot, table: TablePath, wanted: Iterable[WantedFile]) -> list[WantedFile]:
    """The files that are missing or damaged. A file that the ledger does not know as it looks now is hashed."""
    recorded = root.ledger.entries(table)
    return [file for file in wanted if not _is_held(root, table, file, recorded.get(file.path))]


def _is_held(root: DataRoot, table: TablePath, file: WantedFile, recorded: LedgerEntry | None) -> bool:
    try:
        with root.file(table, file.path) as descriptor:
            identity = identity_of(os.fstat(descriptor))
            if identity.bytes != file.bytes:
                return False
            if recorded is None or recorded.identity != identity:
                recorded = hash_content(root, table, file.path, descriptor)
            return recorded.sha256 == file.sha256
    except (NotHeld, InvalidPath, FileChanged):
        return False
    except OSError as error:
        if error.errno not in UNREADABLE_MEDIUM:
            raise
        return False
