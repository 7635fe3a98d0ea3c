"""A disk of a node's own: an ext4 file system in a sparse file, which can be full while this machine's disk is not.

It is mounted for as long as the cluster is there, also while its node is dead: a lost node leaves its disk.
"""

from pathlib import Path

from devcluster import paths, shell

IMAGE, MOUNT_POINT = "disk.ext4", "disk"


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


def detach_all(table: Path = Path("/proc/self/mountinfo")) -> None:
    """Unmount every node's disk; the loop device goes with the mount."""
    for mount_point in mounted(table.read_text()):
        shell.run("umount", mount_point)


def mounted(table: str) -> list[str]:
    """Mount points of nodes' disks in a text like ``/proc/self/mountinfo``, of whatever run."""
    points = [line.split()[4] for line in table.splitlines()]
    return [point for point in points if Path(point).match(f"{paths.NODES}/*/{MOUNT_POINT}")]
