"""What a node holds of one table: the agent's memory of its folder, and the reports made from it."""

import itertools
import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from colocation.model.agent import TableReference, TableReport
from colocation.model.table_manifest import manifest_path

from .contents import TableContents
from .errors import UNREADABLE_MEDIUM, FileChanged, InvalidPath, ManifestMissing, NotHeld, all_attempted
from .ledger import LedgerEntry
from .memory_limits import ManifestRoom, StrayFiles
from .paths import TablePath, table_path
from .quarantine import quarantined, set_aside
from .report import table_report
from .root import DataRoot
from .verification import UNREADABLE, content_of, hash_content, unlimited
from .wanted import ManifestCache, WantedFiles

_log = logging.getLogger(__name__)


_serials = itertools.count()


class _Evidence(NamedTuple):
    """Everything that a report depends on. Comparing is cheap: unchanged manifests are the same objects."""

    generation: int
    wanted: WantedFiles | None
    retained: tuple[WantedFiles, ...]
    quarantined: frozenset[str]


class _Evaluation(NamedTuple):
    """A report and what it was made from."""

    evidence: _Evidence
    report: TableReport


Stamp = tuple[int, ...]
"""Identifies what a report was made from."""


class StampedReport(NamedTuple):
    """A report with its stamp; None if the report cannot change because nothing of the table can be here."""

    report: TableReport
    stamp: Stamp | None


class TableInventory:
    """One table on this node. Safe to share between threads."""

    def __init__(self, root: DataRoot, table: TablePath, room: ManifestRoom | None = None) -> None:
        self.table = table
        self._root = root
        self._lock = threading.Lock()
        self._contents = TableContents(root, table)
        self._manifests = ManifestCache(root, table, room)
        self._strays = room.strays if room else StrayFiles()
        self._evaluations: dict[TableReference, _Evaluation] = {}
        self._unverified: tuple[int, tuple[str, ...]] = (0, ())
        self._size_bytes: tuple[int, int] = (0, 0)
        self._distrusted = False
        self._asked: TableReference | None = None
        self._live: frozenset[str] = frozenset()
        self._quarantined: tuple[int | None, frozenset[str]] = (None, frozenset())
        self._judged: tuple[int, frozenset[str]] | None = None
        self._changes_seen: int | None = None
        self._serial = next(_serials)
        self._sweeps = 0

    def report(self, reference: TableReference) -> TableReport:
        """The report on the table; see ``stamped_report``."""
        return self.stamped_report(reference).report

    def stamped_report(self, reference: TableReference) -> "StampedReport":
        """The report on the table, at the cost of what changed since the last one.

        Changes noted in this process show immediately; other changes show after the next ``look`` or ``sweep``.
        """
        with self._lock:
            distrusted, self._distrusted = self._distrusted, False
            if distrusted:
                self._manifests.clear()
            changes = self._root.change_count(self.table)
            if distrusted or changes != self._changes_seen:
                self._contents.refresh(sweep=distrusted)
            self._changes_seen = changes
            report = self._evaluated(reference)
            self._count_strays()
            return StampedReport(report, self._stamp(changes))

    @property
    def stamp(self) -> Stamp:
        """Differs from a report's stamp if a new report may differ; costs nothing."""
        return self._stamp(self._root.change_count(self.table))

    def _stamp(self, changes: int) -> Stamp:
        return (self._serial, self._contents.generation, changes, self._sweeps)

    def look(self) -> None:
        """Stat the folders: notices files that other processes published or removed."""
        with self._lock:
            self._changes_seen = self._root.change_count(self.table)
            self._contents.refresh()

    def sweep(self) -> None:
        """Stat every file, not only folders: notices files written in place, including manifests."""
        with self._lock:
            self._sweeps += 1
            self._contents.refresh(sweep=True)

    def verify(self, manifest: str, deep: bool, pace: Callable[[int], None] = unlimited) -> TableReport:
        """Hash the files of a manifest that were not hashed yet (``deep``: all of them), then report on it.

        Raises:
            ManifestMissing: the manifest is not held.
        """
        wanted = self._wanted_or_raise(manifest)
        reference = TableReference(namespace=self.table.namespace, directory=self.table.directory, manifest=manifest)
        with self._lock:
            self._contents.refresh(sweep=True)
            held = self._contents.files()
        for path in wanted:
            if path in held and (deep or held[path].sha256 is None):
                self.hash_file(path, always=deep, pace=pace)
        return self.report(reference)

    def close(self) -> None:
        """Give back the memory of a table that is gone; later callers take none again."""
        with self._lock:
            self._manifests.close()
            self._strays.count(self.table, 0)
            self._strays = StrayFiles()

    def wanted(self, manifest: str) -> WantedFiles | None:
        """The files of a manifest; None if it is not held or is damaged."""
        with self._lock:
            return self._manifests.wanted(manifest)

    def expected_sha256(self, path: str) -> str | None:
        """The digest that a live manifest gives for a file, as far as known. Never waits."""
        return self._manifests.expected_sha256(path)

    def live_digests(self, path: str) -> frozenset[str] | None:
        """See ``ManifestCache.live_digests``; None also until the operator has asked about the table."""
        with self._lock:
            return None if self._asked is None else self._manifests.live_digests(path)

    def distrust(self) -> None:
        """Stat every file and read the manifests at the next report, since a file's content was found changed."""
        self._distrusted = True
        self._root.note_change(self.table)

    def size_bytes(self) -> int:
        """The size of all data files, wanted or not, as of the last look."""
        with self._lock:
            generation, total = self._size_bytes
            if generation != self._contents.generation:
                total = sum(file.identity.bytes for file in self._contents.files().values())
                self._size_bytes = (self._contents.generation, total)
                self._count_strays()
            return total

    def _count_strays(self) -> None:
        self._strays.count(self.table, max(0, self._contents.count() - self._manifests.count_named()))

    def unverified(self) -> tuple[str, ...]:
        """Data files whose content was not hashed yet, as of the last look."""
        with self._lock:
            generation, paths = self._unverified
            if generation != self._contents.generation:
                held = self._contents.files()
                paths = tuple(path for path, file in held.items() if file.sha256 is None)
                self._unverified = (self._contents.generation, paths)
            return paths

    def hash_file(
        self, path: str, always: bool = False, pace: Callable[[int], None] = unlimited, past_cache: bool = False
    ) -> LedgerEntry | None:
        """Learn a file's content, from the ledger unless ``always``; None if it is gone or being written."""
        try:
            with self._root.file(self.table, path) as descriptor:
                if always:
                    entry = hash_content(self._root, self.table, path, descriptor, pace, past_cache)
                else:
                    entry = content_of(self._root, self.table, path, descriptor)
        except (NotHeld, InvalidPath, FileChanged) as error:
            _log.info("table %s, file %s was not hashed: %s", self.table, path, error)
            return None
        except OSError as error:
            if error.errno not in UNREADABLE_MEDIUM:
                raise
            _log.warning("table %s, file %s cannot be opened and counts as damaged: %s", self.table, path, error)
            with self._lock:
                self._contents.mark_unreadable(path)
            return None
        with self._lock:
            self._contents.learn(path, entry)
        return entry

    def forget_content(self, path: str) -> None:
        """Count a file as not hashed, after a failed attempt to read it."""
        self._root.ledger.forget(self.table, [path])
        with self._lock:
            self._contents.unlearn(path)

    def _wanted_or_raise(self, manifest: str) -> WantedFiles:
        wanted = self.wanted(manifest)
        if wanted is None:
            raise manifest_missing(self.table, manifest)
        return wanted

    def _evaluated(self, reference: TableReference) -> TableReport:
        wanted = self._manifests.wanted(reference.manifest) if reference.manifest else None
        retained = tuple(
            files for files in map(self._manifests.wanted, reference.retained_manifests) if files is not None
        )
        evidence = _Evidence(self._contents.generation, wanted, retained, self._in_quarantine())
        known = self._evaluations.get(reference)
        if known is not None and known.evidence == evidence:
            return known.report
        report = table_report(reference, wanted, retained, self._contents.files(), evidence.quarantined)
        self._evaluations[reference] = _Evaluation(evidence, report)
        self._forget_evaluations(reference)
        return report

    def _in_quarantine(self) -> frozenset[str]:
        """The table's quarantined files, read again after changes by this process: no other moves files there."""
        changes = self._root.change_count(self.table)
        if self._quarantined[0] != changes:
            self._quarantined = (changes, quarantined(self._root, self.table))
        return self._quarantined[1]

    def set_damaged_aside(self) -> int:
        """Move the files known to be damaged into the quarantine; returns how many.

        Costs nothing while nothing new is known and no move failed.

        Raises:
            OSError: one cannot be moved; all others are.
        """
        with self._lock:
            now = (self._contents.generation, self._live)
            if self._judged == now:
                return 0
            held = self._contents.files().items()
            damaged = [path for path, file in held if file.sha256 and self._manifests.calls_damaged(path, file.sha256)]
        moved = 0
        with all_attempted() as attempt:
            for path in damaged:
                with attempt(f"to move {path} of {self.table} into the quarantine"):
                    moved += self.set_aside_if_damaged(path)
        with self._lock:
            self._judged = now
        return moved

    def set_aside_if_damaged(self, path: str) -> bool:
        """Move a file into the quarantine if live manifests give it other content; returns whether it was moved."""
        with self._root.lock_of(self.table):
            sha256 = self._content_now(path)
            with self._lock:
                if sha256 is None or not self._manifests.calls_damaged(path, sha256):
                    return False
            return set_aside(self._root, self.table, path)

    def check(self, path: str) -> bool:
        """Read a file again from the disk itself; whether it is damaged, and now in the quarantine."""
        self.hash_file(path, always=True, past_cache=True)
        return self.set_aside_if_damaged(path) or path in quarantined(self._root, self.table)

    def _content_now(self, path: str) -> str | None:
        """The file's digest; see ``verification.content_of``. None if it is gone or being written."""
        try:
            with self._root.file(self.table, path) as descriptor:
                entry = content_of(self._root, self.table, path, descriptor)
        except (NotHeld, InvalidPath, FileChanged):
            return None
        except OSError as error:
            if error.errno not in UNREADABLE_MEDIUM:
                raise
            return UNREADABLE
        with self._lock:
            self._contents.learn(path, entry)
        return entry.sha256

    def keep_only(self, reference: TableReference) -> None:
        """Forget manifests, and their reports, that the operator does not want and no load used lately.

        Manifests that become live are needed again, so their age restarts.
        """
        with self._lock:
            live = frozenset(reference.live_manifests)
            self._root.ages.forget(str(self.table), map(manifest_path, live - self._live))
            self._asked, self._live = reference, live
            self._manifests.keep(self._live)
            self._forget_evaluations(reference)

    def _forget_evaluations(self, newest: TableReference) -> None:
        """Forget all evaluations but this one and those of what loads verified lately."""
        self._evaluations = {
            known: evaluation
            for known, evaluation in self._evaluations.items()
            if known in (newest, self._asked) or (known.manifest in self._manifests and not known.retained_manifests)
        }


def manifest_missing(table: TablePath, manifest: str) -> ManifestMissing:
    """The error for a manifest that is not held or is damaged."""
    return ManifestMissing(f"manifest {manifest} of {table} is not held here, or is damaged; put it first")


def path_of(reference: TableReference) -> TablePath | None:
    """The table's folder; None if the reference names none that is allowed."""
    try:
        return table_path(reference.namespace, reference.directory)
    except InvalidPath:
        return None
