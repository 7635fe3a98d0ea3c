"""The verification ledger: the content that a file had when it was last hashed, and how the file looked then.

With it a restarted agent or a returned node needs one stat per file, not one hash, and files that look different are
hashed again. It also records since when files have been seen unneeded (see ``ages``). It is a cache: losing it costs
hashing, and garbage stays longer. It uses SQLite, which survives kills.

Only the agent owns and writes the file. Clone Jobs read it, keep their own findings in memory, and report them to the
agent (see ``clone_reports``). A damaged file is set aside and replaced. If the file cannot be opened or written (a
read-only or full disk), the agent goes on reading it and keeps only new rows in memory: a copy of all rows would take
more memory than an agent has.
"""

import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from .paths import TablePath

LOCK_TIMEOUT_SECONDS = 30.0
DAMAGED_SUFFIX = ".damaged"
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_BATCH_ROWS = 10_000
_PASSING = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})

_log = logging.getLogger(__name__)

_SIGHTED_SCHEMA = """
CREATE TABLE IF NOT EXISTS sighted (
    place TEXT NOT NULL, path TEXT NOT NULL,
    bytes INTEGER NOT NULL, modified_nanoseconds INTEGER NOT NULL, inode INTEGER NOT NULL,
    since REAL NOT NULL, agent INTEGER NOT NULL,
    PRIMARY KEY (place, path)
) WITHOUT ROWID;
"""
_SIGHTED_IN_MEMORY = _SIGHTED_SCHEMA.replace("CREATE TABLE", "CREATE TEMP TABLE")
"""For a ledger of the previous release on a disk that takes no writes."""
_SCHEMA = f"""{_SIGHTED_SCHEMA}CREATE TABLE IF NOT EXISTS verified (
    namespace TEXT NOT NULL, directory TEXT NOT NULL, path TEXT NOT NULL,
    sha256 TEXT NOT NULL, bytes INTEGER NOT NULL, modified_nanoseconds INTEGER NOT NULL, inode INTEGER NOT NULL,
    verified_at REAL NOT NULL,
    PRIMARY KEY (namespace, directory, path)
) WITHOUT ROWID;
DROP INDEX IF EXISTS verified_by_age;
CREATE INDEX IF NOT EXISTS verified_by_age_bytes ON verified (verified_at, bytes);
"""


def _overlay(table: str, keys: tuple[str, ...], values: tuple[str, ...]) -> str:
    """SQL that keeps new rows of a table in memory. A view takes the table's name, so that statements stay the same.

    NULL in the first value column marks a deleted row.
    """
    key, columns = ", ".join(keys), ", ".join((*keys, *values))
    same = " AND ".join(f"new.{column} = old.{column}" for column in keys)
    new, old = (", ".join(f"{row}.{one}" for one in names) for row, names in (("new", (*keys, *values)), ("old", keys)))
    return f"""
CREATE TEMP TABLE IF NOT EXISTS new_{table} ({columns}, PRIMARY KEY ({key})) WITHOUT ROWID;
CREATE TEMP VIEW IF NOT EXISTS {table} AS
    SELECT {columns} FROM temp.new_{table} WHERE {values[0]} IS NOT NULL
    UNION ALL
    SELECT {columns} FROM main.{table} AS old
    WHERE NOT EXISTS (SELECT 1 FROM temp.new_{table} AS new WHERE {same});
CREATE TEMP TRIGGER IF NOT EXISTS insert_{table} INSTEAD OF INSERT ON {table} BEGIN
    INSERT OR REPLACE INTO new_{table} VALUES ({new});
END;
CREATE TEMP TRIGGER IF NOT EXISTS delete_{table} INSTEAD OF DELETE ON {table} BEGIN
    INSERT OR REPLACE INTO new_{table} ({key}) VALUES ({old});
END;
"""


_IDENTITY = ("bytes", "modified_nanoseconds", "inode")
_NEW_VERIFIED_IN_MEMORY = (
    "PRAGMA temp_store = MEMORY;"
    + _overlay("verified", ("namespace", "directory", "path"), ("sha256", *_IDENTITY, "verified_at"))
    + "CREATE INDEX IF NOT EXISTS temp.new_verified_by_age_bytes ON new_verified (verified_at, bytes);"
)
_NEW_IN_MEMORY = _NEW_VERIFIED_IN_MEMORY + _overlay("sighted", ("place", "path"), (*_IDENTITY, "since", "agent"))


class FileIdentity(NamedTuple):
    """Attributes that change with a file's content: if they are the same, the file need not be hashed again."""

    bytes: int
    modified_nanoseconds: int
    inode: int


def identity_of(status: os.stat_result) -> FileIdentity:
    """The identity in a stat result."""
    return FileIdentity(status.st_size, status.st_mtime_ns, status.st_ino)


class LedgerEntry(NamedTuple):
    """The digest that a file of this identity had at ``verified_at`` (seconds since the epoch)."""

    identity: FileIdentity
    sha256: str
    verified_at: float


class Sighting(NamedTuple):
    """Since when a file of this identity has been seen unneeded, and by which agent; see ``ages``."""

    identity: FileIdentity
    since: float
    agent: int


class LedgerRow(NamedTuple):
    """An entry with its table and path."""
    table: TablePath
    path: str
    entry: LedgerEntry


class Ledger:
    """The ledger's file as its owner uses it. Safe to share between threads; other processes may read it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection = self._opened()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def entry(self, table: TablePath, path: str) -> LedgerEntry | None:
        """The entry of one file."""
        rows = self._query("namespace = ? AND directory = ? AND path = ?", (*table, path))
        return rows[0].entry if rows else None

    def entries(self, table: TablePath) -> dict[str, LedgerEntry]:
        """The entries of a table's files, by path."""
        return {row.path: row.entry for row in self._query("namespace = ? AND directory = ?", tuple(table))}

    def oldest(self, limit: int, before: float, now: float) -> list[LedgerRow]:
        """Files whose last hash is oldest: before ``before`` (seconds since the epoch), or in the future.

        Future times count, too: a clock that was set forward and back must not exempt the files hashed in between.
        """
        return self._query(f"{_IS_DUE} ORDER BY verified_at LIMIT ?", (before, now, limit))

    def backlog(self, before: float, now: float) -> tuple[int, int]:
        """(files, bytes) that ``oldest`` would return without a limit. Reads only the index: other callers wait."""
        with self._lock:
            try:
                files, size_bytes = self._connection.execute(_BACKLOG, (before, now)).fetchone()
            except sqlite3.DatabaseError as error:
                _log.warning("the ledger cannot be read: %s", error)
                return 0, 0
        return files, size_bytes

    def oldest_verification(self) -> float | None:
        """When the file with the oldest hash was hashed; None for an empty ledger."""
        oldest = self._query("TRUE ORDER BY verified_at LIMIT 1", ())
        return oldest[0].entry.verified_at if oldest else None

    def record(self, table: TablePath, path: str, entry: LedgerEntry) -> None:
        """Record the result of a hash."""
        self.record_all(table, [(path, entry)])

    def record_all(self, table: TablePath, entries: Iterable[tuple[str, LedgerEntry]]) -> None:
        """Record the results of several hashes, by path."""
        rows = [(*table, path, entry.sha256, *entry.identity, entry.verified_at) for path, entry in entries]
        self._write(_INSERT, rows)

    def forget(self, table: TablePath, paths: Iterable[str]) -> None:
        """Drop the entries of files that are gone."""
        condition = "namespace = ? AND directory = ? AND path = ?"
        self._write(f"DELETE FROM verified WHERE {condition}", [(*table, path) for path in paths])

    def forget_table(self, table: TablePath) -> None:
        """Drop the entries and sightings of a table that is gone."""
        self._write("DELETE FROM verified WHERE namespace = ? AND directory = ?", [tuple(table)])
        self._write("DELETE FROM sighted WHERE place = ?", [(str(table),)])

    def sightings(self, place: str) -> dict[str, Sighting]:
        """Files of a place that were seen unneeded, by path."""
        with self._lock:
            rows = self._rows(_SIGHTED, (place,))
        return {row[0]: Sighting(FileIdentity(*row[1:4]), *row[4:]) for row in rows}

    def record_sightings(self, place: str, sightings: Mapping[str, Sighting]) -> None:
        """Record since when files of a place have been seen unneeded."""
        rows = [(place, path, *one.identity, one.since, one.agent) for path, one in sightings.items()]
        for batch in _batches(rows):
            self._write("INSERT OR REPLACE INTO sighted VALUES (?, ?, ?, ?, ?, ?, ?)", batch)

    def forget_sightings(self, place: str, paths: Iterable[str]) -> None:
        """Drop the sightings of files that are needed again, or gone."""
        for batch in _batches([(place, path) for path in paths]):
            self._write("DELETE FROM sighted WHERE place = ? AND path = ?", batch)

    def _opened(self) -> sqlite3.Connection:
        """Open the file; replace a damaged one by a new one, else open what can be read of it."""
        try:
            return _connect(self._path)
        except sqlite3.DatabaseError as error:
            if _code(error) not in _DAMAGE:
                return _opened_for_reading(self._path, error)
        try:
            _set_aside(self._path)
            return _connect(self._path)
        except (sqlite3.DatabaseError, OSError) as error:
            return _opened_for_reading(self._path, error)

    def _query(self, condition: str, arguments: tuple[object, ...]) -> list[LedgerRow]:
        with self._lock:
            rows = self._rows(f"SELECT {_COLUMNS} FROM verified WHERE {condition}", arguments)
        return list(map(_row, rows))

    def _rows(self, select: str, arguments: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """Run a query; an unreadable ledger returns nothing, so files are hashed again and count as young."""
        try:
            return self._connection.execute(select, arguments).fetchall()
        except sqlite3.DatabaseError as error:
            _log.warning("the ledger cannot be read, files are hashed again: %s", error)
            if _code(error) not in _PASSING:
                self._reopen()
            return []

    def _write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Write rows; rows that a lock refuses are lost, and rows that the file does not take go to memory."""
        with self._lock:
            error = self._failure(statement, rows)
            if error is not None and _code(error) not in _PASSING:
                self._replace_connection(error)
                error = self._failure(statement, rows)
            if error is not None:
                _log.warning("the ledger cannot be written, files will be hashed again: %s", error)

    def _failure(self, statement: str, rows: Sequence[tuple[object, ...]]) -> sqlite3.DatabaseError | None:
        """The error of a write, which happens whole or not at all; None if it succeeded."""
        try:
            with self._connection:
                self._connection.executemany(statement, rows)
        except sqlite3.DatabaseError as error:
            return error
        return None

    def _replace_connection(self, error: sqlite3.DatabaseError) -> None:
        """Replace a damaged file by a new one; else read the file from now on, and write to memory."""
        if _code(error) in _DAMAGE:
            self._reopen()
            return
        _log.warning("the ledger takes no writes; what is new is kept in memory until the next start: %s", error)
        with contextlib.suppress(sqlite3.DatabaseError):  # then this write is lost
            self._connection.executescript(_NEW_IN_MEMORY)

    def _reopen(self) -> None:
        self._connection.close()
        self._connection = self._opened()


class BorrowedLedger(Ledger):
    """The ledger as a process uses it that does not own it: it reads the file and keeps its own findings in memory."""

    def __init__(self, path: Path) -> None:
        self._file: sqlite3.Connection | None = None
        super().__init__(path)
        try:
            self._file = sqlite3.connect(
                _uri(path, "mode=ro"), uri=True, timeout=LOCK_TIMEOUT_SECONDS, check_same_thread=False
            )
        except sqlite3.DatabaseError as error:
            _log.info("the agent's ledger is not used: %s", error)

    def close(self) -> None:
        """Close the file."""
        super().close()
        self._close_file()

    def _opened(self) -> sqlite3.Connection:
        return _in_memory()

    def _query(self, condition: str, arguments: tuple[object, ...]) -> list[LedgerRow]:
        own = super()._query(condition, arguments)
        known = {(row.table, row.path) for row in own}
        with self._lock:
            try:
                select = f"SELECT {_COLUMNS} FROM verified WHERE {condition}"
                rows = self._file.execute(select, arguments).fetchall() if self._file else []
            except sqlite3.DatabaseError as error:
                _log.info("the agent's ledger is not used any more: %s", error)
                self._close_file()
                rows = []
        return own + [row for row in map(_row, rows) if (row.table, row.path) not in known]

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


_IS_DUE = "(verified_at < ? OR verified_at > ?)"
_BACKLOG = """
SELECT count(*), coalesce(sum(bytes), 0) FROM (
    SELECT bytes FROM verified WHERE verified_at < ? UNION ALL SELECT bytes FROM verified WHERE verified_at > ?
)
"""
_SIGHTED = "SELECT path, bytes, modified_nanoseconds, inode, since, agent FROM sighted WHERE place = ?"
_INSERT = "INSERT OR REPLACE INTO verified VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_COLUMNS = "namespace, directory, path, sha256, bytes, modified_nanoseconds, inode, verified_at"


def _batches(rows: Sequence[tuple[object, ...]]) -> Iterator[Sequence[tuple[object, ...]]]:
    """The rows in parts, so that other callers never wait long."""
    return (rows[start : start + _BATCH_ROWS] for start in range(0, len(rows), _BATCH_ROWS))


def _row(row: tuple[Any, ...]) -> LedgerRow:
    return LedgerRow(TablePath(row[0], row[1]), row[2], LedgerEntry(FileIdentity(*row[4:7]), row[3], row[7]))


def _code(error: sqlite3.DatabaseError) -> int:
    """SQLite's primary result code; errors that this module raises itself have the code of damage."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return code & 0xFF


def _uri(path: Path, options: str) -> str:
    return f"file:{quote(str(path))}?{options}"


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT_SECONDS, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(_SCHEMA)
        _check(connection)
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise sqlite3.DatabaseError("the ledger is damaged")


def _in_memory() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.executescript(_SCHEMA)
    return connection


def _opened_for_reading(path: Path, error: Exception) -> sqlite3.Connection:
    """Open what can be read of the file without changing it; else an empty ledger in memory."""
    _log.warning("the ledger cannot be written; what is new is kept in memory until the next start: %s", error)
    with contextlib.suppress(sqlite3.DatabaseError), contextlib.ExitStack() as opened:
        file = sqlite3.connect(_uri(path, "mode=ro&immutable=1"), uri=True, check_same_thread=False)
        opened.callback(file.close)
        _check(file)
        file.execute("SELECT 1 FROM verified LIMIT 1")
        has_sighted = file.execute("SELECT 1 FROM sqlite_master WHERE name = 'sighted'").fetchone()
        file.executescript(_NEW_IN_MEMORY if has_sighted else _NEW_VERIFIED_IN_MEMORY + _SIGHTED_IN_MEMORY)
        opened.pop_all()
        return file
    return _in_memory()


def _set_aside(path: Path) -> None:
    """Rename the damaged ledger, over one that was set aside before."""
    _log.warning("the ledger is damaged; it is set aside, and all files are hashed again")
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).replace(path.with_name(path.name + DAMAGED_SUFFIX + suffix))
