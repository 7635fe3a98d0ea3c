"""What a node holds of every table: the agent's memory of its data root, and the reports made from it."""

import errno
import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from colocation.model.agent import TableReference, TableReport

from .contents import TableContents
from .errors import InvalidPath, ManifestMissing, NotHeld
from .folders import UNREADABLE_MEDIUM
from .hashing import FileChanged, unlimited
from .ledger import LedgerEntry
from .paths import TablePath, table_path
from .report import absent_report, table_report
from .root import DataRoot
from .verification import content_of, hash_content
from .wanted import ManifestShelf, WantedFile, WantedFiles

QUICK_LOOK_SECONDS = 0.02
"""Looking at the folders of all tables may take so long every second."""
LOOK_PAUSE_FACTOR = 50
MAX_LOOK_PAUSE_SECONDS = 300.0
"""After a longer look the next one waits fifty times as long, at most so long: a look costs 2 % of a processor at most.
Looks find what people do by hand; clones announce what they publish, and this process knows what it does itself."""

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors that say nothing about the table that was looked at."""

_log = logging.getLogger(__name__)
_serials = itertools.count()


@dataclass(frozen=True)
class _Evaluation:
    generation: int
    wanted: WantedFiles | None
    retained: tuple[WantedFiles, ...]
    report: TableReport

    def holds_for(self, generation: int, wanted: WantedFiles | None, retained: tuple[WantedFiles, ...]) -> bool:
        """Whether nothing that the report depends on has changed (manifests are compared by object, not content)."""
        return (
            self.generation == generation
            and self.wanted is wanted
            and len(self.retained) == len(retained)
            and all(before is now for before, now in zip(self.retained, retained, strict=True))
        )


class TableInventory:
    """One table on this node. Safe to share between threads."""

    def __init__(self, root: DataRoot, table: TablePath) -> None:
        self.table = table
        self._root = root
        self._lock = threading.Lock()
        self._contents = TableContents(root, table)
        self._shelf = ManifestShelf(root, table)
        self._evaluations: dict[TableReference, _Evaluation] = {}
        self._unverified: tuple[int, tuple[str, ...]] = (0, ())
        self._distrusted = False
        self._changes_seen: int | None = None
        self._serial = next(_serials)
        self._sweeps = 0

    def report(self, reference: TableReference, look: bool = True) -> TableReport:
        """What is held of the table now, at the cost of what changed since the last time.

        Without ``look``, changes by other processes (clones, people) are not noticed; those by this one are.
        """
        with self._lock:
            distrusted, self._distrusted = self._distrusted, False
            if distrusted:
                self._shelf.clear()
            changes = self._root.change_count(self.table)
            if look or distrusted or changes != self._changes_seen:
                self._contents.refresh(sweep=distrusted)
            self._changes_seen = changes
            return self._evaluated(reference)

    @property
    def stamp(self) -> tuple[int, ...]:
        """Differs whenever a report may have changed as far as was noticed; costs nothing to ask."""
        return (self._serial, self._contents.generation, self._root.change_count(self.table), self._sweeps)

    def look(self) -> None:
        """Look at the folders: notices files that other processes published or removed."""
        with self._lock:
            self._changes_seen = self._root.change_count(self.table)
            self._contents.refresh()

    def sweep(self) -> None:
        """Look at every file, not only at folders: notices files that were written in place, manifests too."""
        with self._lock:
            self._sweeps += 1
            self._contents.refresh(sweep=True)

    def verify(self, manifest: str, deep: bool, pace: Callable[[int], None] = unlimited) -> TableReport:
        """Hash what was not hashed yet of a manifest (``deep``: all of it), then report on it.

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

    def wanted(self, manifest: str) -> WantedFiles | None:
        """The files of a manifest; None when it is not held or is damaged."""
        with self._lock:
            return self._shelf.wanted(manifest)

    def expected_sha256(self, path: str) -> str | None:
        """The digest that a live manifest gives for a file, as far as known. Never waits."""
        return self._shelf.expected_sha256(path)

    def distrust(self) -> None:
        """Look at every file, and read the manifests, when next asked: one was found with another content."""
        self._distrusted = True
        self._root.note_change(self.table)

    def unverified(self) -> tuple[str, ...]:
        """The data files whose content was not hashed yet, as of the last look."""
        with self._lock:
            generation, paths = self._unverified
            if generation != self._contents.generation:
                held = self._contents.files()
                paths = tuple(path for path, file in held.items() if file.sha256 is None)
                self._unverified = (self._contents.generation, paths)
            return paths

    def unheld(self, manifest: str, bucket: int, pace: Callable[[int], None] = unlimited) -> dict[str, WantedFile]:
        """The files of one bucket of a manifest that are missing or damaged; looks at every file of the bucket.

        Raises:
            ManifestMissing: the manifest is not held.
        """
        wanted = {path: file for path, file in self._wanted_or_raise(manifest).items() if file.bucket == bucket}
        self.sweep()
        with self._lock:
            held = self._contents.files()
        unheld = {}
        for path, file in wanted.items():
            same_size = path in held and held[path].identity.bytes == file.bytes
            entry = self.hash_file(path, pace=pace) if same_size else None
            if entry is None or entry.sha256 != file.sha256:
                unheld[path] = file
        return unheld

    def hash_file(
        self, path: str, always: bool = False, pace: Callable[[int], None] = unlimited, past_cache: bool = False
    ) -> LedgerEntry | None:
        """Learn a file's content, from the ledger unless ``always``; None when it is gone or being written."""
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

    def _wanted_or_raise(self, manifest: str) -> WantedFiles:
        wanted = self.wanted(manifest)
        if wanted is None:
            raise ManifestMissing(f"manifest {manifest} of {self.table} is not held here, or is damaged; put it first")
        return wanted

    def _evaluated(self, reference: TableReference) -> TableReport:
        wanted = self._shelf.wanted(reference.manifest) if reference.manifest else None
        retained = tuple(
            files for files in map(self._shelf.wanted, reference.retained_manifests) if files is not None
        )
        known = self._evaluations.get(reference)
        if known is not None and known.holds_for(self._contents.generation, wanted, retained):
            return known.report
        report = table_report(reference, wanted, retained, self._contents.files())
        self._evaluations[reference] = _Evaluation(self._contents.generation, wanted, retained, report)
        return report

    def keep_only(self, reference: TableReference) -> None:
        """Forget manifests, and reports on them, that neither the operator wants nor a load used lately."""
        with self._lock:
            self._shelf.keep({reference.manifest or "", *reference.retained_manifests})
            self._evaluations = {
                known: evaluation
                for known, evaluation in self._evaluations.items()
                if known == reference or (known.manifest in self._shelf and not known.retained_manifests)
            }


class Inventory:
    """Every table on this node. Safe to share between threads.

    Args:
        root: where the tables lie.
        clock: seconds that never go back.
    """

    def __init__(self, root: DataRoot, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._look_at = clock()
        self._lock = threading.Lock()
        self._tables: dict[TablePath, TableInventory] = {}
        root.damage_listeners.append(lambda table, _path: self.table(table).distrust())

    def table(self, table: TablePath) -> TableInventory:
        """The inventory of one table, held or not."""
        with self._lock:
            if table not in self._tables:
                self._tables[table] = TableInventory(self._root, table)
            return self._tables[table]

    def tables(self) -> tuple[TableInventory, ...]:
        """The inventories of all tables that lie on the disk."""
        return tuple(self.table(table) for table in self._root.tables())

    def report(self, references: Collection[TableReference]) -> tuple[TableReport, ...]:
        """Reports on these tables, in their order, after a look at their folders if one is due."""
        self.look_if_due({path for path in map(path_of, references) if path is not None})
        return tuple(self.report_on(reference) for reference in references)

    def report_on(self, reference: TableReference) -> TableReport:
        """The report on one table, without a look: other processes' changes are not noticed, this one's always are.

        A reference that is not allowed, and a folder that the disk cannot read, harm this report only: it says that
        the manifest is not here.
        """
        path = path_of(reference)
        if path is None:
            _log.warning("table %s/%s is not allowed; nothing of it is here", reference.namespace, reference.directory)
            return absent_report(reference)
        table = self.table(path)
        try:
            report = table.report(reference, look=False)
        except OSError as error:
            if error.errno in EXHAUSTED:
                raise
            _log.warning("table %s cannot be read, its manifest counts as missing: %s", path, error)
            return absent_report(reference)
        table.keep_only(reference)
        return report

    def look_if_due(self, tables: Collection[TablePath]) -> None:
        """Look at the folders of these tables, unless the last look has cost so much that the next one has to wait.

        Where there are so many partitions that a look takes long, changes by hand are noticed minutes later.
        """
        started = self._clock()
        if started < self._look_at:
            return
        for table in tables:
            try:
                self.table(table).look()
            except OSError as error:
                if error.errno in EXHAUSTED:
                    raise
                _log.warning("table %s cannot be read: %s", table, error)
        ended = self._clock()
        if ended - started > QUICK_LOOK_SECONDS:
            self._look_at = ended + min(LOOK_PAUSE_FACTOR * (ended - started), MAX_LOOK_PAUSE_SECONDS)

    def unknown_directories(self, references: Collection[TableReference]) -> tuple[str, ...]:
        """Folders of tables that none of the references names, sorted."""
        known = {(reference.namespace, reference.directory) for reference in references}
        return tuple(str(table) for table in self._root.tables() if table not in known)

    def expected_sha256(self, table: TablePath, path: str) -> str | None:
        """The digest that a live manifest gives for a file, as far as known."""
        return self.table(table).expected_sha256(path)

    def forget(self, table: TablePath) -> None:
        """Drop what is known of a table that was recycled."""
        with self._lock:
            self._tables.pop(table, None)
        self._root.ledger.forget_table(table)


def path_of(reference: TableReference) -> TablePath | None:
    """The table's folder; None when the reference names none that is allowed."""
    try:
        return table_path(reference.namespace, reference.directory)
    except InvalidPath:
        return None
