"""The ledger is a cache: quick when it is there, harmless when it is lost or damaged."""

from pathlib import Path

import pytest

from colocation.storage.hashing import FileIdentity
from colocation.storage.ledger import Ledger, LedgerEntry, LedgerRow
from colocation.storage.paths import TablePath

TABLE = TablePath("shop", "orders-0a1b2c3d")
OTHER = TablePath("shop", "lineitem-0a1b2c3d")


def entry(verified_at: float, sha256: str = "aa") -> LedgerEntry:
    """An entry that differs by its time."""
    return LedgerEntry(FileIdentity(7, 123_456_789_012_345_678, 1 << 60), sha256, verified_at)


def test_remembers_exactly(tmp_path: Path) -> None:
    """Nanoseconds and inodes survive a restart without rounding."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.record(TABLE, "data/a", entry(1.5))
    ledger.close()
    assert Ledger(tmp_path / "ledger").entries(TABLE) == {"data/a": entry(1.5)}


def test_the_last_word_counts(tmp_path: Path) -> None:
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
    """The scrub gets what was not hashed for the longest time, and nothing younger than it asked for."""
    ledger = Ledger(tmp_path / "ledger")
    for verified_at in (3.0, 1.0, 2.0):
        ledger.record(TABLE, f"data/{verified_at}", entry(verified_at))
    assert ledger.oldest(2, before=3.0) == [
        LedgerRow(TABLE, "data/1.0", entry(1.0)), LedgerRow(TABLE, "data/2.0", entry(2.0))
    ]
    assert ledger.oldest_verification() == 1.0


def test_two_processes_share_it(tmp_path: Path) -> None:
    """What a clone records, the agent sees."""
    agent, clone = Ledger(tmp_path / "ledger"), Ledger(tmp_path / "ledger")
    clone.record(TABLE, "data/a", entry(1.0))
    assert agent.entry(TABLE, "data/a") == entry(1.0)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"no database at all" * 100, id="other content"),
        pytest.param(None, id="overwritten in the middle"),
    ],
)
def test_a_damaged_ledger_is_begun_anew(tmp_path: Path, content: bytes | None) -> None:
    """It opens empty and works; nothing but hashing is lost."""
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
    assert again.entries(TABLE) == {}
    again.record(TABLE, "data/a", entry(1.0))
    assert again.entry(TABLE, "data/a") == entry(1.0)


def test_a_ledger_that_cannot_be_written_fails_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """On a full disk files are served and published all the same; they are hashed again later."""
    ledger = Ledger(tmp_path / "ledger")
    ledger._connection.execute("PRAGMA query_only = ON")
    ledger.record(TABLE, "data/a", entry(1.0))
    assert ledger.entry(TABLE, "data/a") is None
    assert "will be hashed again" in caplog.text
