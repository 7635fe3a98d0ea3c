"""Locks and counts of tables take no memory when unused."""

import threading

import pytest

from colocation.model.table_manifest import manifest_path
from colocation.storage.inventory import Inventory
from colocation.storage.paths import TablePath
from colocation.storage.recycling import recycle
from colocation.storage.removal import LiveManifests, collect_garbage
from colocation.storage.root import DataRoot

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
