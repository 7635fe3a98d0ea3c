"""Damaged files go out of the readers' way at once; their bucket is called corrupt until they are there again (D6)."""

import errno
import os
import shutil
import stat
from unittest.mock import Mock

import pytest

from colocation.model.agent import TableReference
from colocation.model.names import QUARANTINE_DIRECTORY
from colocation.storage import quarantine, removal
from colocation.storage.errors import UNREADABLE_MEDIUM
from colocation.storage.inventory import Inventory, hash_unverified, sweep
from colocation.storage.quarantine import QUARANTINE_SECONDS, RETRY_SECONDS, QuarantinePurge
from colocation.storage.root import DataRoot
from colocation.storage.verification import unlimited

from .conftest import Clock
from .tables import damage, data_path, make_table, on_disk, publish, publish_table
from .test_inventory import states

PATH, OTHER = data_path(0, partition="o_year=1"), data_path(1)
TABLE = make_table({PATH: b"12345", OTHER: b"other"})


@pytest.fixture
def inventory(root: DataRoot) -> Inventory:
    """A node that holds the table, and was asked about it."""
    publish_table(root, TABLE)
    found = Inventory(root)
    assert states(found.report([TABLE.reference])[0]) == {0: "complete", 1: "complete"}
    return found


def aside(root: DataRoot) -> frozenset[str]:
    """What lies in the quarantine."""
    return quarantine.quarantined(root, TABLE.path)


def break_and_notice(root: DataRoot, inventory: Inventory) -> None:
    """Somebody changes a file; the sweep and the hash thread come by."""
    damage(on_disk(root, TABLE.path, PATH))
    sweep(inventory)
    hash_unverified(inventory, unlimited)


def test_a_damaged_file_is_out_of_the_way_and_its_bucket_is_corrupt(root: DataRoot, inventory: Inventory) -> None:
    """Also for an agent that was started anew; and complete when the good content is there again."""
    break_and_notice(root, inventory)
    assert not on_disk(root, TABLE.path, PATH).exists()
    assert aside(root) == {PATH}
    for one in (inventory, Inventory(root)):
        report = one.report([TABLE.reference])[0]
        assert (states(report), report.buckets[0].corrupt_files) == ({0: "corrupt", 1: "complete"}, (PATH,))
    assert publish(root, TABLE.path, PATH, b"12345")
    assert states(inventory.report([TABLE.reference])[0]) == {0: "complete", 1: "complete"}


def test_what_no_live_manifest_names_stays(root: DataRoot) -> None:
    """Before the operator has asked, nothing is known to be damaged: a load may verify any manifest."""
    publish_table(root, TABLE)
    inventory = Inventory(root)
    inventory.table(TABLE.path).verify(TABLE.reference.manifest, deep=False)
    break_and_notice(root, inventory)
    assert aside(root) == frozenset()


def test_a_manifest_that_says_otherwise_moves_nothing(root: DataRoot, inventory: Inventory) -> None:
    """A file is right when any manifest that is in use says so."""
    forged = make_table({PATH: b"forged", OTHER: b"other"}, snapshot=2)
    publish(root, TABLE.path, f"manifests/{forged.reference.manifest}.json.zst", forged.stored)
    both = TABLE.reference.model_copy(
        update={"manifest": forged.reference.manifest, "retained_manifests": (TABLE.reference.manifest,)}
    )
    inventory.report([both])
    hash_unverified(inventory, unlimited)
    assert (inventory.table(TABLE.path).check(PATH), aside(root)) == (False, frozenset())


def test_a_reported_file_is_read_from_the_disk(root: DataRoot, inventory: Inventory) -> None:
    """Damage that keeps size and times is found; a false report changes nothing."""
    table, path = inventory.table(TABLE.path), on_disk(root, TABLE.path, PATH)
    assert (table.check(PATH), aside(root)) == (False, frozenset())
    status = path.stat()
    path.write_bytes(b"54321")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (table.check(PATH), table.check(PATH), table.check(OTHER)) == (True, True, False)
    assert aside(root) == {PATH}


@pytest.mark.parametrize("number", sorted(UNREADABLE_MEDIUM), ids=lambda number: errno.errorcode[number])
def test_a_file_that_the_disk_cannot_read_is_damaged(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The file, and not the node."""

    def fail(*_arguments: object) -> bytes:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", fail)
        assert inventory.table(TABLE.path).check(PATH)
    assert states(inventory.report([TABLE.reference])[0]) == {0: "corrupt", 1: "complete"}


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EACCES], ids=errno.errorcode.get)
def test_what_says_nothing_about_a_file_damages_none(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """An agent that is short of memory must not put its files aside."""
    before = root.ledger.entries(TABLE.path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", Mock(side_effect=OSError(number, os.strerror(number))))
        with pytest.raises(OSError, match=os.strerror(number)):
            inventory.table(TABLE.path).check(PATH)
    assert (aside(root), root.ledger.entries(TABLE.path)) == (frozenset(), before)
    assert states(inventory.report([TABLE.reference])[0]) == {0: "complete", 1: "complete"}


def fail_for(monkeypatch: pytest.MonkeyPatch, function: str, name: str) -> None:
    """Make a function of ``os`` fail for everything of one name."""
    original = getattr(os, function)

    def failing(path: object, *arguments: object, **named: object) -> object:
        if path == name:
            raise OSError(errno.EUCLEAN, os.strerror(errno.EUCLEAN))
        return original(path, *arguments, **named)

    monkeypatch.setattr(os, function, failing)


def test_a_file_that_cannot_be_moved_keeps_no_other_one(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers still see it, its bucket is corrupt, the step has failed, and it is tried again."""
    for path in (PATH, OTHER):
        damage(on_disk(root, TABLE.path, path))
    sweep(inventory)
    with monkeypatch.context() as patched:
        fail_for(patched, "rename", PATH.rpartition("/")[2])
        for _ in range(2):
            with pytest.raises(OSError, match=os.strerror(errno.EUCLEAN)):
                hash_unverified(inventory, unlimited)
        assert aside(root) == {OTHER}
        assert states(inventory.report([TABLE.reference])[0]) == {0: "corrupt", 1: "corrupt"}
    hash_unverified(inventory, unlimited)
    assert aside(root) == {PATH, OTHER}


def test_a_file_whose_time_cannot_be_set_is_moved_all_the_same(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That no reader sees it counts for more."""
    fail_for(monkeypatch, "utime", PATH.rpartition("/")[2])
    break_and_notice(root, inventory)
    assert aside(root) == {PATH}


def test_it_is_purged_after_a_day_of_the_agents_own(root: DataRoot, inventory: Inventory, clock: Clock) -> None:
    """No step of the wall clock shortens it; then nothing is left. Its place has the right content again."""
    break_and_notice(root, inventory)
    assert publish(root, TABLE.path, PATH, b"12345")
    purge = QuarantinePurge(root, inventory.live_digests)
    clock.step(10**7)
    assert purge.run() == 0
    clock.advance(QUARANTINE_SECONDS + 10)
    assert purge.run() == 1
    assert root.names((QUARANTINE_DIRECTORY, TABLE.path.namespace)) == []
    assert states(inventory.report([TABLE.reference])[0]) == {0: "complete", 1: "complete"}


NOTHING_LIVE = TABLE.reference.model_copy(update={"manifest": None})
UNKNOWN_LIVE = TABLE.reference.model_copy(update={"retained_manifests": ("0" * 64,)})


@pytest.mark.parametrize(
    ("reference", "purged"),
    [
        pytest.param(TABLE.reference, 0, id="named, and nowhere else here"),
        pytest.param(UNKNOWN_LIVE, 0, id="a live manifest is not here"),
        pytest.param(None, 0, id="nobody has asked yet"),
        pytest.param(NOTHING_LIVE, 1, id="no live manifest names it"),
    ],
)
def test_what_may_be_the_last_copy_is_not_purged(
    root: DataRoot, inventory: Inventory, clock: Clock, reference: TableReference | None, purged: int
) -> None:
    """A damaged copy may be all that there is; what nothing names goes, or the disk would fill."""
    break_and_notice(root, inventory)
    asked = Inventory(root)
    if reference is not None:
        asked.report([reference])
    assert QuarantinePurge(root, asked.live_digests).run() == 0
    clock.advance(QUARANTINE_SECONDS)
    assert QuarantinePurge(root, asked.live_digests).run() == purged
    assert aside(root) == (frozenset() if purged else {PATH})


def test_another_damaged_file_in_its_place_is_no_reason_to_delete_it(
    root: DataRoot, inventory: Inventory, clock: Clock
) -> None:
    """Only the right content is."""
    break_and_notice(root, inventory)
    on_disk(root, TABLE.path, PATH).write_bytes(b"wrong")
    assert QuarantinePurge(root, inventory.live_digests).run() == 0
    clock.advance(QUARANTINE_SECONDS)
    assert (QuarantinePurge(root, inventory.live_digests).run(), aside(root)) == (0, {PATH})


def test_files_that_a_failing_disk_does_not_list_stay(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that seems to be empty is no reason to delete what is in it."""
    break_and_notice(root, inventory)
    with monkeypatch.context() as patched:
        patched.setattr(quarantine, "files_in_quarantine", lambda *_: {})
        assert QuarantinePurge(root, inventory.live_digests).run() == 0
    assert aside(root) == {PATH}


def test_a_dropped_table_leaves_nothing_in_the_quarantine(root: DataRoot, inventory: Inventory, clock: Clock) -> None:
    """Nothing is asked about a folder that is gone."""
    break_and_notice(root, inventory)
    shutil.rmtree(on_disk(root, TABLE.path, ""))
    assert QuarantinePurge(root, inventory.live_digests).run() == 0
    clock.advance(QUARANTINE_SECONDS)
    assert (QuarantinePurge(root, inventory.live_digests).run(), aside(root)) == (1, frozenset())


def failing_reads(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(os, "pread", Mock(side_effect=OSError(errno.EIO, os.strerror(errno.EIO))))


def test_a_file_that_can_be_read_again_goes_back(
    root: DataRoot, inventory: Inventory, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk failed for some minutes. A file that is still bad is not read each minute."""
    purge = QuarantinePurge(root, inventory.live_digests)
    with monkeypatch.context() as patched:
        failing_reads(patched)
        assert inventory.table(TABLE.path).check(PATH)
        assert purge.run() == 0
        clock.advance(QUARANTINE_SECONDS)
        assert (purge.run(), aside(root)) == (0, {PATH})
    assert purge.run() == 0
    clock.advance(RETRY_SECONDS)
    assert (purge.run(), aside(root)) == (1, frozenset())
    assert on_disk(root, TABLE.path, PATH).read_bytes() == b"12345"
    assert states(inventory.report([TABLE.reference])[0]) == {0: "complete", 1: "complete"}
    assert root.names((QUARANTINE_DIRECTORY, TABLE.path.namespace)) == []


def test_what_goes_back_replaces_nothing(root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone that is not known yet may have been quicker."""
    with monkeypatch.context() as patched:
        failing_reads(patched)
        assert inventory.table(TABLE.path).check(PATH)
    on_disk(root, TABLE.path, PATH).write_bytes(b"newer")
    monkeypatch.setattr(QuarantinePurge, "_content_in_place", lambda *_: None)
    assert (QuarantinePurge(root, inventory.live_digests).run(), aside(root)) == (0, {PATH})
    assert on_disk(root, TABLE.path, PATH).read_bytes() == b"newer"


def test_what_is_changed_while_it_is_read_stays(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes back is the file that was read, and no other one."""
    with monkeypatch.context() as patched:
        failing_reads(patched)
        assert inventory.table(TABLE.path).check(PATH)
    lying = root.path / QUARANTINE_DIRECTORY / str(TABLE.path) / PATH
    read = quarantine.hash_descriptor

    def changed_meanwhile(*arguments: object, **named: object) -> object:
        found = read(*arguments, **named)
        lying.write_bytes(b"54321")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(quarantine, "hash_descriptor", changed_meanwhile)
        assert QuarantinePurge(root, inventory.live_digests).run() == 0
    assert (aside(root), on_disk(root, TABLE.path, PATH).exists()) == ({PATH}, False)


@pytest.mark.parametrize("is_folder", [True, False], ids=["name", "content"])
def test_what_is_not_durable_does_not_go_back(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch, is_folder: bool
) -> None:
    """The file stays in the quarantine, and nothing is lost."""
    with monkeypatch.context() as patched:
        failing_reads(patched)
        assert inventory.table(TABLE.path).check(PATH)
    original = os.fsync

    def failing(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) is is_folder:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        original(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        assert QuarantinePurge(root, inventory.live_digests).run() == 0
    assert (aside(root), on_disk(root, TABLE.path, PATH).exists()) == ({PATH}, False)
    assert QuarantinePurge(root, inventory.live_digests).run() == 1


def test_a_file_that_could_not_be_read_is_read_again_before_it_is_moved(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger's word is of a moment at which the disk failed."""
    table = inventory.table(TABLE.path)
    with monkeypatch.context() as patched:
        failing_reads(patched)
        table.hash_file(PATH, always=True)
    assert states(inventory.report([TABLE.reference])[0])[0] == "corrupt"
    hash_unverified(inventory, unlimited)
    assert (aside(root), on_disk(root, TABLE.path, PATH).exists()) == (frozenset(), True)
    assert states(inventory.report([TABLE.reference])[0]) == {0: "complete", 1: "complete"}


def test_a_file_that_cannot_be_purged_keeps_no_other_one(
    root: DataRoot, inventory: Inventory, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The purge has failed, and tries it again."""
    damage(on_disk(root, TABLE.path, OTHER))
    break_and_notice(root, inventory)
    inventory.report([NOTHING_LIVE])
    assert QuarantinePurge(root, inventory.live_digests).run() == 0
    clock.advance(QUARANTINE_SECONDS)
    bad = next(iter(quarantine.files_in_quarantine(root, TABLE.path)))
    fail_for(monkeypatch, "unlink", bad.rpartition("/")[2])
    for _ in range(2):
        with pytest.raises(OSError, match=os.strerror(errno.EUCLEAN)):
            QuarantinePurge(root, inventory.live_digests).run()
    assert aside(root) == {bad}


def test_a_bucket_that_is_dropped_leaves_nothing_in_the_quarantine(root: DataRoot, inventory: Inventory) -> None:
    """Else the node would be called corrupt, and ordered to drop it, again and again."""
    break_and_notice(root, inventory)
    live = removal.Live((TABLE.reference.manifest,), 3600)
    removal.delete_bucket(root, inventory, TABLE.path, 0, live)
    assert aside(root) == frozenset()
    assert states(inventory.report([TABLE.reference])[0]) == {0: None, 1: "complete"}


def test_a_bucket_that_is_dropped_leaves_the_others_in_the_quarantine(root: DataRoot, inventory: Inventory) -> None:
    """What is damaged goes on to be called so."""
    damage(on_disk(root, TABLE.path, OTHER))
    break_and_notice(root, inventory)
    assert aside(root) == {PATH, OTHER}
    removal.delete_bucket(root, inventory, TABLE.path, 0, removal.Live((TABLE.reference.manifest,), 3600))
    assert aside(root) == {OTHER}
    assert states(inventory.report([TABLE.reference])[0]) == {0: None, 1: "corrupt"}


def test_it_is_kept_from_when_it_is_found_damaged(root: DataRoot, inventory: Inventory, clock: Clock) -> None:
    """However old it is, and however long an earlier file of its path was kept: else nobody could look at it."""
    inventory.report([NOTHING_LIVE])
    purge = QuarantinePurge(root, inventory.live_digests)
    for _ in range(2):
        publish(root, TABLE.path, PATH, b"12345")
        file = on_disk(root, TABLE.path, PATH)
        os.utime(file, (1000, 1000))
        assert quarantine.set_aside(root, TABLE.path, PATH)
        assert purge.run() == 0
        clock.advance(QUARANTINE_SECONDS - 1)
        assert (purge.run(), aside(root)) == (0, {PATH})
        clock.advance(1)
        assert (purge.run(), aside(root)) == (1, frozenset())
        assert root.ledger.sightings(quarantine.place_of(TABLE.path)) == {}
