"""What a node holds of every table, and the background steps that keep it true: hashing, looking, sweeping, scrubbing.

Each step is bounded and returns; threads and timing are the agent's (``agent.upkeep``).
"""

import logging
import os
import threading
from collections.abc import Callable, Collection
from typing import NamedTuple

from colocation.model.agent import TableReference, TableReport

from .errors import EXHAUSTED, UNREADABLE_MEDIUM, FileCorrupt, all_attempted
from .ledger import LedgerEntry
from .memory_limits import ManifestRoom
from .paths import TablePath
from .publish import wanted_content
from .report import absent_report
from .root import DataRoot
from .table_inventory import StampedReport, TableInventory, path_of
from .verification import UNREADABLE, content_of, unlimited

SCRUB_BATCH_FILES = 100

_log = logging.getLogger(__name__)


class Inventory:
    """Every table on this node. Safe to share between threads.

    Args:
        root: where the tables are.
        room: in memory, for their manifests; None = no limit.
    """

    def __init__(self, root: DataRoot, room: ManifestRoom | None = None) -> None:
        self.root = root
        self._room = room or ManifestRoom()
        self._lock = threading.Lock()
        self._tables: dict[TablePath, TableInventory] = {}
        root.damage_listeners.append(lambda table, _path: self.table(table).distrust())

    def table(self, table: TablePath) -> TableInventory:
        """The inventory of one table, held or not."""
        with self._lock:
            if table not in self._tables:
                self._tables[table] = TableInventory(self.root, table, self._room)
            return self._tables[table]

    def table_here(self, table: TablePath) -> TableInventory | None:
        """The inventory of a table that has a folder here; other names take no memory."""
        return self.table(table) if self.root.holds(table) else None

    def tables(self) -> tuple[TableInventory, ...]:
        """The inventories of all tables on the disk."""
        return tuple(self.table(table) for table in self.root.tables())

    def report(self, references: Collection[TableReference]) -> tuple[TableReport, ...]:
        """Reports on these tables, in their order."""
        return tuple(self.report_on(reference).report for reference in references)

    def report_on(self, reference: TableReference) -> StampedReport:
        """The report on one table, as of the last look and with all that this process has changed since.

        A reference that is not allowed, or a folder that the disk cannot read, affects this report only: its manifest
        counts as missing.
        """
        path = path_of(reference)
        if path is None:
            _log.warning("table name %s/%s is not allowed; nothing is here", reference.namespace, reference.directory)
            return StampedReport(absent_report(reference), None)
        table = self.table(path)
        table.keep_only(reference)
        stamp = table.stamp
        try:
            return table.stamped_report(reference)
        except OSError as error:
            if error.errno in EXHAUSTED:
                raise
            _log.warning("table %s cannot be read; its manifest counts as missing: %s", path, error)
            return StampedReport(absent_report(reference), stamp)

    def live_digests(self, table: TablePath, path: str) -> frozenset[str] | None:
        """The digests that live manifests give for a file; empty for a table without a folder here, None if unknown."""
        here = self.table_here(table)
        return here.live_digests(path) if here else frozenset()

    def expected_sha256(self, table: TablePath, path: str) -> str | None:
        """The digest that a live manifest gives for a file, as far as known."""
        return self.table(table).expected_sha256(path)

    def open_verified(self, table: TablePath, path: str) -> tuple[int, LedgerEntry]:
        """Open a file whose content is right as far as known; the descriptor, and the content's entry.

        Raises:
            NotHeld: there is no such file.
            FileCorrupt: it is damaged, and now in the quarantine.
        """
        try:
            descriptor = self.root.open_file(table, path)
        except OSError as error:
            if error.errno not in UNREADABLE_MEDIUM:
                raise
            raise self._corrupt(table, path, UNREADABLE) from error
        try:
            entry = content_of(self.root, table, path, descriptor)
            wanted = wanted_content(table, path, self.expected_sha256)
            if entry.sha256 == UNREADABLE or (wanted is not None and wanted != entry.sha256):
                raise self._corrupt(table, path, entry.sha256)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor, entry

    def _corrupt(self, table: TablePath, path: str, sha256: str) -> FileCorrupt:
        """The error for a damaged file, which is moved out of the readers' path."""
        self.table(table).set_aside_if_damaged(path)
        return FileCorrupt(f"{path} is damaged: its content is {sha256}; ask another replica")

    def forget(self, table: TablePath) -> None:
        """Drop what is known of a recycled table."""
        with self._lock:
            gone = self._tables.pop(table, None)
        if gone is not None:
            gone.close()
        self.root.forget_changes(table)
        self.root.ledger.forget_table(table)


def hash_unverified(inventory: Inventory, pace: Callable[[int], None]) -> int:
    """Hash the data files that were not hashed yet (a returned node without its ledger); returns how many.

    Damaged files go into the quarantine.

    Raises:
        OSError: a file cannot be read or moved; all others are done.
    """
    hashed = 0
    with all_attempted() as attempt:
        for table in inventory.tables():
            for path in table.unverified():
                with attempt(f"to hash {path} of {table.table}"):
                    hashed += table.hash_file(path, pace=pace) is not None
            with attempt(f"to set damaged files of {table.table} aside"):
                table.set_damaged_aside()
    return hashed


def look(inventory: Inventory, pace: Callable[[int], None]) -> None:
    """Stat the folders of every table: notices files that people or other processes published or removed."""
    for table in inventory.tables():
        pace(0)
        _contained(table, table.look)


def sweep(inventory: Inventory, pace: Callable[[int], None] = unlimited) -> None:
    """Stat every file of every table: notices files written in place."""
    for table in inventory.tables():
        pace(0)
        _contained(table, table.sweep)


def _contained(table: TableInventory, work: Callable[[], None]) -> None:
    """Run a step on a table and log its OS errors, unless the process is out of descriptors or memory."""
    try:
        work()
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise
        _log.warning("table %s cannot be read: %s", table.table, error)


class Scrubbed(NamedTuple):
    """What a scrub has read; zero files = none was due."""

    files: int
    bytes: int


class Backlog(NamedTuple):
    """Files whose scrub is overdue."""

    files: int
    bytes: int


def scrub_backlog(inventory: Inventory, interval_seconds: float) -> Backlog:
    """The files that were last hashed more than ``interval_seconds`` ago."""
    now = inventory.root.clock()
    return Backlog(*inventory.root.ledger.backlog(now - interval_seconds, now))


def scrub_batch(inventory: Inventory, interval_seconds: float, pace: Callable[[int], None]) -> Scrubbed:
    """Hash again, from the disk itself, some of the files last hashed more than ``interval_seconds`` ago.

    The oldest come first, so every file is read once per interval. An unreadable file counts as not hashed, which its
    report shows, and is left to ``hash_unverified``, which fails until it can be read.
    """
    root = inventory.root
    now = root.clock()
    due = root.ledger.oldest(SCRUB_BATCH_FILES, now - interval_seconds, now)
    read = []
    for row in due:
        table = inventory.table(row.table)
        try:
            entry = table.hash_file(row.path, always=True, pace=pace, past_cache=True)
        except OSError as error:
            if error.errno in EXHAUSTED:
                raise
            _log.warning("%s of %s cannot be read and counts as not hashed: %s", row.path, row.table, error)
            table.forget_content(row.path)
            continue
        if entry is None:
            root.ledger.forget(row.table, [row.path])  # it is gone; if it returns, it is hashed then
        else:
            read.append(entry.identity.bytes)
    return Scrubbed(len(read), sum(read))
