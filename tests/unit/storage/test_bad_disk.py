"""A disk that cannot read one place: files there are missing or damaged, everything else is reported correctly."""

import errno
import os
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from colocation.model.agent import CloneProgress
from colocation.storage.clone_reports import PROGRESS_FILE, read_progress, write_progress
from colocation.storage.errors import NotHeld
from colocation.storage.inventory import Inventory, hash_unverified, scrub_batch, sweep
from colocation.storage.root import DataRoot
from colocation.storage.verification import unlimited

from .conftest import Clock
from .tables import data_path, make_table, on_disk, publish_table
from .test_inventory import states

TABLE = make_table({data_path(bucket, partition=f"o_year={bucket}"): b"12345" for bucket in range(2)})
OTHER = make_table({data_path(0): b"other"}, name="lines")
BAD_FOLDER, BAD_FILE = "o_year=0", data_path(0).rpartition("/")[2]

Break = Callable[[str, int], None]


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Break:
    """Make opening and stat'ing of everything with one name fail with an error number."""

    def failing(name: str, number: int) -> None:
        for function in ("open", "stat"):
            original = getattr(os, function)

            def guarded(path: object, *arguments: object, original: object = original, **named: object) -> object:
                if path == name:
                    raise OSError(number, os.strerror(number))
                return original(path, *arguments, **named)

            monkeypatch.setattr(os, function, guarded)

    return failing


@pytest.fixture
def inventory(root: DataRoot) -> Inventory:
    """The inventory of a node that holds two tables."""
    publish_table(root, TABLE)
    publish_table(root, OTHER)
    return Inventory(root)


def test_an_unreadable_folder_counts_as_missing(inventory: Inventory, fail: Break) -> None:
    """A clone brings its files back; other folders are reported."""
    fail(BAD_FOLDER, errno.EIO)
    sweep(inventory)
    report, other = inventory.report([TABLE.reference, OTHER.reference])
    assert states(report) == {0: None, 1: "complete"}
    assert states(other) == {0: "complete"}


def test_an_unreadable_table_affects_no_other_table(inventory: Inventory, fail: Break) -> None:
    """Its manifest counts as missing."""
    fail(TABLE.path.directory, errno.EIO)
    sweep(inventory)
    report, other = inventory.report([TABLE.reference, OTHER.reference])
    assert (report.manifest_present, report.buckets) == (False, {})
    assert states(other) == {0: "complete"}


def test_an_unreadable_namespace_affects_no_other(inventory: Inventory, root: DataRoot, fail: Break) -> None:
    """Its tables are not listed. Without file descriptors nothing is."""
    lake = make_table({data_path(0): b"lake"}, namespace="lake")
    publish_table(root, lake)
    assert root.tables() == (lake.path, OTHER.path, TABLE.path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(root, "_folders_in", lambda *given: ["gone", *DataRoot._folders_in(root, *given)])
        with pytest.raises(NotHeld):
            root._folders_in(("gone",), bool)
        assert {table.namespace for table in root.tables()} >= {"lake", "shop"}
    fail(TABLE.path.namespace, errno.EIO)
    assert root.tables() == (lake.path,)
    fail(lake.path.namespace, errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        root.tables()


def test_a_folder_that_may_not_be_read_fails_its_tables_step(inventory: Inventory, fail: Break) -> None:
    """Its files are not lost: a person has changed its mode. Other tables are looked at."""
    inventory.report([TABLE.reference])
    fail(BAD_FOLDER, errno.EACCES)
    with pytest.raises(OSError, match="Permission denied"):
        inventory.table(TABLE.path).sweep()
    sweep(inventory)
    assert states(inventory.report([OTHER.reference])[0]) == {0: "complete"}


def test_running_out_of_descriptors_fails_the_report(inventory: Inventory, fail: Break) -> None:
    """An agent without file descriptors must not report its tables as lost."""
    fail(TABLE.path.directory, errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        inventory.report([TABLE.reference])
    with pytest.raises(OSError, match="Too many open files"):
        sweep(inventory)


def test_running_out_of_descriptors_ends_the_scrub(inventory: Inventory, clock: Clock, fail: Break) -> None:
    """No file counts as not hashed for that."""
    before = inventory.report([TABLE.reference, OTHER.reference])
    clock.advance(101)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "open", Mock(side_effect=OSError(errno.EMFILE, os.strerror(errno.EMFILE))))
        with pytest.raises(OSError, match="Too many open files"):
            scrub_batch(inventory, 100, unlimited)
    assert inventory.report([TABLE.reference, OTHER.reference]) == before


def test_the_scrub_reads_the_disk_itself_and_forgets_what_is_gone(
    inventory: Inventory, root: DataRoot, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory may hold what the disk has lost; and an entry that stays would be due again at once."""
    inventory.report([TABLE.reference, OTHER.reference])
    on_disk(root, OTHER.path, data_path(0)).unlink()
    clock.advance(101)
    advised: list[int] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *given: advised.append(given[3]))
    assert scrub_batch(inventory, 100, unlimited).files == 4
    assert advised == [os.POSIX_FADV_DONTNEED] * 2 * 4  # before, and again afterwards
    assert root.ledger.entry(OTHER.path, data_path(0)) is None
    assert scrub_batch(inventory, 100, unlimited).files == 0


def test_a_file_that_cannot_be_opened_is_damaged(
    inventory: Inventory, root: DataRoot, clock: Clock, fail: Break
) -> None:
    """The scrub finds it, continues with the next one, and does not return to it immediately."""
    before = inventory.report([TABLE.reference, OTHER.reference])
    assert list(map(states, before)) == [{0: "complete", 1: "complete"}, {0: "complete"}]
    fail(BAD_FILE, errno.EIO)
    clock.advance(101)
    assert scrub_batch(inventory, 100, unlimited).files == 3  # of five: the bad name is there twice
    assert scrub_batch(inventory, 100, unlimited).files == 0
    report, other = inventory.report([TABLE.reference, OTHER.reference])
    assert states(report) == {0: "corrupt", 1: "complete"}
    assert states(other) == {0: "corrupt"}


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENODATA], ids=errno.errorcode.get)
def test_a_file_that_cannot_be_hashed_stops_no_other(
    root: DataRoot, inventory: Inventory, fail: Break, number: int
) -> None:
    """Its bucket is incomplete, the step fails, and every other file is hashed."""
    root.ledger.forget_table(TABLE.path)
    root.ledger.forget_table(OTHER.path)
    sweep(inventory)
    fail(BAD_FILE, number)
    with pytest.raises(OSError, match=os.strerror(number)) as failed:
        hash_unverified(inventory, unlimited)
    assert [note for note in failed.value.__notes__ if str(TABLE.path) in note]
    report, other = inventory.report([TABLE.reference, OTHER.reference])
    assert (states(report), states(other)) == ({0: "partial", 1: "complete"}, {0: "partial"})


def test_hashing_stops_without_file_descriptors(inventory: Inventory, root: DataRoot, fail: Break) -> None:
    """No other file could be opened, either."""
    root.ledger.forget_table(OTHER.path)
    sweep(inventory)
    fail(BAD_FILE, errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        hash_unverified(inventory, unlimited)


def test_a_file_that_cannot_be_scrubbed_stops_no_other(
    root: DataRoot, inventory: Inventory, clock: Clock, fail: Break
) -> None:
    """Its entry is forgotten, so it does not count as complete, and the hashing thread retries it."""
    inventory.report([TABLE.reference, OTHER.reference])
    clock.advance(101)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("colocation.storage.inventory.SCRUB_BATCH_FILES", 2)
        fail(BAD_FILE, errno.EACCES)
        read = [scrub_batch(inventory, 100, unlimited).files for _ in range(3)]
    assert sum(read) == 3  # of five: the bad name is there twice
    report, other = inventory.report([TABLE.reference, OTHER.reference])
    assert (states(report), states(other)) == ({0: "partial", 1: "complete"}, {0: "partial"})
    with pytest.raises(OSError, match="Permission denied"):
        hash_unverified(inventory, unlimited)


@pytest.mark.parametrize(
    "number", [pytest.param(errno.EIO, id="EIO"), pytest.param(errno.EUCLEAN, id="EUCLEAN")]
)
def test_unreadable_clone_progress_is_left_out(root: DataRoot, fail: Break, number: int) -> None:
    """Otherwise the node would send no report, and its failing disk would go unnoticed."""
    progress = CloneProgress(namespace="shop", group="sales", bucket=1, bytes_done=0, bytes_total=9, updated_at="")
    write_progress(root, progress)
    assert read_progress(root) == (progress,)
    fail(PROGRESS_FILE, number)
    assert read_progress(root) == ()


def test_progress_is_written_over_what_a_clone_that_died_left(root: DataRoot) -> None:
    """A longer rest of it would make the file unreadable."""
    progress = CloneProgress(namespace="shop", group="sales", bucket=1, bytes_done=0, bytes_total=9, updated_at="")
    write_progress(root, progress)
    [written] = root.path.glob(f".incoming/clones/*/{PROGRESS_FILE}")
    written.with_name(f".{PROGRESS_FILE}").write_text("{" * 1000)
    write_progress(root, progress)
    assert read_progress(root) == (progress,)


def test_reading_progress_fails_without_file_descriptors(root: DataRoot, fail: Break) -> None:
    """The agent must not report that no clone is running."""
    write_progress(root, CloneProgress(namespace="a", group="b", bucket=0, bytes_done=0, bytes_total=9, updated_at=""))
    fail(PROGRESS_FILE, errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        read_progress(root)
