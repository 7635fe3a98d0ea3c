"""What faults do to a node's disk: they are there when they say so, and end whatever fails meanwhile."""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from colocation.storage.ledger import identity_of
from devcluster import node as nodes
from devcluster import paths

from . import disk_faults
from .disk_faults import DiskFaults, is_read_only
from .disks import Disks
from .targets import CannotNow, HalfMade

NODE = nodes.Node(3)
CONTENT = {".disk": "marker", ".incoming/uploads/1": "half", "chaos/table/data": "rows"}
MADE_MEANWHILE = {".incoming/uploads/2": "new", ".recycle/3": "new", "chaos/other": "new"}


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The data root of the only node."""
    root = tmp_path / "data"
    monkeypatch.setattr(disk_faults, "any_node", lambda _: NODE)
    monkeypatch.setattr(disk_faults.node_disks, "data_root", lambda _: root)
    monkeypatch.setattr(disk_faults.cluster_view, "processes_of", lambda _: {})
    write(root, CONTENT)
    return root


def write(root: Path, content: dict[str, str]) -> None:
    """Files below a folder: path -> text."""
    for path, text in content.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def read(root: Path) -> dict[str, str]:
    """The files below a folder."""
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def rename_but(name: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Files of this name cannot be renamed until the answer is called."""
    rename, left = Path.rename, [name]

    def patched(path: Path, target: Path) -> Path:
        if path.name in left:
            raise OSError("Directory not empty")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", patched)
    return left.clear


def test_disk_that_comes_back_holds_what_it_held(root: Path) -> None:
    """Nothing of what the agent made in the empty root stays next to it."""
    _, heal = DiskFaults(Disks()).disk_gone(Random(1))
    assert read(root) == {}
    write(root, MADE_MEANWHILE)
    heal()
    assert read(root) == CONTENT


@pytest.mark.parametrize("name", [".disk", ".incoming", "chaos"])
def test_disk_comes_back_at_the_second_try(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first one has put back stays."""
    _, heal = DiskFaults(Disks()).disk_gone(Random(1))
    repair = rename_but(name, monkeypatch)
    write(root, MADE_MEANWHILE)
    with pytest.raises(OSError, match="not empty"):
        heal()
    repair()
    write(root, {".incoming/uploads/1": "half", ".recycle/3": "new"})
    heal()
    assert read(root) == CONTENT


@pytest.mark.parametrize("name", [".disk", ".incoming", "chaos"])
def test_disk_that_is_half_gone_comes_back(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost of what stayed, either."""
    repair = rename_but(name, monkeypatch)
    with pytest.raises(HalfMade, match="node-3, half made: Directory not empty") as half:
        DiskFaults(Disks()).disk_gone(Random(1))
    repair()
    half.value.heal()
    assert read(root) == CONTENT


def test_disk_that_is_not_back_cannot_go_again(root: Path) -> None:
    """One part of it would come to lie upon the other."""
    DiskFaults(Disks()).disk_gone(Random(1))
    with pytest.raises(CannotNow, match="not back"):
        DiskFaults(Disks()).disk_gone(Random(1))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["rw,relatime"], False), (["ro,relatime"], True), (["ro,relatime", "rw,relatime"], False),
        (["rw,errors=remount-ro"], False), ([], False),
    ],
)  # fmt: skip
def test_mount_reports_whether_it_is_read_only(lines: list[str], expected: bool) -> None:
    """The newest one of the data root; what its file system reports is another thing."""
    other = "22 1 254:0 / /other ro,relatime shared:1 - ext4 /dev/vda ro"
    own = [f"31 22 7:0 /data {paths.DATA_ROOT} {options} - ext4 /dev/loop0 rw" for options in lines]
    assert is_read_only("\n".join([other, *own])) == expected


def test_byte_that_flips_is_found_by_reading_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By all that the agents look at besides it is the same file."""
    path = tmp_path / "data"
    path.write_bytes(bytes(100))
    os.utime(path, ns=(1_000_000_007, 2_000_000_009))
    before: Any = identity_of(path.stat())
    monkeypatch.setattr(DiskFaults, "_any_file", lambda _self, _random: path)
    DiskFaults(Disks()).file_flipped(Random(1))
    assert identity_of(path.stat()) == before
    assert path.read_bytes() == bytes(50) + b"\xff" + bytes(49)
