"""Pulls one file: on from what is there already, verified before it is published."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from colocation.agentclient import AgentError
from colocation.model.conditions import Reason
from colocation.storage.incoming import IncomingFile, received_bytes
from colocation.storage.paths import TablePath
from colocation.storage.publish import replace_published
from colocation.storage.root import DataRoot

from .errors import CloneFailed
from .sources import Source, Sources

CHUNK_BYTES = 1 << 18
"""Small enough for a steady pace and progress at low bandwidth."""
MAX_ROUNDS = 10
"""Over all sources, per file, as long as rounds bring bytes; after that the Job fails and is retried later."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PulledFile:
    """A file to pull. ``sha256`` is what its manifest (or, for a manifest, its name) says.

    ``bytes`` is None when unknown: such a file is small and always pulled from its beginning. ``required`` is False
    for what a clone can do without.
    """

    table: TablePath
    path: str
    sha256: str
    bytes: int | None
    required: bool

    @property
    def incoming_name(self) -> str:
        """Its name while it arrives: two paths may have the same content, and arrive at the same time."""
        return hashlib.sha256(f"{self.table}/{self.path} {self.sha256}".encode()).hexdigest()


class Puller:
    """Pulls files into the clone's folder below ``.incoming`` and publishes them. Safe to share between threads.

    Args:
        root: the data root of this node.
        folder: the clone's folder below it.
        sources: where to pull from.
        pace: called with the number of bytes received; may wait or raise.
        advance: called with the change of the number of bytes that are done.
        piece_bytes: so much of a file is asked for at a time; None = all that is left of it.
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
        """Publish the file, over a damaged one if need be.

        Each source is tried, that of the ``turn`` first, until none brings a further byte.

        Raises:
            CloneFailed: no source has it whole.
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
        """How much of the file lies here from earlier attempts, of this Job or of one before it."""
        received = received_bytes(self._root, self._folder, file.incoming_name)
        return received if file.bytes is not None and received <= file.bytes else 0

    def _attempt(self, file: PulledFile, source: Source) -> str | None:
        """Pull from one source; what went wrong, None when the file is published."""
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
        while start < incoming.received_bytes < file.bytes:  # a source that gives nothing gets no second chance here
            start = incoming.received_bytes
            self._receive_piece(file, source, incoming, min(start + self._piece_bytes, file.bytes))

    def _receive_piece(self, file: PulledFile, source: Source, incoming: IncomingFile, end: int | None) -> None:
        """Go on after what is there, up to but without ``end``; None = to the end of the file."""
        namespace, directory = file.table
        start = incoming.received_bytes or None
        with source.client.get_file(namespace, directory, file.path, start, end) as stream:
            for chunk in stream.chunks(CHUNK_BYTES):
                self._pace(len(chunk))
                incoming.write(chunk)
                self._advance(len(chunk))
