"""Digests of files on disk, with what identifies the content that was hashed."""

import hashlib
import os
from collections.abc import Callable
from typing import NamedTuple

BLOCK_BYTES = 1 << 20
FILE_COST_BYTES = 1 << 16
"""What it costs to open a file and to begin to read it, as bytes."""


class FileIdentity(NamedTuple):
    """What tells, without reading it, that a file is still the one that was hashed."""

    bytes: int
    modified_nanoseconds: int
    inode: int


class FileChanged(Exception):
    """The file was written while it was hashed; nothing is known about its content."""


def identity_of(status: os.stat_result) -> FileIdentity:
    """The identity in a stat result."""
    return FileIdentity(status.st_size, status.st_mtime_ns, status.st_ino)


def unlimited(_bytes: int) -> None:
    """The pace of a hash that need not spare the disk."""


def hash_descriptor(
    descriptor: int, pace: Callable[[int], None] = unlimited, past_cache: bool = False
) -> tuple[FileIdentity, str]:
    """(identity, SHA-256 hex) of an open file, read from its beginning.

    ``pace`` is called with the number of bytes before each read, and with ``FILE_COST_BYTES`` before the first; it may
    wait, or raise to give up. ``past_cache``
    drops the file's cached pages first, so that the disk itself is read, and again afterwards, so that a scrub does
    not push out what queries use.

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
            break
        digest.update(block)
        offset += len(block)
    if past_cache:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    if identity_of(os.fstat(descriptor)) != before or offset != before.bytes:
        raise FileChanged(f"the file was written while it was hashed, at {offset} of {before.bytes} bytes")
    return before, digest.hexdigest()
