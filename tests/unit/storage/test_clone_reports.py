"""What clone Jobs report to their node's agent: tables that have changed, what was read back, and progress."""

import errno
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from colocation.model.agent import CloneProgress
from colocation.storage.clone_reports import announce, read_progress, take_announced, write_progress
from colocation.storage.ledger import FileIdentity, LedgerEntry
from colocation.storage.paths import TablePath
from colocation.storage.root import DataRoot

from .tables import data_path

TABLE, OTHER = TablePath("shop", "orders-0a1b2c3d"), TablePath("lake", "lines-0a1b2c3d")
ENTRY = LedgerEntry(FileIdentity(1, 1_700_000_000_123_456_789, 3), "aa", 4.5)


def announced(root: DataRoot, table: TablePath = TABLE) -> Path:
    """The announcement of a table."""
    return root.path / ".incoming" / "changed" / table.namespace / table.directory


def test_what_clones_have_read_back_reaches_the_ledger(root: DataRoot) -> None:
    """Of several clones of a table, each announcement once."""
    announce(root, TABLE, {data_path(0): ENTRY})
    announce(root, TABLE, {data_path(1): ENTRY, data_path(2): ENTRY._replace(sha256="bb")})
    announce(root, OTHER)
    assert take_announced(root) == (OTHER, TABLE)
    assert root.ledger.entries(TABLE) == {
        data_path(0): ENTRY, data_path(1): ENTRY, data_path(2): ENTRY._replace(sha256="bb")
    }
    assert (root.ledger.entries(OTHER), take_announced(root)) == ({}, ())


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(f'["{data_path(1)}", "aa", 4.5, 1, 2', id="cut off"),
        pytest.param(f'["{data_path(1)}", "aa", 4.5, 1, 2]', id="too short"),
        pytest.param(f'["{data_path(1)}", "aa", 4.5, 1, 2, 1e999]', id="a number without end"),
        pytest.param(f'["{data_path(1)}", "aa", "soon", 1, 2, 3]', id="no number"),
        pytest.param('["../../etc/passwd", "aa", 4.5, 1, 2, 3]', id="another path"),
        pytest.param('[7, "aa", 4.5, 1, 2, 3]', id="no path"),
        pytest.param("7", id="something else"),
    ],
)
def test_a_wrong_line_hides_no_others(root: DataRoot, line: str) -> None:
    """A Job may be killed while it writes."""
    announce(root, TABLE, {data_path(0): ENTRY})
    with announced(root).open("a") as file:
        file.write(f"{line}\n")
    announce(root, TABLE, {data_path(2): ENTRY})
    assert take_announced(root) == (TABLE,)
    assert root.ledger.entries(TABLE).keys() == {data_path(0), data_path(2)}


def test_what_is_no_announcement_is_removed(root: DataRoot, tmp_path: Path) -> None:
    """Odd names, links, text that is none; folders stay. A table that is named is looked at all the same."""
    announce(root, TABLE)
    (tmp_path / "outside").write_text("foreign")
    (announced(root).parent / "odd").write_text("odd")
    announced(root, OTHER).parent.mkdir()
    announced(root, OTHER).symlink_to(tmp_path / "outside")
    announced(root).write_bytes(b"\xff\xfe")
    (root.path / ".incoming" / "changed" / "Odd").mkdir()
    (root.path / ".incoming" / "changed" / "Odd" / TABLE.directory).write_text("odd")
    assert take_announced(root) == (OTHER, TABLE)
    assert [path for path in (root.path / ".incoming" / "changed").rglob("*") if not path.is_dir()] == []
    assert (tmp_path / "outside").read_text() == "foreign"


def test_a_full_disk_loses_announcements_alone(root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep finds the files."""
    monkeypatch.setattr(os, "write", Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    announce(root, TABLE, {data_path(0): ENTRY})
    assert (take_announced(root), root.ledger.entries(TABLE)) == ((TABLE,), {})


def test_progress_of_each_clone(root: DataRoot) -> None:
    """The last one written; what cannot be read is left out, and so is a clone that has not begun."""
    made = [
        CloneProgress(namespace="shop", group="sales", bucket=bucket, bytes_done=done, bytes_total=9, updated_at="")
        for bucket, done in ((1, 0), (1, 5), (2, 9), (3, 1))
    ]
    for one in made:
        write_progress(root, one)
    [third] = (root.path / ".incoming" / "clones").glob("*00003")
    (third / "progress.json").write_text("{")
    (root.path / ".incoming" / "clones" / "shop.sales.00000").mkdir()
    assert read_progress(root) == (made[1], made[2])
    (third / "progress.json").unlink()
    (third / "progress.json").mkdir()
    assert read_progress(root) == (made[1], made[2])
    assert [path.name for path in (root.path / ".incoming" / "clones").rglob(".*")] == []
