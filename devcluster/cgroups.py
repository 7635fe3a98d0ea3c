"""Every process of the cluster lives under one control group, so that nothing can hide from `down`.

A pid file can miss a child (a container's shim, a process that was started just before its parent was killed), but no
process leaves its control group by forking. Works with cgroup v1 (one tree per controller) and v2 (one tree).
"""

import os
import signal
import time
from pathlib import Path

from devcluster.errors import DevclusterError

MOUNT = Path("/sys/fs/cgroup")
ROOT = "colocation-devcluster"
KILL_DEADLINE_SECONDS = 20.0
# The scheduler weighs a whole group like one process of its parent, unless the weight accounts for more.
WEIGHT_IN_PROCESSES = 8
CPU_WEIGHTS = {"cpu.shares": 1024 * WEIGHT_IN_PROCESSES, "cpu.weight": 100 * WEIGHT_IN_PROCESSES}


def is_v2() -> bool:
    """Whether the machine uses the unified hierarchy only."""
    return (MOUNT / "cgroup.controllers").exists()


def hierarchies() -> list[Path]:
    """The root folder of every hierarchy: one for v2; for v1 the mounts, as some names are links, or stray folders."""
    if is_v2():
        return [MOUNT]
    return [folder for folder in sorted(MOUNT.iterdir()) if folder.is_mount() and not folder.is_symlink()]


def node_group(node: str) -> str:
    """The kubelet's root: its pods live beneath it."""
    return f"{ROOT}/{node}"


def create(group: str) -> list[Path]:
    """Make a group in every hierarchy and return the files that take a process in."""
    members = []
    for hierarchy in hierarchies():
        folder = hierarchy
        for element in group.split("/"):
            folder = folder / element
            if not folder.exists():
                folder.mkdir()
                _inherit_settings(folder)
        _weigh(hierarchy / ROOT)
        members.append(folder / "cgroup.procs")
    return members


def _inherit_settings(folder: Path) -> None:
    """v1's cpuset starts empty, and then takes no process; v2 passes controllers down only where configured."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (folder / name).exists() and not is_v2():
            (folder / name).write_text((folder.parent / name).read_text())
    if is_v2():
        controllers = (folder.parent / "cgroup.controllers").read_text().split()
        (folder.parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))


def _weigh(folder: Path) -> None:
    """Give the cluster the weight of several processes: otherwise a parallel compilation would starve it."""
    for name, weight in CPU_WEIGHTS.items():
        if (folder / name).exists():
            (folder / name).write_text(str(weight))


def processes(group: str) -> set[int]:
    """All processes in the group and the groups beneath it."""
    found: set[int] = set()
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(hierarchy / group):
            try:
                found.update(int(line) for line in (Path(folder) / "cgroup.procs").read_text().split())
            except OSError:
                continue  # the group went away while we looked, and its processes with it
    return found


def destroy(group: str) -> None:
    """SIGKILL everything in the group until nothing is left, then remove it."""
    deadline = time.monotonic() + KILL_DEADLINE_SECONDS
    while members := processes(group):
        if time.monotonic() > deadline:
            raise DevclusterError(f"processes {sorted(members)} in control group {group} do not die")
        for pid in members:
            _kill_member(pid, group)
        time.sleep(0.05)
    for hierarchy in hierarchies():
        _remove_tree(hierarchy / group, deadline)


def _kill_member(pid: int, group: str) -> None:
    """The handle keeps naming the same process: if it is still a member, no other can be hit by a recycled pid."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if is_member(Path(f"/proc/{pid}/cgroup").read_text(), group):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        return
    finally:
        os.close(handle)


def is_member(membership: str, group: str) -> bool:
    """Whether a process with this /proc/PID/cgroup is in the group or beneath it."""
    return any(f"/{group}/" in f"{line.split(':', 2)[2]}/" for line in membership.splitlines())


def _remove_tree(root: Path, deadline: float) -> None:
    """Groups are removed from the leaves up; the kernel returns EBUSY for a moment after the last process is gone."""
    for folder, _, _ in os.walk(root, topdown=False):
        while Path(folder).exists():
            try:
                Path(folder).rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
