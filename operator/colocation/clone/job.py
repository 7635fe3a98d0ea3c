"""The clone: pulls the manifests, then the missing files of the bucket, then verifies what it pulled.

Only files survive between runs: after a kill the next run finds what is published and resumes the rest. A run checks
only the bucket's own files, and at the end those it pulled, so neither memory nor time grows with other buckets.
"""

import contextlib
import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import TracebackType
from typing import NamedTuple

from colocation.agentclient import AgentClient
from colocation.model.agent import CloneProgress
from colocation.model.clone import CloneSource, CloneSpec, clone_directory
from colocation.model.conditions import Reason
from colocation.model.table_manifest import manifest_path
from colocation.storage.bandwidth import MIB, NodeSchedule, Pace
from colocation.storage.clone_reports import announce, write_progress
from colocation.storage.errors import ManifestMissing, NoRoom, NotHeld
from colocation.storage.incoming import remove_clone
from colocation.storage.paths import TablePath, file_segments, table_path
from colocation.storage.root import DataRoot
from colocation.storage.verification import unheld_files
from colocation.storage.wanted import WantedFile, files_of_bucket

from .pull import CloneFailed, PulledFile, Puller, SmallFilesPuller, Sources
from .pull_all import SYNCS_AT_ONCE, Pullers, Transfers, pull_one

PIECE_SECONDS = 0.25
"""Of a node's budget: so much is requested of a source at a time. The source holds its answer until its own budget
allows it, and other clones wait there for pieces, not for whole files.
"""

INTERVAL_SECONDS = 1.0

_log = logging.getLogger(__name__)


class ClonePace(contextlib.AbstractContextManager["ClonePace"]):
    """How fast a clone may go: its own share of the group's and cluster's budget, and its node's budget with other
    clones.

    Called with a number of received bytes, waits until they are allowed. Safe to share between threads.

    Args:
        spec: of the clone; its target is this node.
        root: this node's data root.
        stop: when set, calls raise ``Stopped``.

    Attributes:
        piece_bytes: how much of a file to request at a time; None = all of it.
    """

    def __init__(self, spec: CloneSpec, root: DataRoot, stop: threading.Event) -> None:
        own, node = spec.max_bandwidth_mib_per_second, spec.max_node_bandwidth_mib_per_second
        self._stack = contextlib.ExitStack()
        self._paces = [Pace(None if own is None else own * MIB, stop)]
        self.piece_bytes: int | None = None
        if node is not None:
            schedule = self._stack.enter_context(contextlib.closing(NodeSchedule(root)))
            self._paces.append(Pace(node * MIB, stop, schedule=schedule))
            self.piece_bytes = max(1, int(node * MIB * PIECE_SECONDS))

    def __call__(self, count: int) -> None:
        for pace in self._paces:
            pace(count)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


class Progress:
    """Counts bytes and steps, and writes them for the node's agent at most once a second. Safe to share between
    threads.

    ``bytes_total`` is known once the clone has checked everything.
    """

    def __init__(
        self, root: DataRoot, spec: CloneSpec, bytes_total: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._root = root
        self._spec = spec
        self._bytes_total = bytes_total
        self._bytes_done = 0
        self._steps = 0
        self._clock = clock
        self._due_at = clock()
        self._lock = threading.Lock()
        self.add(0)

    def add(self, count: int) -> None:
        """Count finished bytes; negative if received bytes turned out to be wrong."""
        with self._lock:
            self._bytes_done += count
            self._write_when_due()

    def expect(self, bytes_total: int) -> None:
        """Set how many bytes are to be copied."""
        with self._lock:
            self._bytes_total = bytes_total

    def step(self, _bytes: int = 0) -> None:
        """Count something that was checked and need not be copied."""
        with self._lock:
            self._steps += 1
            self._write_when_due()

    def _write_when_due(self) -> None:
        if self._clock() >= self._due_at:
            self._due_at = self._clock() + INTERVAL_SECONDS
            write_progress(self._root, self._current())

    def _current(self) -> CloneProgress:
        return CloneProgress(
            namespace=self._spec.namespace,
            group=self._spec.group,
            bucket=self._spec.bucket,
            bytes_done=min(self._bytes_done, self._bytes_total),
            bytes_total=self._bytes_total,
            steps=self._steps,
            updated_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        )


class _Snapshot(NamedTuple):
    """A manifest whose files of the bucket this node should hold.

    ``required`` is False for retained ones: running queries may still read them, but a replica is complete without.
    """

    table: TablePath
    manifest: str
    required: bool


class CloneJob:
    """Makes one bucket of one group complete on this node.

    Args:
        spec: what to make complete, and from where.
        root: this node's data root.
        connect: makes a client of a source.
    """

    def __init__(self, spec: CloneSpec, root: DataRoot, connect: Callable[[CloneSource], AgentClient]) -> None:
        self._spec = spec
        self._root = root
        self._folder = clone_directory(spec.namespace, spec.group, spec.bucket).split("/")
        self._stop = threading.Event()
        self._pace = ClonePace(spec, root, self._stop)
        self._sources = Sources(spec.sources, connect)
        self._progress = Progress(root, spec)
        self._snapshots = _snapshots(spec)

    def run(self) -> int:
        """Make the bucket complete; returns how many files were pulled.

        Raises:
            CloneFailed: it is not complete; the next run continues where this one ended.
        """
        try:
            with self._pace:
                self._pull_manifests()
                wanted = self._wanted()
                missing = self._unheld(wanted)
                pulled = self._pull_files(missing)
            still_missing = self._unheld([file for file in missing if file.required])
        except NoRoom as error:
            raise CloneFailed(Reason.INSUFFICIENT_SPACE, str(error)) from error
        except ManifestMissing as error:
            raise CloneFailed(Reason.CLONE_FAILED, str(error)) from error
        if still_missing:
            first = still_missing[0]
            raise CloneFailed(
                Reason.CLONE_FAILED,
                f"{len(still_missing)} files are damaged again after they were published, e.g. {first.path} of "
                f"{first.table}; check the disk of node {self._spec.target}",
            )
        self._finish_killed_runs(wanted)
        remove_clone(self._root, self._spec.namespace, self._spec.group, self._spec.bucket)
        return pulled

    def _puller(self, advance: Callable[[int], None]) -> Puller:
        return Puller(self._root, self._folder, self._sources, self._pace, advance, self._pace.piece_bytes)

    def _pull_manifests(self) -> None:
        """Pull the manifests that are not here."""
        missing = [
            PulledFile(table, manifest_path(sha256), sha256, None, required)
            for table, sha256, required in self._snapshots
            if not self._is_here(table, manifest_path(sha256))
        ]
        self._transfer(missing, self._progress.step)

    def _is_here(self, table: TablePath, path: str) -> bool:
        try:
            with self._root.file(table, path):
                return True
        except NotHeld:
            return False

    def _wanted(self) -> list[PulledFile]:
        """The bucket's files; a manifest that is damaged here is pulled again.

        Raises:
            ManifestMissing: a required manifest is damaged again.
        """
        wanted: dict[tuple[TablePath, str], PulledFile] = {}
        puller = self._puller(self._progress.step)
        for table, sha256, required in self._snapshots:
            for file in self._files_of(puller, table, sha256, required):
                pulled = PulledFile(table, file.path, file.sha256, file.bytes, required)
                wanted.setdefault((table, file.path), pulled)
            self._progress.step()
        return list(wanted.values())

    def _files_of(self, puller: Puller, table: TablePath, sha256: str, required: bool) -> list[WantedFile]:
        files = files_of_bucket(self._root, table, sha256, self._spec.bucket)
        if files is None:
            pull_one(puller, PulledFile(table, manifest_path(sha256), sha256, None, required))
            files = files_of_bucket(self._root, table, sha256, self._spec.bucket)
        if files is None and required:
            raise ManifestMissing(f"manifest {sha256} of {table} is damaged on node {self._spec.target}")
        return files or []

    def _finish_killed_runs(self, wanted: Iterable[PulledFile]) -> None:
        """Sync folders and announce tables: a killed run may have renamed files without either."""
        manifests = {(*table, *file_segments(manifest_path(sha256))[:-1]) for table, sha256, _ in self._snapshots}
        for folder in manifests | {(*file.table, *file_segments(file.path)[:-1]) for file in wanted}:
            with contextlib.suppress(NotHeld), self._root.folder(folder) as opened:
                os.fsync(opened)
        for table in {snapshot.table for snapshot in self._snapshots}:
            announce(self._root, table)

    def _unheld(self, files: Iterable[PulledFile]) -> list[PulledFile]:
        """The files that are not here with their content, the required ones first."""
        by_table: dict[TablePath, dict[WantedFile, PulledFile]] = defaultdict(dict)
        for file in files:
            wanted = WantedFile(file.path, self._spec.bucket, file.bytes or 0, file.sha256)
            by_table[file.table][wanted] = file
        unheld = [
            by_wanted[wanted]
            for table, by_wanted in by_table.items()
            for wanted in unheld_files(self._root, table, by_wanted, self._progress.step)
        ]
        return sorted(unheld, key=lambda file: not file.required)

    def _pull_files(self, missing: Sequence[PulledFile]) -> int:
        """Pull the files; returns how many."""
        bytes_total = sum(file.bytes or 0 for file in missing)
        progress = self._progress
        progress.expect(bytes_total)
        puller = self._puller(progress.add)
        resumed_bytes = sum(puller.received_bytes(file) for file in missing)
        free_bytes = self._root.disk().free_bytes
        if bytes_total - resumed_bytes > free_bytes:
            raise NoRoom(
                f"{bytes_total - resumed_bytes} bytes are missing and {free_bytes} are free on node "
                f"{self._spec.target}; free space or add nodes"
            )
        progress.add(resumed_bytes)
        _log.info("%d files, %d bytes to pull, %d resumed", len(missing), bytes_total, resumed_bytes)
        return self._transfer(missing, progress.add)

    def _transfer(self, files: Sequence[PulledFile], advance: Callable[[int], None]) -> int:
        with ThreadPoolExecutor(SYNCS_AT_ONCE, "sync") as syncs:
            small = SmallFilesPuller(self._root, self._folder, self._sources, syncs, self._pace, advance)
            return Transfers(Pullers(self._puller(advance), small), self._stop).run(files)


def _snapshots(spec: CloneSpec) -> list[_Snapshot]:
    """The manifests of all loaded tables, the live ones first."""
    live, retained = [], []
    for table in spec.tables:
        path = table_path(table.namespace, table.directory)
        if table.manifest:
            live.append(_Snapshot(path, table.manifest, required=True))
        retained += [_Snapshot(path, sha256, required=False) for sha256 in table.retained_manifests]
    return live + retained
