"""The health of a data root's disk: which disk it is, and whether it takes what is written (D1, D2)."""

import errno
import json
import os
from datetime import datetime
from pathlib import Path
from unittest.mock import Mock

import pytest

from colocation.model.conditions import Reason
from colocation.storage.disk_health import (
    FAILING_SECONDS,
    HUNG_SECONDS,
    MARKER_FILE,
    MAX_MARKER_BYTES,
    DiskHealth,
    WrongDisk,
    adopt,
    check_disk,
    is_mount_point,
    read_marker,
)
from colocation.storage.incoming import IncomingFile
from colocation.storage.root import UPLOADS, DataRoot

from .conftest import Clock


@pytest.fixture
def health(root: DataRoot) -> DiskHealth:
    """Of a disk that was looked at once."""
    found = DiskHealth(root, "node-1")
    found.probe()
    return found


def reason(health: DiskHealth) -> Reason | None:
    """What is wrong, in a word."""
    return health.fault.reason if health.fault else None


def test_a_disk_keeps_its_name(root: DataRoot, health: DiskHealth) -> None:
    """The first look adopts it; an agent that is started anew, or that of another node, finds the same id."""
    assert len(health.disk_id) == 16
    again = DiskHealth(root, "node-2")
    again.probe()
    assert (again.disk_id, reason(again)) == (health.disk_id, None)
    check_disk(root.path, health.disk_id)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        pytest.param(errno.EIO, Reason.DISK_FAILING, id="EIO"),
        pytest.param(errno.EUCLEAN, Reason.DISK_FAILING, id="EUCLEAN"),
        pytest.param(errno.EROFS, Reason.DISK_READ_ONLY, id="read-only"),
        pytest.param(errno.EACCES, Reason.DISK_READ_ONLY, id="another owner"),
        pytest.param(errno.ENOSPC, Reason.DISK_FULL, id="full"),
        pytest.param(errno.EDQUOT, Reason.DISK_FULL, id="quota"),
        pytest.param(errno.EMFILE, None, id="says nothing about the disk"),
    ],
)
def test_what_a_failed_probe_says(
    root: DataRoot, health: DiskHealth, monkeypatch: pytest.MonkeyPatch, number: int, expected: Reason | None
) -> None:
    """A small write and its sync fail."""
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(number, os.strerror(number))))
    health.probe()
    assert reason(health) == expected


def test_a_process_without_descriptors_says_nothing_about_the_disk(health: DiskHealth) -> None:
    """Nor when it is a write of a table's file that fails for it."""
    health.note(OSError(errno.EMFILE, "too many"))
    assert reason(health) is None


def test_a_failing_disk_is_not_well_after_one_good_write(
    health: DiskHealth, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells of a lost write once. ``since`` is when it first failed."""
    began = clock.elapsed
    health.note(OSError(errno.EIO, "lost"))
    clock.advance(FAILING_SECONDS - 1)
    health.probe()
    assert (reason(health), health.fault and health.fault.since) == (Reason.DISK_FAILING, began)
    clock.advance(1)
    health.probe()
    assert reason(health) is None


def test_a_failed_sync_of_an_upload_is_noticed(
    root: DataRoot, health: DiskHealth, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for the next probe, and nothing of the attempt stays."""
    with IncomingFile(root, UPLOADS, "upload") as incoming:
        incoming.write(b"content")
        monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.EIO, "lost")))
        with pytest.raises(OSError, match="lost"):
            incoming.settle()
    assert reason(health) == Reason.DISK_FAILING
    assert list((root.path / ".incoming" / "uploads").iterdir()) == []


def test_a_probe_that_hangs_is_a_failure(
    root: DataRoot, health: DiskHealth, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dying disk may answer after minutes; whoever asks meanwhile is told."""
    found = []

    def hang() -> None:
        found.append(reason(health))
        clock.advance(HUNG_SECONDS)
        found.append(reason(health))

    monkeypatch.setattr(root, "check_writable", hang)
    health.probe()
    assert found == [None, Reason.DISK_FAILING]


def test_a_marker_that_goes_is_a_missing_disk(root: DataRoot, health: DiskHealth) -> None:
    """It is not written again: what lies there now is not known."""
    (root.path / MARKER_FILE).unlink()
    health.probe()
    assert reason(health) == Reason.DISK_MISSING
    assert not (root.path / MARKER_FILE).exists()


def test_a_marker_says_which_disk_it_is_to_people(root: DataRoot, health: DiskHealth) -> None:
    """At the top of the data root, where they look."""
    found = json.loads((root.path / "colocation.json").read_text())
    assert set(found) == {"id", "node", "device", "fileSystem", "adoptedAt"}
    assert datetime.fromisoformat(found["adoptedAt"]).tzinfo


def test_another_marker_is_another_disk(root: DataRoot, health: DiskHealth) -> None:
    """The agent goes on to say which disk it began with."""
    before = health.disk_id
    (root.path / MARKER_FILE).write_text('{"id": "0123456789abcdef"}')
    health.probe()
    assert (reason(health), health.disk_id) == (Reason.DISK_MISSING, before)


def test_a_folder_in_the_place_of_the_root_is_a_missing_disk(root: DataRoot, health: DiskHealth) -> None:
    """A disk was mounted over it, or unmounted; only a new process would see what is there."""
    root.path.rename(root.path.with_name("away"))
    root.path.mkdir()
    health.probe()
    assert (reason(health), health.needs_restart) == (Reason.DISK_MISSING, True)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param('{"id": "../../etc"}', id="no id"),
        pytest.param("", id="torn"),
        pytest.param(" " * MAX_MARKER_BYTES + '{"id": "0123456789abcdef"}', id="too long to be read whole"),
    ],
)
def test_a_marker_that_cannot_be_understood_is_a_failing_disk(root: DataRoot, content: str) -> None:
    """Nothing is adopted over it."""
    (root.path / MARKER_FILE).write_text(content)
    health = DiskHealth(root, "node-1")
    health.probe()
    assert (reason(health), health.disk_id) == (Reason.DISK_FAILING, "")
    assert (root.path / MARKER_FILE).read_text() == content


def test_a_marker_is_not_written_through_a_link(root: DataRoot, tmp_path: Path) -> None:
    """Whoever may write the data root gets at no file outside of it."""
    outside = tmp_path / "outside"
    outside.write_text("secret")
    (root.path / f"{MARKER_FILE}.new").symlink_to(outside)
    health = DiskHealth(root, "node-1")
    health.probe()
    assert (reason(health), outside.read_text()) == (Reason.DISK_FAILING, "secret")


def test_nothing_is_adopted_where_a_mount_point_is_required(root: DataRoot, tmp_path: Path) -> None:
    """The folder below an unmounted disk gets no marker."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:1 /var/data {root.path} rw - ext4 /dev/sda1 rw\n")
    health = DiskHealth(root, "node-1", require_mount_point=True, mounts=mounts)
    health.probe()
    assert (reason(health), health.disk_id) == (Reason.DISK_MISSING, "")
    mounts.write_text(f"2 1 8:16 / {root.path} rw - ext4 /dev/sdb rw\n")
    health.probe()
    assert (reason(health), len(health.disk_id)) == (None, 16)


def test_mount_points_with_odd_names(tmp_path: Path) -> None:
    """The last mount of a path counts; blanks are escaped in octal."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text("1 0 8:1 /a /data\\040one rw\n2 1 8:16 / /data\\040one rw\n3 1 8:1 / /other rw\nodd\n")
    assert is_mount_point(Path("/data one"), mounts)
    assert not is_mount_point(Path("/data"), mounts)


@pytest.mark.parametrize("content", [None, "", '{"id": "0123456789abcdef"}'])
def test_a_clone_finds_out_that_it_is_another_disk(tmp_path: Path, content: str | None) -> None:
    """No marker, a torn one, another one."""
    if content is not None:
        (tmp_path / MARKER_FILE).write_text(content)
    with pytest.raises(WrongDisk):
        check_disk(tmp_path, "f" * 16)


def test_a_marker_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that does not take it has not been adopted."""
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        monkeypatch.setattr(os, "fsync", Mock(side_effect=[None, OSError(errno.EIO, "lost")]))
        with pytest.raises(OSError, match="lost"):
            adopt(folder, "node-1")
        assert (read_marker(folder), list(tmp_path.iterdir())) == (None, [])
    finally:
        os.close(folder)
