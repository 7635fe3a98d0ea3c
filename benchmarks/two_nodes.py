"""Two nodes as network namespaces of this machine with one link between them, and the processes that run there.

The program that makes them moves into the target's namespace itself: what it starts and asks there is local.
"""

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from devcluster import shell
from tests.integration.control_plane import dying_with_us

CLONE_NEWNET = 0x40000000
SOURCE_ADDRESS, TARGET_ADDRESS = "192.0.2.1", "192.0.2.2"
LINKS: Mapping[str, tuple[str, ...] | None] = {
    "unshaped": None,
    "10gbit": ("tbf", "rate", "10gbit", "burst", "4mb", "latency", "50ms"),
    "1gbit": ("tbf", "rate", "1gbit", "burst", "256kb", "latency", "50ms"),
}
"""What ``tc`` limits each end's sending to."""


class TwoNodes:
    """A source and a target; this process is in the target's namespace."""

    def __init__(self) -> None:
        self.source = f"colocation-source-{os.getpid()}"
        self.target = f"colocation-target-{os.getpid()}"

    def shape(self, link: str) -> None:
        """Limit both directions of the link; ``unshaped`` lifts the limit."""
        wanted = LINKS[link]
        for node in (self.source, self.target):
            tc = ("ip", "netns", "exec", node, "tc", "qdisc")
            shell.succeeds(*tc, "delete", "dev", "eth0", "root")
            if wanted:
                shell.run(*tc, "add", "dev", "eth0", "root", *wanted)

    def on_source(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a program on the source."""
        return ["ip", "netns", "exec", self.source, *command]


@contextlib.contextmanager
def two_nodes() -> Iterator[TwoNodes]:
    """Make the namespaces and enter the target's; removed on leaving.

    Raises:
        DevclusterError: not root, or ``ip`` failed.
    """
    nodes = TwoNodes()
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, home)
        for name in (nodes.source, nodes.target):
            shell.run("ip", "netns", "add", name)
            stack.callback(shell.succeeds, "ip", "netns", "delete", name)
        shell.run(
            "ip", "-n", nodes.source, "link", "add", "eth0", "type", "veth", "peer", "eth0", "netns", nodes.target
        )
        for name, address in ((nodes.source, SOURCE_ADDRESS), (nodes.target, TARGET_ADDRESS)):
            shell.run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                shell.run("ip", "-n", name, "link", "set", device, "up")
        with Path(f"/run/netns/{nodes.target}").open() as there:
            _enter(there.fileno())
        stack.callback(_enter, home)
        yield nodes


@contextlib.contextmanager
def running(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended on leaving."""
    process = subprocess.Popen(dying_with_us([*command]), env={**os.environ, **(environment or {})}, stdout=sys.stderr)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)


def _enter(namespace: int) -> None:
    """Move this thread, and those that it starts, into a network namespace (Python has no call for it before 3.12)."""
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns failed")
