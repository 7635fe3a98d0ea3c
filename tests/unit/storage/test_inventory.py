"""Reports on what a node holds: correct after damage, cheap when nothing changed."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from colocation.model.agent import TableReference, TableReport
from colocation.storage import contents, verification, wanted
from colocation.storage import report as report_module
from colocation.storage.contents import HeldFile
from colocation.storage.errors import ManifestMissing
from colocation.storage.inventory import Inventory, hash_unverified, look, scrub_backlog, scrub_batch, sweep
from colocation.storage.ledger import FileIdentity
from colocation.storage.memory_limits import BYTES_OF_A_FILE, ManifestRoom
from colocation.storage.report import table_report
from colocation.storage.root import DataRoot
from colocation.storage.table_inventory import TableInventory
from colocation.storage.verification import unlimited
from colocation.storage.wanted import SPARE_MANIFESTS, ManifestCache, WantedFile

from .conftest import Clock
from .tables import damage, data_path, make_table, on_disk, publish, publish_table

TABLE = make_table(
    {data_path(bucket, partition=f"o_year={year}"): f"{year} {bucket}".encode() for year in (1, 2) for bucket in (0, 1)}
)
FIRST = data_path(0, partition="o_year=1")

RIGHT, OTHER = "a" * 64, "b" * 64
REFERENCE = TableReference(namespace="shop", directory="orders-0a1b2c3d", manifest="c" * 64)
REPORT = TypeAdapter(TableReport)
STATES = ("held", "absent", "unverified", "damaged", "quarantined")


def states(report: TableReport) -> dict[int, str | None]:
    """The state of every bucket."""
    return {bucket: state.state for bucket, state in report.buckets.items()}


def report_on(inventory: Inventory) -> TableReport:
    """The report on ``TABLE``, after a look at its folders."""
    inventory.table(TABLE.path).look()
    return inventory.report([TABLE.reference])[0]


@contextmanager
def counted_hashes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Collects one entry per hashed file."""
    hashed: list[int] = []
    original = verification.hash_descriptor

    def counting(descriptor: int, *arguments: object) -> object:
        hashed.append(descriptor)
        return original(descriptor, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(verification, "hash_descriptor", counting)
        yield hashed


@pytest.fixture
def inventory(root: DataRoot) -> Inventory:
    """The inventory of a node that holds ``TABLE``."""
    publish_table(root, TABLE)
    return Inventory(root)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders count as settled at once, so that they are not listed again without need."""
    monkeypatch.setattr(contents, "SETTLING_NANOSECONDS", -1_000_000_000_000)


def test_all_held(inventory: Inventory) -> None:
    """Files and bytes are those of the manifest; nothing is surplus. Another look, or a hash, finds nothing new."""
    report = report_on(inventory)
    assert report_on(inventory) is report
    inventory.table(TABLE.path).hash_file(FIRST, always=True)
    assert inventory.report([TABLE.reference])[0] is report
    assert states(report) == {0: "complete", 1: "complete"}
    assert (report.buckets[0].files_held, report.buckets[0].bytes_held) == (2, 6)
    assert (report.manifest_present, report.surplus_bytes) == (True, 0)


def test_nothing_held(root: DataRoot) -> None:
    """A node with only the manifest wants everything and holds nothing: state None."""
    publish(root, TABLE.path, f"manifests/{TABLE.manifest}.json.zst", TABLE.stored)
    assert states(report_on(Inventory(root))) == {0: None, 1: None}


def test_no_manifest(root: DataRoot) -> None:
    """Without the wanted manifest the report states only that it is missing."""
    report = report_on(Inventory(root))
    assert (report.manifest_present, report.buckets) == (False, {})


def test_a_damaged_manifest_counts_as_missing(inventory: Inventory, root: DataRoot) -> None:
    """A manifest is checked like any other file."""
    assert report_on(inventory).manifest_present
    damage(on_disk(root, TABLE.path, f"manifests/{TABLE.manifest}.json.zst"))
    assert not report_on(inventory).manifest_present


def test_a_table_before_its_first_load(root: DataRoot) -> None:
    """Nothing is wanted, so nothing is missing; uploaded files are surplus."""
    publish(root, TABLE.path, FIRST, b"1234")
    report = Inventory(root).report([TABLE.reference.model_copy(update={"manifest": None})])[0]
    assert (report.manifest_present, report.buckets, report.surplus_bytes) == (True, {}, 4)


@pytest.mark.usefixtures("settled")
def test_a_missing_file_is_noticed_by_the_next_look(inventory: Inventory, root: DataRoot) -> None:
    """A deletion changes its folder."""
    report_on(inventory)
    on_disk(root, TABLE.path, FIRST).unlink()
    assert states(report_on(inventory)) == {0: "partial", 1: "complete"}


def test_a_file_that_goes_while_its_folder_is_read_is_noticed(inventory: Inventory, root: DataRoot) -> None:
    """Times of a file system are coarse: a folder that changes again within a tick looks as it was read."""
    file = on_disk(root, TABLE.path, FIRST)
    before = file.parent.stat()
    report_on(inventory)
    file.unlink()
    os.utime(file.parent, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert states(report_on(inventory)) == {0: "partial", 1: "complete"}


@pytest.mark.usefixtures("settled")
def test_a_changed_file_does_not_count_until_it_is_hashed(inventory: Inventory, root: DataRoot) -> None:
    """After a sweep it is unverified, after the hash corrupt and listed, and once repaired it counts again."""
    report_on(inventory)
    damage(on_disk(root, TABLE.path, FIRST))
    sweep(inventory)
    assert states(report_on(inventory))[0] == "partial"
    assert hash_unverified(inventory, unlimited) == 1
    report = report_on(inventory)
    assert (report.buckets[0].state, report.buckets[0].corrupt_files) == ("corrupt", (FIRST,))
    publish(root, TABLE.path, FIRST, TABLE.contents[FIRST])
    assert states(report_on(inventory))[0] == "complete"


def test_a_file_of_another_size_is_corrupt_without_a_hash(inventory: Inventory, root: DataRoot) -> None:
    """A truncated file needs no hash."""
    os.truncate(on_disk(root, TABLE.path, FIRST), 1)
    sweep(inventory)
    assert states(report_on(inventory))[0] == "corrupt"


def test_the_scrub_finds_invisible_damage(inventory: Inventory, root: DataRoot, clock: Clock) -> None:
    """A flipped bit changes neither size nor time; the scrub reads it."""
    report_on(inventory)
    file = on_disk(root, TABLE.path, FIRST)
    before = file.stat()
    damage(file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    sweep(inventory)
    assert states(report_on(inventory))[0] == "complete"
    assert scrub_batch(inventory, 100, unlimited).files == 0  # not due yet
    assert scrub_backlog(inventory, 100) == (0, 0)
    clock.advance(101)
    everything = (5, 12 + len(TABLE.stored))  # four files and the manifest
    assert scrub_backlog(inventory, 100) == everything
    assert scrub_batch(inventory, 100, unlimited) == everything
    assert scrub_backlog(inventory, 100) == (0, 0)
    assert states(report_on(inventory))[0] == "corrupt"
    assert scrub_batch(inventory, 100, unlimited).files == 0


def test_a_restart_hashes_nothing(inventory: Inventory, root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger survives, so a node that returns is complete immediately."""
    report_on(inventory)
    root.close()
    with counted_hashes(monkeypatch) as hashed:
        again = DataRoot(root.path)
        restarted = Inventory(again)
        sweep(restarted)
        hash_unverified(restarted, unlimited)
        assert states(report_on(restarted)) == {0: "complete", 1: "complete"}
    assert hashed == []
    again.close()
    root.__init__(root.path)


@pytest.mark.parametrize("gone", [(), (FIRST,), tuple(TABLE.contents)], ids=["nothing", "one file", "all of them"])
def test_a_restart_forgets_files_that_went(inventory: Inventory, root: DataRoot, gone: tuple[str, ...]) -> None:
    """Else the ledger would grow for as long as the disk is used."""
    report_on(inventory)
    for path in gone:
        on_disk(root, TABLE.path, path).unlink()
    Inventory(root).table(TABLE.path).look()
    known = {path for path in root.ledger.entries(TABLE.path) if path in TABLE.contents}
    assert known == TABLE.contents.keys() - set(gone)


def test_a_lost_ledger_costs_only_hashing(root: DataRoot, tmp_path: Path) -> None:
    """Every file is hashed again, nothing else changes."""
    publish_table(root, TABLE)
    root.ledger.forget_table(TABLE.path)
    inventory = Inventory(root)
    assert states(report_on(inventory)) == {0: "partial", 1: "partial"}
    assert hash_unverified(inventory, unlimited) == 4
    assert states(report_on(inventory)) == {0: "complete", 1: "complete"}


@pytest.mark.usefixtures("settled")
def test_a_quiet_pass_stats_no_file(inventory: Inventory, root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once folders have settled, a report of an unchanged table lists no folder and is the same object."""
    first, table = report_on(inventory), inventory.table(TABLE.path)
    before = (table.size_bytes(), table.unverified())
    assert before == (12, ())

    def forbidden(_descriptor: int) -> None:
        raise AssertionError("a folder was listed")

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", forbidden)
        patched.setattr(contents.TableContents, "files", None)
        patched.setattr(wanted, "_decoded", None)
        assert inventory.report([TABLE.reference])[0] is first
        assert (table.size_bytes(), table.unverified()) == before
    with counted_hashes(monkeypatch) as hashed:
        assert table.hash_file(FIRST) is not None
    assert hashed == []


def test_files_published_by_a_clone_need_no_hash(
    inventory: Inventory, root: DataRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone announces what it read back, so the agent need not hash it."""
    on_disk(root, TABLE.path, FIRST).unlink()
    report_on(inventory)
    clone_root = DataRoot(root.path)
    with counted_hashes(monkeypatch) as hashed:
        publish(clone_root, TABLE.path, FIRST, TABLE.contents[FIRST])
        assert states(report_on(inventory))[0] == "complete"
    assert hashed == []
    clone_root.close()


def test_surplus_counts_files_that_no_manifest_names(inventory: Inventory, root: DataRoot) -> None:
    """Garbage counts, retained snapshots' files do not."""
    old = make_table({data_path(0, load="old"): b"old"}, snapshot=0)
    publish_table(root, old)
    publish(root, TABLE.path, data_path(0, load="garbage"), b"garbage")
    assert report_on(inventory).surplus_bytes == len(b"old") + len(b"garbage")
    retaining = TABLE.reference.model_copy(update={"retained_manifests": (old.manifest,)})
    assert inventory.report([retaining])[0].surplus_bytes == len(b"garbage")


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("deep", [pytest.param(True, id="deep"), pytest.param(False, id="quick")])
def test_verify(inventory: Inventory, root: DataRoot, monkeypatch: pytest.MonkeyPatch, deep: bool) -> None:
    """Deep verification hashes every file of the manifest again, a quick one only files that look changed."""
    report_on(inventory)
    damage(on_disk(root, TABLE.path, FIRST))
    opened = Mock(side_effect=TableInventory.hash_file, autospec=True)
    monkeypatch.setattr(TableInventory, "hash_file", lambda *given, **named: opened(*given, **named))
    with counted_hashes(monkeypatch) as hashed:
        report = inventory.table(TABLE.path).verify(TABLE.manifest, deep)
    assert states(report) == {0: "corrupt", 1: "complete"}
    assert len(hashed) == opened.call_count == (4 if deep else 1)


@pytest.mark.parametrize("deep", [pytest.param(True, id="deep"), pytest.param(False, id="quick")])
def test_verify_without_a_file(inventory: Inventory, root: DataRoot, deep: bool) -> None:
    """A file that is not there needs no hash."""
    on_disk(root, TABLE.path, FIRST).unlink()
    assert states(inventory.table(TABLE.path).verify(TABLE.manifest, deep)) == {0: "partial", 1: "complete"}


@pytest.mark.parametrize("step", [look, sweep])
def test_every_table_waits_for_its_turn(
    inventory: Inventory, root: DataRoot, step: Callable[[Inventory, Callable[[int], None]], None]
) -> None:
    """An agent that ends finishes one table at most."""
    publish_table(root, make_table({data_path(0): b"x"}, "lines"))
    turns: list[int] = []
    step(inventory, turns.append)
    assert turns == [0, 0]
    assert inventory.table(TABLE.path).size_bytes() == 12


def test_what_is_known_of_a_file_is_noted_once(inventory: Inventory, root: DataRoot) -> None:
    """A generation grows only with a change, and not for files that are not held."""
    held = contents.TableContents(root, TABLE.path)
    held.refresh()
    entry, gone = root.ledger.entry(TABLE.path, FIRST), data_path(3, partition="o_year=1")
    assert entry is not None and held.files()[FIRST].sha256 == entry.sha256
    changes = [
        lambda path: held.learn(path, entry),
        lambda path: held.learn(path, entry._replace(identity=FileIdentity(0, 0, 0), sha256=OTHER)),
        held.mark_unreadable,
        held.mark_unreadable,
        held.unlearn,
        held.unlearn,
        lambda path: held.learn(path, entry),
    ]
    for path, grown in ((FIRST, [0, 0, 1, 1, 2, 2, 3]), (gone, [0] * 7), (data_path(0, partition="o_year=9"), [0] * 7)):
        before, found = held.generation, []
        for change in changes:
            change(path)
            found.append(held.generation - before)
        assert found == grown
    assert held.files().keys() == TABLE.contents.keys()
    assert held.files()[FIRST].sha256 == entry.sha256


def test_judging_what_is_damaged_costs_nothing_while_nothing_is_new(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that hashes does it each second, and a table may have a million files."""
    report_on(inventory)
    hash_unverified(inventory, unlimited)
    with monkeypatch.context() as patched:
        patched.setattr(ManifestCache, "calls_damaged", None)
        hash_unverified(inventory, unlimited)


def test_reports_of_many_loads_take_no_memory(inventory: Inventory, root: DataRoot) -> None:
    """Of those that a load verified lately, and the one that the operator wants."""
    report_on(inventory)
    table = inventory.table(TABLE.path)
    for number in range(9):
        one = make_table({}, snapshot=number + 2)
        publish_table(root, one)
        assert table.verify(one.manifest, deep=False).manifest == one.manifest
    assert len(table._evaluations) <= SPARE_MANIFESTS + 1
    assert TABLE.reference in table._evaluations


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda root, table: publish(root, TABLE.path, data_path(3), b"new"), id="published"),
        pytest.param(lambda root, table: (on_disk(root, TABLE.path, FIRST).unlink(), table.look()), id="gone"),
        pytest.param(lambda root, table: table.sweep(), id="manifests were read again"),
        pytest.param(lambda root, table: (on_disk(root, TABLE.path, "data").rename(root.path / "away"), table.look()),
                     id="its data are gone"),
        pytest.param(lambda root, table: (on_disk(root, TABLE.path, "manifests/new").touch(), table.look()),
                     id="another process published a manifest"),
        pytest.param(lambda root, table: table.distrust(), id="damage was found"),
        pytest.param(lambda root, table: table.forget_content(FIRST), id="unreadable"),
    ],
)  # fmt: skip
def test_a_stamp_differs_when_a_report_may(
    inventory: Inventory, root: DataRoot, change: Callable[[DataRoot, TableInventory], object]
) -> None:
    """The agent answers the operator's question when one does, and only then."""
    inventory.table(TABLE.path).look()
    answered = inventory.report_on(TABLE.reference)
    table = inventory.table(TABLE.path)
    assert answered.stamp == table.stamp == inventory.report_on(TABLE.reference).stamp
    change(root, table)
    assert table.stamp != answered.stamp
    inventory.forget(TABLE.path)
    assert inventory.table(TABLE.path).stamp != answered.stamp


def test_only_data_files_of_partitions_are_held(inventory: Inventory, root: DataRoot, tmp_path: Path) -> None:
    """Readers open no others: neither links, nor odd names, nor what is too deep."""
    data = on_disk(root, TABLE.path, "data")
    file = FIRST.rpartition("/")[2]
    for folder in ("notes", "/".join(["a=1"] * 17)):
        (data / folder).mkdir(parents=True)
        (data / folder / file).write_bytes(b"odd")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / file).write_bytes(b"foreign")
    (data / "o_year=9").symlink_to(tmp_path / "outside")
    (data / file).symlink_to(tmp_path / "outside" / file)
    (data / "notes.txt").write_text("by hand")
    for look_again in (inventory.table(TABLE.path).look, inventory.table(TABLE.path).sweep):
        look_again()
        assert inventory.table(TABLE.path).size_bytes() == 12


def test_a_reference_that_is_not_allowed_has_nothing(inventory: Inventory, root: DataRoot) -> None:
    """A tenant may write any name into an object; its report never changes, and takes no memory."""
    reference = TABLE.reference.model_copy(update={"directory": "../bank"})
    report, stamp = inventory.report_on(reference)
    assert (report.manifest_present, report.buckets, stamp) == (False, {}, None)
    assert [one.table for one in inventory.tables()] == [TABLE.path]


def test_verify_needs_the_manifest(inventory: Inventory) -> None:
    """Without it verification fails."""
    with pytest.raises(ManifestMissing, match="put it first"):
        inventory.table(TABLE.path).verify("00" * 32, deep=False)


def test_a_recycled_table_gives_back_its_memory(root: DataRoot) -> None:
    """Others find the room that its manifest had, and its own late callers take none."""
    publish_table(root, TABLE)
    files = len(TABLE.contents)
    room = ManifestRoom(files * BYTES_OF_A_FILE)
    inventory = Inventory(root, room)
    held = inventory.table(TABLE.path)
    report_on(inventory)
    assert not room.has("lake", files)
    inventory.forget(TABLE.path)
    held.report(TABLE.reference)
    assert room.has("lake", files)


def test_a_table_that_vanishes_and_returns(inventory: Inventory, root: DataRoot) -> None:
    """A folder moved away by hand is noticed, and so is its return."""
    report_on(inventory)
    folder = root.path / "shop"
    folder.rename(root.path / "away")
    assert not report_on(inventory).manifest_present
    (root.path / "away").rename(folder)
    hash_unverified(inventory, unlimited)
    assert states(report_on(inventory)) == {0: "complete", 1: "complete"}


def test_a_file_that_the_disk_cannot_read_is_corrupt(
    inventory: Inventory, root: DataRoot, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An input/output error is damage for a clone to repair, and does not stop the scrub."""

    def unreadable(*_arguments: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    clock.advance(101)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", unreadable)
        assert scrub_batch(inventory, 100, unlimited).files == 5
    assert states(report_on(inventory)) == {0: "corrupt", 1: "corrupt"}
    assert scrub_batch(inventory, 100, unlimited).files == 0
    inventory.table(TABLE.path).verify(TABLE.manifest, deep=True)
    assert states(report_on(inventory)) == {0: "complete", 1: "complete"}


def test_files_in_a_folder_that_the_disk_cannot_read_are_missing(
    inventory: Inventory, root: DataRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it can be read again; the folder that it is in looks as ever."""
    report_on(inventory)
    opened = os.open

    def failing(path: str, *arguments: int, dir_fd: int | None = None) -> int:
        if path == "o_year=1":
            raise OSError(errno.EIO, "Input/output error")
        return opened(path, *arguments, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing)
        sweep(inventory)
        assert states(inventory.report([TABLE.reference])[0]) == {0: "partial", 1: "partial"}
    sweep(inventory)
    hash_unverified(inventory, unlimited)
    assert states(report_on(inventory)) == {0: "complete", 1: "complete"}


def test_a_rotten_manifest_is_missing(inventory: Inventory, root: DataRoot, clock: Clock) -> None:
    """The scrub reads manifests, too; a copy in memory does not hide the damage."""
    assert report_on(inventory).manifest_present
    file = on_disk(root, TABLE.path, f"manifests/{TABLE.manifest}.json.zst")
    before = file.stat()
    damage(file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    clock.advance(101)
    scrub_batch(inventory, 100, unlimited)
    assert not report_on(inventory).manifest_present


def test_buckets_of_retained_snapshots_only_are_reported(root: DataRoot, inventory: Inventory) -> None:
    """Whether or not the files are held; otherwise such buckets would seem empty."""
    publish_table(root, TABLE)
    old = make_table({data_path(bucket, load="old"): b"o" for bucket in (3, 1, 2)}, snapshot=0)
    publish_table(root, old)
    reference = TABLE.reference.model_copy(update={"retained_manifests": (old.manifest,)})
    [report] = inventory.report([reference])
    assert report.retained_only == (2, 3)
    assert inventory.report([reference])[0] is report
    on_disk(root, TABLE.path, data_path(3, load="old")).unlink()
    inventory.table(TABLE.path).look()
    [report] = inventory.report([reference])
    assert (report.retained_missing, report.retained_only) == ((3,), (2, 3))


def test_buckets_that_lack_retained_files_are_reported(root: DataRoot, inventory: Inventory) -> None:
    """A replica is complete without them, but the operator must know before it deletes another."""
    publish_table(root, TABLE)
    old = make_table({data_path(0, load="old"): b"o", data_path(1, load="old"): b"o"}, snapshot=0)
    reference = TABLE.reference.model_copy(update={"retained_manifests": (old.manifest,)})
    [report] = inventory.report([reference])
    assert (report.retained_present, report.retained_missing) == (False, ())
    publish_table(root, old)
    [report] = inventory.report([reference])
    assert (report.retained_present, report.retained_missing) == (True, ())
    on_disk(root, TABLE.path, data_path(1, load="old")).unlink()
    inventory.table(TABLE.path).look()
    [report] = inventory.report([reference])
    assert (report.retained_present, report.retained_missing) == (True, (1,))


def held_file(state: str) -> HeldFile:
    digest = {"held": RIGHT, "unverified": None, "damaged": OTHER}[state]
    return HeldFile(FileIdentity(4, 1, 1), digest)


def report(states: list[str]) -> TableReport:
    """A report on one bucket with a file in each of these states."""
    wanted = {f"part-{number}": WantedFile(f"part-{number}", 0, 4, RIGHT) for number in range(len(states))}
    found = dict(zip(wanted, states, strict=True))
    quarantined = [path for path, state in found.items() if state == "quarantined"]
    held = {path: held_file(state) for path, state in found.items() if state not in ("absent", "quarantined")}
    return table_report(REFERENCE, wanted, (), held, quarantined)


def test_without_the_manifest_buckets_come_from_file_names() -> None:
    """This node may be the only one that holds them."""
    held = {data_path(bucket): held_file("unverified") for bucket in (3, 1)}
    received = table_report(REFERENCE, None, (), held)
    assert (received.manifest_present, received.buckets, received.unnamed_buckets) == (False, {}, (1, 3))
    assert table_report(REFERENCE, {}, (), held).unnamed_buckets == ()


@pytest.mark.parametrize(
    ("states", "held"),
    [
        pytest.param(["held", "absent", "held"], "05", id="some"),
        pytest.param(["absent"] * 9 + ["held"], "0200", id="in two bytes"),
        pytest.param(["held", "held"], "", id="all"),
        pytest.param(["absent", "damaged"], "", id="none"),
        pytest.param(["held"] * 10 + ["absent"], "", id="too many to name"),
    ],
)
def test_held_files_are_named_by_position(monkeypatch: pytest.MonkeyPatch, states: list[str], held: str) -> None:
    """Where counts do not tell."""
    monkeypatch.setattr(report_module, "MAX_NAMED_FILES", 10)
    assert report(states).buckets[0].held_files == held


@pytest.mark.parametrize(
    ("states", "found"),
    [
        pytest.param(["held", "held"], "complete", id="all"),
        pytest.param(["held", "absent"], "partial", id="some"),
        pytest.param(["unverified", "absent"], "partial", id="some, to be hashed"),
        pytest.param(["absent", "absent"], None, id="none"),
        pytest.param(["held", "damaged"], "corrupt", id="damaged"),
        pytest.param(["quarantined", "absent"], "corrupt", id="in the quarantine"),
    ],
)
def test_state_of_a_bucket(states: list[str], found: str | None) -> None:
    """Damage first, and no file counts that was not hashed."""
    bucket = report(states).buckets[0]
    assert (bucket.state, bucket.bytes_wanted, bucket.bytes_held) == (found, 8, 4 * states.count("held"))


def test_buckets_of_retained_snapshots_come_in_order() -> None:
    """Of many buckets, too."""
    files = {f"part-{bucket}": WantedFile(f"part-{bucket}", bucket, 4, RIGHT) for bucket in (33, 8, 1, 64)}
    received = table_report(REFERENCE, {}, (files,), {})
    assert (received.retained_missing, received.retained_only) == ((1, 8, 33, 64), (1, 8, 33, 64))


def test_damaged_files_are_listed_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones by name, of the first buckets that have any."""
    monkeypatch.setattr(report_module, "MAX_LISTED_CORRUPT_FILES", 2)
    monkeypatch.setattr(report_module, "MAX_BUCKETS_WITH_LISTS", 2)
    named = [(f"{bucket}-{name}", bucket) for bucket in range(4) for name in "cab"]
    wanted = {path: WantedFile(path, bucket, 4, RIGHT) for path, bucket in named}
    held = {path: held_file("held" if file.bucket == 0 else "damaged") for path, file in wanted.items()}
    listed = {bucket: one.corrupt_files for bucket, one in table_report(REFERENCE, wanted, (), held).buckets.items()}
    assert listed == {0: (), 1: ("1-a", "1-b"), 2: ("2-a", "2-b"), 3: ()}


@given(st.lists(st.sampled_from(STATES), min_size=1, max_size=40))
def test_unverified_and_missing_files_are_lacking(states: list[str]) -> None:
    """Each by its position, also after the report was serialized."""
    received = REPORT.validate_json(REPORT.dump_json(report(states), by_alias=True))
    found = received.buckets[0].lacking
    assert [bool(found >> position & 1) for position in range(len(states))] == [state != "held" for state in states]
