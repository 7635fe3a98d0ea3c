"""A wall clock of a node's own, for the pods of one namespace: Linux has none, so a library is preloaded into them.

It steps for processes that run, too, and the monotonic clock does not: as when somebody sets a node's clock.
"""

import shlex
import shutil
import struct
import sys
from pathlib import Path

from devcluster import paths, shell
from devcluster.clock import container
from devcluster.errors import DevclusterError

FOLDER, RUNC = "clock", "runc-with-clock"
"""In the node's folder: what its containers see, and what containerd calls as runc."""
SOURCE = paths.PACKAGE / "clock" / "wall_clock.c"
NAMESPACE = "namespace"


def make(namespace: str, folder: Path = paths.CLOCKS) -> None:
    """From now on each node that starts has a clock, in pods of this namespace."""
    folder.mkdir(parents=True)
    shell.run("cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", folder / container.LIBRARY, SOURCE)
    (folder / NAMESPACE).write_text(namespace)


def are_there() -> bool:
    """Whether the cluster was started with clocks."""
    return paths.CLOCKS.exists()


def attach(node: Path, made: Path = paths.CLOCKS) -> None:
    """Give the node with this folder its clock. One that it had goes on as it is."""
    clock = node / FOLDER
    if not (clock / container.AHEAD).exists():
        clock.mkdir(parents=True, exist_ok=True)
        shutil.copy(made / container.LIBRARY, clock)
        (clock / container.AHEAD).write_bytes(_bytes(0))
    (node / RUNC).write_text(runc(clock, (made / NAMESPACE).read_text()))
    (node / RUNC).chmod(0o755)


def runc(clock: Path, namespace: str) -> str:
    """The program that containerd calls as runc, for many things besides making a container."""
    edit = shlex.join([sys.executable, "-I", container.__file__, str(clock), namespace])
    return f"""\
#!/bin/sh
set -e
case " $* " in *" create "*) {edit} "$@" ;; esac
exec runc "$@"
"""


def runc_of(node: Path) -> str | Path:
    """What makes the containers of the node with this folder."""
    return node / RUNC if (node / RUNC).exists() else "runc"


def step(node: Path, ahead_seconds: int) -> None:
    """Set the wall clock of the node with this folder so far ahead of the machine's, or back.

    Raises:
        DevclusterError: the node has no clock of its own.
    """
    path = node / FOLDER / container.AHEAD
    if not path.exists():
        raise DevclusterError("the nodes have no clocks of their own")
    with path.open("r+b") as file:  # in its place: processes have it mapped
        file.write(_bytes(ahead_seconds))


def is_followed_by(pid: int) -> bool:
    """Whether a process tells the time by its node's clock."""
    try:
        maps = (Path("/proc") / str(pid) / "maps").read_text()
    except OSError:  # it has gone
        return False
    return f"{container.MOUNT_POINT}/{container.AHEAD}\n" in maps


def _bytes(seconds: int) -> bytes:
    return struct.pack("q", seconds)
