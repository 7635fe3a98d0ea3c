"""Has the folders of namespaces ready before Spark's pods mount them, which see nothing of one that is made later."""

import logging
from collections.abc import Iterable

from colocation.model.conditions import Reason
from colocation.storage.disk_health import DiskHealth
from colocation.storage.root import DataRoot

_log = logging.getLogger(__name__)


class NamespaceFolders:
    """Used in one thread at a time.

    Args:
        root: the data root.
        health: of its disk.
    """

    def __init__(self, root: DataRoot, health: DiskHealth) -> None:
        self._root = root
        self._health = health
        self._ready: set[str] = set()

    def prepare(self, tables: Iterable[str]) -> None:
        """Make the folders of the namespaces of these tables (``<namespace>/<directory>``).

        On a disk that is not well nothing is made; it is done with the first file that is written.
        """
        fault = self._health.fault
        if fault is not None and fault.reason != Reason.DISK_FULL:
            return
        for namespace in sorted({table.partition("/")[0] for table in tables} - self._ready):
            try:
                self._root.own_namespace(namespace)
            except OSError as error:
                _log.warning("the folder of namespace %s was not made: %s", namespace, error)
            else:
                self._ready.add(namespace)
