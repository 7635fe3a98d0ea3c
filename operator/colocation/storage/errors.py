"""Failures: what storage refuses, which OS errors mean what, and how work goes on after one.

There is one class per cause. Messages say what was given, what is allowed, what to do.
"""

import contextlib
import errno
from collections.abc import Iterator

UNREADABLE_MEDIUM = frozenset({errno.EIO, errno.EUCLEAN, errno.EBADMSG})
"""Errors of one place of a failing disk or a damaged file system; the rest of the disk may work."""
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""The process is out of descriptors or memory; these errors tell nothing about the file."""
MAX_NAMED_FAILURES = 20


class StorageError(Exception):
    """Base class. Nothing was changed on the disk."""


class InvalidPath(StorageError):
    """A namespace, directory or path that is not allowed, or that leads through a symbolic link."""


class NotHeld(StorageError):
    """No such file or folder."""


class FileCorrupt(StorageError):
    """The file exists, but its content is not what its manifest names."""


class ContentConflict(StorageError):
    """Other content is already published under this path."""


class DigestDiffers(StorageError):
    """The received content does not have the announced digest."""


class NoRoom(StorageError):
    """The disk is full or would fall below its headroom."""


class ManifestMissing(StorageError):
    """A manifest is missing or damaged, so the wanted files are unknown."""


class FileChanged(Exception):
    """The file was written while it was hashed, so its content is unknown."""


@contextlib.contextmanager
def room_errors() -> Iterator[None]:
    """Turn the OS errors of a full disk or quota into ``NoRoom``."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoRoom(f"the disk is full: {error.strerror}; free space on the node or add nodes") from error
        raise


class Attempts:
    """Runs independent pieces of work; a failed one stops no other. See ``all_attempted``."""

    def __init__(self) -> None:
        self._first: OSError | StorageError | None = None
        self._failed: list[str] = []
        self._more = 0

    @contextlib.contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Run a piece of work; ``what`` names it in the error.

        Raises:
            OSError: the process has no descriptors or memory left, so the next piece would fail, too.
        """
        try:
            yield
        except (OSError, StorageError) as error:
            if isinstance(error, OSError) and error.errno in EXHAUSTED:
                raise
            self._first = self._first or error
            if len(self._failed) < MAX_NAMED_FAILURES:
                self._failed.append(what)
            else:
                self._more += 1

    def raise_first(self) -> None:
        """Raise the first error, with a note of all that failed. Does nothing if all succeeded."""
        if self._first is not None:
            more = f", and {self._more} more" if self._more else ""
            self._first.add_note(f"failed: {'; '.join(self._failed)}{more}")
            raise self._first


@contextlib.contextmanager
def all_attempted() -> Iterator[Attempts]:
    """Attempt every piece of work, then raise the first error: one bad place on a disk must not end all upkeep.

    Raises:
        OSError, StorageError: the first error.
    """
    attempts = Attempts()
    yield attempts
    attempts.raise_first()
