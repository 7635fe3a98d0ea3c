"""The manifests in a table's folder, in its place or in the bin; nonsense there affects nothing else."""

import pytest

from colocation.model.table_manifest import manifest_path
from colocation.storage import folder_manifests as module
from colocation.storage import recycling
from colocation.storage.folder_manifests import folder_manifests
from colocation.storage.inventory import Inventory
from colocation.storage.root import DataRoot

from .tables import UID, Table, data_path, make_table, publish, publish_table, sha256_hex

FIRST = make_table({data_path(bucket): b"12345" for bucket in range(2)}, snapshot=1)
SECOND = make_table(FIRST.contents | {data_path(0, load="2"): b"678"}, snapshot=2, parent=FIRST.manifest)


def publish_manifest(root: DataRoot, table: Table, folder: Table = FIRST) -> None:
    """Publish a manifest in a table's folder."""
    publish(root, folder.path, manifest_path(table.manifest), table.stored)


@pytest.mark.parametrize("recycled", [True, False], ids=["in the bin", "in its place"])
def test_newest_snapshot_first(root: DataRoot, recycled: bool) -> None:
    """With all that is needed to re-create the table."""
    publish_manifest(root, SECOND)
    publish_table(root, FIRST)
    if recycled:
        recycling.recycle(Inventory(root), FIRST.path, 100)
    newest, oldest = folder_manifests(root, FIRST.path).manifests
    assert (newest.sha256, newest.snapshot_id, oldest.sha256) == (SECOND.manifest, 2, FIRST.manifest)
    assert (newest.table, newest.uid, newest.partitions, newest.files, newest.rows, newest.bytes) == (
        "orders", UID, 1, 3, 3, 13,
    )  # fmt: skip
    assert (newest.table_schema.buckets, newest.table_schema.bucketed_by) == (4, ("key",))
    assert newest.modified_at.endswith("Z")
    assert (newest.parent, oldest.parent) == (FIRST.manifest, None)


def test_unreadable_and_foreign_manifests_are_left_out(root: DataRoot) -> None:
    """Any loader of a table can put any bytes there."""
    publish_manifest(root, FIRST)
    publish_manifest(root, make_table({}, name="customers"))
    publish_manifest(root, make_table({}, namespace="bank"))
    publish(root, FIRST.path, manifest_path(sha256_hex(b"nonsense")), b"nonsense")
    assert [one.sha256 for one in folder_manifests(root, FIRST.path).manifests] == [FIRST.manifest]


def test_no_folder_has_no_manifests(root: DataRoot) -> None:
    """The node holds nothing of the table."""
    assert folder_manifests(root, FIRST.path).manifests == ()


def test_answers_are_bounded(root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with very many returns the newest snapshots."""
    monkeypatch.setattr(module, "MAX_SUMMARIES", 3)
    for snapshot in range(5):
        publish_manifest(root, make_table({}, snapshot=snapshot))
    assert [one.snapshot_id for one in folder_manifests(root, FIRST.path).manifests] == [4, 3, 2]
    monkeypatch.setattr(module, "MAX_READ_MANIFESTS", 2)
    assert len(folder_manifests(root, FIRST.path).manifests) == 2
