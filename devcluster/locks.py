"""Locks between commands that run at the same time; the kernel drops the lock of a killed one."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster.progress import say


@contextmanager
def exclusive(path: Path, what: str) -> Iterator[None]:
    """Hold the lock file; say so when another command must end first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another command that {what}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
