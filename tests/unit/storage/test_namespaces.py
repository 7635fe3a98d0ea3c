"""Folders of namespaces, which tenants' pods mount: their owner, and content that tenants plant in them."""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from colocation.storage import quarantine, recycling, removal
from colocation.storage.errors import StorageError
from colocation.storage.folder_manifests import folder_manifests
from colocation.storage.inventory import Inventory, sweep
from colocation.storage.paths import TablePath, table_path
from colocation.storage.root import DataRoot

from .conftest import Clock
from .tables import data_path, make_table, on_disk, publish, publish_table

ANOTHER_USER = 12345
TABLE = make_table({data_path(bucket): b"content" for bucket in range(2)})
VICTIM = make_table({data_path(bucket): b"content" for bucket in range(2)}, namespace="bank")
LIVE = removal.LiveManifests(("e" * 64,), grace_seconds=0)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders to another user")


def test_the_folder_exists_before_the_first_write(root: DataRoot, caplog: pytest.LogCaptureFixture) -> None:
    """Readable by all; names that are not allowed make none."""
    umask = os.umask(0o077)
    try:
        for namespace in ("shop", "shop", "..", ".recycle", "a/b", ""):
            root.own_namespace(namespace)
    finally:
        os.umask(umask)
    assert sorted(path.name for path in root.path.iterdir() if not path.name.startswith(".")) == ["shop"]
    assert (root.path / "shop").stat().st_mode & 0o777 == 0o755
    assert (root.tables(), caplog.records) == ((), [])


@needs_root
@pytest.mark.parametrize("is_asked_first", [True, False])
def test_an_empty_folder_of_the_kubelet_is_replaced(root: DataRoot, is_asked_first: bool) -> None:
    """Once the agent is asked about the namespace, or with the first file."""
    made = root.path / "shop"
    made.mkdir()
    os.chown(made, ANOTHER_USER, ANOTHER_USER)
    if is_asked_first:
        root.own_namespace("shop")
    else:
        publish_table(root, TABLE)
    assert made.stat().st_uid == os.geteuid()


@needs_root
def test_a_foreign_folder_with_content_stays(root: DataRoot, caplog: pytest.LogCaptureFixture) -> None:
    """It is not empty, so it may be in use."""
    made = root.path / "shop"
    made.mkdir()
    (made / "notes").write_text("mine")
    os.chown(made, ANOTHER_USER, ANOTHER_USER)
    root.own_namespace("shop")
    assert made.stat().st_uid == ANOTHER_USER
    assert (made / "notes").read_text() == "mine"
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@needs_root
def test_a_folder_that_the_disk_does_not_replace(root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error tells what is wrong with the disk."""
    made = root.path / "shop"
    made.mkdir()
    os.chown(made, ANOTHER_USER, ANOTHER_USER)
    monkeypatch.setattr(os, "rmdir", Mock(side_effect=OSError(errno.EROFS, os.strerror(errno.EROFS))))
    with pytest.raises(OSError, match="Read-only"):
        root.own_namespace("shop")


@pytest.mark.parametrize("owner", [pytest.param(ANOTHER_USER, marks=needs_root), os.geteuid()])
def test_a_link_in_a_namespaces_place_is_left_alone(root: DataRoot, tmp_path: Path, owner: int) -> None:
    """It is neither followed nor replaced."""
    (tmp_path / "outside").mkdir()
    (root.path / "shop").symlink_to(tmp_path / "outside")
    os.lchown(root.path / "shop", owner, -1)
    root.own_namespace("shop")
    with pytest.raises(StorageError):
        publish_table(root, TABLE)
    assert list((tmp_path / "outside").iterdir()) == []


STEPS = ["shop", "shop/orders-0a1b2c3d", "shop/orders-0a1b2c3d/data", "shop/orders-0a1b2c3d/manifests"]
SUCCESSOR = table_path("shop", "orders-99999999")


def _purge(root: DataRoot, clock: Clock) -> None:
    purge = recycling.Purge(root, frozenset[TablePath]().__contains__)
    purge.run()
    clock.advance(10)
    purge.run()


WORK: dict[str, Callable[[DataRoot, Inventory], object]] = {
    "collect": lambda root, inventory: removal.collect_garbage(inventory, TABLE.path, LIVE),
    "drop": lambda root, inventory: removal.delete_bucket(inventory, TABLE.path, 0, LIVE),
    "recycle": lambda root, inventory: recycling.recycle(inventory, TABLE.path, 1),
    "restore": lambda root, inventory: recycling.restore(inventory, TABLE.path, SUCCESSOR),
    "set aside": lambda root, _: quarantine.set_aside(root, TABLE.path, data_path(0)),
    "sweep": lambda _, inventory: sweep(inventory),
    "publish": lambda root, _: publish(root, TABLE.path, data_path(3), b"more"),
    "manifests": lambda root, _: folder_manifests(root, TABLE.path),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("work", WORK)
def test_no_work_follows_a_link_to_anothers_files(root: DataRoot, clock: Clock, step: str, work: str) -> None:
    """A tenant that can write plants links to another namespace in place of its own folders."""
    publish_table(root, VICTIM)
    publish_table(root, TABLE)
    before = {path: path.read_bytes() for path in (root.path / "bank").rglob("*") if path.is_file()}
    planted = root.path / step
    shutil.rmtree(planted)
    planted.symlink_to(root.path / step.replace("shop", "bank"))
    clock.advance(100)
    with contextlib.suppress(StorageError):
        WORK[work](root, Inventory(root))
    _purge(root, clock)
    assert {path: path.read_bytes() for path in (root.path / "bank").rglob("*") if path.is_file()} == before


def test_a_folder_that_cannot_be_purged_stops_no_other(
    root: DataRoot, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example one that the kubelet made as root for a tenant's pod."""
    other = make_table({data_path(0): b"other"}, name="parts")
    for table in (TABLE, other):
        publish_table(root, table)
        recycling.recycle(Inventory(root), table.path, 1)
    whole = shutil.rmtree

    def refusing(name: str, **named: object) -> None:
        if name.startswith("shop.orders-"):
            raise PermissionError(1, "not permitted")
        whole(name, **named)

    monkeypatch.setattr(shutil, "rmtree", refusing)
    _purge(root, clock)
    assert [one.table for one in recycling.recycled_tables(root)] == [TABLE.path]
    assert not on_disk(root, other.path, "").exists()
