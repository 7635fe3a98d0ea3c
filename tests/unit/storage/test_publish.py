"""Publication: all or nothing, once and for good."""

import contextlib
import errno
import fcntl
import functools
import os
import shutil
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from colocation.model.agent import CloneProgress
from colocation.model.table_manifest import manifest_path
from colocation.storage.clone_reports import read_progress, write_progress
from colocation.storage.errors import ContentConflict, DigestDiffers, NoRoom, NotHeld
from colocation.storage.folders import names_in
from colocation.storage.incoming import IncomingFile, received_bytes, remove_clone, remove_stale, uploads_in_use
from colocation.storage.inventory import Inventory
from colocation.storage.ledger import identity_of
from colocation.storage.publish import MAX_ATTEMPTS, IncomingBatch, is_published, publish_once
from colocation.storage.root import UPLOADS, DataRoot

from .conftest import Clock, open_files
from .tables import damage, data_path, make_table, on_disk, publish, publish_table, sha256_hex

TABLE = make_table({data_path(1): b"content"})
PATH = data_path(1, partition="o_year=1995")


def uploads(root: DataRoot) -> list[str]:
    """Files left in ``.incoming/uploads``."""
    return [path.name for path in (root.path / ".incoming" / "uploads").iterdir()]


def test_publishes_once(root: DataRoot) -> None:
    """The first upload is new, the second finds the file; nothing is left over."""
    assert publish(root, TABLE.path, PATH, b"content") is True
    assert publish(root, TABLE.path, PATH, b"content") is False
    known = root.ledger.entry(TABLE.path, PATH)
    assert known is not None and known.identity == identity_of(on_disk(root, TABLE.path, PATH).stat()), "no hash is due"
    assert [is_published(root, TABLE.path, PATH, sha256_hex(one)) for one in (b"content", b"other")] == [True, False]
    assert not is_published(root, TABLE.path, data_path(2), sha256_hex(b"content"))
    assert on_disk(root, TABLE.path, PATH).read_bytes() == b"content"
    assert uploads(root) == []


def test_published_files_are_readable_by_other_users(root: DataRoot) -> None:
    """Spark reads under another user id, whatever the umask of the agent."""
    before = os.umask(0o077)
    try:
        publish(root, TABLE.path, PATH, b"content")
    finally:
        os.umask(before)
    assert on_disk(root, TABLE.path, PATH).stat().st_mode & 0o777 == 0o644
    assert on_disk(root, TABLE.path, PATH).parent.stat().st_mode & 0o777 == 0o755


def test_published_files_never_change(root: DataRoot) -> None:
    """Other content under the same path is refused, and the first content stays."""
    publish(root, TABLE.path, PATH, b"content")
    with pytest.raises(ContentConflict, match="use a new file name"):
        publish(root, TABLE.path, PATH, b"another")
    assert on_disk(root, TABLE.path, PATH).read_bytes() == b"content"
    assert uploads(root) == []


def test_a_wrong_digest_publishes_nothing(root: DataRoot) -> None:
    """Content without the announced digest is discarded."""
    with IncomingFile(root, UPLOADS, "x") as incoming:
        incoming.write(b"conten")
        with pytest.raises(DigestDiffers, match="received 6 bytes"):
            publish_once(root, TABLE.path, PATH, incoming, sha256_hex(b"content"), lambda _table, _path: None)
    assert not on_disk(root, TABLE.path, PATH).exists()
    assert uploads(root) == []


def test_a_damaged_file_may_be_replaced_by_the_one_its_manifest_names(root: DataRoot) -> None:
    """Repair by upload is allowed only with the wanted content."""
    publish(root, TABLE.path, PATH, b"content")
    damage(on_disk(root, TABLE.path, PATH))
    with pytest.raises(ContentConflict):
        publish(root, TABLE.path, PATH, b"content")  # named by no manifest
    with IncomingFile(root, UPLOADS, "x") as incoming:
        incoming.write(b"content")
        wanted = sha256_hex(b"content")
        assert publish_once(root, TABLE.path, PATH, incoming, wanted, lambda _table, _path: wanted)
    assert on_disk(root, TABLE.path, PATH).read_bytes() == b"content"


def test_a_manifest_that_is_not_live_replaces_no_live_file(root: DataRoot) -> None:
    """An account that may put files, but not commit, can put and verify a manifest like a load's."""
    publish_table(root, TABLE)
    inventory = Inventory(root)
    inventory.report([TABLE.reference])
    path, foreign = next(iter(TABLE.contents)), b"foreign"
    theirs = make_table({path: foreign}, snapshot=2)
    publish(root, TABLE.path, manifest_path(theirs.manifest), theirs.stored)
    inventory.table(TABLE.path).verify(theirs.manifest, deep=False)
    with IncomingFile(root, UPLOADS, "x") as incoming, pytest.raises(ContentConflict):
        incoming.write(foreign)
        publish_once(root, TABLE.path, path, incoming, sha256_hex(foreign), inventory.expected_sha256)
    assert on_disk(root, TABLE.path, path).read_bytes() == TABLE.contents[path]
    damage(on_disk(root, TABLE.path, path))
    with IncomingFile(root, UPLOADS, "x") as incoming:
        incoming.write(TABLE.contents[path])
        sha256 = sha256_hex(TABLE.contents[path])
        assert publish_once(root, TABLE.path, path, incoming, sha256, inventory.expected_sha256)


def test_a_damaged_manifest_is_replaced(root: DataRoot) -> None:
    """A manifest's name is its digest, so the good one always wins."""
    path = f"manifests/{TABLE.manifest}.json.zst"
    publish(root, TABLE.path, path, TABLE.stored)
    damage(on_disk(root, TABLE.path, path))
    assert publish(root, TABLE.path, path, TABLE.stored) is True
    assert on_disk(root, TABLE.path, path).read_bytes() == TABLE.stored


@pytest.mark.parametrize("failing", ["fsync", "link", "mkdir", "utime"])
def test_an_interruption_anywhere_can_be_repeated(
    root: DataRoot, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """Whichever system call fails, no wrong content is visible, and the repetition publishes."""

    def fail(*_arguments: object, **_named: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, fail)
        with pytest.raises(OSError, match="Input/output"):
            publish(root, TABLE.path, PATH, b"content")
    publish(root, TABLE.path, PATH, b"content")
    assert on_disk(root, TABLE.path, PATH).read_bytes() == b"content"
    assert uploads(root) == []


@pytest.mark.parametrize(("removals", "is_published"), [(MAX_ATTEMPTS - 1, True), (MAX_ATTEMPTS, False)])
@pytest.mark.parametrize("is_batch", [True, False], ids=["a batch", "a file"])
def test_a_folder_that_a_deletion_removes_is_made_again(
    root: DataRoot, monkeypatch: pytest.MonkeyPatch, removals: int, is_published: bool, is_batch: bool
) -> None:
    """Deletions remove empty folders; but a folder that never stays is an error."""
    left = removals

    def removed(original: Callable[..., None], *given: object, **named: object) -> None:
        nonlocal left
        if PATH.endswith(str(given[1])) and left > 0:
            left -= 1
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        original(*given, **named)

    for name in ("link", "rename"):
        monkeypatch.setattr(os, name, functools.partial(removed, getattr(os, name)))
    with contextlib.nullcontext() if is_published else pytest.raises(NotHeld, match="removed 5 times; try again"):
        if is_batch:
            with ThreadPoolExecutor(1) as syncs, IncomingBatch(root, TABLE.path, UPLOADS) as batch:
                batch.add(PATH, b"content", sha256_hex(b"content"))
                batch.publish(syncs)
        else:
            publish(root, TABLE.path, PATH, b"content")
    assert on_disk(root, TABLE.path, PATH).exists() is is_published
    assert uploads(root) == []


def test_a_file_is_received_in_parts(root: DataRoot) -> None:
    """A clone that was interrupted goes on after what has arrived; an upload starts over. Its age starts at its end."""
    for resume, content in ((False, b"con"), (True, b"content"), (False, b"tent")):
        with IncomingFile(root, UPLOADS, "x", resume) as incoming:
            assert incoming.received_bytes == len(content) - len(b"tent") if resume else not incoming.received_bytes
            incoming.write(memoryview(content)[incoming.received_bytes :])
            assert incoming.received_bytes == len(content)
            os.utime(root.path.joinpath(*UPLOADS, "x"), (1000, 1000))
            entry = incoming.settle()
        assert (entry.sha256, entry.verified_at) == (sha256_hex(content), root.clock())
        assert entry.identity.modified_nanoseconds > 10**18
        assert received_bytes(root, UPLOADS, "x") == len(content)


def test_a_file_that_cannot_be_made_readable_is_not_received(root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors could not read it; its descriptor is closed."""
    with monkeypatch.context() as patched:
        patched.setattr(os, "fchmod", Mock(side_effect=PermissionError(errno.EPERM, os.strerror(errno.EPERM))))
        with pytest.raises(PermissionError):
            IncomingFile(root, UPLOADS, "x")
    assert open_files(root.path.joinpath(*UPLOADS)) == []


def test_writes_of_a_part_go_on(root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system call may take fewer bytes than it was given."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, view: write(descriptor, bytes(view[:2])))
    publish(root, TABLE.path, PATH, b"content")
    with ThreadPoolExecutor(1) as syncs, IncomingBatch(root, TABLE.path, UPLOADS) as batch:
        batch.add(data_path(2), b"content", sha256_hex(b"content"))
        batch.publish(syncs)
    assert {on_disk(root, TABLE.path, path).read_bytes() for path in (PATH, data_path(2))} == {b"content"}


def test_files_are_not_received_through_a_link(root: DataRoot, tmp_path: Path) -> None:
    """A clone's folder has a name that others can guess."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"foreign")
    (root.path / ".incoming" / "uploads" / "x").symlink_to(outside)
    for resume in (False, True):
        with pytest.raises(OSError, match="symbolic links"):
            IncomingFile(root, UPLOADS, "x", resume)
    assert outside.read_bytes() == b"foreign"


def test_a_file_that_could_not_be_synced_is_not_resumed(root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed fsync the kernel counts the pages as written: a resumed attempt would publish lost bytes."""

    def fail(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with IncomingFile(root, UPLOADS, "x") as incoming:
        incoming.write(b"content")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(OSError, match="Input/output"):
                incoming.settle()
    assert received_bytes(root, UPLOADS, "x") == 0


def test_a_full_disk_is_no_fault_of_the_disk(root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync may be the first that finds no room; nothing of the attempt stays, either."""
    faults: list[OSError] = []
    root.fault_listeners.append(faults.append)
    with IncomingFile(root, UPLOADS, "x") as incoming:
        incoming.write(b"content")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
            with pytest.raises(NoRoom):
                incoming.settle()
    assert (received_bytes(root, UPLOADS, "x"), faults) == (0, [])


def test_a_file_that_cannot_be_read_back_is_not_resumed(root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read from the disk itself, not from memory."""
    faults: list[OSError] = []
    root.fault_listeners.append(faults.append)
    read = Mock(side_effect=OSError(5, "Input/output error"))
    with IncomingFile(root, UPLOADS, "x") as incoming:
        incoming.write(b"content")
        with monkeypatch.context() as patch:
            patch.setattr("colocation.storage.incoming.hash_descriptor", read)
            with pytest.raises(OSError, match="Input/output"):
                incoming.settle()
    assert read.call_args.kwargs == {"past_cache": True}
    assert received_bytes(root, UPLOADS, "x") == 0
    assert [error.errno for error in faults] == [5]


def test_a_file_whose_name_could_not_be_synced_is_removed(root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """It might be gone after a crash, so a repeated upload must not find it."""
    faults: list[OSError] = []
    root.fault_listeners.append(faults.append)
    sync = os.fsync

    def fail_for_folders(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(5, "Input/output error")
        sync(descriptor)

    on_disk(root, TABLE.path, PATH).parent.mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_for_folders)
        with pytest.raises(OSError, match="Input/output"):
            publish(root, TABLE.path, PATH, b"content")
    assert not on_disk(root, TABLE.path, PATH).exists()
    assert root.ledger.entry(TABLE.path, PATH) is None
    assert [error.errno for error in faults] == [5]
    assert publish(root, TABLE.path, PATH, b"content") is True


def test_a_full_disk_while_writing_raises_no_room(root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENOSPC becomes NoRoom, and the received bytes can be discarded."""

    def no_space(_descriptor: int, _block: object) -> int:
        raise OSError(28, "No space left on device")

    with IncomingFile(root, UPLOADS, "x") as incoming:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", no_space)
            with pytest.raises(NoRoom, match="free space on the node or add nodes"):
                incoming.write(b"content")
        incoming.discard()
    assert uploads(root) == []


def test_concurrent_publication_of_the_same_file(root: DataRoot) -> None:
    """Of eight together exactly one is new, none fails, and the file is whole."""
    outcomes: list[bool] = []
    content = b"content" * 1000

    def upload(number: int) -> None:
        with IncomingFile(root, UPLOADS, str(number)) as incoming:
            incoming.write(content)
            digest = sha256_hex(content)
            outcomes.append(publish_once(root, TABLE.path, PATH, incoming, digest, lambda _table, _path: None))

    run_together([lambda number=number: upload(number) for number in range(8)])
    assert sorted(outcomes) == [False] * 7 + [True]
    assert on_disk(root, TABLE.path, PATH).read_bytes() == content
    assert uploads(root) == []


def run_together(functions: list[Callable[[], None]]) -> None:
    """Run functions in threads and wait for all."""
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_only_stale_incoming_files_are_removed(root: DataRoot, clock: Clock) -> None:
    """A file written within a day stays: it may be resumed."""
    for folder, name in ((UPLOADS, "old"), ((".incoming", "clones", "shop.sales.00001", "files"), "part")):
        with IncomingFile(root, folder, name) as incoming:
            incoming.write(b"content")
    for _ in range(2):
        assert remove_stale(root) == 0
        clock.advance(43200)
    assert remove_stale(root) == 2
    assert uploads(root) == []
    assert list((root.path / ".incoming" / "clones").iterdir()) == []


def test_what_an_administrator_has_removed_is_made_again(root: DataRoot, caplog: pytest.LogCaptureFixture) -> None:
    """Room is short on a node."""
    for _ in range(2):
        shutil.rmtree(root.path / ".incoming")
        assert remove_stale(root) == 0
        shutil.rmtree(root.path / ".incoming")
        with uploads_in_use(root):
            assert uploads(root) == []
        shutil.rmtree(root.path / ".incoming")
        remove_clone(root, "shop", "sales", 1)
        root.check_writable()
    assert caplog.records == []


def test_a_finished_clone_leaves_no_folder(root: DataRoot) -> None:
    """Other clones go on."""
    for bucket in (1, 2):
        write_progress(root, CloneProgress(namespace="shop", group="sales", bucket=bucket, bytes_done=0, bytes_total=9,
                                           updated_at=""))  # fmt: skip
    for _ in range(2):
        remove_clone(root, "shop", "sales", 1)
    assert [one.bucket for one in read_progress(root)] == [2]


def test_links_among_incoming_files_are_stale_as_others(root: DataRoot, clock: Clock, tmp_path: Path) -> None:
    """Whatever they lead to, and whether it changes; that stays."""
    clone = root.path / ".incoming" / "clones" / "shop.sales.00001"
    with IncomingFile(root, (".incoming", "clones", clone.name), "part") as incoming:
        incoming.write(b"content")
    (tmp_path / "outside").mkdir()
    (clone / "link").symlink_to(tmp_path / "outside")
    (root.path / ".incoming" / "uploads" / "link").symlink_to(tmp_path / "nothing")
    assert remove_stale(root) == 0
    clock.advance(87000)
    os.utime(tmp_path / "outside", (clock.now, clock.now))
    assert remove_stale(root) == 2
    assert ((tmp_path / "outside").is_dir(), clone.exists(), uploads(root)) == (True, False, [])


def test_uploads_that_end_meanwhile_stop_no_cleanup(
    root: DataRoot, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that disappear during the cleanup are no error."""
    for folder in (UPLOADS, (".incoming", "clones")):
        with IncomingFile(root, folder, "old") as incoming:
            incoming.write(b"content")
    assert remove_stale(root) == 0
    clock.advance(87000)
    monkeypatch.setattr("colocation.storage.incoming.names_in", lambda folder: ["gone", *names_in(folder)])
    assert remove_stale(root) == 1
    assert uploads(root) == []


def test_a_clone_that_writes_is_not_stale(root: DataRoot, clock: Clock) -> None:
    """It writes to an old file, so its folders have not changed."""
    clone = root.path / ".incoming" / "clones" / "shop.sales.00001"
    with IncomingFile(root, (".incoming", "clones", clone.name, "files"), "part") as incoming:
        incoming.write(b"content")
    assert remove_stale(root) == 0
    clock.advance(87000)
    os.utime(clone / "files" / "part", (clock.now, clock.now))
    assert remove_stale(root) == 0
    assert (clone / "files" / "part").exists()


def test_a_file_that_cannot_be_removed_stops_no_other(
    root: DataRoot, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither uploads nor clones, nor the other files of its folder."""
    clone = (".incoming", "clones", "shop.sales.00001")
    for folder, name in ((UPLOADS, "bad"), (UPLOADS, "old"), (clone, "bad"), (clone, "old")):
        with IncomingFile(root, folder, name) as incoming:
            incoming.write(b"content")
    assert remove_stale(root) == 0
    clock.advance(87000)
    unlink = os.unlink

    def failing(name: str, *arguments: int, **named: int) -> None:
        if name == "bad":
            raise OSError(errno.EUCLEAN, os.strerror(errno.EUCLEAN))
        unlink(name, *arguments, **named)

    monkeypatch.setattr(os, "unlink", failing)
    with pytest.raises(OSError, match=os.strerror(errno.EUCLEAN)):
        remove_stale(root)
    assert uploads(root) == ["bad"]
    assert [path.name for path in root.path.joinpath(*clone).iterdir()] == ["bad"]


def test_interrupted_uploads_are_removed_at_the_next_start(root: DataRoot) -> None:
    """They cannot be resumed. Clones belong to Jobs and stay."""
    clone = (".incoming", "clones", "shop.sales.00001")
    for folder in (UPLOADS, clone):
        with IncomingFile(root, folder, "cut-off") as incoming:
            incoming.write(b"content")
    with uploads_in_use(root):
        assert uploads(root) == []
    assert [path.name for path in root.path.joinpath(*clone).iterdir()] == ["cut-off"]


def test_uploads_of_a_running_agent_stay(root: DataRoot) -> None:
    """Two may overlap: rolling updates with maxSurge, or a pod deleted by force."""
    with uploads_in_use(root):
        with IncomingFile(root, UPLOADS, "arriving") as incoming:
            incoming.write(b"content")
        with uploads_in_use(root):
            assert uploads(root) == ["arriving"]
    with uploads_in_use(root):
        assert uploads(root) == []


def test_the_exclusive_lock_is_held_only_during_removal(
    root: DataRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure releases it, so that another agent can start."""
    with IncomingFile(root, UPLOADS, "cut-off"):
        pass
    monkeypatch.setattr(os, "unlink", Mock(side_effect=OSError(errno.EUCLEAN, os.strerror(errno.EUCLEAN))))
    with uploads_in_use(root), root.folder(UPLOADS) as folder:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    assert uploads(root) == ["cut-off"]


def test_an_agent_starts_where_uploads_cannot_be_removed(root: DataRoot, caplog: pytest.LogCaptureFixture) -> None:
    """Reads still work on such a disk."""
    shutil.rmtree(root.path / ".incoming")
    (root.path / ".incoming").write_text("in the way")
    with uploads_in_use(root):
        assert "interrupted uploads" in caplog.text
