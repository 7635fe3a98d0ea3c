"""Deletion frees exactly what it may, and can be repeated."""

import os

import pytest

from colocation.model.agent import Removed
from colocation.storage import removal
from colocation.storage.errors import ManifestMissing
from colocation.storage.inventory import Inventory
from colocation.storage.removal import Spared
from colocation.storage.root import DataRoot

from .conftest import Clock
from .tables import data_path, make_table, on_disk, publish, publish_table

TABLE = make_table({data_path(bucket, partition=f"o_year={bucket}"): b"12345" for bucket in range(3)})
GARBAGE = data_path(0, load="garbage")


def paths(root: DataRoot) -> set[str]:
    """All files of the table, relative to its folder."""
    folder = root.path / "shop" / "orders-0a1b2c3d"
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_deletes_a_bucket_but_for_what_a_load_may_yet_commit(root: DataRoot, clock: Clock) -> None:
    """Committed files go at once, with the folders they leave empty; others when they are older than the grace."""
    publish_table(root, TABLE)
    young = data_path(1, load="not-committed")
    publish(root, TABLE.path, young, b"12")
    clock.now = on_disk(root, TABLE.path, young).stat().st_mtime + 50
    inventory, live, before = Inventory(root), (TABLE.manifest,), paths(root)
    assert removal.delete_bucket(root, inventory, TABLE.path, 1, Spared(live, 100)) == Removed(files=1, bytes=5)
    assert before - paths(root) == {data_path(1, partition="o_year=1")}
    assert not on_disk(root, TABLE.path, "data/o_year=1").exists()
    assert removal.delete_bucket(root, inventory, TABLE.path, 1, Spared(live, 10)) == Removed(files=1, bytes=2)
    assert removal.delete_bucket(root, inventory, TABLE.path, 1, Spared(live, 10)) == Removed(files=0, bytes=0)


def test_deleting_from_a_table_that_is_not_here(root: DataRoot) -> None:
    """Nothing to delete is no error."""
    assert removal.delete_bucket(root, Inventory(root), TABLE.path, 1, Spared((), 0)) == Removed(files=0, bytes=0)


def test_collects_old_garbage_only(root: DataRoot, clock: Clock) -> None:
    """Files and manifests that no live manifest names go once they are older than the grace."""
    publish_table(root, TABLE)
    old = make_table({GARBAGE: b"garbage"}, snapshot=0)
    publish_table(root, old)
    clock.now = on_disk(root, TABLE.path, GARBAGE).stat().st_mtime + 50
    inventory = Inventory(root)
    live = (TABLE.manifest,)
    assert removal.collect_garbage(root, inventory, TABLE.path, live, 100).files == 0
    before = paths(root)
    assert removal.collect_garbage(root, inventory, TABLE.path, live, 10).files == 2
    assert before - paths(root) == {GARBAGE, f"manifests/{old.manifest}.json.zst"}


def test_collects_nothing_when_a_live_manifest_is_missing(root: DataRoot) -> None:
    """What is garbage is then unknown, so nothing is."""
    publish_table(root, TABLE)
    before = paths(root)
    with pytest.raises(ManifestMissing):
        removal.collect_garbage(root, Inventory(root), TABLE.path, (TABLE.manifest, "00" * 32), 0)
    assert paths(root) == before


def test_an_upload_of_old_garbage_makes_it_young(root: DataRoot, clock: Clock) -> None:
    """A load that is repeated finds its file there; the collection must not take it away then."""
    publish(root, TABLE.path, GARBAGE, b"garbage")
    file = on_disk(root, TABLE.path, GARBAGE)
    long_ago = file.stat().st_mtime - 1000
    os.utime(file, (long_ago, long_ago))
    publish(root, TABLE.path, GARBAGE, b"garbage")
    clock.now = file.stat().st_mtime + 50
    assert removal.collect_garbage(root, Inventory(root), TABLE.path, (), 100).files == 0
