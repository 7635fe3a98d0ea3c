"""Faults of disks and of the files on them: see ``faults``."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

from demo import disks as node_disks
from devcluster import cluster as devcluster
from devcluster import disks as devcluster_disks
from devcluster import node as nodes
from devcluster import paths
from devcluster.errors import DevclusterError

from . import cluster_view
from .disks import Disks
from .targets import AGENT, CannotNow, Heal, any_node, start

READ_ONLY_SECONDS = 60.0
"""Until the kubelet has started a container again that died."""
GIB, MIB, BLOCK = 1 << 30, 1 << 20, 4096
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
        member = any_node(random)
        root = node_disks.data_root(member.name)
        aside = root.with_name("data-aside")
        aside.mkdir(exist_ok=True)
        move_all(root, aside)

        def heal() -> None:
            for path in root.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            move_all(aside, root)

        return member.name, heal

    def disk_read_only(self, random: Random) -> tuple[str, Heal]:
        """The agent dies first: while it runs it has a file open for writing, which no mount takes."""
        agents = cluster_view.processes_of(AGENT)
        if not agents:
            raise CannotNow("no agent runs")
        node = random.choice(sorted(agents))
        os.kill(agents[node][0], signal.SIGKILL)
        deadline = time.monotonic() + READ_ONLY_SECONDS
        while not (new := set(cluster_view.processes_of(AGENT).get(node, ())) - set(agents[node])):
            if time.monotonic() > deadline:
                raise CannotNow(f"no agent was started again on {node}")
            time.sleep(0.05)
        pid = min(new)
        set_read_only(pid, True)  # before it has read all of its program

        def heal() -> None:
            if AGENT in cluster_view.command_line(pid):
                set_read_only(pid, False)

        return node, heal

    def disk_full(self, random: Random) -> tuple[str, Heal]:
        member = any_node(random)
        disk = member.folder / devcluster_disks.MOUNT_POINT
        if not disk.is_mount():
            raise CannotNow("the nodes share this machine's disk")
        filler = disk / "filler"
        fill(filler)
        return member.name, lambda: filler.unlink(missing_ok=True)

    def disk_failing(self, random: Random) -> tuple[str, Heal]:
        member = any_node(random)
        if not (member.folder / devcluster_disks.MOUNT_POINT).is_mount():
            raise CannotNow("the nodes share this machine's disk")
        devcluster_disks.fail(member.folder)

        def heal() -> None:
            if not devcluster_disks.is_well(member.folder):
                if nodes.holder_pid(member) is not None:
                    devcluster.kill_node(member.number)
                devcluster_disks.detach(member.folder)
            start(member)

        return member.name, heal

    def file_flipped(self, random: Random) -> tuple[str, None]:
        path = self._any_file(random)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0xFF
        with path.open("r+b") as file:
            file.write(content)
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


def move_all(source: Path, target: Path) -> None:
    """All that is in a folder, into another one of the same file system."""
    for path in list(source.iterdir()):
        path.rename(target / path.name)


def fill(path: Path) -> None:
    """A file that takes all room that its file system has left, though others take and give back some meanwhile."""
    with path.open("wb") as file:
        for step in (GIB, MIB, BLOCK):
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, step)


def set_read_only(pid: int, read_only: bool) -> None:
    """The data root as this process sees it."""
    words = [sys.executable, "-c", SET_READ_ONLY, str(pid), str(paths.DATA_ROOT), str(int(read_only))]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        raise DevclusterError(f"cannot mount the data root of process {pid}: {done.stderr.strip()[-300:]}")
