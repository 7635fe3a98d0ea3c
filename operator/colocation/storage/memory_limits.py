"""Limits on the agent's memory for the manifests of live tables, so that one tenant's commits cannot exhaust it.

A manifest that finds no room counts as missing on the node: its table is incomplete there, other tables are unaffected.
A namespace that uses little always finds room, however much the others use.
"""

import threading
from collections import Counter

from .stray_files import StrayFiles

BYTES_OF_A_FILE = 1280
"""Of the agent's memory for each file that a manifest in memory names: about 500 for the name, as much for the held
file, the rest for everything else.
"""
SHARES = 16
"""Each namespace always has one part in so many of the room."""


class ManifestRoom:
    """Room in memory for manifests. Safe to share between threads.

    Args:
        memory_bytes: what the agent may use; None = no limit.

    Attributes:
        strays: files that no manifest names, which have a share of their own.
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
        """Take room for a manifest of so many files; False if there is none."""
        with self._lock:
            if not self._has(namespace, files):
                return False
            self._files[namespace] += files
            return True

    def give_back(self, namespace: str, files: int) -> None:
        """Give back the room of a manifest that is no longer in memory."""
        with self._lock:
            self._files[namespace] -= files
            if not self._files[namespace]:
                del self._files[namespace]

    def _has(self, namespace: str, files: int) -> bool:
        if self._max_files is None:
            return True
        is_small = self._files[namespace] + files <= self._max_files // SHARES
        return is_small or self._files.total() + files <= self._max_files
