"""Faults of disks and of the files on them: see ``faults``."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from demo import disks as node_disks
from devcluster import cluster as devcluster
from devcluster import disks as devcluster_disks
from devcluster import node as nodes
from devcluster import paths
from devcluster.errors import DevclusterError

from . import cluster_view
from .disks import ASIDE, Disks
from .targets import AGENT, CannotNow, Heal, any_node, healed_by, start

READ_ONLY_SECONDS = 60.0
"""Until the kubelet has started a container again that died."""
GIB, MIB, BLOCK = 1 << 30, 1 << 20, 4096
MOST_LEFT_BYTES = 4 * MIB
"""On a full disk: others may give back a little while it is looked at."""
SET_READ_ONLY = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
namespace = os.open(f"/proc/{sys.argv[1]}/ns/mnt", os.O_RDONLY)
REMOUNT_BIND, READ_ONLY = 32 | 4096, int(sys.argv[3])
if libc.setns(namespace, 0x20000) or libc.mount(None, sys.argv[2].encode(), None, REMOUNT_BIND | READ_ONLY, None):
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""
"""In the mount namespace of a process, whose container may hold no mount(8)."""


@dataclass
class DiskFaults:
    """A method of a fault's name makes it and returns what heals it, if anything does."""

    disks: Disks

    def disk_gone(self, random: Random) -> tuple[str, Heal]:
        """When the disk is back, an agent that began without it is started again, as the runbook asks: it took the
        empty root for a new disk.
        """
        member = any_node(random)
        root = node_disks.data_root(member.name)
        aside = root.with_name(ASIDE)
        aside.mkdir(exist_ok=True)
        if any(aside.iterdir()):
            raise CannotNow(f"the disk of {member.name} is not back from the last time")
        names = {path.name for path in root.iterdir()}
        agents = agents_of(member.name)

        def heal() -> None:
            put_back(aside, root, names)
            end_others(member.name, agents)

        with healed_by(heal, member.name):
            for name in sorted(names):
                (root / name).rename(aside / name)
        return member.name, heal

    def disk_read_only(self, random: Random) -> tuple[str, Heal]:
        """The agent dies first: while it runs it has a file open for writing, which no mount takes. It needs no healing
        if it stays away: the kubelet starts it.
        """
        agents = cluster_view.processes_of(AGENT)
        if not agents:
            raise CannotNow("no agent runs")
        node = random.choice(sorted(agents))
        os.kill(agents[node][0], signal.SIGKILL)
        deadline = time.monotonic() + READ_ONLY_SECONDS
        while not (new := set(cluster_view.processes_of(AGENT).get(node, ())) - set(agents[node])):
            if time.monotonic() > deadline:
                raise DevclusterError(f"no agent was started again on {node}")
            time.sleep(0.05)
        pid = min(new)

        def heal() -> None:
            if AGENT in cluster_view.command_line(pid):
                set_read_only(pid, False)

        with healed_by(heal, node):
            set_read_only(pid, True)  # before it has read all of its program
            if not is_read_only((Path("/proc") / str(pid) / "mountinfo").read_text()):
                raise DevclusterError(f"process {pid} may write to its data root all the same")
        return node, heal

    def disk_full(self, random: Random) -> tuple[str, Heal]:
        member = any_node(random)
        disk = member.folder / devcluster_disks.MOUNT_POINT
        if not disk.is_mount():
            raise CannotNow("the nodes share this machine's disk")
        filler = disk / "filler"
        heal = partial(filler.unlink, missing_ok=True)
        with healed_by(heal, member.name):
            fill(filler)
            if (left_bytes := free_bytes(disk)) > MOST_LEFT_BYTES:
                raise DevclusterError(f"the disk has {left_bytes} bytes left")
        return member.name, heal

    def disk_failing(self, random: Random) -> tuple[str, Heal]:
        member = any_node(random)
        if not (member.folder / devcluster_disks.MOUNT_POINT).is_mount():
            raise CannotNow("the nodes share this machine's disk")

        def heal() -> None:
            if not devcluster_disks.is_well(member.folder):
                if nodes.holder_pid(member) is not None:
                    devcluster.kill_node(member.number)
                devcluster_disks.detach(member.folder)
            start(member)

        with healed_by(heal, member.name):
            devcluster_disks.fail(member.folder)
            if devcluster_disks.is_well(member.folder):
                raise DevclusterError("the disk is well all the same")
        return member.name, heal

    def file_flipped(self, random: Random) -> tuple[str, None]:
        """Its times stay, as when the medium rots: only its bytes tell. (The inode's change time cannot be kept.)"""
        path = self._any_file(random)
        status = path.stat()
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0xFF
        with path.open("r+b") as file:
            file.write(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return str(path), None

    def file_cut(self, random: Random) -> tuple[str, None]:
        path = self._any_file(random)
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size // 2)
        return str(path), None

    def file_gone(self, random: Random) -> tuple[str, None]:
        path = self._any_file(random)
        path.unlink()
        return str(path), None

    def file_foreign(self, random: Random) -> tuple[str, None]:
        path = self._any_file(random)
        root = node_disks.data_root(path.relative_to(paths.NODES).parts[0])
        for foreign in (path.parent / "notes.txt", path.with_name(f"x{path.name}"), root / "lost+found"):
            foreign.write_bytes(b"none of yours")
        return str(path.parent), None

    def _any_file(self, random: Random) -> Path:
        """A committed file of which another node of the map that can be reached has a whole copy."""
        groups, tables = cluster_view.groups_and_tables()
        maps = {group["metadata"]["name"]: group.get("status", {}).get("backendsPerBucketSeq") for group in groups}
        reachable = cluster_view.reachable()
        found: list[Path] = []
        for table in tables:
            rows = maps.get(table.get("status", {}).get("group", "")) or []
            for file in self.disks.committed(table):
                row = rows[file.bucket] if file.bucket < len(rows) else []
                holders = [node for node in self.disks.holders(table, file) if node in row and node in reachable]
                found += [self.disks.path(node, table, file) for node in holders if len(holders) > 1]
        if not found:
            raise CannotNow("no committed file has two whole copies")
        path = random.choice(sorted(found))
        self.disks.damaged.add(path)
        return path


def put_back(aside: Path, root: Path, names: Collection[str]) -> None:
    """Make the root hold what it held under these names, of which ``aside`` has all that was taken.

    What was made in the root meanwhile goes. May be called again after a failure: what is back already stays.

    Raises:
        OSError: an agent made something again just now.
    """
    for path in list(root.iterdir()):
        if path.name not in names:
            remove(path)
    for path in list(aside.iterdir()):
        remove(root / path.name)
        path.rename(root / path.name)


def agents_of(node: str) -> frozenset[int]:
    """The processes of the node's agent."""
    return frozenset(cluster_view.processes_of(AGENT).get(node, ()))


def end_others(node: str, agents: Collection[int]) -> None:
    """SIGKILL each agent of the node that is none of these; the kubelet starts it again."""
    for pid in sorted(agents_of(node).difference(agents)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def remove(path: Path) -> None:
    """A file, or a folder with all that is in it, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def fill(path: Path) -> None:
    """A file that takes all room that its file system has left, though others take and give back some meanwhile."""
    with path.open("wb") as file:
        for step in (GIB, MIB, BLOCK):
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, step)


def free_bytes(disk: Path) -> int:
    """What root may still write to a file system."""
    status = os.statvfs(disk)
    return status.f_bavail * status.f_frsize


def is_read_only(table: str) -> bool:
    """Whether the data root is, in a text like ``/proc/self/mountinfo``."""
    mounts = [line.split() for line in table.splitlines()]
    options = [fields[5].split(",") for fields in mounts if fields[4] == str(paths.DATA_ROOT)]
    return bool(options) and "ro" in options[-1]


def set_read_only(pid: int, read_only: bool) -> None:
    """The data root as this process sees it."""
    words = [sys.executable, "-c", SET_READ_ONLY, str(pid), str(paths.DATA_ROOT), str(int(read_only))]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        raise DevclusterError(f"cannot mount the data root of process {pid}: {done.stderr.strip()[-300:]}")
