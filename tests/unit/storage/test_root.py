"""Locks and counts of tables take no memory when unused."""

import os
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from colocation.model.table_manifest import manifest_path
from colocation.storage.inventory import Inventory
from colocation.storage.ledger import FileIdentity, LedgerEntry
from colocation.storage.paths import TablePath
from colocation.storage.recycling import recycle
from colocation.storage.removal import LiveManifests, collect_garbage
from colocation.storage.root import DataRoot

from .conftest import Clock
from .tables import make_table, publish_table

TABLE = TablePath("shop", "orders-0a1b2c3d")


def test_made_up_tables_leave_no_locks(root: DataRoot) -> None:
    """Each upload names a table: a tenant must not fill the agent's memory with names."""
    for number in range(100):
        with root.lock_of(TablePath("shop", f"made-up-{number:08x}")):
            assert len(root.table_locks) == 1
    with pytest.raises(ZeroDivisionError), root.lock_of(TABLE):
        raise ZeroDivisionError
    assert len(root.table_locks) == 0


def test_one_thread_holds_a_lock_at_a_time(root: DataRoot) -> None:
    """Also while other threads come and go."""
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(200):
            with root.lock_of(TABLE):
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (most, len(root.table_locks)) == (1, 0)


def test_ages_and_entries_outlive_a_process(root: DataRoot, clock: Clock) -> None:
    """Of an agent; a clone's own are not kept."""
    entry = LedgerEntry(FileIdentity(1, 2, 3), "aa", 4.0)
    for owns_ledger, age, entries in ((True, 10.0, {"data/a": entry}), (False, 0.0, {})):
        path = root.path / f"another-{owns_ledger}"
        path.mkdir()
        first = DataRoot(path, clock, clock.monotonic, owns_ledger)
        first.ages.of("place", {"data/a": entry.identity})
        first.ledger.record(TABLE, "data/a", entry)
        clock.advance(10)
        first.close()
        again = DataRoot(path, clock, clock.monotonic)
        assert again.ages.of("place", {"data/a": entry.identity}) == {"data/a": age}
        assert again.ledger.entries(TABLE) == entries
        again.close()


@pytest.mark.parametrize(
    ("fraction", "expected"), [(0.0, (4000, 1200)), (0.1, (3600, 800)), (0.5, (2000, 0))]
)
def test_the_share_of_others_is_neither_size_nor_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fraction: float, expected: tuple[int, int]
) -> None:
    """Of blocks of the file system, and those that processes without privileges may use."""
    opened = DataRoot(tmp_path, reserved_fraction=fraction)
    found = Mock(f_blocks=1000, f_frsize=4, f_bavail=300, f_bfree=400)
    monkeypatch.setattr(os, "fstatvfs", lambda _descriptor: found)
    assert opened.disk() == expected
    opened.close()


def test_a_recycled_table_leaves_no_counts_and_no_ages(root: DataRoot) -> None:
    """Pipelines make and drop tables all day."""
    inventory, table, other = Inventory(root), make_table({}), make_table({}, snapshot=2)
    publish_table(root, table)
    publish_table(root, other)
    collect_garbage(inventory, table.path, LiveManifests((table.manifest,), 100))
    assert root.change_count(table.path) > 0
    assert root.ledger.sightings(str(table.path)).keys() == {manifest_path(other.manifest)}
    recycle(inventory, table.path, 100)
    assert (root.change_count(table.path), root.ledger.sightings(str(table.path))) == (0, {})
