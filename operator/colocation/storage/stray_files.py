"""How many files lie on the node that no live manifest names, by namespace: the agent remembers each of them, too.

They are of loads that have not committed yet, or never will. What live manifests name is bounded by ``ManifestRoom``.
"""

import threading
from collections import Counter

from colocation.model.base import MAX_MANIFEST_FILES

from .paths import TablePath

MAX_OF_NAMESPACE = MAX_MANIFEST_FILES
"""So many may one load send before it commits."""
BYTES_OF_A_STRAY = 2560
"""Of the agent's memory for each of them, all namespaces together: a fifth of it, as each takes some 500."""
SHARES = 16
"""A namespace always has room for one part in so many of all."""


class StrayFiles:
    """Safe to share between threads.

    Args:
        memory_bytes: that the agent may take; None = no limit for all namespaces together.
    """

    def __init__(self, memory_bytes: int | None = None) -> None:
        self._max_of_all = None if memory_bytes is None else max(memory_bytes // BYTES_OF_A_STRAY, MAX_OF_NAMESPACE)
        self._lock = threading.Lock()
        self._of_tables: dict[TablePath, int] = {}
        self._of_namespaces: Counter[str] = Counter()

    def allowed(self, namespace: str) -> int:
        """How many files of this kind a namespace may have now."""
        if self._max_of_all is None:
            return MAX_OF_NAMESPACE
        with self._lock:
            others = self._of_namespaces.total() - self._of_namespaces[namespace]
        return min(MAX_OF_NAMESPACE, max(self._max_of_all - others, self._max_of_all // SHARES))

    def of(self, namespace: str) -> int:
        """How many it has: as counted last, and those that were published since."""
        return self._of_namespaces[namespace]

    def add(self, table: TablePath) -> None:
        """A file was published."""
        with self._lock:
            self._set(table, self._of_tables.get(table, 0) + 1)

    def count(self, table: TablePath, files: int) -> None:
        """The table's folder was looked at: so many lie there."""
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
