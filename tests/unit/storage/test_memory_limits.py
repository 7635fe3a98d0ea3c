"""How many files no live manifest names: counted at each look, and limited by namespace."""

import pytest

from colocation.model.table_manifest import manifest_path
from colocation.storage import memory_limits
from colocation.storage.inventory import Inventory
from colocation.storage.memory_limits import BYTES_OF_A_FILE, BYTES_OF_A_STRAY, ManifestRoom, StrayFiles
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


def test_named_files_that_are_not_here_count_for_nothing(root: DataRoot) -> None:
    """Nor against others: a node that is to take a replica has its manifest first."""
    publish(root, TABLE.path, manifest_path(TABLE.manifest), TABLE.stored)
    memory = ManifestRoom()
    Inventory(root, memory).report([TABLE.reference])
    memory.strays.add(LINES)
    assert memory.strays.of("shop") == 1


@pytest.mark.parametrize(
    ("used", "more", "is_room"),
    [
        pytest.param({}, 32, True, id="all of it"),
        pytest.param({}, 33, False, id="more than all"),
        pytest.param({"lake": 30}, 2, True, id="just what is left"),
        pytest.param({"lake": 31}, 2, True, id="a sixteenth, also when all is used"),
        pytest.param({"lake": 30}, 3, False, id="more than is left, and than a sixteenth"),
        pytest.param({"lake": 31, "shop": 1}, 2, False, id="a sixteenth together with what it has"),
    ],
)
def test_room_for_manifests(used: dict[str, int], more: int, is_room: bool) -> None:
    """What was refused takes none; what is given back can be taken again."""
    room = ManifestRoom(32 * BYTES_OF_A_FILE + 1)
    assert all(room.take(namespace, files) for namespace, files in used.items())
    for _ in range(2):
        assert (room.has("shop", more), room.take("shop", more)) == (is_room, is_room)
        for namespace, files in {**used, **({"shop": more + used.get("shop", 0)} if is_room else {})}.items():
            room.give_back(namespace, files)
        assert room._files == {}
        assert all(room.take(namespace, files) for namespace, files in used.items())


def test_without_a_limit_there_is_room() -> None:
    """As in clone Jobs, which have one table's manifest; a namespace's bound on strays holds all the same."""
    room = ManifestRoom()
    assert room.take("shop", 10**9) and room.has("shop", 10**9)
    room.strays.count(LINES, 10**9)
    assert room.strays.allowed("lake") == memory_limits.MAX_OF_NAMESPACE


def test_all_files_of_unknown_folders_count(root: DataRoot) -> None:
    """A report names them, so also after a restart of the agent."""
    publish_table(root, TABLE)
    memory = ManifestRoom()
    table = Inventory(root, memory).table(TABLE.path)
    table.look()
    assert memory.strays.of("shop") == 0, "the operator may know it"
    assert table.size_bytes() > 0
    assert memory.strays.of("shop") == len(TABLE.contents) + 1
