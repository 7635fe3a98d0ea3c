"""Limits."""

import threading
from collections import Counter

from .stray_files import StrayFiles

BYTES_OF_A_FILE = 1280
"""Of the agent's memory for each file that a manifest in memory names: some 500 for it, as much for what is held of it,
the rest for all else."""
SHARES = 16
"""A namespace always has room for one part in so many of all."""


class ManifestRoom:
    """Safe to share between threads.

    Args:
        memory_bytes: that the agent may take; None = no limit.

    Attributes:
        strays: the files that no manifest names, which have a share of their own.
    """

    def __init__(self, memory_bytes: int | None = None) -> None:
        self.strays = StrayFiles(memory_bytes)
        self._max_files = None if memory_bytes is None else memory_bytes // BYTES_OF_A_FILE
        self._lock = threading.Lock()
        self._files: Counter[str] = Counter()

    def has(self, namespace: str, files: int) -> bool:
        """Whether a manifest of so many files would find room now."""
        with self._lock:
            return self._has(namespace, files)

    def take(self, namespace: str, files: int) -> bool:
        """Take room for a manifest of so many files; whether there was any."""
        with self._lock:
            if not self._has(namespace, files):
                return False
            self._files[namespace] += files
            return True

    def give_back(self, namespace: str, files: int) -> None:
        """Of a manifest that is not in memory any more."""
        with self._lock:
            self._files[namespace] -= files
            if not self._files[namespace]:
                del self._files[namespace]

    def _has(self, namespace: str, files: int) -> bool:
        if self._max_files is None:
            return True
        is_small = self._files[namespace] + files <= self._max_files // SHARES
        return is_small or self._files.total() + files <= self._max_files
