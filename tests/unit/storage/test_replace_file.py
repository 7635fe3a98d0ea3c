"""Replacing a small file: whatever fails, what is there is whole."""

import errno
import os
from pathlib import Path

import pytest

from colocation.storage.folders import names_in, replace_file


@pytest.mark.parametrize(
    ("syncs_before_failure", "left"),
    [
        pytest.param(0, {"file": b"old"}, id="the new one cannot be written: the old one stays"),
        pytest.param(1, {}, id="its place cannot be synced: after a power loss either could be there"),
        pytest.param(2, {"file": b"new"}, id="nothing fails"),
    ],
)
def test_a_full_disk_takes_no_good_file(
    syncs_before_failure: int, left: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node's certificate outlives a renewal that finds no room."""
    syncs = 0

    def sync(descriptor: int) -> None:
        nonlocal syncs
        syncs += 1
        if syncs > syncs_before_failure:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", sync)
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if syncs_before_failure < 2:
            with pytest.raises(OSError, match="No space"):
                replace_file(folder, "file", b"new")
        else:
            replace_file(folder, "file", b"new")
        assert {name: (tmp_path / name).read_bytes() for name in names_in(folder)} == left
    finally:
        os.close(folder)
