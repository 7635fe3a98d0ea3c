"""How many files no live manifest names: counted at each look, and limited by namespace."""

import pytest

from colocation.storage import memory_limits
from colocation.storage.inventory import Inventory
from colocation.storage.memory_limits import BYTES_OF_A_STRAY, ManifestRoom, StrayFiles
from colocation.storage.paths import TablePath
from colocation.storage.root import DataRoot

from .tables import data_path, make_table, publish, publish_table

TABLE = make_table({data_path(bucket): b"rows" for bucket in range(4)})
LINES = TablePath("shop", "lines-0a1b2c3d")


@pytest.mark.parametrize(
    ("others", "allowed"),
    [
        pytest.param(0, 100, id="no others: a namespace's bound"),
        pytest.param(30, 100, id="others leave as much"),
        pytest.param(120, 40, id="others leave less"),
        pytest.param(1000, 10, id="others leave nothing: a sixteenth"),
    ],
)
def test_limits_of_a_namespace_and_of_all(
    monkeypatch: pytest.MonkeyPatch, others: int, allowed: int
) -> None:
    """Many namespaces of one tenant take no more than all may; a namespace with few always has room."""
    monkeypatch.setattr(memory_limits, "MAX_OF_NAMESPACE", 100)
    strays = StrayFiles(160 * BYTES_OF_A_STRAY)
    strays.count(TablePath("lake", "lines-0a1b2c3d"), others)
    strays.count(LINES, 5)
    assert strays.allowed("shop") == allowed


def test_each_look_counts_again() -> None:
    """Files published since count, too; a namespace without such files takes no memory."""
    strays = StrayFiles()
    strays.count(LINES, 5)
    strays.add(LINES)
    strays.add(TABLE.path)
    assert strays.of("shop") == 7
    strays.count(LINES, 2)
    assert strays.of("shop") == 3
    strays.count(LINES, 0)
    strays.count(TABLE.path, 0)
    assert strays.of("shop") == 0
    assert not strays._of_tables and not strays._of_namespaces


@pytest.mark.parametrize(
    ("paths", "count"),
    [
        pytest.param([data_path(0, load="2"), data_path(1, load="2")], 2, id="files"),
        pytest.param([data_path(0, partition="/".join(f"{key}={one}" for key in "abcde")) for one in (1, 2)], 6,
                     id="folders"),
    ],
)
def test_an_inventory_counts_unnamed_files(root: DataRoot, paths: list[str], count: int) -> None:
    """Files that the live manifest does not name; or folders, if a file is alone in many."""
    publish_table(root, TABLE)
    memory = ManifestRoom()
    inventory = Inventory(root, memory)
    for path in paths:
        publish(root, TABLE.path, path, b"stray")
    inventory.report([TABLE.reference])
    assert memory.strays.of("shop") == count + 1, "and the manifest itself"
    inventory.forget(TABLE.path)
    assert memory.strays.of("shop") == 0


def test_all_files_of_unknown_folders_count(root: DataRoot) -> None:
    """A report names them, so also after a restart of the agent."""
    publish_table(root, TABLE)
    memory = ManifestRoom()
    table = Inventory(root, memory).table(TABLE.path)
    table.look()
    assert memory.strays.of("shop") == 0, "the operator may know it"
    assert table.size_bytes() > 0
    assert memory.strays.of("shop") == len(TABLE.contents) + 1
