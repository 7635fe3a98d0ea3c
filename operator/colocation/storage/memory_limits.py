"""Limits on the agent's memory, so that one tenant's files cannot exhaust it.

A manifest that finds no room counts as missing on the node: its table is incomplete there, other tables are unaffected.
A namespace that uses little always finds room, however much the others use.
"""

import threading
from collections import Counter

from colocation.model.base import MAX_MANIFEST_FILES

from .paths import TablePath

BYTES_OF_A_FILE = 1280
"""Of the agent's memory for each file that a manifest in memory names: about 500 for the name, as much for the held
file, the rest for everything else.
"""
SHARES = 16
"""Each namespace always has one part in so many of the memory for manifests, and of that for strays."""

MAX_OF_NAMESPACE = MAX_MANIFEST_FILES
"""As many files as one load may send before it commits."""
BYTES_OF_A_STRAY = 2560
"""Of the agent's memory for each stray of all namespaces: a fifth of it, as each takes about 500."""


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


class StrayFiles:
    """Counts files that no live manifest names, by namespace, since the agent keeps each of them in memory.

    They belong to loads that have not committed yet, or never will. Safe to share between threads.

    Args:
        memory_bytes: what the agent may use; None = no limit for all namespaces together.
    """

    def __init__(self, memory_bytes: int | None = None) -> None:
        self._max_of_all = None if memory_bytes is None else max(memory_bytes // BYTES_OF_A_STRAY, MAX_OF_NAMESPACE)
        self._lock = threading.Lock()
        self._of_tables: dict[TablePath, int] = {}
        self._of_namespaces: Counter[str] = Counter()

    def allowed(self, namespace: str) -> int:
        """How many such files the namespace may have now."""
        if self._max_of_all is None:
            return MAX_OF_NAMESPACE
        with self._lock:
            others = self._of_namespaces.total() - self._of_namespaces[namespace]
        return min(MAX_OF_NAMESPACE, max(self._max_of_all - others, self._max_of_all // SHARES))

    def of(self, namespace: str) -> int:
        """How many it has: as last counted, and those published since."""
        return self._of_namespaces[namespace]

    def add(self, table: TablePath) -> None:
        """Count a published file."""
        with self._lock:
            self._set(table, self._of_tables.get(table, 0) + 1)

    def count(self, table: TablePath, files: int) -> None:
        """Set how many such files the table's folder has."""
        with self._lock:
            self._set(table, files)

    def _set(self, table: TablePath, files: int) -> None:
        left = self._of_namespaces[table.namespace] + files - self._of_tables.pop(table, 0)
        if files:
            self._of_tables[table] = files
        if left:
            self._of_namespaces[table.namespace] = left
        else:
            del self._of_namespaces[table.namespace]
