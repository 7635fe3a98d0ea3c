"""The health of a data root's disk: which disk it is, and whether it takes writes."""

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
    """The health of a disk that was probed once."""
    found = DiskHealth(root, "node-1")
    found.probe()
    return found


def reason(health: DiskHealth) -> Reason | None:
    """The fault's reason."""
    return health.fault.reason if health.fault else None


def test_a_disk_keeps_its_id(root: DataRoot, health: DiskHealth, caplog: pytest.LogCaptureFixture) -> None:
    """The first probe adopts it; a restarted agent, or another node's, finds the same id."""
    assert len(health.disk_id) == 16
    for node, messages in (("node-1", 0), ("node-2", 1)):
        again = DiskHealth(root, node)
        again.probe()
        again.probe()
        assert (again.disk_id, reason(again), len(caplog.records)) == (health.disk_id, None, messages)
    assert "was adopted by node node-1" in caplog.text
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
        pytest.param(errno.EMFILE, None, id="no fault of the disk"),
    ],
)
def test_reason_of_a_failed_probe(
    root: DataRoot, health: DiskHealth, monkeypatch: pytest.MonkeyPatch, number: int, expected: Reason | None
) -> None:
    """A small write or its sync fails."""
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(number, os.strerror(number))))
    health.probe()
    assert reason(health) == expected


def test_running_out_of_descriptors_is_no_disk_fault(health: DiskHealth) -> None:
    """Neither in a probe nor in a write of a table's file."""
    health.note(OSError(errno.EMFILE, "too many"))
    assert reason(health) is None


def test_one_good_write_does_not_clear_a_failing_disk(
    health: DiskHealth, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """The kernel reports a lost write once. ``since`` is the first failure. Each change is logged once."""
    caplog.clear()
    began = clock.elapsed - 9
    clock.advance(-9)
    health.note(OSError(errno.EIO, "lost"))
    clock.advance(9)
    health.note(OSError(errno.EIO, "lost"))
    assert health.fault and health.fault.message == "a write failed: lost"
    clock.advance(FAILING_SECONDS - 1)
    health.probe()
    assert (reason(health), health.fault and health.fault.since) == (Reason.DISK_FAILING, began)
    clock.advance(1)
    health.probe()
    health.probe()
    assert reason(health) is None
    assert len(caplog.records) == 2


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS], ids=errno.errorcode.get)
def test_a_disk_that_takes_writes_again_is_healthy_at_once(
    health: DiskHealth, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    """Nothing was lost on a full or read-only disk. Another fault has another beginning."""
    health.note(OSError(errno.EIO, "lost"))
    health.note(OSError(number, os.strerror(number)))
    assert reason(health) != Reason.DISK_FAILING
    assert health.fault is not None and health.fault.reason in caplog.text
    health.probe()
    assert reason(health) is None


def test_a_failed_sync_of_an_upload_is_a_fault(
    root: DataRoot, health: DiskHealth, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is reported before the next probe, and the attempt leaves nothing."""
    with IncomingFile(root, UPLOADS, "upload") as incoming:
        incoming.write(b"content")
        monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.EIO, "lost")))
        with pytest.raises(OSError, match="lost"):
            incoming.settle()
    assert reason(health) == Reason.DISK_FAILING
    assert list((root.path / ".incoming" / "uploads").iterdir()) == []


def test_a_hung_probe_is_a_fault(
    root: DataRoot, health: DiskHealth, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dying disk may answer after minutes; the fault is reported meanwhile."""
    found = []

    def hang() -> None:
        found.append(reason(health))
        clock.advance(HUNG_SECONDS)
        found.append(reason(health))

    monkeypatch.setattr(root, "check_writable", hang)
    health.probe()
    assert found == [None, Reason.DISK_FAILING]
    clock.advance(10 * HUNG_SECONDS)
    assert reason(health) is None, "the probe has ended"


def test_a_vanished_marker_is_a_missing_disk(root: DataRoot, health: DiskHealth) -> None:
    """It is not written again: the disk may be another one."""
    (root.path / MARKER_FILE).unlink()
    health.probe()
    assert reason(health) == Reason.DISK_MISSING
    assert not (root.path / MARKER_FILE).exists()


def test_the_marker_is_readable_by_people(root: DataRoot, health: DiskHealth) -> None:
    """It is at the top of the data root."""
    found = json.loads((root.path / "colocation.json").read_text())
    assert set(found) == {"id", "node", "device", "fileSystem", "adoptedAt"}
    assert datetime.fromisoformat(found["adoptedAt"]).tzinfo


def test_another_marker_is_a_missing_disk(root: DataRoot, health: DiskHealth) -> None:
    """The agent keeps reporting the disk that it started with."""
    before = health.disk_id
    (root.path / MARKER_FILE).write_text('{"id": "0123456789abcdef"}')
    health.probe()
    assert (reason(health), health.disk_id) == (Reason.DISK_MISSING, before)


def test_a_replaced_root_folder_is_a_missing_disk(root: DataRoot, health: DiskHealth) -> None:
    """A disk was mounted over it, or unmounted; only a new process would see the new folder."""
    root.path.rename(root.path.with_name("away"))
    root.path.mkdir()
    health.probe()
    assert (reason(health), health.needs_restart) == (Reason.DISK_MISSING, True)
    root.path.rmdir()
    health.probe()
    assert health.fault is not None and health.fault.message == f"{root.path} is gone"
    root.path.with_name("away").rename(root.path)
    health.probe()
    assert (reason(health), health.needs_restart) == (None, False)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param('{"id": "../../etc"}', id="no id"),
        pytest.param("", id="torn"),
        pytest.param(" " * MAX_MARKER_BYTES + '{"id": "0123456789abcdef"}', id="too long"),
    ],
)
def test_an_unreadable_marker_is_a_failing_disk(root: DataRoot, content: str) -> None:
    """It is not replaced."""
    (root.path / MARKER_FILE).write_text(content)
    health = DiskHealth(root, "node-1")
    health.probe()
    assert (reason(health), health.disk_id) == (Reason.DISK_FAILING, "")
    assert (root.path / MARKER_FILE).read_text() == content


def test_a_marker_is_not_written_through_a_link(root: DataRoot, tmp_path: Path) -> None:
    """An account that can write to the data root reaches no file outside it."""
    outside = tmp_path / "outside"
    outside.write_text("secret")
    (root.path / f"{MARKER_FILE}.new").symlink_to(outside)
    health = DiskHealth(root, "node-1")
    health.probe()
    assert (reason(health), outside.read_text()) == (Reason.DISK_FAILING, "secret")


def test_no_folder_is_adopted_where_a_mount_point_is_required(root: DataRoot, tmp_path: Path) -> None:
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
    mounts.write_text("1 0 8:1 / /a\\134b\\011c\\012d rw\n2 1 8:1 / /short\n3 1 8:1 /\n")
    assert is_mount_point(Path("/a\\b\tc\nd"), mounts)
    assert is_mount_point(Path("/short"), mounts)
    mounts.write_text("2 1 8:16 / /data\\040one rw\n1 0 8:1 /a /data\\040one rw\n")
    assert not is_mount_point(Path("/data one"), mounts), "a part of a file system is on top"
    assert not is_mount_point(Path("/data"), mounts)


@pytest.mark.parametrize("content", [None, "", '{"id": "0123456789abcdef"}'])
def test_a_clone_refuses_another_disk(tmp_path: Path, content: str | None) -> None:
    """No marker, a torn one, another one."""
    if content is not None:
        (tmp_path / MARKER_FILE).write_text(content)
    with pytest.raises(WrongDisk):
        check_disk(tmp_path, "f" * 16)


def test_a_marker_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that does not take the marker is not adopted."""
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        monkeypatch.setattr(os, "fsync", Mock(side_effect=[None, OSError(errno.EIO, "lost")]))
        with pytest.raises(OSError, match="lost"):
            adopt(folder, "node-1")
        assert (read_marker(folder), list(tmp_path.iterdir())) == (None, [])
    finally:
        os.close(folder)
