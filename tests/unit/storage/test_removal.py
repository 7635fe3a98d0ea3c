"""Deletion frees exactly what it may, can be repeated, and takes no file that a load may commit or has committed."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from colocation.model.agent import Removed
from colocation.model.table_manifest import manifest_path
from colocation.storage.errors import ManifestMissing
from colocation.storage.inventory import Inventory
from colocation.storage.removal import Live, collect_garbage, delete_bucket
from colocation.storage.root import DataRoot

from .conftest import Clock
from .tables import Table, data_path, make_table, on_disk, publish, publish_table, sha256_hex

TABLE = make_table({data_path(bucket, partition=f"o_year={bucket}"): b"12345" for bucket in range(3)})
LIVE = (TABLE.manifest,)
GARBAGE = data_path(0, load="garbage")
NEXT = make_table({data_path(0, load="next"): b"next"}, snapshot=2)
NEXT_FILE = data_path(0, load="next")

Deletion = Callable[[DataRoot, Inventory, Live], Removed]
DELETIONS = [
    pytest.param(lambda root, inventory, live: delete_bucket(root, inventory, TABLE.path, 0, live), id="drop"),
    pytest.param(lambda root, inventory, live: collect_garbage(root, inventory, TABLE.path, live), id="collect"),
]


def paths(root: DataRoot) -> set[str]:
    """All files of the table, relative to its folder."""
    folder = root.path / "shop" / "orders-0a1b2c3d"
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def age(root: DataRoot, path: str, seconds: float) -> None:
    """Make a file look as if it had been written so long ago."""
    file = on_disk(root, TABLE.path, path)
    written_at = file.stat().st_mtime - seconds
    os.utime(file, (written_at, written_at))


def publish_manifest(root: DataRoot, table: Table) -> None:
    """Publish a manifest without its files."""
    publish(root, table.path, manifest_path(table.manifest), table.stored)


def test_deletes_a_bucket_but_for_what_a_load_may_yet_commit(root: DataRoot, clock: Clock) -> None:
    """Committed files go at once, with the folders they leave empty; others when they are older than the grace."""
    publish_table(root, TABLE)
    young = data_path(1, load="not-committed")
    publish(root, TABLE.path, young, b"12")
    clock.advance(50)
    inventory, before = Inventory(root), paths(root)
    assert delete_bucket(root, inventory, TABLE.path, 1, Live(LIVE, 100)) == Removed(files=1, bytes=5)
    assert before - paths(root) == {data_path(1, partition="o_year=1")}
    assert not on_disk(root, TABLE.path, "data/o_year=1").exists()
    assert delete_bucket(root, inventory, TABLE.path, 1, Live(LIVE, 10)) == Removed(files=1, bytes=2)
    assert delete_bucket(root, inventory, TABLE.path, 1, Live(LIVE, 10)) == Removed(files=0, bytes=0)


def test_deleting_from_a_table_that_is_not_here(root: DataRoot) -> None:
    """Nothing to delete is no error."""
    assert delete_bucket(root, Inventory(root), TABLE.path, 1, Live(LIVE, 0)) == Removed(files=0, bytes=0)


def test_collects_old_garbage_only(root: DataRoot, clock: Clock) -> None:
    """Files and manifests that no live manifest names go once they are older than the grace."""
    publish_table(root, TABLE)
    old = make_table({GARBAGE: b"garbage"}, snapshot=0)
    publish_table(root, old)
    clock.advance(50)
    inventory, before = Inventory(root), paths(root)
    assert collect_garbage(root, inventory, TABLE.path, Live(LIVE, 100)).files == 0
    assert collect_garbage(root, inventory, TABLE.path, Live(LIVE, 10)).files == 2
    assert before - paths(root) == {GARBAGE, manifest_path(old.manifest)}


@pytest.mark.parametrize("delete", DELETIONS)
def test_only_published_files_are_deleted(root: DataRoot, clock: Clock, tmp_path: Path, delete: Deletion) -> None:
    """What else lies there stays, for people to look at; what a link leads to is not ours."""
    publish_table(root, TABLE)
    data = on_disk(root, TABLE.path, "data")
    outside = tmp_path / "outside" / data_path(0).rpartition("/")[2]
    outside.parent.mkdir()
    outside.write_bytes(b"somebody else's")
    (data / "o_year=9").symlink_to(outside.parent)
    (data / "notes.txt").write_text("by hand")
    odd = [on_disk(root, TABLE.path, data_path(0, load=name)) for name in ("link", "pipe")]
    odd[0].symlink_to(outside)
    os.mkfifo(odd[1])
    clock.advance(1000)
    delete(root, Inventory(root), Live(LIVE, 0))
    assert odd[0].is_symlink() and odd[1].is_fifo()
    assert (data / "notes.txt").exists() and (data / "o_year=9").is_symlink()
    assert outside.read_bytes() == b"somebody else's"


@pytest.mark.parametrize("delete", DELETIONS)
def test_without_live_manifests_nothing_is_garbage(root: DataRoot, clock: Clock, delete: Deletion) -> None:
    """An empty list would make everything garbage."""
    publish_table(root, TABLE)
    clock.advance(50)
    before = paths(root)
    with pytest.raises(ManifestMissing, match="no live manifest"):
        delete(root, Inventory(root), Live((), 10))
    assert paths(root) == before


def test_collects_nothing_when_a_live_manifest_is_missing(root: DataRoot) -> None:
    """What is garbage is then unknown, so nothing is."""
    publish_table(root, TABLE)
    before = paths(root)
    with pytest.raises(ManifestMissing):
        collect_garbage(root, Inventory(root), TABLE.path, Live((*LIVE, "00" * 32), 0))
    assert paths(root) == before


def test_drops_only_old_files_when_a_live_manifest_is_missing(root: DataRoot, clock: Clock) -> None:
    """What it names is not known, so its files are like everybody's: gone when they are old."""
    publish(root, TABLE.path, GARBAGE, b"garbage")
    clock.advance(50)
    assert delete_bucket(root, Inventory(root), TABLE.path, 0, Live(("00" * 32,), 100)).files == 0
    assert delete_bucket(root, Inventory(root), TABLE.path, 0, Live(("00" * 32,), 10)).files == 1


@pytest.mark.parametrize("delete", DELETIONS)
def test_what_was_committed_after_the_order_was_given_stays(root: DataRoot, clock: Clock, delete: Deletion) -> None:
    """A load that ran for longer than the grace: its files look old, but its manifest has just been published."""
    publish_table(root, TABLE)
    publish(root, TABLE.path, NEXT_FILE, NEXT.contents[NEXT_FILE])
    age(root, NEXT_FILE, 1000)
    clock.advance(200)
    publish_manifest(root, NEXT)
    os.utime(on_disk(root, TABLE.path, manifest_path(NEXT.manifest)), (clock.now, clock.now))
    delete(root, Inventory(root), Live(LIVE, 100))
    assert {NEXT_FILE, manifest_path(NEXT.manifest)} <= paths(root)


@pytest.mark.parametrize("delete", DELETIONS)
def test_what_a_load_has_just_verified_stays(root: DataRoot, clock: Clock, delete: Deletion) -> None:
    """It commits next, however long ago it put its manifest."""
    publish_table(root, TABLE)
    publish_table(root, NEXT)
    clock.advance(200)
    root.note_use(TABLE.path, NEXT.manifest)
    delete(root, Inventory(root), Live(LIVE, 100))
    assert {NEXT_FILE, manifest_path(NEXT.manifest)} <= paths(root)
    clock.advance(200)
    delete(root, Inventory(root), Live(LIVE, 100))
    assert NEXT_FILE not in paths(root)


@pytest.mark.parametrize("delete", DELETIONS)
def test_a_young_manifest_that_cannot_be_read_spares_everything(
    root: DataRoot, clock: Clock, delete: Deletion
) -> None:
    """Which files it names is unknown; once it is old, garbage is garbage again."""
    publish_table(root, TABLE)
    publish(root, TABLE.path, GARBAGE, b"garbage")
    clock.advance(200)
    publish(root, TABLE.path, manifest_path(sha256_hex(b"no manifest")), b"no manifest")
    os.utime(on_disk(root, TABLE.path, manifest_path(sha256_hex(b"no manifest"))), (clock.now, clock.now))
    delete(root, Inventory(root), Live(LIVE, 100))
    assert GARBAGE in paths(root)
    clock.advance(200)
    delete(root, Inventory(root), Live(LIVE, 100))
    assert GARBAGE not in paths(root)


STEPS = [
    pytest.param([(-1, 0), (0, 86400)], id="forward"),
    pytest.param([(-86400, 0), (0, 0)], id="back before it was written"),
    pytest.param([(-86400, 0), (0, 86400)], id="back, written, and forward again"),
    pytest.param([(0, 0), (0, -86400)], id="back after it was written"),
]


@pytest.mark.parametrize("delete", DELETIONS)
@pytest.mark.parametrize("again", [True, False], ids=["put again", "put"])
@pytest.mark.parametrize("steps", STEPS)
def test_a_stepped_clock_makes_no_file_old(
    root: DataRoot, clock: Clock, delete: Deletion, again: bool, steps: list[tuple[int, int]]
) -> None:
    """The files of a load under way stay for the grace, whatever is done to the wall clock before and after."""
    publish_table(root, TABLE)
    if again:
        publish(root, TABLE.path, GARBAGE, b"garbage")
    clock.advance(1000)
    (before, _), (_, after) = steps
    clock.step(before)
    publish(root, TABLE.path, GARBAGE, b"garbage")
    os.utime(on_disk(root, TABLE.path, GARBAGE), (clock.now, clock.now))
    clock.step(after)
    clock.advance(90)
    delete(root, Inventory(root), Live(LIVE, 100))
    assert GARBAGE in paths(root)


@pytest.mark.parametrize("delete", DELETIONS)
def test_nothing_is_old_in_a_process_that_is_young(root: DataRoot, clock: Clock, delete: Deletion) -> None:
    """The clock may have been stepped while no agent ran: what was there before counts from the agent's start."""
    publish_table(root, TABLE)
    publish(root, TABLE.path, GARBAGE, b"garbage")
    age(root, GARBAGE, 86400)
    clock.advance(90)
    delete(root, Inventory(root), Live(LIVE, 100))
    assert GARBAGE in paths(root)
    clock.advance(20)
    delete(root, Inventory(root), Live(LIVE, 100))
    assert GARBAGE not in paths(root)


def test_a_file_from_the_future_is_young(root: DataRoot, clock: Clock) -> None:
    """Its time says nothing about its age."""
    publish_table(root, TABLE)
    publish(root, TABLE.path, GARBAGE, b"garbage")
    age(root, GARBAGE, -86400)
    clock.advance(1000)
    collect_garbage(root, Inventory(root), TABLE.path, Live(LIVE, 100))
    assert GARBAGE in paths(root)


def test_an_upload_of_old_garbage_makes_it_young(root: DataRoot, clock: Clock) -> None:
    """A load that is repeated finds its file there; the collection must not take it away then."""
    publish_table(root, TABLE)
    publish(root, TABLE.path, GARBAGE, b"garbage")
    age(root, GARBAGE, 1000)
    clock.advance(150)
    file = on_disk(root, TABLE.path, GARBAGE)
    before = file.stat().st_mtime
    publish(root, TABLE.path, GARBAGE, b"garbage")
    assert file.stat().st_mtime > before
    os.utime(file, (clock.now, clock.now))
    assert collect_garbage(root, Inventory(root), TABLE.path, Live(LIVE, 100)).files == 0


class PublishingLock:
    """A table's lock: whoever waits for it gets it after a load has put its manifest."""

    def __init__(self, publish_first: Callable[[], None]) -> None:
        self.publish_first = publish_first

    def __enter__(self) -> None:
        self.publish_first()

    def __exit__(self, *_error: object) -> None:
        pass


@pytest.mark.parametrize("delete", DELETIONS)
def test_a_manifest_that_comes_while_a_deletion_waits_counts(
    root: DataRoot, clock: Clock, delete: Deletion
) -> None:
    """What is spared is found out under the lock that publication takes too."""
    publish_table(root, TABLE)
    publish(root, TABLE.path, NEXT_FILE, NEXT.contents[NEXT_FILE])
    clock.advance(200)
    manifest = on_disk(root, TABLE.path, manifest_path(NEXT.manifest))

    def put() -> None:
        manifest.write_bytes(NEXT.stored)
        os.utime(manifest, (clock.now, clock.now))

    root._table_locks[TABLE.path] = PublishingLock(put)
    delete(root, Inventory(root), Live(LIVE, 100))
    assert NEXT_FILE in paths(root)


def test_a_verification_waits_for_a_deletion_that_did_not_know_of_it(root: DataRoot) -> None:
    """It sees what is left, not what was there before."""
    noted = threading.Event()

    def note() -> None:
        root.note_use(TABLE.path, NEXT.manifest)
        noted.set()

    verifying = threading.Thread(target=note)
    with root.lock_of(TABLE.path):
        verifying.start()
        assert not noted.wait(0.2)
    verifying.join(60)
    assert root.was_used_within(TABLE.path, NEXT.manifest, 60)


def test_only_the_last_uses_are_remembered(root: DataRoot) -> None:
    """However many manifests are verified."""
    for number in range(101):
        root.note_use(TABLE.path, f"{number}")
    assert not root.was_used_within(TABLE.path, "0", 60)
    assert root.was_used_within(TABLE.path, "1", 60)
