"""Independent pieces of work of which a failed one stops no other: one bad place of a disk must not end all upkeep."""

import contextlib
from collections.abc import Iterator

from .errors import StorageError
from .folders import EXHAUSTED

MAX_NAMED = 20


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
            if len(self._failed) < MAX_NAMED:
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
