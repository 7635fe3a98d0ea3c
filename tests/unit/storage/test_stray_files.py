"""How many files no live manifest names: counted at each look, and by namespace."""

import pytest

from colocation.storage import stray_files
from colocation.storage.inventory import Inventory
from colocation.storage.memory_limits import ManifestRoom
from colocation.storage.paths import TablePath
from colocation.storage.root import DataRoot
from colocation.storage.stray_files import BYTES_OF_A_STRAY, StrayFiles

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
def test_a_namespace_has_a_bound_and_all_have_one(
    monkeypatch: pytest.MonkeyPatch, others: int, allowed: int
) -> None:
    """Many namespaces of one tenant take no more than all may; who has little always finds room."""
    monkeypatch.setattr(stray_files, "MAX_OF_NAMESPACE", 100)
    strays = StrayFiles(160 * BYTES_OF_A_STRAY)
    strays.count(TablePath("lake", "lines-0a1b2c3d"), others)
    strays.count(LINES, 5)
    assert strays.allowed("shop") == allowed


def test_each_look_counts_anew() -> None:
    """What was published since is counted, too; a namespace without such files takes no memory."""
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
def test_an_inventory_counts_what_lies_there(root: DataRoot, paths: list[str], count: int) -> None:
    """Files beside those that the live manifest names; or folders, where a file has many of its own."""
    publish_table(root, TABLE)
    memory = ManifestRoom()
    inventory = Inventory(root, memory)
    for path in paths:
        publish(root, TABLE.path, path, b"stray")
    inventory.report([TABLE.reference])
    assert memory.strays.of("shop") == count + 1, "and the manifest itself"
    inventory.forget(TABLE.path)
    assert memory.strays.of("shop") == 0


def test_folders_that_the_operator_does_not_know_count_whole(root: DataRoot) -> None:
    """As a report names them, so after a start of the agent, too."""
    publish_table(root, TABLE)
    memory = ManifestRoom()
    table = Inventory(root, memory).table(TABLE.path)
    table.look()
    assert memory.strays.of("shop") == 0, "the operator may know it"
    assert table.size_bytes() > 0
    assert memory.strays.of("shop") == len(TABLE.contents) + 1
