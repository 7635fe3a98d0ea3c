"""A disk of a node's own: an ext4 file system in a sparse file, which can be full while this machine's disk is not.

It is mounted for as long as the cluster is there, also while its node is dead: a lost node leaves its disk.
"""

from pathlib import Path

from devcluster import paths, shell

IMAGE, MOUNT_POINT = "disk.ext4", "disk"
DATA = f"{MOUNT_POINT}/data"
"""In the node's folder: what its pods see as the data root, on a disk of its own or not."""


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


def detach_all() -> None:
    """Unmount every node's disk; the loop device goes with the mount."""
    for mount_point in mounted(Path("/proc/self/mountinfo").read_text()):
        shell.run("umount", mount_point)


def mounted(table: str) -> list[str]:
    """Mount points of nodes' disks in a text like ``/proc/self/mountinfo``, of whatever run."""
    points = [line.split()[4] for line in table.splitlines()]
    return [point for point in points if Path(point).match(f"{paths.NODES}/*/{MOUNT_POINT}")]
