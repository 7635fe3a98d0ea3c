"""Nodes' disks: which mounts `down` takes away, whatever run made them; and what a full one still does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster import disks, paths

MOUNTS = f"""\
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
from tests.chaos.faults import fill
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


def test_down_takes_the_disks_of_all_nodes_and_nothing_else() -> None:
    """By the table of mounts: a run that was killed left no list."""
    assert disks.mounted(MOUNTS) == [f"{paths.NODES}/node-1/disk", f"{paths.NODES}/node-12/disk"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_a_full_disk_takes_nothing_more_and_keeps_what_it_has(tmp_path: Path) -> None:
    """In a mount namespace of its own, so that nothing stays mounted whatever ends the test."""
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", ON_A_DISK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.splitlines() == ["0", "No space left on device", "kept"], done.stderr
    assert (tmp_path / disks.IMAGE).stat().st_blocks * 512 < 100 << 20, "a full disk takes nobody else's room"
