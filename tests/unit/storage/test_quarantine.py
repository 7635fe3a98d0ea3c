"""Damaged files leave the readers' path immediately; their bucket is corrupt until they are held again."""

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path
from unittest.mock import Mock

import pytest

from colocation.model.agent import TableReference
from colocation.model.names import QUARANTINE_DIRECTORY
from colocation.storage import quarantine, removal
from colocation.storage.errors import UNREADABLE_MEDIUM, FileCorrupt, NotHeld
from colocation.storage.inventory import Inventory, hash_unverified, sweep
from colocation.storage.quarantine import QUARANTINE_SECONDS, RETRY_SECONDS, QuarantinePurge
from colocation.storage.root import DataRoot
from colocation.storage.verification import unlimited

from .conftest import Clock
from .tables import damage, data_path, make_table, on_disk, publish, publish_table, sha256_hex
from .test_inventory import states

PATH, OTHER = data_path(0, partition="o_year=1"), data_path(1)
TABLE = make_table({PATH: b"12345", OTHER: b"other"})


@pytest.fixture
def inventory(root: DataRoot) -> Inventory:
    """The inventory of a node that holds the table and was asked about it."""
    publish_table(root, TABLE)
    found = Inventory(root)
    assert states(found.report([TABLE.reference])[0]) == {0: "complete", 1: "complete"}
    return found


def aside(root: DataRoot) -> frozenset[str]:
    """The paths in the quarantine."""
    return quarantine.quarantined(root, TABLE.path)


def break_and_notice(root: DataRoot, inventory: Inventory) -> None:
    """Change a file, then sweep and hash."""
    damage(on_disk(root, TABLE.path, PATH))
    sweep(inventory)
    hash_unverified(inventory, unlimited)


def test_a_damaged_file_is_moved_and_its_bucket_is_corrupt(root: DataRoot, inventory: Inventory) -> None:
    """Also for a restarted agent; complete again once the good content is back."""
    break_and_notice(root, inventory)
    assert not on_disk(root, TABLE.path, PATH).exists()
    assert aside(root) == {PATH}
    assert root.ledger.entry(TABLE.path, PATH) is None
    sweep(inventory)
    for one in (inventory, Inventory(root)):
        report = one.report([TABLE.reference])[0]
        assert (states(report), report.buckets[0].corrupt_files) == ({0: "corrupt", 1: "complete"}, (PATH,))
    assert publish(root, TABLE.path, PATH, b"12345")
    assert states(inventory.report([TABLE.reference])[0]) == {0: "complete", 1: "complete"}


def test_a_file_that_is_in_both_places_leaves_its_own(root: DataRoot, inventory: Inventory) -> None:
    """As after a put-back that was killed half way: a rename would leave two names of one file alone."""
    other = root.path / QUARANTINE_DIRECTORY / TABLE.path.namespace / TABLE.path.directory / PATH
    other.parent.mkdir(parents=True)
    os.link(on_disk(root, TABLE.path, PATH), other)
    break_and_notice(root, inventory)
    assert not on_disk(root, TABLE.path, PATH).exists()
    assert aside(root) == {PATH}


def test_a_file_that_no_live_manifest_names_stays(root: DataRoot) -> None:
    """Before the operator has asked, no file counts as damaged: a load may verify any manifest."""
    publish_table(root, TABLE)
    inventory = Inventory(root)
    inventory.table(TABLE.path).verify(TABLE.reference.manifest, deep=False)
    break_and_notice(root, inventory)
    assert aside(root) == frozenset()


def test_a_file_that_one_live_manifest_confirms_stays(root: DataRoot, inventory: Inventory) -> None:
    """A file is right if any live manifest gives it its content."""
    forged = make_table({PATH: b"forged", OTHER: b"other"}, snapshot=2)
    publish(root, TABLE.path, f"manifests/{forged.reference.manifest}.json.zst", forged.stored)
    both = TABLE.reference.model_copy(
        update={"manifest": forged.reference.manifest, "retained_manifests": (TABLE.reference.manifest,)}
    )
    inventory.report([both])
    hash_unverified(inventory, unlimited)
    assert (inventory.table(TABLE.path).check(PATH), aside(root)) == (False, frozenset())


def test_only_changed_content_is_announced_as_damage(root: DataRoot, inventory: Inventory) -> None:
    """A file that was touched, or that is read again, is what it was."""
    announced: list[tuple[object, str]] = []
    root.damage_listeners.append(lambda table, path: announced.append((table, path)))
    os.utime(on_disk(root, TABLE.path, PATH))
    assert not inventory.table(TABLE.path).check(PATH)
    assert announced == []
    damage(on_disk(root, TABLE.path, PATH))
    assert inventory.table(TABLE.path).check(PATH)
    assert announced == [(TABLE.path, PATH)]


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
def test_a_file_that_the_disk_cannot_read_is_quarantined(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The file is damaged, not the node."""

    def fail(*_arguments: object) -> bytes:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", fail)
        assert inventory.table(TABLE.path).check(PATH)
    assert states(inventory.report([TABLE.reference])[0]) == {0: "corrupt", 1: "complete"}


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EACCES], ids=errno.errorcode.get)
def test_running_out_of_memory_damages_no_file(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """An agent that is short of memory must not move its files."""
    before = root.ledger.entries(TABLE.path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", Mock(side_effect=OSError(number, os.strerror(number))))
        with pytest.raises(OSError, match=os.strerror(number)):
            inventory.table(TABLE.path).check(PATH)
    assert (aside(root), root.ledger.entries(TABLE.path)) == (frozenset(), before)
    assert states(inventory.report([TABLE.reference])[0]) == {0: "complete", 1: "complete"}


def fail_for(monkeypatch: pytest.MonkeyPatch, function: str, name: str, number: int = errno.EUCLEAN) -> None:
    """Make a function of ``os`` fail for everything of one name."""
    original = getattr(os, function)

    def failing(path: object, *arguments: object, **named: object) -> object:
        if path == name:
            raise OSError(number, os.strerror(number))
        return original(path, *arguments, **named)

    monkeypatch.setattr(os, function, failing)


def test_a_file_that_cannot_be_opened_is_quarantined(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for reasons that are not the file's. A file that is not there cannot be moved."""
    name, table = PATH.rpartition("/")[2], inventory.table(TABLE.path)
    with monkeypatch.context() as patched:
        fail_for(patched, "open", name, errno.EMFILE)
        for work in (table.check, table.set_aside_if_damaged):
            with pytest.raises(OSError, match="Too many open files"):
                work(PATH)
        assert aside(root) == frozenset()
    with monkeypatch.context() as patched:
        fail_for(patched, "open", name, errno.EIO)
        assert (table.check(PATH), aside(root)) == (True, {PATH})
    assert not quarantine.set_aside(root, TABLE.path, PATH)
    assert states(inventory.report([TABLE.reference])[0]) == {0: "corrupt", 1: "complete"}


@pytest.mark.parametrize(
    ("number", "message"),
    [
        pytest.param(errno.EIO, "is damaged", id="the disk cannot read it"),
        pytest.param(errno.EMFILE, "Too many open files", id="out of descriptors"),
        pytest.param(None, "is damaged", id="another content"),
    ],
)
@pytest.mark.parametrize("function", ["open", "pread"])
def test_no_damaged_file_is_served(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch, function: str, number: int | None,
    message: str,
) -> None:  # fmt: skip
    """Good ones are, also those of no manifest. A damaged one leaves the readers' path."""
    free = data_path(2)
    publish(root, TABLE.path, free, b"of a load")
    for path, content in ((PATH, b"12345"), (free, b"of a load")):
        descriptor, entry = inventory.open_verified(TABLE.path, path)
        assert (os.pread(descriptor, 99, 0), entry.sha256) == (content, sha256_hex(content))
        os.close(descriptor)
    if number is None:
        damage(on_disk(root, TABLE.path, PATH))
    else:
        root.ledger.forget(TABLE.path, [PATH])
    with monkeypatch.context() as patched:
        if number is not None and function == "open":
            fail_for(patched, "open", PATH.rpartition("/")[2], number)
        elif number is not None:
            patched.setattr(os, "pread", Mock(side_effect=OSError(number, os.strerror(number))))
        with pytest.raises(OSError if number == errno.EMFILE else FileCorrupt, match=message):
            inventory.open_verified(TABLE.path, PATH)
    assert aside(root) == (frozenset() if number == errno.EMFILE else {PATH})
    with pytest.raises(NotHeld):
        inventory.open_verified(TABLE.path, data_path(3))


def test_links_in_the_quarantine_lead_nowhere(
    root: DataRoot, inventory: Inventory, clock: Clock, tmp_path: Path
) -> None:
    """A tenant that can write there cannot have others' folders and files removed, nor read."""
    break_and_notice(root, inventory)
    outside, place = tmp_path / "outside", root.path / QUARANTINE_DIRECTORY / str(TABLE.path) / "data"
    (outside / "o_year=2" / "empty").mkdir(parents=True)
    (outside / data_path(0).rpartition("/")[2]).write_bytes(b"foreign")
    (place / "o_year=2").symlink_to(outside / "o_year=2")
    (place / "o_year=3").symlink_to(outside)
    (place / data_path(0).rpartition("/")[2]).symlink_to(outside / data_path(0).rpartition("/")[2])
    before = sorted(outside.rglob("*"))
    assert aside(root) == {PATH}
    inventory.report([NOTHING_LIVE])
    for purged in (0, 1):
        assert QuarantinePurge(root, inventory.live_digests).run() == purged
        clock.advance(QUARANTINE_SECONDS)
    assert sorted(outside.rglob("*")) == before


def test_a_file_that_cannot_be_moved_stops_no_other(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers still see it, its bucket is corrupt, the step fails, and the move is retried."""
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


def test_a_file_whose_time_cannot_be_set_is_moved(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hiding it from readers matters more."""
    fail_for(monkeypatch, "utime", PATH.rpartition("/")[2])
    break_and_notice(root, inventory)
    assert aside(root) == {PATH}


def test_a_replaced_file_is_purged_after_a_day(root: DataRoot, inventory: Inventory, clock: Clock) -> None:
    """The day counts by the agent's clock, whatever the wall clock shows. Its place has the right content again."""
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
    ("reference", "in_place", "purged"),
    [
        pytest.param(TABLE.reference, None, 0, id="named, and the only copy here"),
        pytest.param(UNKNOWN_LIVE, None, 0, id="a live manifest is not here"),
        pytest.param(None, None, 0, id="the operator has not asked yet"),
        pytest.param(NOTHING_LIVE, None, 1, id="no live manifest names it"),
        pytest.param(NOTHING_LIVE, b"other", 1, id="no live manifest names it, nor another file in its place"),
    ],
)
def test_a_possible_last_copy_is_not_purged(
    root: DataRoot, inventory: Inventory, clock: Clock, reference: TableReference | None, in_place: bytes | None,
    purged: int,
) -> None:  # fmt: skip
    """A damaged copy may be all that there is; files that no manifest names go, or the disk would fill."""
    break_and_notice(root, inventory)
    if in_place is not None:
        on_disk(root, TABLE.path, PATH).write_bytes(in_place)
    asked = Inventory(root)
    if reference is not None:
        asked.report([reference])
    assert QuarantinePurge(root, asked.live_digests).run() == 0
    clock.advance(QUARANTINE_SECONDS)
    assert QuarantinePurge(root, asked.live_digests).run() == purged
    assert aside(root) == (frozenset() if purged else {PATH})


def test_a_damaged_replacement_purges_nothing(
    root: DataRoot, inventory: Inventory, clock: Clock
) -> None:
    """Only the right content does."""
    break_and_notice(root, inventory)
    on_disk(root, TABLE.path, PATH).write_bytes(b"wrong")
    assert QuarantinePurge(root, inventory.live_digests).run() == 0
    clock.advance(QUARANTINE_SECONDS)
    assert (QuarantinePurge(root, inventory.live_digests).run(), aside(root)) == (0, {PATH})


def test_files_that_a_failing_disk_does_not_list_stay(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that seems empty is no reason to delete its contents."""
    break_and_notice(root, inventory)
    with monkeypatch.context() as patched:
        patched.setattr(quarantine, "files_in_quarantine", lambda *_: {})
        assert QuarantinePurge(root, inventory.live_digests).run() == 0
    assert aside(root) == {PATH}


def test_a_dropped_table_leaves_nothing_in_the_quarantine(root: DataRoot, inventory: Inventory, clock: Clock) -> None:
    """Its folder is gone, and no question names it."""
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


@pytest.mark.parametrize("function", ["open", "pread"], ids=["in its place", "in the quarantine"])
@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.EACCES], ids=errno.errorcode.get)
def test_a_purge_fails_for_all_but_bad_places_of_the_disk(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch, function: str, number: int
) -> None:
    """Those are what the quarantine is for. Whatever fails, the file stays."""
    break_and_notice(root, inventory)
    purge = QuarantinePurge(root, inventory.live_digests)
    with monkeypatch.context() as patched, contextlib.ExitStack() as expected:
        if function == "open":
            fail_for(patched, "open", PATH.rpartition("/")[2], number)
        else:
            patched.setattr(os, "pread", Mock(side_effect=OSError(number, os.strerror(number))))
        if number != errno.EIO:
            expected.enter_context(pytest.raises(OSError, match=os.strerror(number)))
        assert purge.run() == 0
    assert aside(root) == {PATH}


def test_a_good_file_replaces_nothing(root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone that is not known yet may have been quicker."""
    with monkeypatch.context() as patched:
        failing_reads(patched)
        assert inventory.table(TABLE.path).check(PATH)
    on_disk(root, TABLE.path, PATH).write_bytes(b"newer")
    monkeypatch.setattr(QuarantinePurge, "_content_in_place", lambda *_: None)
    assert (QuarantinePurge(root, inventory.live_digests).run(), aside(root)) == (0, {PATH})
    assert on_disk(root, TABLE.path, PATH).read_bytes() == b"newer"


def test_a_file_changed_while_it_is_read_stays(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the file that was read goes back."""
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
def test_a_file_that_is_not_durable_does_not_go_back(
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


def test_an_unreadable_file_is_read_again_before_it_is_moved(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger's entry is from a moment at which the disk failed."""
    table = inventory.table(TABLE.path)
    with monkeypatch.context() as patched:
        failing_reads(patched)
        table.hash_file(PATH, always=True)
    assert states(inventory.report([TABLE.reference])[0])[0] == "corrupt"
    hash_unverified(inventory, unlimited)
    assert (aside(root), on_disk(root, TABLE.path, PATH).exists()) == (frozenset(), True)
    assert states(inventory.report([TABLE.reference])[0]) == {0: "complete", 1: "complete"}


def test_a_file_that_cannot_be_purged_stops_no_other(
    root: DataRoot, inventory: Inventory, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The purge fails, and retries it."""
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


def test_dropping_a_bucket_empties_its_quarantine(root: DataRoot, inventory: Inventory) -> None:
    """Otherwise the node would be called corrupt, and ordered to drop it, again and again."""
    break_and_notice(root, inventory)
    live = removal.LiveManifests((TABLE.reference.manifest,), 3600)
    sweep(inventory)
    assert states(inventory.report([TABLE.reference])[0])[0] == "corrupt"
    removal.delete_bucket(inventory, TABLE.path, 0, live)
    assert aside(root) == frozenset()
    assert states(inventory.report([TABLE.reference])[0]) == {0: None, 1: "complete"}


def test_dropping_a_bucket_keeps_other_quarantined_files(root: DataRoot, inventory: Inventory) -> None:
    """Other damaged buckets are still reported as damaged."""
    damage(on_disk(root, TABLE.path, OTHER))
    break_and_notice(root, inventory)
    assert aside(root) == {PATH, OTHER}
    removal.delete_bucket(inventory, TABLE.path, 0, removal.LiveManifests((TABLE.reference.manifest,), 3600))
    assert aside(root) == {OTHER}
    assert states(inventory.report([TABLE.reference])[0]) == {0: None, 1: "corrupt"}


def test_the_day_counts_from_when_damage_is_found(root: DataRoot, inventory: Inventory, clock: Clock) -> None:
    """Whatever the file's age, and however long an earlier file of its path was kept: people must be able to inspect
    it.
    """
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
