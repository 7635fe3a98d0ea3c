"""Nodes' disks: which mounts `down` takes away, whatever run made them; what a full one and one that fails still do."""

import os
from pathlib import Path

import pytest

from devcluster import disks, paths
from tests.unit.devcluster.namespaces import MOUNTS, shown

MOUNT_TABLE = f"""\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 22 7:0 / {paths.NODES}/node-1/disk rw,relatime shared:2 - ext4 /dev/loop0 rw
32 22 7:1 / {paths.NODES}/node-12/disk rw,relatime shared:3 - ext4 /dev/loop1 rw
33 22 7:2 / /home/somebody/nodes/node-1/disk rw,relatime shared:4 - ext4 /dev/loop2 rw
34 22 254:0 /x {paths.NODES}/node-1/kubelet rw,relatime shared:5 - ext4 /dev/vda rw
"""
ON_A_DISK = """
import os, sys
from pathlib import Path
from devcluster import disks
from tests.chaos.disk_faults import fill
folder = Path(sys.argv[1])
disks.attach(folder, 1)
disks.attach(folder, 1)
disk = folder / disks.MOUNT_POINT
(disk / "kept").write_text("kept")
fill(disk / "filler")
print(os.statvfs(disk).f_bavail)
try:
    (disk / "more").write_bytes(bytes(8192))
except OSError as error:
    print(error.strerror)
print((disk / "kept").read_text())
"""
A_DISK_THAT_FAILS = """
import errno, os, subprocess, sys, time
from pathlib import Path
from devcluster import disks, paths
paths.NODES = Path(sys.argv[1])
first, second = (paths.NODES / f"node-{number}" for number in (1, 2))
for folder in (first, second):
    disks.attach(folder, 1)
def text(name):
    descriptor = os.open(first / disks.MOUNT_POINT / name, os.O_RDWR | os.O_CREAT)
    os.write(descriptor, name.encode())
    if name == "synced":
        os.fsync(descriptor)
    os.close(descriptor)
text("synced")
script = f"set -e; {disks.unmount_others(second)}; echo ready; exec sleep 60"
other = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", script], stdout=subprocess.PIPE)
other.stdout.readline()
held = Path(f"/proc/{other.pid}/mounts").read_text()
print("another node holds", [node.name for node in (first, second) if str(node) in held])
print("well", disks.is_well(first))
text("lost")
disks.fail(first)
print("well", disks.is_well(first), disks.is_well(second))
for what in (lambda: text("new"), lambda: (first / disks.MOUNT_POINT / "synced").read_text()):
    try:
        what()
    except OSError as error:
        print(error.strerror)
disks.detach(first)
print("well", disks.is_well(first))
disks.attach(first, 1)
print("well", disks.is_well(first), sorted(os.listdir(first / disks.MOUNT_POINT)))
print((first / disks.MOUNT_POINT / "synced").read_text())
other.kill()
"""


def test_down_takes_the_disks_of_all_nodes_and_nothing_else() -> None:
    """By the table of mounts: a run that was killed left no list."""
    assert disks.mounted(MOUNT_TABLE) == [f"{paths.NODES}/node-1/disk", f"{paths.NODES}/node-12/disk"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_a_full_disk_takes_nothing_more_and_keeps_what_it_has(tmp_path: Path) -> None:
    """And takes no one else's room."""
    assert shown(MOUNTS, ON_A_DISK, str(tmp_path)) == ["0", "No space left on device", "kept"]
    assert (tmp_path / disks.IMAGE).stat().st_blocks * 512 < 100 << 20


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_a_disk_that_fails_is_well_again_when_it_was_mounted_again(tmp_path: Path) -> None:
    """With what was synced, and although another node was started meanwhile."""
    assert shown(MOUNTS, A_DISK_THAT_FAILS, str(tmp_path)) == [
        "another node holds ['node-2']",
        "well True",
        "well False True",
        "Input/output error",
        "Input/output error",
        "well False",
        "well True ['lost+found', 'synced']",
        "synced",
    ]
