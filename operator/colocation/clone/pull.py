"""Pulls files from the agents of live replicas: a large file alone, resumed; small files of a table by one request.

Every file is verified before it is published.
"""

import hashlib
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from colocation.agentclient import AgentClient, AgentError
from colocation.model.clone import CloneSource
from colocation.model.conditions import Reason
from colocation.storage.errors import DigestDiffers
from colocation.storage.incoming import IncomingFile, received_bytes
from colocation.storage.paths import TablePath
from colocation.storage.publish import IncomingBatch, replace_published
from colocation.storage.root import DataRoot

CHUNK_BYTES = 1 << 18
"""Small enough for a steady pace and progress at low bandwidth."""
MAX_ROUNDS = 10
"""Over all sources, per file, while rounds bring bytes; then the Job fails and is retried later."""


_log = logging.getLogger(__name__)


class CloneFailed(Exception):
    """The clone gives up for now; received bytes stay for the next attempt. ``reason`` is one word."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True)
class Source:
    """The node of a live replica, and a client of its agent."""

    node: str
    client: AgentClient


class Sources:
    """The agents to pull from, in the operator's order. Spreads transfers over them. Safe to share between threads.

    Args:
        wanted: the sources, best first; the operator knows how busy each is, and a clone may not ask.
        connect: makes a client of a source.
    """

    def __init__(self, wanted: Sequence[CloneSource], connect: Callable[[CloneSource], AgentClient]) -> None:
        self._lock = threading.Lock()
        self._sound = [Source(source.node, connect(source)) for source in wanted]
        self._failed: list[Source] = []

    def order(self, turn: int) -> tuple[Source, ...]:
        """The sources in the order in which to try them; transfers of other turns begin with other sources.

        A source that has failed comes last.
        """
        with self._lock:
            start = turn % len(self._sound) if self._sound else 0
            return (*self._sound[start:], *self._sound[:start], *self._failed)

    def demote(self, source: Source) -> None:
        """Try this source last from now on."""
        with self._lock:
            for sources in (self._sound, self._failed):
                if source in sources:
                    sources.remove(source)
            self._failed.append(source)


@dataclass(frozen=True)
class PulledFile:
    """A file to pull. ``sha256`` is from its manifest; a manifest's own is its name.

    ``bytes`` is None if unknown: such a file is small and always pulled from its beginning. ``required`` is False for
    files that the clone can do without.
    """

    table: TablePath
    path: str
    sha256: str
    bytes: int | None
    required: bool

    @property
    def incoming_name(self) -> str:
        """Its name while it arrives: two paths may have the same content and arrive at the same time."""
        return hashlib.sha256(f"{self.table}/{self.path} {self.sha256}".encode()).hexdigest()


class Puller:
    """Pulls files into the clone's folder below ``.incoming`` and publishes them. Safe to share between threads.

    Args:
        root: the data root of this node.
        folder: the clone's folder below it.
        sources: where to pull from.
        pace: called with the number of bytes received; may wait or raise.
        advance: called with the change of the number of finished bytes.
        piece_bytes: how much of a file to request at a time; None = all that is missing.
    """

    def __init__(
        self,
        root: DataRoot,
        folder: Sequence[str],
        sources: Sources,
        pace: Callable[[int], None],
        advance: Callable[[int], None],
        piece_bytes: int | None = None,
    ) -> None:
        self._root = root
        self._folder = (*folder, "files")
        self._sources = sources
        self._pace = pace
        self._advance = advance
        self._piece_bytes = piece_bytes

    def pull(self, file: PulledFile, turn: int = 0) -> None:
        """Pull and publish the file, replacing a damaged one.

        Tries each source, beginning with that of the ``turn``, until none brings further bytes.

        Raises:
            CloneFailed: no source has the whole file.
            NoRoom: the disk is full.
        """
        failures: dict[str, str] = {}
        for _ in range(MAX_ROUNDS):
            before = self.received_bytes(file)
            for source in self._sources.order(turn):
                failure = self._attempt(file, source)
                if failure is None:
                    return
                _log.warning("%s of %s from %s: %s", file.path, file.table, source.node, failure)
                failures[source.node] = failure
                self._sources.demote(source)
            if self.received_bytes(file) == before:
                break
        reasons = "; ".join(f"{node}: {failure}" for node, failure in sorted(failures.items()))
        raise CloneFailed(
            Reason.CLONE_FAILED, f"no source gave {file.path} of {file.table} completely: {reasons}; repair a replica"
        )

    def received_bytes(self, file: PulledFile) -> int:
        """How many bytes of the file earlier attempts received, of this Job or a previous one."""
        received = received_bytes(self._root, self._folder, file.incoming_name)
        return received if file.bytes is not None and received <= file.bytes else 0

    def _attempt(self, file: PulledFile, source: Source) -> str | None:
        """Pull from one source; returns what went wrong, None if the file is published."""
        resume = self.received_bytes(file) > 0
        with IncomingFile(self._root, self._folder, file.incoming_name, resume) as incoming:
            try:
                if incoming.received_bytes != file.bytes:
                    self._receive(file, source, incoming)
            except AgentError as error:
                return str(error)
            entry = incoming.settle()
            if entry.sha256 == file.sha256:
                replace_published(self._root, file.table, file.path, incoming, entry)
                return None
            incoming.discard()
            self._advance(-incoming.received_bytes)
            return f"the content that arrived is {entry.sha256} instead of {file.sha256}"

    def _receive(self, file: PulledFile, source: Source, incoming: IncomingFile) -> None:
        if self._piece_bytes is None or file.bytes is None:
            self._receive_piece(file, source, incoming, None)
            return
        start = -1
        while start < incoming.received_bytes < file.bytes:  # stop at a source that sends nothing
            start = incoming.received_bytes
            self._receive_piece(file, source, incoming, min(start + self._piece_bytes, file.bytes))

    def _receive_piece(self, file: PulledFile, source: Source, incoming: IncomingFile, end: int | None) -> None:
        """Continue after the received bytes, up to, not including, ``end``; None = to the end of the file."""
        namespace, directory = file.table
        start = incoming.received_bytes or None
        with source.client.get_file(namespace, directory, file.path, start, end) as stream:
            for chunk in stream.chunks(CHUNK_BYTES):
                self._pace(len(chunk))
                incoming.write(chunk)
                self._advance(len(chunk))


class SmallFilesPuller:
    """Pulls many small files of one table by one request and publishes them together. Safe to share between threads.

    Args:
        root: the data root of this node.
        folder: the clone's folder below it.
        sources: where to pull from.
        syncs: syncs several files at a time.
        pace: called with the number of bytes received; may wait or raise.
        advance: called with the number of finished bytes.
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
        """Pull and publish files of one table from the source of the ``turn``; returns those that it did not send
        whole.

        Raises:
            NoRoom, OSError: the disk is full, or failed to take the files; none of them is published.
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
        """Add a received file to the batch; returns what is wrong with it, or nothing."""
        wanted = left.get(path)
        if wanted is None:
            return "it was not asked for, or came twice"
        try:
            batch.add(path, content, wanted.sha256)
        except DigestDiffers as error:
            return str(error)
        del left[path]
        return ""
