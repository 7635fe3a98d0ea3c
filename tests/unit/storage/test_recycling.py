"""Dropped tables wait in the bin, come back whole, or are purged."""

import contextlib
import errno
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from colocation.model.agent import TableReference
from colocation.storage import folder_manifests, recycling
from colocation.storage.errors import InvalidPath, ManifestMissing
from colocation.storage.folders import names_in
from colocation.storage.inventory import Inventory
from colocation.storage.paths import TablePath, table_path
from colocation.storage.root import DataRoot

from .conftest import Clock
from .tables import data_path, make_table, on_disk, publish, publish_table

TABLE = make_table({data_path(bucket, partition=f"o_year={bucket}"): b"12345" for bucket in range(3)})
OTHER = make_table({data_path(0): b"other"}, name="lines")
SUCCESSOR = table_path("shop", "orders-99999999")
FIRST = data_path(0, partition="o_year=0")
UNWANTED: Callable[[TablePath], bool] = frozenset[TablePath]().__contains__


def test_recycles_and_purges(root: DataRoot, clock: Clock) -> None:
    """A dropped table is kept for the requested time, then its files are deleted."""
    publish_table(root, TABLE)
    inventory = Inventory(root)
    recycling.recycle(inventory, TABLE.path, keep_seconds=100)
    assert root.tables() == ()
    name = f"shop.orders-0a1b2c3d.{int(clock.now)}"
    assert (root.path / ".recycle" / name / data_path(0, partition="o_year=0")).exists()
    assert json.loads((root.path / ".recycle" / f"{name}.json").read_text()) == {"keepSeconds": 100, "keptSeconds": 0}
    purge = recycling.Purge(root, UNWANTED)
    assert purge.run() == []
    clock.advance(99)
    assert purge.run() == []
    clock.advance(1)
    assert purge.run() == [TABLE.path]
    assert list((root.path / ".recycle").iterdir()) == []
    assert root.ledger.entries(TABLE.path) == {}


def test_the_retention_is_durable_before_the_folder_is_in_the_bin(
    root: DataRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power loss a folder without one would be kept for a day, however long was asked for."""
    publish_table(root, TABLE)
    steps: list[str] = []
    sync, rename = os.fsync, os.rename

    def synced(descriptor: int) -> None:
        status = os.fstat(descriptor)
        steps.append("sync folder" if stat.S_ISDIR(status.st_mode) else f"sync {status.st_size} bytes")
        sync(descriptor)

    def renamed(name: str, *given: str, **named: int) -> None:
        steps.append("rename folder" if name == TABLE.path.directory else "rename retention")
        rename(name, *given, **named)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    recycling.recycle(Inventory(root), TABLE.path, 100)
    written = len('{"keepSeconds": 100, "keptSeconds": 0}')
    assert steps == [f"sync {written} bytes", "rename retention", "rename folder", "sync folder", "sync folder"]


@pytest.mark.parametrize("recycled", [True, False], ids=["in the bin", "still in its place"])
@pytest.mark.parametrize("has_folder", [True, False], ids=["file by file", "whole"])
def test_what_comes_back_is_durable(
    root: DataRoot, monkeypatch: pytest.MonkeyPatch, recycled: bool, has_folder: bool
) -> None:
    """Where files come to and where they leave are synced after the last rename; and both tables are locked."""
    inventory, held, unsynced = Inventory(root), list[TablePath](), set[int]()
    for table, successor in ((TABLE.path, SUCCESSOR), (SUCCESSOR, TABLE.path)):
        publish(root, table, FIRST, b"rows")
        if recycled:
            recycling.recycle(inventory, table, 100)
        if has_folder:
            publish(root, successor, data_path(1), b"more")
            publish(root, successor, data_path(2, partition="o_year=0"), b"more")
        sync, rename, locked = os.fsync, os.rename, root.lock_of

        def renamed(name: str, to: str, *, src_dir_fd: int, dst_dir_fd: int, rename: Any = rename) -> None:
            rename(name, to, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            unsynced.update(os.fstat(folder).st_ino for folder in (src_dir_fd, dst_dir_fd))

        def synced(folder: int, sync: Any = sync) -> None:
            sync(folder)
            unsynced.discard(os.fstat(folder).st_ino)

        def noted(table: TablePath, locked: Any = locked) -> contextlib.AbstractContextManager[None]:
            held.append(table)
            return locked(table)

        with monkeypatch.context() as patched:
            patched.setattr(os, "rename", renamed)
            patched.setattr(os, "fsync", synced)
            patched.setattr(root, "lock_of", noted)
            recycling.restore(inventory, table, successor)
        assert unsynced == set()
        assert held == sorted([table, successor]), "in one order, however they are called"
        held.clear()
        assert on_disk(root, successor, FIRST).read_bytes() == b"rows"
        shutil.rmtree(on_disk(root, successor, ""))


def test_a_file_that_cannot_be_compared_stays(root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be the only good copy."""
    publish(root, TABLE.path, FIRST, b"rows")
    publish(root, SUCCESSOR, FIRST, b"rows")
    with monkeypatch.context() as patched:
        fail(patched, "open", FIRST.rpartition("/")[2], errno.EIO)
        recycling.restore(Inventory(root), TABLE.path, SUCCESSOR)
    assert on_disk(root, TABLE.path, FIRST).read_bytes() == b"rows"


def test_a_table_without_a_retention_stays_in_its_place(root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk: it would be kept for a day only, and the order is repeated."""
    publish_table(root, TABLE)
    with monkeypatch.context() as patched:
        fail(patched, "fsync", None, errno.ENOSPC)
        with pytest.raises(OSError, match="No space left"):
            recycling.recycle(Inventory(root), TABLE.path, 900_000)
    assert (root.tables(), list((root.path / ".recycle").iterdir())) == ((TABLE.path,), [])


@pytest.mark.parametrize(
    ("keep_seconds", "seconds", "recorded"),
    [(1000, 59, 0), (1000, 60, 60), (10_000, 199, 0), (10_000, 200, 200), (900_000, 86400 * 5, 86400 * 5)],
)
def test_how_long_a_folder_was_kept_is_recorded_seldom(
    root: DataRoot, clock: Clock, keep_seconds: int, seconds: int, recorded: int
) -> None:
    """Each minute, or each fiftieth of its retention; and nothing else of the bin changes."""
    publish_table(root, TABLE)
    recycling.recycle(Inventory(root), TABLE.path, keep_seconds)
    purge = recycling.Purge(root, UNWANTED)
    purge.run()
    before = sorted((root.path / ".recycle").iterdir())
    clock.advance(seconds)
    assert purge.run() == []
    assert sorted((root.path / ".recycle").iterdir()) == before
    assert json.loads(before[1].read_text()) == {"keepSeconds": keep_seconds, "keptSeconds": recorded}


def test_a_link_in_the_bin_is_purged_and_not_followed(
    root: DataRoot, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it leads to stays. A folder that comes back meanwhile is none that was purged."""
    (tmp_path / "outside").mkdir()
    link = root.path / ".recycle" / "shop.orders-0a1b2c3d.1"
    link.symlink_to(tmp_path / "outside")
    monkeypatch.setattr(recycling, "names_in", lambda folder: ["shop.lines-0a1b2c3d.1", *names_in(folder)])
    purge = recycling.Purge(root, UNWANTED)
    assert purge.run() == []
    clock.advance(recycling.DEFAULT_KEEP_SECONDS)
    assert purge.run() == [TABLE.path]
    assert (link.is_symlink(), (tmp_path / "outside").is_dir()) == (False, True)
    monkeypatch.undo()
    assert (purge.run(), purge._watched) == ([], {})


def test_recycling_again_is_no_error(root: DataRoot) -> None:
    """The second call finds nothing; a table re-created in between is recycled in addition to the first."""
    inventory = Inventory(root)
    publish_table(root, TABLE)
    recycling.recycle(inventory, TABLE.path, 100)
    recycling.recycle(inventory, TABLE.path, 100)
    recycling.recycle(inventory, TablePath("lake", TABLE.path.directory), 100)
    assert sorted(path.is_dir() for path in (root.path / ".recycle").iterdir()) == [False, True]


@pytest.mark.parametrize(
    ("content", "keep_seconds"),
    [
        pytest.param("{", recycling.DEFAULT_KEEP_SECONDS, id="torn"),
        pytest.param("[]", recycling.DEFAULT_KEEP_SECONDS, id="something else"),
        pytest.param('{"keptSeconds": 5}', recycling.DEFAULT_KEEP_SECONDS, id="does not say how long"),
        pytest.param('{"keepSeconds": 1e999}', recycling.DEFAULT_KEEP_SECONDS, id="for ever"),
        pytest.param('{"keepSeconds": 100, "keptSeconds": -1000}', 100, id="kept for less than no time"),
        pytest.param('{"keepSeconds": 100}', 100, id="does not say for how long it was kept"),
    ],
)
def test_a_recycled_table_with_unreadable_retention_is_kept_for_a_day(
    root: DataRoot, clock: Clock, content: str, keep_seconds: int
) -> None:
    """An unknown retention counts as a long one."""
    publish_table(root, TABLE)
    recycling.recycle(Inventory(root), TABLE.path, 0)
    next((root.path / ".recycle").glob("*.json")).write_text(content)
    purge = recycling.Purge(root, UNWANTED)
    assert purge.run() == []
    clock.advance(keep_seconds - 1)
    assert purge.run() == []
    clock.advance(1)
    assert purge.run() == [TABLE.path]


@pytest.mark.parametrize("name", ["orders.1", "Shop.orders-0a1b2c3d.1", "shop.orders.1", "shop.orders-0a1b2c3d.soon"])
def test_a_folder_of_another_name_in_the_bin_is_no_table(root: DataRoot, name: str) -> None:
    """It is not restored."""
    (root.path / ".recycle" / name).mkdir()
    assert list(recycling.recycled_tables(root)) == []


def test_a_stepped_clock_purges_nothing(root: DataRoot, clock: Clock) -> None:
    """Only observed time counts, also over restarts; time that was not recorded starts over."""
    publish_table(root, TABLE)
    recycling.recycle(Inventory(root), TABLE.path, 1000)
    clock.step(1_000_000)
    purge = recycling.Purge(root, UNWANTED)
    assert purge.run() == []
    clock.step(1_000_000)
    clock.advance(600)
    assert purge.run() == []
    clock.advance(10)
    assert purge.run() == []
    restarted = recycling.Purge(root, UNWANTED)
    assert restarted.run() == []
    clock.advance(399)
    assert restarted.run() == []
    clock.advance(1)
    assert restarted.run() == [TABLE.path]


def test_a_folder_of_a_wanted_table_is_not_purged(root: DataRoot, clock: Clock) -> None:
    """It was recycled by mistake; it is purged once no question names the table."""
    wanted = {TABLE.path}
    publish_table(root, TABLE)
    recycling.recycle(Inventory(root), TABLE.path, 100)
    purge = recycling.Purge(root, wanted.__contains__)
    clock.advance(1000)
    assert purge.run() == []
    clock.advance(1000)
    assert purge.run() == []
    wanted.clear()
    assert purge.run() == [TABLE.path]


def test_a_clock_that_repeats_a_second_overwrites_nothing(root: DataRoot) -> None:
    """The bin then holds two folders of one table."""
    for _ in range(2):
        publish_table(root, TABLE)
        recycling.recycle(Inventory(root), TABLE.path, 100)
    assert len([path for path in (root.path / ".recycle").iterdir() if path.is_dir()]) == 2


def test_the_last_of_two_folders_comes_back(root: DataRoot, clock: Clock) -> None:
    """The table was recovered partly, and dropped again: the older folder is older content."""
    inventory = Inventory(root)
    for content in (b"older", b"newer"):
        publish(root, TABLE.path, data_path(0), content)
        recycling.recycle(inventory, TABLE.path, 100)
        clock.advance(10)
    recycling.restore(inventory, TABLE.path, SUCCESSOR)
    assert on_disk(root, SUCCESSOR, data_path(0)).read_bytes() == b"newer"
    assert [one.table for one in recycling.recycled_tables(root)] == [TABLE.path]


def test_a_retention_waits_for_its_folder_for_a_day(root: DataRoot, clock: Clock) -> None:
    """It is written first: otherwise a folder that comes a moment later would not be kept as long as requested."""
    early = root.path / ".recycle" / "shop.orders-0a1b2c3d.1.json"
    early.write_text('{"keepSeconds": 900000, "keptSeconds": 0}')
    purge = recycling.Purge(root, UNWANTED)
    purge.run()
    assert early.exists()
    clock.advance(recycling.DEFAULT_KEEP_SECONDS + 60)
    purge.run()
    assert not early.exists()


def fail(monkeypatch: pytest.MonkeyPatch, function: str, name: object, number: int) -> None:
    """Make a function of ``os`` fail for one argument; None = for every one."""
    original = getattr(os, function)

    def failing(what: object, *arguments: object, **named: object) -> object:
        if name in (None, what):
            raise OSError(number, os.strerror(number))
        return original(what, *arguments, **named)

    monkeypatch.setattr(os, function, failing)


def test_a_full_disk_is_purged(root: DataRoot, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time kept cannot be recorded there, but it counts."""
    for table, keep_seconds in ((OTHER, 86400), (TABLE, 600)):
        publish_table(root, table)
        recycling.recycle(Inventory(root), table.path, keep_seconds)
    purge = recycling.Purge(root, UNWANTED)
    assert purge.run() == []
    names = {path.name for path in (root.path / ".recycle").iterdir()}
    with monkeypatch.context() as patched:
        fail(patched, "fsync", None, errno.ENOSPC)
        clock.advance(7200)
        assert purge.run() == [TABLE.path]
    left = {path.name for path in (root.path / ".recycle").iterdir()}
    assert left == {name for name in names if name.startswith("shop.lines")}
    clock.advance(86400 - 7200)
    assert purge.run() == [OTHER.path]


def test_an_unreadable_retention_stops_no_other_purge(
    root: DataRoot, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own folder stays, since its retention is unknown."""
    for table in (OTHER, TABLE):
        publish_table(root, table)
        recycling.recycle(Inventory(root), table.path, 0)
    fail(monkeypatch, "open", f"{OTHER.path.namespace}.{OTHER.path.directory}.{int(clock.now)}.json", errno.EIO)
    purge = recycling.Purge(root, UNWANTED)
    assert [purge.run(), purge.run()] == [[TABLE.path], []]


def test_a_half_written_retention_stops_no_purge(root: DataRoot, clock: Clock) -> None:
    """The next one replaces it, also during a purge."""
    for table, keep_seconds in ((OTHER, 86400), (TABLE, 600)):
        publish_table(root, table)
        recycling.recycle(Inventory(root), table.path, keep_seconds)
    purge = recycling.Purge(root, UNWANTED)
    purge.run()
    [written] = (root.path / ".recycle").glob("shop.lines*.json")
    written.with_name(written.name.replace(".json", ".new.json")).write_text("{")
    clock.advance(7200)
    assert purge.run() == [TABLE.path]


def test_a_file_that_cannot_be_deleted_stops_no_other_purge(
    root: DataRoot, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor the other files of its own folder; the folder goes once the file does."""
    publish_table(root, TABLE)
    recycling.recycle(Inventory(root), TABLE.path, 0)
    bad = data_path(0).rpartition("/")[2]
    purge = recycling.Purge(root, UNWANTED)
    with monkeypatch.context() as patched:
        fail(patched, "unlink", bad, errno.EUCLEAN)
        assert purge.run() == []
    assert [path.name for path in (root.path / ".recycle").glob("*/**/*") if path.is_file()] == [bad]
    assert purge.run() == [TABLE.path]


@pytest.mark.parametrize("recycled", [True, False], ids=["in the bin", "still in its place"])
def test_a_dropped_table_comes_back_as_its_successor(root: DataRoot, recycled: bool) -> None:
    """The same files under the successor's name are complete after they were verified; the bin is empty."""
    inventory = Inventory(root)
    recycling.restore(inventory, TABLE.path, SUCCESSOR)
    assert root.tables() == ()
    publish_table(root, TABLE)
    publish_table(root, OTHER)
    recycling.recycle(inventory, OTHER.path, 100)
    folder = on_disk(root, TABLE.path, "").stat().st_ino
    if recycled:
        recycling.recycle(inventory, TABLE.path, 100)
        assert [one.table for one in recycling.recycled_tables(root)] == [OTHER.path, TABLE.path]
    for _ in range(2):
        recycling.restore(inventory, TABLE.path, SUCCESSOR)
    assert root.tables() == (SUCCESSOR,)
    assert on_disk(root, SUCCESSOR, "").stat().st_ino == folder, "one rename, however many files"
    assert [one.table for one in recycling.recycled_tables(root)] == [OTHER.path]
    assert len(list((root.path / ".recycle").iterdir())) == 2
    report = inventory.table(SUCCESSOR).verify(TABLE.manifest, deep=False)
    assert {bucket: found.state for bucket, found in report.buckets.items()} == dict.fromkeys(range(3), "complete")


def test_a_bin_that_an_administrator_has_removed(root: DataRoot) -> None:
    """Room is short on a node: the bin's folder goes with what it holds, and comes back when it is needed."""
    inventory, bin_folder = Inventory(root), root.path / ".recycle"
    publish_table(root, TABLE)
    bin_folder.rmdir()
    assert recycling.Purge(root, UNWANTED).run() == []
    bin_folder.rmdir()
    recycling.restore(inventory, TABLE.path, SUCCESSOR)
    assert root.tables() == (SUCCESSOR,)
    bin_folder.rmdir()
    recycling.recycle(inventory, SUCCESSOR, 100)
    assert [one.table for one in recycling.recycled_tables(root)] == [SUCCESSOR]


@pytest.mark.parametrize("late", ["in its place", "in the bin", "in the successor's"])
def test_late_files_of_a_load_hide_no_others(root: DataRoot, clock: Clock, late: str) -> None:
    """A load continues while its table is dropped, and re-creates the folder (found by chaos): all files come back."""
    inventory, extra = Inventory(root), data_path(0).replace("part-", "part-late")
    publish_table(root, TABLE)
    recycling.recycle(inventory, TABLE.path, 100)
    publish(root, SUCCESSOR if late == "in the successor's" else TABLE.path, extra, b"never committed")
    if late == "in the bin":
        clock.advance(10)
        recycling.recycle(inventory, TABLE.path, 100)
    asked = [
        TableReference(namespace=table.namespace, directory=table.directory) for table in (TABLE.path, SUCCESSOR)
    ]
    size_bytes = 15 + len(b"never committed")
    assert sum(one.surplus_bytes for one in inventory.report(asked)) == (0 if late == "in the bin" else size_bytes - 15)
    recycling.restore(inventory, TABLE.path, SUCCESSOR)
    assert [one.surplus_bytes for one in inventory.report(asked)] == [0, size_bytes]
    recycling.restore(inventory, TABLE.path, SUCCESSOR)
    assert root.tables() == (SUCCESSOR,)
    assert list((root.path / ".recycle").iterdir()) == []
    assert on_disk(root, SUCCESSOR, extra).read_bytes() == b"never committed"
    report = inventory.table(SUCCESSOR).verify(TABLE.manifest, deep=False)
    assert {bucket: found.state for bucket, found in report.buckets.items()} == dict.fromkeys(range(3), "complete")


def test_a_table_may_come_back_as_itself(root: DataRoot) -> None:
    """Its drop was undone by an older copy of etcd; a load has re-created its folder meanwhile."""
    inventory, extra = Inventory(root), data_path(0).replace("part-", "part-new")
    publish_table(root, TABLE)
    recycling.recycle(inventory, TABLE.path, 100)
    publish(root, TABLE.path, extra, b"loaded since")
    for _ in range(2):
        recycling.restore(inventory, TABLE.path, TABLE.path)
    assert list((root.path / ".recycle").iterdir()) == []
    assert on_disk(root, TABLE.path, extra).read_bytes() == b"loaded since"
    report = inventory.table(TABLE.path).verify(TABLE.manifest, deep=False)
    assert {bucket: found.state for bucket, found in report.buckets.items()} == dict.fromkeys(range(3), "complete")


def test_a_successor_keeps_the_files_that_it_has(root: DataRoot) -> None:
    """A late node was repaired meanwhile; a different file of the same name stays in the bin."""
    inventory = Inventory(root)
    publish(root, TABLE.path, data_path(0), b"late")
    recycling.recycle(inventory, TABLE.path, 100)
    publish(root, SUCCESSOR, data_path(0), b"repaired")
    recycling.restore(inventory, TABLE.path, SUCCESSOR)
    assert on_disk(root, SUCCESSOR, data_path(0)).read_bytes() == b"repaired"
    [left] = recycling.recycled_tables(root)
    assert (root.path / ".recycle" / left.name / data_path(0)).read_bytes() == b"late"
    assert (root.path / ".recycle" / f"{left.name}.json").exists(), "it is kept as long as was asked for"


@pytest.mark.parametrize("is_link", [False, True], ids=["a copy", "another name of the same file"])
def test_files_that_the_successor_has_leave_no_folder_behind(root: DataRoot, is_link: bool) -> None:
    """Otherwise the folder would wait to be handed over for ever."""
    inventory, own = Inventory(root), on_disk(root, SUCCESSOR, FIRST)
    publish(root, TABLE.path, FIRST, b"rows")
    publish(root, SUCCESSOR, FIRST, b"rows")
    if is_link:
        own.unlink()
        own.hardlink_to(on_disk(root, TABLE.path, FIRST))
    recycling.restore(inventory, TABLE.path, SUCCESSOR)
    assert root.tables() == (SUCCESSOR,)
    assert own.read_bytes() == b"rows"


@pytest.mark.parametrize("theirs", [b"rot!", b"row", b"rows+"], ids=["other bytes", "shorter", "longer"])
def test_other_content_of_the_same_name_stays(root: DataRoot, theirs: bytes) -> None:
    """One of the two is damaged, and it is unknown which."""
    inventory = Inventory(root)
    publish(root, TABLE.path, data_path(0), b"rows")
    publish(root, SUCCESSOR, data_path(0), theirs)
    recycling.restore(inventory, TABLE.path, SUCCESSOR)
    assert on_disk(root, TABLE.path, data_path(0)).read_bytes() == b"rows"
    assert on_disk(root, SUCCESSOR, data_path(0)).read_bytes() == theirs


def test_only_files_of_a_table_are_handed_over(root: DataRoot) -> None:
    """Foreign files in a dropped folder stay there."""
    inventory = Inventory(root)
    publish(root, TABLE.path, data_path(0), b"rows")
    on_disk(root, TABLE.path, "data/notes.txt").write_text("not ours")
    recycling.recycle(inventory, TABLE.path, 100)
    on_disk(root, SUCCESSOR, "data").mkdir(parents=True)
    recycling.restore(inventory, TABLE.path, SUCCESSOR)
    assert on_disk(root, SUCCESSOR, data_path(0)).read_bytes() == b"rows"
    assert not on_disk(root, SUCCESSOR, "data/notes.txt").exists()
    [left] = recycling.recycled_tables(root)
    assert (root.path / ".recycle" / left.name / "data" / "notes.txt").exists()


def test_no_other_table_gets_the_files(root: DataRoot) -> None:
    """Names and namespaces must be the same."""
    for namespace, directory in (("shop", "customers-99999999"), ("bank", "orders-99999999")):
        with pytest.raises(InvalidPath, match="same name"):
            recycling.restore(Inventory(root), TABLE.path, table_path(namespace, directory))


def test_schema_of_a_recycled_table(root: DataRoot) -> None:
    """From its manifest, in its place or in the bin; without it, or if it is damaged, another node has to be asked."""
    publish_table(root, TABLE)
    in_place = folder_manifests.recycled_schema(root, TABLE.path, TABLE.manifest)
    recycling.recycle(Inventory(root), TABLE.path, 100)
    schema = folder_manifests.recycled_schema(root, TABLE.path, TABLE.manifest)
    assert schema == in_place
    assert ([column.name for column in schema.columns], schema.bucketed_by, schema.buckets) == (["key"], ("key",), 4)
    with pytest.raises(ManifestMissing):
        folder_manifests.recycled_schema(root, TABLE.path, "00" * 32)
    next((root.path / ".recycle").glob(f"*/manifests/{TABLE.manifest}*")).write_bytes(b"damaged")
    with pytest.raises(ManifestMissing):
        folder_manifests.recycled_schema(root, TABLE.path, TABLE.manifest)
