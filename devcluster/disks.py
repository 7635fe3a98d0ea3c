"""A disk of a node's own: an ext4 file system in a sparse file, which can be full or fail without this machine's disk.

It is mounted for as long as the cluster is there, also while its node is dead: a lost node leaves its disk. A disk that
was made to fail is well again when it was unmounted everywhere and mounted again; it has then what was synced.
"""

import fcntl
import os
import struct
from pathlib import Path

from devcluster import paths, shell

IMAGE, MOUNT_POINT = "disk.ext4", "disk"
DATA = f"{MOUNT_POINT}/data"
"""In the node's folder: what its pods see as the data root, on a disk of its own or not."""
SHUT_DOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN of linux/ext4.h."""
WITHOUT_ITS_LOG = 2
"""EXT4_GOING_FLAGS_NOLOGFLUSH: what was not synced is lost, as with a power cut."""
RELEASE_DEADLINE_SECONDS = 30.0


def attach(folder: Path, gib: int) -> None:
    """Mount the disk of the node with this folder, made of so many GiB when it is new."""
    image, mount_point = folder / IMAGE, folder / MOUNT_POINT
    if mount_point.is_mount():
        return
    mount_point.mkdir(parents=True, exist_ok=True)
    if not image.exists():
        unfinished = folder / f"{IMAGE}.new"
        shell.run("truncate", f"--size={gib}G", unfinished)
        shell.run("mkfs.ext4", "-q", "-F", "-m", "0", unfinished)
        unfinished.rename(image)
    shell.run("mount", "-o", "loop", image, mount_point)


def fail(folder: Path) -> None:
    """Let the disk of the node with this folder fail: reads and writes of files end with EIO until it is detached."""
    descriptor = os.open(folder / MOUNT_POINT, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, SHUT_DOWN, struct.pack("I", WITHOUT_ITS_LOG))
    finally:
        os.close(descriptor)


def is_well(folder: Path) -> bool:
    """Whether the disk of the node with this folder is mounted, and does not fail."""
    mount_point = folder / MOUNT_POINT
    descriptor = os.open(mount_point, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return mount_point.is_mount()


def detach(folder: Path) -> None:
    """Unmount the disk of a node that does not run, and wait until nothing holds its file system.

    Mounted any sooner it would be the same file system once more, and fail as before.
    """
    image, mount_point = folder / IMAGE, folder / MOUNT_POINT
    if mount_point.is_mount():
        shell.run("umount", mount_point)
    shell.wait_until(
        f"no mount namespace has {image} mounted any more",
        lambda: not shell.run("losetup", "--associated", image),
        RELEASE_DEADLINE_SECONDS,
    )


def unmount_others(folder: Path) -> str:
    """A line of shell for the mount namespace of the node with this folder, which begins as a copy of the machine's.

    Without it a node would hold the other nodes' disks, and `detach` could not let go of them.
    """
    own = folder / MOUNT_POINT
    unmount = f'[ "$disk" = {own} ] || ! mountpoint -q "$disk" || umount "$disk"'
    return f"for disk in {paths.NODES}/*/{MOUNT_POINT}; do {unmount}; done"


def detach_all() -> None:
    """Unmount every node's disk; the loop device goes with the mount."""
    for mount_point in mounted(Path("/proc/self/mountinfo").read_text()):
        shell.run("umount", mount_point)


def mounted(table: str) -> list[str]:
    """Mount points of nodes' disks in a text like ``/proc/self/mountinfo``, of whatever run."""
    points = [line.split()[4] for line in table.splitlines()]
    return [point for point in points if Path(point).match(f"{paths.NODES}/*/{MOUNT_POINT}")]
