"""Batches of small files: all of them are on the disk before any is visible."""

import errno
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from colocation.storage.clone_reports import announce, take_announced
from colocation.storage.errors import DigestDiffers, FileChanged, InvalidPath, NoRoom
from colocation.storage.ledger import FileIdentity
from colocation.storage.paths import TablePath
from colocation.storage.publish import IncomingBatch
from colocation.storage.root import CLONES, DataRoot
from colocation.storage.verification import FILE_COST_BYTES, hash_descriptor, unheld_files
from colocation.storage.wanted import WantedFile

from .tables import damage, data_path, on_disk, sha256_hex

TABLE = TablePath("shop", "orders-0a1b2c3d")
FOLDER = (*CLONES, "shop.sales.00001", "batches")
CONTENTS = {data_path(1, load=str(load), partition=f"o_year={load % 2}"): b"same" * (load // 2) for load in range(6)}
WANTED = [WantedFile(path, 1, len(content), sha256_hex(content)) for path, content in CONTENTS.items()]

Call = Callable[..., None]


@pytest.fixture
def syncs() -> Iterator[Executor]:
    """The threads that wait for syncs."""
    with ThreadPoolExecutor(4) as threads:
        yield threads


def publish_all(root: DataRoot, syncs: Executor) -> None:
    """Publish the contents; two paths have the same content."""
    with IncomingBatch(root, TABLE, FOLDER) as batch:
        for path, content in CONTENTS.items():
            batch.add(path, content, sha256_hex(content))
        for received in root.path.joinpath(*FOLDER).iterdir():
            os.utime(received, (1000, 1000))  # an hour ago, if the clone was slow
        batch.publish(syncs)


def visible(root: DataRoot) -> set[str]:
    """The published files of the table."""
    folder = root.path / TABLE.namespace / TABLE.directory
    return {str(path.relative_to(folder)) for path in folder.glob("data/**/*.parquet")}


def left_over(root: DataRoot) -> list[str]:
    """Files left in the clone's folder."""
    return [path.name for path in root.path.joinpath(*FOLDER).iterdir()]


def test_publishes_and_announces_every_file(root: DataRoot, syncs: Executor) -> None:
    """All are visible, in the ledger, announced, and readable by other users; nothing is left over."""
    before = os.umask(0o077)
    try:
        publish_all(root, syncs)
    finally:
        os.umask(before)
    assert visible(root) == set(CONTENTS)
    assert {path: entry.sha256 for path, entry in root.ledger.entries(TABLE).items()} == {
        path: sha256_hex(content) for path, content in CONTENTS.items()
    }
    assert unheld_files(root, TABLE, WANTED) == []
    assert {on_disk(root, TABLE, path).stat().st_mode & 0o777 for path in CONTENTS} == {0o644}
    assert min(on_disk(root, TABLE, path).stat().st_mtime for path in CONTENTS) > 10**9, "the age of all starts now"
    assert root.change_count(TABLE) > 0
    assert take_announced(root) == (TABLE,)
    assert left_over(root) == []


def test_a_file_that_reads_back_differently_is_not_published(
    root: DataRoot, syncs: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are read from the disk itself, not from memory; nothing of the batch is trusted then."""
    read = Mock(return_value=(FileIdentity(4, 1, 1), sha256_hex(b"other")))
    monkeypatch.setattr("colocation.storage.publish.hash_descriptor", read)
    with pytest.raises(DigestDiffers, match="the disk returns"):
        publish_all(root, syncs)
    assert all(call.kwargs == {"past_cache": True} for call in read.call_args_list)
    assert (visible(root), root.ledger.entries(TABLE), left_over(root)) == (set(), {}, [])


def test_batches_are_not_received_through_a_link(root: DataRoot, tmp_path: Path) -> None:
    """The names in a clone's folder can be guessed."""
    outside, path = tmp_path / "outside", next(iter(CONTENTS))
    outside.write_bytes(b"foreign")
    with IncomingBatch(root, TABLE, FOLDER) as batch:
        root.path.joinpath(*FOLDER, sha256_hex(f"{TABLE}/{path}".encode())).symlink_to(outside)
        with pytest.raises(OSError, match="symbolic links"):
            batch.add(path, CONTENTS[path], sha256_hex(CONTENTS[path]))
    assert outside.read_bytes() == b"foreign"


def test_no_file_is_visible_before_all_are_synced(
    root: DataRoot, syncs: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file is synced before the first rename, and every folder after the last rename into it."""
    steps: list[str] = []
    for name in ("fsync", "rename"):
        original = getattr(os, name)

        def noted(*arguments: object, step: str = name, call: Call = original, **named: object) -> None:
            call(*arguments, **named)
            steps.append(step)

        monkeypatch.setattr(os, name, noted)
    for folder in ((*TABLE, "data", "o_year=0"), (*TABLE, "data", "o_year=1"), FOLDER):
        with root.folder(folder, create=True):
            pass
    steps.clear()
    publish_all(root, syncs)
    expected = ["fsync"] * 6 + (["rename"] * 3 + ["fsync"]) * 2
    assert steps[: len(expected)] == expected  # then the announcement


@pytest.mark.parametrize("failing", range(len(CONTENTS)))
def test_a_failed_sync_publishes_and_keeps_nothing(
    root: DataRoot, syncs: Executor, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """No file of the batch is visible, in the ledger or left over; a repetition starts over and succeeds."""
    calls = iter(range(1000))
    original = os.fsync

    def fails_once(descriptor: int) -> None:
        if next(calls) == failing:
            raise OSError(errno.EIO, "Input/output error")
        original(descriptor)

    with IncomingBatch(root, TABLE, FOLDER) as batch:
        for path, content in CONTENTS.items():
            batch.add(path, content, sha256_hex(content))
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fails_once)
            with pytest.raises(OSError, match="Input/output"):
                batch.publish(syncs)
    assert (visible(root), root.ledger.entries(TABLE), left_over(root)) == (set(), {}, [])
    publish_all(root, syncs)
    assert visible(root) == set(CONTENTS)


def test_files_in_a_folder_that_cannot_be_synced_are_removed(
    root: DataRoot, syncs: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next attempt would count them as held, and a power loss could remove them."""
    original = os.fsync
    with root.folder((*TABLE, "data", "o_year=1"), create=True) as opened:
        failing = os.fstat(opened).st_ino

    def one_folder_fails(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == failing:
            raise OSError(errno.EIO, "Input/output error")
        original(descriptor)

    with monkeypatch.context() as patched, pytest.raises(OSError, match="Input/output"):
        patched.setattr(os, "fsync", one_folder_fails)
        publish_all(root, syncs)
    unheld = {file.path for file in unheld_files(root, TABLE, WANTED)}
    assert unheld >= {path for path in CONTENTS if "o_year=1" in path}
    assert not any("o_year=1" in path for path in visible(root))
    assert not any("o_year=1" in path for path in root.ledger.entries(TABLE))
    publish_all(root, syncs)
    assert visible(root) == set(CONTENTS)


@pytest.mark.parametrize("step", range(12))
def test_a_kill_at_any_step_leaves_only_whole_files(
    root: DataRoot, syncs: Executor, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Visible files are whole and synced; leftovers are overwritten by the repetition."""

    class Killed(BaseException):
        pass

    steps = iter(range(1000))
    for name in ("fsync", "rename"):
        original = getattr(os, name)

        def counted(*arguments: object, call: Call = original, **named: object) -> None:
            if next(steps) >= step:
                raise Killed
            call(*arguments, **named)

        monkeypatch.setattr(os, name, counted)
    monkeypatch.setattr(os, "unlink", lambda *_arguments, **_named: None)  # a killed process cleans nothing up
    with pytest.raises(Killed):
        publish_all(root, syncs)
    monkeypatch.undo()
    assert len(unheld_files(root, TABLE, WANTED)) == len(CONTENTS) - len(visible(root))
    publish_all(root, syncs)
    assert unheld_files(root, TABLE, WANTED) == []
    assert left_over(root) == []


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE], ids=errno.errorcode.get)
def test_a_file_that_the_disk_cannot_read_is_not_held(
    root: DataRoot, syncs: Executor, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A clone sends it again; but not all files, when descriptors are short."""
    publish_all(root, syncs)
    bad, opened = WANTED[-1], os.open

    def failing(path: str, *arguments: int, **named: int) -> int:
        if bad.path.endswith(f"/{path}"):
            raise OSError(number, os.strerror(number))
        return opened(path, *arguments, **named)

    monkeypatch.setattr(os, "open", failing)
    if number == errno.EIO:
        assert unheld_files(root, TABLE, WANTED) == [bad]
    else:
        with pytest.raises(OSError, match="Too many open files"):
            unheld_files(root, TABLE, WANTED)


def test_hashing_waits_for_its_turn(root: DataRoot, syncs: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each file, and before each block of it; a file that becomes shorter meanwhile has changed."""
    publish_all(root, syncs)
    monkeypatch.setattr("colocation.storage.verification.BLOCK_BYTES", 3)
    longest, turns = WANTED[-1], []
    for known in (True, False):
        if not known:
            root.ledger.forget_table(TABLE)
        assert unheld_files(root, TABLE, [longest], turns.append) == []
    assert (turns, longest.bytes) == ([0, 0, FILE_COST_BYTES, 3, 3, 2], 8)
    with root.file(TABLE, longest.path) as descriptor, pytest.raises(FileChanged, match="at 3 of 8 bytes"):
        hash_descriptor(descriptor, lambda count: os.truncate(on_disk(root, TABLE, longest.path), 3))


def test_replaces_a_damaged_file(root: DataRoot, syncs: Executor) -> None:
    """A damaged file is not held; it is held again after the batch."""
    publish_all(root, syncs)
    damaged = WANTED[-1]
    damage(on_disk(root, TABLE, damaged.path))
    assert unheld_files(root, TABLE, WANTED) == [damaged]
    publish_all(root, syncs)
    assert unheld_files(root, TABLE, WANTED) == []


@pytest.mark.parametrize(
    ("path", "sha256", "error"),
    [
        pytest.param(WANTED[0].path, "00" * 32, DigestDiffers, id="another content"),
        pytest.param("data/../../x_00001.parquet", sha256_hex(b"x"), InvalidPath, id="a path outside the table"),
    ],
)
def test_refuses_other_content_and_paths(
    root: DataRoot, path: str, sha256: str, error: type[Exception]
) -> None:
    """Nothing of it is written."""
    with IncomingBatch(root, TABLE, FOLDER) as batch, pytest.raises(error):
        batch.add(path, b"x", sha256)
    assert left_over(root) == []


def test_a_full_disk_raises_no_room(root: DataRoot, syncs: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENOSPC is ``NoRoom``, and received files are removed."""

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with IncomingBatch(root, TABLE, FOLDER) as batch:
        batch.add(WANTED[-1].path, CONTENTS[WANTED[-1].path], WANTED[-1].sha256)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(NoRoom):
                batch.publish(syncs)
    assert left_over(root) == []


def test_announcements_follow_no_link(root: DataRoot, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The sweep finds the files nevertheless."""
    outside, folder = tmp_path / "outside", root.path / ".incoming" / "changed" / TABLE.namespace
    outside.write_bytes(b"foreign")
    folder.mkdir(parents=True)
    (folder / TABLE.directory).symlink_to(outside)
    announce(root, TABLE)
    assert outside.read_bytes() == b"foreign"
    assert "only at the next sweep" in caplog.text
