"""A lock for each table, there only while somebody holds it or waits for it: callers may name any number of tables."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from .paths import TablePath


@dataclass
class _Used:
    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0


class TableLocks:
    """Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: dict[TablePath, _Used] = {}

    def __len__(self) -> int:
        return len(self._used)

    @contextlib.contextmanager
    def held(self, table: TablePath) -> Iterator[None]:
        """Hold the table's lock until left."""
        with self._lock:
            used = self._used.setdefault(table, _Used())
            used.users += 1
        try:
            with used.lock:
                yield
        finally:
            with self._lock:
                used.users -= 1
                if not used.users:
                    del self._used[table]
