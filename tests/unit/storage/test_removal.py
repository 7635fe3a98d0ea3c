"""Deletion frees exactly what it may, can be repeated, and removes no file that a load may commit or has committed."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from colocation.model.agent import Removed
from colocation.model.table_manifest import manifest_path
from colocation.storage.errors import ManifestMissing
from colocation.storage.inventory import Inventory
from colocation.storage.removal import LiveManifests, collect_garbage, delete_bucket
from colocation.storage.root import DataRoot

from .conftest import Clock
from .tables import Table, data_path, make_table, on_disk, publish, publish_table, sha256_hex

TABLE = make_table({data_path(bucket, partition=f"o_year={bucket}"): b"12345" for bucket in range(3)})
LIVE = (TABLE.manifest,)
GARBAGE = data_path(0, load="garbage")
NEXT = make_table({data_path(0, load="next"): b"next"}, snapshot=2)
NEXT_FILE = data_path(0, load="next")

Deletion = Callable[[Inventory, LiveManifests], Removed]
DELETIONS = [
    pytest.param(lambda inventory, live: delete_bucket(inventory, TABLE.path, 0, live), id="drop"),
    pytest.param(lambda inventory, live: collect_garbage(inventory, TABLE.path, live), id="collect"),
]


def paths(root: DataRoot) -> set[str]:
    """All files of the table, relative to its folder."""
    folder = root.path / "shop" / "orders-0a1b2c3d"
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def publish_manifest(root: DataRoot, table: Table) -> None:
    """Publish a manifest without its files."""
    publish(root, table.path, manifest_path(table.manifest), table.stored)


def test_dropping_a_bucket_spares_files_of_running_loads(root: DataRoot, clock: Clock) -> None:
    """Committed files go immediately, with the folders they leave empty; others once they are older than the grace."""
    publish_table(root, TABLE)
    young = data_path(1, load="not-committed")
    publish(root, TABLE.path, young, b"12")
    publish_manifest(root, NEXT)
    inventory, before = Inventory(root), paths(root)
    assert inventory.report([TABLE.reference])[0].buckets[1].state == "complete"
    assert delete_bucket(inventory, TABLE.path, 1, LiveManifests(LIVE, 10)) == Removed(files=1, bytes=5)
    assert before - paths(root) == {data_path(1, partition="o_year=1")}
    assert inventory.report([TABLE.reference])[0].buckets[1].state is None
    assert root.ledger.entry(TABLE.path, data_path(1, partition="o_year=1")) is None
    assert not on_disk(root, TABLE.path, "data/o_year=1").exists()
    clock.advance(10)
    assert delete_bucket(inventory, TABLE.path, 1, LiveManifests(LIVE, 10)) == Removed(files=1, bytes=2)
    assert delete_bucket(inventory, TABLE.path, 1, LiveManifests(LIVE, 10)) == Removed(files=0, bytes=0)
    assert manifest_path(NEXT.manifest) in paths(root), "it may name files of other buckets"


def test_deleting_from_an_absent_table_is_no_error(root: DataRoot) -> None:
    """There is nothing to delete."""
    assert delete_bucket(Inventory(root), TABLE.path, 1, LiveManifests(LIVE, 0)) == Removed(files=0, bytes=0)


def test_collects_only_old_garbage(root: DataRoot, clock: Clock) -> None:
    """Deletes files and manifests that no live manifest has named for the grace, which may be shortened."""
    publish_table(root, TABLE)
    old = make_table({GARBAGE: b"garbage"}, snapshot=0)
    publish_table(root, old)
    inventory, before = Inventory(root), paths(root)
    assert collect_garbage(inventory, TABLE.path, LiveManifests(LIVE, 100)).files == 0
    clock.advance(50)
    assert collect_garbage(inventory, TABLE.path, LiveManifests(LIVE, 100)).files == 0
    assert collect_garbage(inventory, TABLE.path, LiveManifests(LIVE, 50)).files == 2
    assert before - paths(root) == {GARBAGE, manifest_path(old.manifest)}
    assert root.ledger.sightings(str(TABLE.path)) == {}


def test_data_goes_before_the_manifest_that_names_it(root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed in between leaves no file of which nothing is known."""
    publish_table(root, TABLE)
    publish_table(root, make_table({GARBAGE: b"garbage"}, snapshot=0))
    unlinked: list[str] = []
    monkeypatch.setattr(os, "unlink", lambda name, *, dir_fd: unlinked.append(name))
    collect_garbage(Inventory(root), TABLE.path, LiveManifests(LIVE, 0))
    assert [name.endswith(".parquet") for name in unlinked] == [True, False]


@pytest.mark.parametrize("delete", DELETIONS)
def test_a_snapshot_stays_for_the_grace_after_it_was_last_live(root: DataRoot, clock: Clock, delete: Deletion) -> None:
    """A query planned on it may still run. The age of its files does not matter: a burst of commits replaces them in a
    moment.
    """
    publish_table(root, TABLE)
    clock.advance(1000)
    inventory, before = Inventory(root), paths(root)
    for number in range(11):
        commit = make_table({data_path(0, load=f"burst-{number}"): b"new"}, snapshot=number + 2)
        publish_table(root, commit)
        delete(inventory, LiveManifests((commit.manifest,), 100))
    clock.advance(99)
    delete(inventory, LiveManifests((commit.manifest,), 100))
    assert before <= paths(root)
    clock.advance(1)
    delete(inventory, LiveManifests((commit.manifest,), 100))
    assert data_path(0, partition="o_year=0") not in paths(root)


@pytest.mark.parametrize("how", ["live again", "verified again", "named by another collection"])
def test_the_grace_restarts_when_a_snapshot_is_needed_again(root: DataRoot, clock: Clock, how: str) -> None:
    """It was rolled back to, or loaded again, between two collections."""
    publish_table(root, TABLE)
    publish_table(root, NEXT)
    inventory, before = Inventory(root), paths(root)
    collect_garbage(inventory, TABLE.path, LiveManifests((NEXT.manifest,), 100))
    clock.advance(60)
    if how == "live again":
        inventory.report([TABLE.reference])
        inventory.report([NEXT.reference])
    elif how == "verified again":
        root.note_use(TABLE.path, TABLE.manifest)
    else:
        collect_garbage(inventory, TABLE.path, LiveManifests((TABLE.manifest, NEXT.manifest), 0))
    clock.advance(60)
    collect_garbage(inventory, TABLE.path, LiveManifests((NEXT.manifest,), 100))
    clock.advance(99)
    collect_garbage(inventory, TABLE.path, LiveManifests((NEXT.manifest,), 100))
    assert before <= paths(root)
    clock.advance(1)
    collect_garbage(inventory, TABLE.path, LiveManifests((NEXT.manifest,), 100))
    assert paths(root) == {NEXT_FILE, manifest_path(NEXT.manifest)}


def test_a_drop_keeps_the_ages_of_other_buckets(root: DataRoot, clock: Clock) -> None:
    """Otherwise garbage would never age while buckets move."""
    publish_table(root, TABLE)
    publish(root, TABLE.path, GARBAGE, b"garbage")
    inventory = Inventory(root)
    collect_garbage(inventory, TABLE.path, LiveManifests(LIVE, 100))
    clock.advance(100)
    delete_bucket(inventory, TABLE.path, 1, LiveManifests(LIVE, 100))
    assert collect_garbage(inventory, TABLE.path, LiveManifests(LIVE, 100)).files == 1


@pytest.mark.parametrize("delete", DELETIONS)
def test_only_published_files_are_deleted(root: DataRoot, clock: Clock, tmp_path: Path, delete: Deletion) -> None:
    """Other files stay for people to inspect; targets of links are not ours."""
    publish_table(root, TABLE)
    data = on_disk(root, TABLE.path, "data")
    outside = tmp_path / "outside" / data_path(0).rpartition("/")[2]
    outside.parent.mkdir()
    outside.write_bytes(b"foreign")
    (data / "o_year=9").symlink_to(outside.parent)
    (data / "notes.txt").write_text("by hand")
    odd = [on_disk(root, TABLE.path, data_path(0, load=name)) for name in ("link", "pipe")]
    odd[0].symlink_to(outside)
    os.mkfifo(odd[1])
    clock.advance(1000)
    delete(Inventory(root), LiveManifests(LIVE, 0))
    assert odd[0].is_symlink() and odd[1].is_fifo()
    assert (data / "notes.txt").exists() and (data / "o_year=9").is_symlink()
    assert outside.read_bytes() == b"foreign"


@pytest.mark.parametrize("delete", DELETIONS)
def test_without_live_manifests_nothing_is_garbage(root: DataRoot, clock: Clock, delete: Deletion) -> None:
    """An empty list would make everything garbage."""
    publish_table(root, TABLE)
    clock.advance(50)
    before = paths(root)
    with pytest.raises(ManifestMissing, match="no live manifest"):
        delete(Inventory(root), LiveManifests((), 10))
    assert paths(root) == before


def test_collects_nothing_when_a_live_manifest_is_missing(root: DataRoot) -> None:
    """It is then unknown which files are garbage."""
    publish_table(root, TABLE)
    before = paths(root)
    with pytest.raises(ManifestMissing):
        collect_garbage(Inventory(root), TABLE.path, LiveManifests((*LIVE, "00" * 32), 0))
    assert paths(root) == before


def test_drops_only_old_files_when_a_live_manifest_is_missing(root: DataRoot, clock: Clock) -> None:
    """Its files are unknown, so they go like others once they are old."""
    publish(root, TABLE.path, GARBAGE, b"garbage")
    assert delete_bucket(Inventory(root), TABLE.path, 0, LiveManifests(("00" * 32,), 50)).files == 0
    clock.advance(50)
    assert delete_bucket(Inventory(root), TABLE.path, 0, LiveManifests(("00" * 32,), 50)).files == 1


@pytest.mark.parametrize("delete", DELETIONS)
def test_files_committed_after_the_order_stay(root: DataRoot, clock: Clock, delete: Deletion) -> None:
    """A load ran for longer than the grace: its files are old, but its manifest has just been published."""
    publish_table(root, TABLE)
    publish(root, TABLE.path, NEXT_FILE, NEXT.contents[NEXT_FILE])
    publish(root, TABLE.path, GARBAGE, b"garbage")
    delete(Inventory(root), LiveManifests(LIVE, 100))
    clock.advance(200)
    publish_manifest(root, NEXT)
    others = {data_path(0, load=f"other-{number}") for number in range(9)}
    for path in others:
        publish(root, TABLE.path, path, b"of another load")
    delete(Inventory(root), LiveManifests(LIVE, 100))
    assert {NEXT_FILE, manifest_path(NEXT.manifest)} | others <= paths(root)
    assert GARBAGE not in paths(root)


@pytest.mark.parametrize("delete", DELETIONS)
def test_a_manifest_just_verified_stays(root: DataRoot, clock: Clock, delete: Deletion) -> None:
    """The load commits next, however long ago it put its manifest."""
    publish_table(root, TABLE)
    publish_table(root, NEXT)
    delete(Inventory(root), LiveManifests(LIVE, 100))
    clock.advance(200)
    root.note_use(TABLE.path, NEXT.manifest)
    delete(Inventory(root), LiveManifests(LIVE, 100))
    assert {NEXT_FILE, manifest_path(NEXT.manifest)} <= paths(root)
    clock.advance(200)
    delete(Inventory(root), LiveManifests(LIVE, 100))
    assert NEXT_FILE not in paths(root)


@pytest.mark.parametrize("delete", DELETIONS)
def test_an_unreadable_young_manifest_spares_everything(
    root: DataRoot, clock: Clock, delete: Deletion
) -> None:
    """Its files are unknown; once it is old, garbage is collected again."""
    publish_table(root, TABLE)
    publish(root, TABLE.path, GARBAGE, b"garbage")
    delete(Inventory(root), LiveManifests(LIVE, 100))
    clock.advance(200)
    publish(root, TABLE.path, manifest_path(sha256_hex(b"no manifest")), b"no manifest")
    delete(Inventory(root), LiveManifests(LIVE, 100))
    assert GARBAGE in paths(root)
    clock.advance(200)
    delete(Inventory(root), LiveManifests(LIVE, 100))
    assert GARBAGE not in paths(root)


@pytest.mark.parametrize("delete", DELETIONS)
@pytest.mark.parametrize("step_seconds", [-86400, 86400], ids=["back", "forward"])
def test_a_stepped_clock_makes_no_file_old(
    root: DataRoot, clock: Clock, delete: Deletion, step_seconds: int
) -> None:
    """Neither the wall clock nor a file's time counts."""
    publish_table(root, TABLE)
    publish(root, TABLE.path, GARBAGE, b"garbage")
    os.utime(on_disk(root, TABLE.path, GARBAGE), (clock.now - 86400, clock.now - 86400))
    delete(Inventory(root), LiveManifests(LIVE, 100))
    clock.step(step_seconds)
    clock.advance(99)
    delete(Inventory(root), LiveManifests(LIVE, 100))
    assert GARBAGE in paths(root)
    clock.advance(1)
    delete(Inventory(root), LiveManifests(LIVE, 100))
    assert GARBAGE not in paths(root)


def test_agents_that_restart_often_still_collect(tmp_path: Path, clock: Clock) -> None:
    """A restart may lengthen the grace, and never shortens it."""
    (tmp_path / "root").mkdir()
    passed_seconds, is_there = 0, True
    while is_there:
        clock.elapsed = 7.0 * passed_seconds  # another boot's clock tells nothing about the time between
        root = DataRoot(tmp_path / "root", clock, clock.monotonic)
        if not passed_seconds:
            publish_table(root, TABLE)
            publish(root, TABLE.path, GARBAGE, b"garbage")
        collect_garbage(Inventory(root), TABLE.path, LiveManifests(LIVE, 100))
        is_there = GARBAGE in paths(root)
        assert is_there or passed_seconds >= 100
        clock.advance(30)
        passed_seconds += 30
        root.close()
    assert passed_seconds <= 150


def test_uploading_old_garbage_makes_it_young(root: DataRoot, clock: Clock) -> None:
    """A repeated load finds its file; the collection must not delete it then."""
    publish_table(root, TABLE)
    publish(root, TABLE.path, GARBAGE, b"garbage")
    collect_garbage(Inventory(root), TABLE.path, LiveManifests(LIVE, 100))
    clock.advance(150)
    publish(root, TABLE.path, GARBAGE, b"garbage")
    assert collect_garbage(Inventory(root), TABLE.path, LiveManifests(LIVE, 100)).files == 0


def test_a_file_that_replaces_another_meanwhile_stays(
    root: DataRoot, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone Job publishes without the agent's lock."""
    publish_table(root, TABLE)
    publish(root, TABLE.path, GARBAGE, b"garbage")
    of = root.ages.of

    def cloned_meanwhile(*arguments: Any) -> dict[str, float]:
        ages = of(*arguments)
        new = on_disk(root, TABLE.path, "new")
        new.write_bytes(b"garbage")
        new.rename(on_disk(root, TABLE.path, GARBAGE))
        return ages

    monkeypatch.setattr(root.ages, "of", cloned_meanwhile)
    assert collect_garbage(Inventory(root), TABLE.path, LiveManifests(LIVE, 0)).files == 0
    assert GARBAGE in paths(root)


class PublishingLock:
    """A table's lock that is acquired only after a load has put its manifest."""

    def __init__(self, publish_first: Callable[[], None]) -> None:
        self.publish_first = publish_first

    def __enter__(self) -> None:
        self.publish_first()

    def __exit__(self, *_error: object) -> None:
        pass


@pytest.mark.parametrize("delete", DELETIONS)
def test_a_manifest_published_while_a_deletion_waits_counts(
    root: DataRoot, clock: Clock, monkeypatch: pytest.MonkeyPatch, delete: Deletion
) -> None:
    """The deletion decides under the lock that publication takes, too."""
    publish_table(root, TABLE)
    publish(root, TABLE.path, NEXT_FILE, NEXT.contents[NEXT_FILE])
    delete(Inventory(root), LiveManifests(LIVE, 100))
    clock.advance(200)
    manifest = on_disk(root, TABLE.path, manifest_path(NEXT.manifest))

    def put() -> None:
        manifest.write_bytes(NEXT.stored)

    monkeypatch.setattr(root, "lock_of", lambda _table: PublishingLock(put))
    delete(Inventory(root), LiveManifests(LIVE, 100))
    assert NEXT_FILE in paths(root)


def test_a_verification_waits_for_a_running_deletion(root: DataRoot) -> None:
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
    assert noted.is_set()
