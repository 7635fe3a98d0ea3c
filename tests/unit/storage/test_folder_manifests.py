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


def test_only_folders_of_the_table_are_looked_at(root: DataRoot) -> None:
    """In its place and in the bin, where it may be more than once; a damaged copy hides no good one."""
    odd = ["shop.orders-0a1b2c3d.soon", "shop.orders-0a1b2c3d", "shop.orders-99999999.5", "bank.orders-0a1b2c3d.5"]
    for name in [*odd, "shop.orders-0a1b2c3d.5", "shop.orders-0a1b2c3d.6"]:
        (root.path / ".recycle" / name / "manifests").mkdir(parents=True)
    (root.path / ".recycle" / "shop.orders-0a1b2c3d.5.json").write_text("{}")
    places = [FIRST.path, *((".recycle", f"shop.orders-0a1b2c3d.{number}") for number in (5, 6))]
    assert list(module.places_of(root, FIRST.path)) == [tuple(place) for place in places]
    for number, content in ((5, b"damaged"), (6, FIRST.stored)):
        (root.path / ".recycle" / f"shop.orders-0a1b2c3d.{number}" / manifest_path(FIRST.manifest)).write_bytes(content)
    assert module.recycled_schema(root, FIRST.path, FIRST.manifest).buckets == 4


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "1970-01-01T00:00:00Z"), (1_795_965_391.9, "2026-11-29T15:16:31Z"), (1e20, "")]
)
def test_times_of_manifests(seconds: float, text: str) -> None:
    """A loader may set any time."""
    assert module._text_of(seconds) == text


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
