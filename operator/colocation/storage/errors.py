"""Failures: what storage refuses, which OS errors mean what, and work that goes on after one."""

import contextlib
import errno
from collections.abc import Iterator

UNREADABLE_MEDIUM = frozenset({errno.EIO, errno.EUCLEAN, errno.EBADMSG})
"""Errors of one place of a failing disk or a damaged file system; the rest of the disk may work."""
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""The process is out of descriptors or memory; these errors tell nothing about the file."""
MAX_NAMED_FAILURES = 20


class StorageError(Exception):
    """Base class; nothing was changed on disk."""


class InvalidPath(StorageError):
    """A namespace, directory or path that is not allowed, or that leads through a symbolic link."""


class NotHeld(StorageError):
    """There is no such file."""


class FileCorrupt(StorageError):
    """The file is there, but its content is not the one that its manifest names."""


class ContentConflict(StorageError):
    """Another content is already published under this path."""


class DigestDiffers(StorageError):
    """The content that arrived does not have the digest that was announced."""


class NoRoom(StorageError):
    """The disk is full or would fall below its headroom."""


class ManifestMissing(StorageError):
    """A manifest that was named is not held, or is damaged, so it is not known which files are wanted."""


class FileChanged(Exception):
    """The file was written while it was hashed; nothing is known about its content."""


@contextlib.contextmanager
def room_errors() -> Iterator[None]:
    """Turns a full disk or quota into ``NoRoom``."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoRoom(f"the disk is full: {error.strerror}; free space on the node or add nodes") from error
        raise


class Attempts:
    """Tries one piece after the other; see ``all_attempted``."""

    def __init__(self) -> None:
        self._first: OSError | StorageError | None = None
        self._failed: list[str] = []
        self._more = 0

    @contextlib.contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Try a piece of work, named for people.

        Raises:
            OSError: the process has no descriptors or memory left; the next piece would fail as well.
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
        """Raise the first error, with a note of what failed; nothing when nothing did."""
        if self._first is not None:
            more = f", and {self._more} more" if self._more else ""
            self._first.add_note(f"failed: {'; '.join(self._failed)}{more}")
            raise self._first


@contextlib.contextmanager
def all_attempted() -> Iterator[Attempts]:
    """Tries everything, then fails if anything did: the caller is told all the same.

    Raises:
        OSError, StorageError: the first error.
    """
    attempts = Attempts()
    yield attempts
    attempts.raise_first()
