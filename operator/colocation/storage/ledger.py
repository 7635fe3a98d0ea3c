"""The verification ledger: which content a file had when it was last hashed, and how the file looked then.

It makes a restart or a returned node quick (a stat per file, not a hash) and honest (a file that looks different is
hashed again). It is a cache: losing it costs hashing and nothing else. SQLite, because the agent and clone Jobs write
it at the same time from different processes, and because it survives being killed.
"""

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from .hashing import FileIdentity
from .paths import TablePath

LOCK_TIMEOUT_SECONDS = 30.0

_log = logging.getLogger(__name__)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS verified (
    namespace TEXT NOT NULL, directory TEXT NOT NULL, path TEXT NOT NULL,
    sha256 TEXT NOT NULL, bytes INTEGER NOT NULL, modified_nanoseconds INTEGER NOT NULL, inode INTEGER NOT NULL,
    verified_at REAL NOT NULL,
    PRIMARY KEY (namespace, directory, path)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS verified_by_age ON verified (verified_at);
"""


class LedgerEntry(NamedTuple):
    """``sha256`` was the content's digest at ``verified_at`` (seconds since the epoch), when the file looked so."""

    identity: FileIdentity
    sha256: str
    verified_at: float


class LedgerRow(NamedTuple):
    table: TablePath
    path: str
    entry: LedgerEntry


class Ledger:
    """The ledger in one file. Safe to share between threads; other processes may have it open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            self._connection = _connect(path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise
            _remove(path)  # a damaged ledger is worth no more than none: all files are hashed again
            self._connection = _connect(path)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def entry(self, table: TablePath, path: str) -> LedgerEntry | None:
        """What is known of one file."""
        rows = self._query("namespace = ? AND directory = ? AND path = ?", (*table, path))
        return rows[0].entry if rows else None

    def entries(self, table: TablePath) -> dict[str, LedgerEntry]:
        """What is known of a table's files, by path."""
        return {row.path: row.entry for row in self._query("namespace = ? AND directory = ?", tuple(table))}

    def oldest(self, limit: int, before: float) -> list[LedgerRow]:
        """The files whose last hash is oldest, and older than ``before`` (seconds since the epoch)."""
        return self._query("verified_at < ? ORDER BY verified_at LIMIT ?", (before, limit))

    def oldest_verification(self) -> float | None:
        """When the file that was not hashed for the longest time was hashed; None when nothing is known."""
        oldest = self._query("TRUE ORDER BY verified_at LIMIT 1", ())
        return oldest[0].entry.verified_at if oldest else None

    def record(self, table: TablePath, path: str, entry: LedgerEntry) -> None:
        """Remember the outcome of a hash."""
        self.record_all(table, [(path, entry)])

    def record_all(self, table: TablePath, entries: Iterable[tuple[str, LedgerEntry]]) -> None:
        """Remember the outcomes of several hashes, by path."""
        rows = [(*table, path, entry.sha256, *entry.identity, entry.verified_at) for path, entry in entries]
        if rows:
            with self._transaction() as connection:
                connection.executemany("INSERT OR REPLACE INTO verified VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def forget(self, table: TablePath, paths: Iterable[str]) -> None:
        """Drop what is known of files that are gone."""
        with self._transaction() as connection:
            connection.executemany(
                "DELETE FROM verified WHERE namespace = ? AND directory = ? AND path = ?",
                [(*table, path) for path in paths],
            )

    def forget_table(self, table: TablePath) -> None:
        """Drop what is known of a table that is gone."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM verified WHERE namespace = ? AND directory = ?", tuple(table))

    def _query(self, condition: str, arguments: tuple[object, ...]) -> list[LedgerRow]:
        columns = "namespace, directory, path, sha256, bytes, modified_nanoseconds, inode, verified_at"
        select = f"SELECT {columns} FROM verified WHERE {condition}"
        with self._lock:
            try:
                rows = self._connection.execute(select, arguments).fetchall()
            except sqlite3.DatabaseError as error:
                _log.warning("the ledger cannot be read, files are hashed again: %s", error)
                rows = []
        return [
            LedgerRow(TablePath(row[0], row[1]), row[2], LedgerEntry(FileIdentity(*row[4:7]), row[3], row[7]))
            for row in rows
        ]

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A write that may be lost (a full disk, a damaged ledger): what is not recorded is hashed again."""
        with self._lock:
            try:
                with self._connection:
                    yield self._connection
            except sqlite3.DatabaseError as error:
                _log.warning("the ledger cannot be written, files will be hashed again: %s", error)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT_SECONDS, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(_SCHEMA)
        if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("the ledger is damaged")
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
