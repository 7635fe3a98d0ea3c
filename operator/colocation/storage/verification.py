"""Verifies published files: from the ledger if they look the same as when last hashed, else by hashing them."""

import hashlib
import logging
import os
from collections.abc import Callable, Iterable

from .errors import UNREADABLE_MEDIUM, FileChanged, InvalidPath, NotHeld
from .ledger import FileIdentity, LedgerEntry, identity_of
from .paths import TablePath
from .root import DataRoot
from .wanted import WantedFile

BLOCK_BYTES = 1 << 20
FILE_COST_BYTES = 1 << 16
"""The cost of opening a file and starting to read it, as bytes."""

UNREADABLE = "unreadable"
"""Recorded instead of a digest for a file that the disk cannot read."""

_log = logging.getLogger(__name__)


def unlimited(_bytes: int) -> None:
    """The pace of a hash without a limit."""


def hash_descriptor(
    descriptor: int, pace: Callable[[int], None] = unlimited, past_cache: bool = False
) -> tuple[FileIdentity, str]:
    """(identity, SHA-256 hex) of an open file, read from its beginning.

    ``pace`` is called with the number of bytes before each read, and with ``FILE_COST_BYTES`` before the first; it may
    wait, or raise to give up. ``past_cache`` drops the file's cached pages first, so that the disk itself is read, and
    again afterwards, so that a scrub does not evict what queries use.

    Raises:
        FileChanged: the file was written meanwhile.
    """
    before = identity_of(os.fstat(descriptor))
    if past_cache:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    digest = hashlib.sha256()
    offset = 0
    pace(FILE_COST_BYTES)
    while offset < before.bytes:
        count = min(BLOCK_BYTES, before.bytes - offset)
        pace(count)
        block = os.pread(descriptor, count, offset)
        if not block:
            break  # the file became shorter
        digest.update(block)
        offset += len(block)
    if past_cache:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    if identity_of(os.fstat(descriptor)) != before:
        raise FileChanged(f"the file was written while it was hashed, at {offset} of {before.bytes} bytes")
    return before, digest.hexdigest()


def content_of(root: DataRoot, table: TablePath, path: str, descriptor: int) -> LedgerEntry:
    """The content of the open file ``path``, from the ledger if possible.

    The file is hashed if it looks different than when last hashed, or could not be read then: a disk, or the way to it,
    may have failed for a moment.

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
    """Hash the open file ``path`` and record the result; arguments as for ``hash_descriptor``.

    A file that the disk cannot read has the content ``UNREADABLE``. No manifest names that, so the file is damaged.

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


def unheld_files(
    root: DataRoot, table: TablePath, wanted: Iterable[WantedFile], pace: Callable[[int], None] = unlimited
) -> list[WantedFile]:
    """The files that are missing or damaged. A file without a current ledger entry is hashed.

    ``pace`` is called for each file, and during a hash: see ``hash_descriptor``. The cost depends on these files only.
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
