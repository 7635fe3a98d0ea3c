"""Which of the files that a manifest names lie here as it says, at the cost of those files alone."""

import os
from collections.abc import Callable, Iterable

from .errors import InvalidPath, NotHeld
from .folders import UNREADABLE_MEDIUM
from .hashing import FileChanged, identity_of, unlimited
from .paths import TablePath
from .root import DataRoot
from .verification import hash_content
from .wanted import WantedFile


def unheld_files(
    root: DataRoot, table: TablePath, wanted: Iterable[WantedFile], pace: Callable[[int], None] = unlimited
) -> list[WantedFile]:
    """The files that are missing or damaged. A file that the ledger does not know as it looks now is hashed.

    ``pace`` is called for each file, and while one is hashed: see ``hashing.hash_descriptor``.
    """
    return [file for file in wanted if not _is_held(root, table, file, pace)]


def _is_held(root: DataRoot, table: TablePath, file: WantedFile, pace: Callable[[int], None]) -> bool:
    pace(0)
    try:
        with root.file(table, file.path) as descriptor:
            identity = identity_of(os.fstat(descriptor))
            if identity.bytes != file.bytes:
                return False
            recorded = root.ledger.entry(table, file.path)
            if recorded is None or recorded.identity != identity:
                recorded = hash_content(root, table, file.path, descriptor, pace)
            return recorded.sha256 == file.sha256
    except (NotHeld, InvalidPath, FileChanged):
        return False
    except OSError as error:
        if error.errno not in UNREADABLE_MEDIUM:
            raise
        return False
