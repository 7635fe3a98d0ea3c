"""Starts the cluster's programs and remembers them so that only they are ever ended.

A pid alone names a process only while it lives: the kernel gives it to another one later. So a record holds the pid,
the process's start time and the boot's id, and a process that does not match all three is none of ours.
"""

import json
import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from devcluster import cgroups, paths, shell
from devcluster.errors import DevclusterError
from devcluster.progress import tail

PROC = Path("/proc")
KILL_DEADLINE_SECONDS = 10.0
ENTER_GROUP = 'for members in $CGROUP_MEMBERS; do echo $$ > "$members" || exit 1; done; unset CGROUP_MEMBERS; exec "$@"'


@dataclass(frozen=True)
class Identity:
    """What makes a process that process and no other."""

    pid: int
    start_ticks: int
    boot_id: str


def identify(pid: int, proc: Path = PROC) -> Identity | None:
    """The identity of a live process; None when there is none, or it is only a zombie."""
    try:
        stat = (proc / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold spaces and brackets
    if fields[0] in ("Z", "X"):
        return None
    boot_id = (proc / "sys/kernel/random/boot_id").read_text().strip()
    return Identity(pid, int(fields[19]), boot_id)


def record_path(name: str) -> Path:
    """Where a program's identity is kept."""
    return paths.PROCESSES / f"{name}.json"


def log_path(name: str) -> Path:
    """Where a program's output goes."""
    return paths.LOGS / f"{name}.log"


def start(name: str, group: str, command: list[str]) -> Identity:
    """Start a program in its control group; it outlives us, and logs to a file.

    The shell joins the group before it becomes the program, so that even a run that is killed right here leaves a
    process that `down` finds.
    """
    members = cgroups.create(group)
    environment = {**os.environ, "CGROUP_MEMBERS": " ".join(str(path) for path in members)}
    paths.LOGS.mkdir(parents=True, exist_ok=True)
    with log_path(name).open("a") as log:
        process = subprocess.Popen(
            ["sh", "-c", ENTER_GROUP, "sh", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    identity = identify(process.pid) or Identity(process.pid, -1, "")
    paths.PROCESSES.mkdir(parents=True, exist_ok=True)
    record_path(name).write_text(json.dumps(asdict(identity)))
    return identity


def recorded(name: str) -> Identity | None:
    """The identity that was recorded for a program, alive or not."""
    try:
        return Identity(**json.loads(record_path(name).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def running(name: str, proc: Path = PROC) -> Identity | None:
    """The program's identity if that very process is still alive."""
    identity = recorded(name)
    return identity if identity and identify(identity.pid, proc) == identity else None


def forget(name: str) -> None:
    """Drop the record of a program that was ended with its control group."""
    record_path(name).unlink(missing_ok=True)


def end(name: str) -> None:
    """End a program as a crash would, if it runs, and wait until it is dead."""
    identity = running(name)
    if identity is not None:
        with suppress(ProcessLookupError):
            os.kill(identity.pid, signal.SIGKILL)
        shell.wait_until(f"{name} is dead", lambda: not running(name), KILL_DEADLINE_SECONDS)


def require_running(name: str) -> Identity:
    """The program's identity; fails with the end of its log when it has died."""
    identity = running(name)
    if identity is None:
        raise DevclusterError(f"{name} died; the end of {log_path(name)}:\n{tail(log_path(name))}")
    return identity
