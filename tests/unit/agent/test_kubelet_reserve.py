"""A disk that the agent shares with the kubelet: uploads and clones stop before the kubelet evicts pods."""

import os
from pathlib import Path

import pytest

from colocation.agent.quotas import UploadRoom
from colocation.agent.settings import Settings, settings_from
from colocation.storage.errors import NoRoom
from colocation.storage.root import DataRoot

GIB = 1 << 30
BLOCK_BYTES = 4096
KUBELET_THRESHOLD = 0.15
"""Kubernetes' own: imagefs.available; nodefs.available is 0.10."""


def disk_of(monkeypatch: pytest.MonkeyPatch, capacity_bytes: int, free_bytes: int) -> None:
    """Make every file system this large."""
    blocks = (BLOCK_BYTES, BLOCK_BYTES, capacity_bytes // BLOCK_BYTES, 0, free_bytes // BLOCK_BYTES, 0, 0, 0, 0, 255)
    monkeypatch.setattr(os, "fstatvfs", lambda _descriptor: os.statvfs_result(blocks))


@pytest.mark.parametrize("free_fraction", [0.1, 0.15, 0.19, 0.2, 0.3])
def test_uploads_stop_before_the_kubelet_evicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_fraction: float
) -> None:
    """With the chart's headroom of 5 % every accepted upload leaves the disk above the kubelet's threshold."""
    root = DataRoot(tmp_path, reserved_fraction=KUBELET_THRESHOLD)
    capacity_bytes, free_bytes = 1000 * GIB, int(1000 * GIB * free_fraction)
    disk_of(monkeypatch, capacity_bytes, free_bytes)
    room = UploadRoom("node-1", root, 0.05)
    taken_bytes = 0
    for content_bytes in (100 * GIB, 10 * GIB, GIB):
        try:
            with room.keep("shop", content_bytes):
                taken_bytes = max(taken_bytes, content_bytes)
        except NoRoom:
            continue
    assert (free_bytes - taken_bytes) / capacity_bytes > KUBELET_THRESHOLD or taken_bytes == 0
    assert (taken_bytes > 0) == (free_fraction >= 0.2)
    root.close()


def test_the_kubelets_share_counts_neither_as_capacity_nor_as_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clones, weights and alerts use the same numbers; free space is never negative."""
    root = DataRoot(tmp_path, reserved_fraction=0.25)
    disk_of(monkeypatch, 100 * GIB, 40 * GIB)
    assert root.disk() == (75 * GIB, 15 * GIB)
    disk_of(monkeypatch, 100 * GIB, 10 * GIB)
    assert root.disk() == (75 * GIB, 0)
    root.close()


def settings(data_root: Path, *options: str) -> Settings:
    given = ["--node-name", "node-1", "--data-root", str(data_root), "--signer-name", "x", *options]
    return settings_from(given, {})


def test_the_disk_is_shared_only_if_both_are_on_it(tmp_path: Path) -> None:
    """A separate data disk is all the agent's; so is any disk if the kubelet's is not given."""
    reserve = ("--kubelet-reserve-fraction", "0.15")
    assert settings(tmp_path, *reserve).reserved_fraction == 0
    assert settings(tmp_path, *reserve, "--kubelet-volume", str(tmp_path.parent)).reserved_fraction == 0.15
    assert settings(tmp_path, *reserve, "--kubelet-volume", "/proc").reserved_fraction == 0


@pytest.mark.parametrize("given", ["1", "-0.1", "nan"])
def test_a_wrong_reserve_is_refused(tmp_path: Path, given: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message states what is allowed."""
    with pytest.raises(SystemExit):
        settings(tmp_path, "--kubelet-reserve-fraction", given)
    assert "allowed: 0 to below 1" in capsys.readouterr().err
