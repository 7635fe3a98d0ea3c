"""The ledger is a cache: it saves hashing, and losing it does no harm."""

import errno
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from colocation.storage.ledger import DAMAGED_SUFFIX, BorrowedLedger, FileIdentity, Ledger, LedgerEntry, LedgerRow
from colocation.storage.paths import TablePath

from .conftest import open_files

TABLE = TablePath("shop", "orders-0a1b2c3d")
OTHER = TablePath("shop", "lineitem-0a1b2c3d")


def entry(verified_at: float, sha256: str = "aa") -> LedgerEntry:
    """An entry that differs by its time."""
    return LedgerEntry(FileIdentity(7, 123_456_789_012_345_678, 1 << 60), sha256, verified_at)


def make_read_only(ledger: Ledger) -> None:
    """Make writes fail as after the kernel has remounted the file system read-only."""
    ledger._connection.close()
    ledger._connection = sqlite3.connect(f"file:{ledger._path}?mode=ro", uri=True, check_same_thread=False)


def test_remembers_exactly(tmp_path: Path) -> None:
    """Nanoseconds and inodes survive a restart without rounding."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.record(TABLE, "data/a", entry(1.5))
    ledger.close()
    assert open_files(tmp_path) == []
    assert Ledger(tmp_path / "ledger").entries(TABLE) == {"data/a": entry(1.5)}


def test_a_row_waits_neither_for_the_disk_nor_for_readers(tmp_path: Path) -> None:
    """A lost row costs one hash; and clones read while the agent writes."""
    agent, clone = Ledger(tmp_path / "ledger"), BorrowedLedger(tmp_path / "ledger")
    agent.record(TABLE, "data/a", entry(1.0))
    assert agent._connection.execute("PRAGMA synchronous").fetchone() == (1,)
    clone._file.execute("PRAGMA busy_timeout = 1")
    agent._connection.execute("BEGIN EXCLUSIVE")
    assert clone.entries(TABLE) == {"data/a": entry(1.0)}
    agent._connection.rollback()
    clone.close()
    agent.close()
    assert open_files(tmp_path) == []


@pytest.mark.parametrize("kind", ["the agent's", "read-only", "a clone's", "a clone's without the agent's"])
def test_all_threads_use_one_ledger(tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    """Uploads, upkeep and reports each have their own."""
    path = tmp_path / "ledger"
    if "without" not in kind:
        Ledger(path).record(OTHER, "data/b", entry(1.0))
    ledger = BorrowedLedger(path) if "clone" in kind else Ledger(path)
    if kind == "read-only":
        make_read_only(ledger)
    caplog.clear()
    with ThreadPoolExecutor(1) as another:
        another.submit(ledger.record, TABLE, "data/a", entry(1.0)).result()
        assert another.submit(ledger.entries, TABLE).result() == {"data/a": entry(1.0)}
        assert list(another.submit(ledger.entries, OTHER).result()) == ([] if "without" in kind else ["data/b"])
    assert len(caplog.records) == (kind == "read-only")


def test_the_last_hash_counts(tmp_path: Path) -> None:
    """A new hash replaces the old one; tables do not mix."""
    ledger = Ledger(tmp_path / "ledger")
    for table, sha256 in ((TABLE, "aa"), (TABLE, "bb"), (OTHER, "cc")):
        ledger.record(table, "data/a", entry(1.0, sha256))
    assert ledger.entry(TABLE, "data/a") == entry(1.0, "bb")
    ledger.forget(TABLE, ["data/a", "data/never"])
    assert ledger.entry(TABLE, "data/a") is None
    ledger.forget_table(OTHER)
    assert ledger.entries(OTHER) == {}


def test_oldest_first(tmp_path: Path) -> None:
    """The scrub gets the files with the oldest hashes, and none younger than requested."""
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.oldest_verification() is None
    for verified_at in (3.0, 1.0, 2.0):
        ledger.record(TABLE, f"data/{verified_at}", entry(verified_at))
    assert ledger.oldest(2, before=3.0, now=10.0) == [
        LedgerRow(TABLE, "data/1.0", entry(1.0)), LedgerRow(TABLE, "data/2.0", entry(2.0))
    ]
    assert ledger.oldest_verification() == 1.0
    assert ledger.backlog(before=3.0, now=10.0) == (2, 14)


def test_future_hashes_are_due(tmp_path: Path) -> None:
    """A clock that was set forward and back exempts no file."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.record(TABLE, "data/a", entry(100.0))
    assert [row.path for row in ledger.oldest(2, before=3.0, now=50.0)] == ["data/a"]
    assert ledger.oldest(2, before=3.0, now=100.0) == []


def test_the_backlog_is_counted_from_the_index(tmp_path: Path) -> None:
    """Other callers wait meanwhile, and reading each row took seconds."""
    ledger = Ledger(tmp_path / "ledger")
    asked: list[str] = []
    ledger._connection.set_trace_callback(asked.append)
    assert ledger.backlog(before=3.0, now=10.0) == (0, 0)
    plan = [step[3] for select in asked for step in ledger._connection.execute(f"EXPLAIN QUERY PLAN {select}")]
    searches = [step for step in plan if "verified" in step]
    assert searches and all("SEARCH" in step and "COVERING INDEX" in step for step in searches), plan
    assert not [step for step in plan if "MULTI-INDEX OR" in step]


def test_the_previous_releases_ledger_is_migrated(tmp_path: Path) -> None:
    """Its rows stay; its unused index is dropped."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.record(TABLE, "data/a", entry(1.0))
    with ledger._connection as connection:
        connection.execute("DROP INDEX IF EXISTS verified_by_age_bytes")
        connection.execute("CREATE INDEX IF NOT EXISTS verified_by_age ON verified (verified_at)")
    ledger.close()
    again = Ledger(tmp_path / "ledger")
    assert again.entries(TABLE) == {"data/a": entry(1.0)}
    assert again.backlog(before=3.0, now=10.0) == (1, 7)
    names = again._connection.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
    assert names.fetchall() == [("verified_by_age_bytes",)]


def test_only_the_owner_writes(tmp_path: Path) -> None:
    """A clone sees the agent's entries, keeps its own in memory, and changes nothing in the file."""
    agent, clone = Ledger(tmp_path / "ledger"), BorrowedLedger(tmp_path / "ledger")
    agent.record(TABLE, "data/a", entry(1.0))
    agent.record(TABLE, "data/b", entry(1.0))
    clone.record(TABLE, "data/b", entry(2.0, "bb"))
    clone.forget(TABLE, ["data/a"])
    assert clone.entries(TABLE) == {"data/a": entry(1.0), "data/b": entry(2.0, "bb")}
    assert clone.entry(TABLE, "data/b") == entry(2.0, "bb")
    assert agent.entries(TABLE) == {"data/a": entry(1.0), "data/b": entry(1.0)}


def test_a_clone_needs_no_ledger(tmp_path: Path) -> None:
    """It neither creates a missing ledger nor repairs a damaged one."""
    missing = BorrowedLedger(tmp_path / "ledger")
    assert (missing.entries(TABLE), list(tmp_path.iterdir())) == ({}, [])
    (tmp_path / "ledger").write_bytes(b"no database at all" * 100)
    damaged = BorrowedLedger(tmp_path / "ledger")
    damaged.record(TABLE, "data/a", entry(1.0))
    assert [damaged.entries(TABLE) for _ in range(2)] == [{"data/a": entry(1.0)}] * 2
    assert open_files(tmp_path) == []
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [("ledger", 1800)]


@pytest.mark.parametrize(
    "code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN,
             sqlite3.SQLITE_BUSY, sqlite3.SQLITE_NOMEM],
    ids=["full", "read-only", "I/O error", "cannot be opened", "locked", "no memory"],
)  # fmt: skip
def test_the_file_survives_everything_but_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """If it cannot be opened now, it is read, new rows go to memory, and it is intact at the next start."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.record(TABLE, "data/a", entry(1.0))
    ledger.close()
    before = (tmp_path / "ledger").read_bytes()
    error = sqlite3.OperationalError("in the way")
    error.sqlite_errorcode = code
    with monkeypatch.context() as patched:
        patched.setattr("colocation.storage.ledger._connect", Mock(side_effect=error))
        meanwhile = Ledger(tmp_path / "ledger")
        meanwhile.record(TABLE, "data/b", entry(2.0))
        assert meanwhile.entries(TABLE) == {"data/a": entry(1.0), "data/b": entry(2.0)}
        meanwhile.close()
    assert (tmp_path / "ledger").read_bytes() == before
    assert Ledger(tmp_path / "ledger").entries(TABLE) == {"data/a": entry(1.0)}


def test_a_later_lock_changes_nothing(tmp_path: Path) -> None:
    """A lock passes: rows in memory must not be given up for it."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.record(TABLE, "data/a", entry(1.0))
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    opened = ledger._connection
    ledger._connection = Mock(execute=Mock(side_effect=error))
    locked = ledger._connection
    assert ledger.entries(TABLE) == {}
    assert ledger._connection is locked and not locked.close.called
    ledger._connection = opened
    assert ledger.entries(TABLE) == {"data/a": entry(1.0)}


@pytest.mark.parametrize("is_read", [True, False], ids=["found by a read", "found by a write"])
def test_later_damage_is_set_aside(tmp_path: Path, is_read: bool) -> None:
    """Otherwise a scrub that reads a damaged ledger would never find anything due."""
    ledger = Ledger(tmp_path / "ledger")
    for number in range(2000):
        ledger.record(TABLE, f"data/{number}", entry(float(number)))
    ledger._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    stored = bytearray((tmp_path / "ledger").read_bytes())
    stored[4096:] = bytes(len(stored) - 4096)
    (tmp_path / "ledger").write_bytes(stored)
    ledger._connection.close()
    ledger._connection = damaged = sqlite3.connect(tmp_path / "ledger", check_same_thread=False)
    assert ledger.backlog(before=1.0, now=10.0) == (0, 0)
    if is_read:
        assert ledger.entries(TABLE) == {}
        assert (tmp_path / f"ledger{DAMAGED_SUFFIX}").exists()
    ledger.record(TABLE, "data/a", entry(1.0))
    assert (tmp_path / f"ledger{DAMAGED_SUFFIX}").exists()
    assert Ledger(tmp_path / "ledger").entries(TABLE) == ledger.entries(TABLE) == {"data/a": entry(1.0)}
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        damaged.execute("SELECT 1")


def test_a_damaged_ledger_that_cannot_be_set_aside_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes no writes, either; the agent works without it."""
    path = tmp_path / "ledger"
    path.write_bytes(b"no database at all" * 100)
    monkeypatch.setattr(Path, "replace", Mock(side_effect=OSError(errno.EROFS, os.strerror(errno.EROFS))))
    ledger = Ledger(path)
    ledger.record(TABLE, "data/a", entry(1.0))
    assert ledger.entries(TABLE) == {"data/a": entry(1.0)}
    assert (open_files(tmp_path), path.read_bytes()) == ([], b"no database at all" * 100)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"no database at all" * 100, id="other content"),
        pytest.param(None, id="overwritten in the middle"),
    ],
)
def test_a_damaged_ledger_is_replaced(tmp_path: Path, content: bytes | None) -> None:
    """The new one is empty and works; the damaged one remains for people to inspect."""
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    for number in range(2000):
        ledger.record(TABLE, f"data/{number}", entry(float(number)))
    ledger.close()
    if content is None:
        stored = bytearray(path.read_bytes())
        stored[4096:40960] = bytes(36864)
        content = bytes(stored)
    path.write_bytes(content)
    again = Ledger(path)
    assert path.with_name(f"ledger{DAMAGED_SUFFIX}").read_bytes() == content
    assert again.entries(TABLE) == {}
    again.record(TABLE, "data/a", entry(1.0))
    assert again.entry(TABLE, "data/a") == entry(1.0)


def test_new_rows_go_to_memory_when_writes_fail(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Files on a full or read-only disk must not be hashed at each look; one warning is logged."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.record(TABLE, "data/a", entry(1.0))
    make_read_only(ledger)
    for number in range(3):
        ledger.record(TABLE, f"data/{number}", entry(2.0))
    assert sorted(ledger.entries(TABLE)) == ["data/0", "data/1", "data/2", "data/a"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "kept in memory" in caplog.text


def test_a_write_that_a_lock_refuses_is_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A lock passes, so the file stays the ledger."""
    ledger, other = Ledger(tmp_path / "ledger"), Ledger(tmp_path / "ledger")
    ledger._connection.execute("PRAGMA busy_timeout = 1")
    other._connection.execute("BEGIN IMMEDIATE")
    ledger.record(TABLE, "data/a", entry(1.0))
    other._connection.rollback()
    ledger.record(TABLE, "data/b", entry(1.0))
    assert list(other.entries(TABLE)) == ["data/b"]
    assert "will be hashed again" in caplog.text


@pytest.mark.parametrize("opened_again", [False, True], ids=["while it runs", "at its start"])
def test_only_new_rows_are_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened_again: bool) -> None:
    """A copy of all rows took more memory than an agent has. Deleted rows stay deleted, and are not scrubbed."""
    ledger = Ledger(tmp_path / "ledger")
    for table in (TABLE, OTHER):
        ledger.record_all(table, [(f"data/{number}", entry(float(number))) for number in range(4)])
    if opened_again:
        ledger.close()
        error = sqlite3.OperationalError("read-only")
        error.sqlite_errorcode = sqlite3.SQLITE_READONLY
        monkeypatch.setattr("colocation.storage.ledger._connect", Mock(side_effect=error))
        ledger = Ledger(tmp_path / "ledger")
    else:
        make_read_only(ledger)
    ledger.record(TABLE, "data/0", entry(9.0, "bb"))
    ledger.record(TABLE, "data/new", entry(0.5))
    ledger.forget(TABLE, ["data/1", "data/never"])
    ledger.forget_table(OTHER)
    ledger.record(OTHER, "data/1", entry(2.5))
    assert ledger.entries(OTHER) == {"data/1": entry(2.5)}
    assert (ledger.entry(TABLE, "data/0"), ledger.entry(TABLE, "data/1")) == (entry(9.0, "bb"), None)
    assert [row.path for row in ledger.oldest(9, before=8.0, now=99.0)] == ["data/new", "data/2", "data/1", "data/3"]
    assert (ledger.backlog(before=8.0, now=99.0), ledger.oldest_verification()) == ((4, 28), 0.5)
    assert ledger._connection.execute("SELECT count(*) FROM temp.new_verified").fetchone() == (7,)


def test_new_rows_go_to_memory_on_a_full_disk(tmp_path: Path) -> None:
    """The disk fails in the middle of a write, which leaves nothing in the file."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.record(TABLE, "data/a", entry(1.0))
    ledger._connection.execute("PRAGMA max_page_count = 1")  # its current size
    ledger.record_all(TABLE, [(f"data/{number}", entry(2.0)) for number in range(1000)])
    assert len(ledger.entries(TABLE)) == 1001
    ledger.close()
    assert list(Ledger(tmp_path / "ledger").entries(TABLE)) == ["data/a"]


def test_a_write_that_memory_refuses_is_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Files are served and published nevertheless."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.record(TABLE, "data/a", entry(1.0))
    ledger._connection.execute("PRAGMA query_only = ON")
    ledger.record(TABLE, "data/b", entry(1.0))
    assert ledger.entries(TABLE) == {"data/a": entry(1.0)}
    assert "will be hashed again" in caplog.text
