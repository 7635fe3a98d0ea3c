"""Pulls many small files by one request and publishes them together."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from colocation.agentclient import AgentError
from colocation.storage.errors import DigestDiffers
from colocation.storage.incoming_batch import IncomingBatch
from colocation.storage.root import DataRoot

from .pull import PulledFile
from .sources import Sources

_log = logging.getLogger(__name__)


class SmallFilesPuller:
    """Pulls files of one table at a time. Safe to share between threads.

    Args:
        root: the data root of this node.
        folder: the clone's folder below it.
        sources: where to pull from.
        syncs: waits for several files at a time to reach the disk.
        pace: called with the number of bytes received; may wait or raise.
        advance: called with the number of bytes that are done.
    """

    def __init__(
        self,
        root: DataRoot,
        folder: Sequence[str],
        sources: Sources,
        syncs: Executor,
        pace: Callable[[int], None],
        advance: Callable[[int], None],
    ) -> None:
        self._root = root
        self._folder = (*folder, "batches")
        self._sources = sources
        self._syncs = syncs
        self._pace = pace
        self._advance = advance

    def pull(self, files: Sequence[PulledFile], turn: int) -> list[PulledFile]:
        """Publish files of one table, from the source of the ``turn``; those that it did not give whole.

        Raises:
            NoRoom, OSError: the disk is full, or failed to take the files in; none of them is published.
        """
        source = self._sources.order(turn)[0]
        left = {file.path: file for file in files}
        table = files[0].table
        with IncomingBatch(self._root, table, self._folder) as batch:
            try:
                for frame in source.client.get_files(*table, tuple(left)):
                    self._pace(len(frame.content))
                    failure = frame.failure or self._take(batch, left, frame.path, frame.content)
                    if failure:
                        _log.warning("%s of %s from %s: %s", frame.path, table, source.node, failure)
                    else:
                        self._advance(len(frame.content))
            except AgentError as error:
                _log.warning("%d files of %s from %s: %s", len(left), table, source.node, error)
            batch.publish(self._syncs)
        return list(left.values())

    def _take(self, batch: IncomingBatch, left: dict[str, PulledFile], path: str, content: bytes) -> str:
        """Take a file that arrived into the batch; what is wrong with it, or nothing."""
        wanted = left.get(path)
        if wanted is None:
            return "it was not asked for, or came twice"
        try:
            batch.add(path, content, wanted.sha256)
        except DigestDiffers as error:
            return str(error)
        del left[path]
        return ""
