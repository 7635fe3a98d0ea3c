"""What a published file holds: from the ledger if it still looks the same, else by hashing it."""

import logging
import os
from collections.abc import Callable

from .folders import UNREADABLE_MEDIUM
from .hashing import hash_descriptor, identity_of, unlimited
from .ledger import LedgerEntry
from .paths import TablePath
from .root import DataRoot

UNREADABLE = "unreadable"
"""In the place of a digest."""

_log = logging.getLogger(__name__)


def content_of(root: DataRoot, table: TablePath, path: str, descriptor: int) -> LedgerEntry:
    """What the open file ``path`` holds. Hashes it only if it looks different than when it was last hashed, or could
    not be read then: a disk, or the way to it, may have failed for a moment.

    Raises:
        FileChanged: it was written meanwhile.
    """
    known = root.ledger.entry(table, path)
    if known is None or known.identity != identity_of(os.fstat(descriptor)):
        return hash_content(root, table, path, descriptor)
    if known.sha256 == UNREADABLE:
        return hash_content(root, table, path, descriptor, past_cache=True)
    return known


def hash_content(
    root: DataRoot,
    table: TablePath,
    path: str,
    descriptor: int,
    pace: Callable[[int], None] = unlimited,
    past_cache: bool = False,
) -> LedgerEntry:
    """Hash the open file ``path`` and record the outcome; arguments as for ``hashing.hash_descriptor``.

    A file that the disk cannot read has the content ``UNREADABLE``, which no manifest names: it is damaged.

    Raises:
        FileChanged: it was written meanwhile.
    """
    try:
        identity, sha256 = hash_descriptor(descriptor, pace, past_cache)
    except OSError as error:
        if error.errno not in UNREADABLE_MEDIUM:
            raise
        identity, sha256 = identity_of(os.fstat(descriptor)), UNREADABLE
    before = root.ledger.entry(table, path)
    entry = LedgerEntry(identity, sha256, root.clock())
    root.ledger.record(table, path, entry)
    if before is not None and before.sha256 != sha256:
        _log.warning("%s of %s has changed: content %s was %s before", path, table, sha256, before.sha256)
        for listener in root.damage_listeners:
            listener(table, path)
    return entry
