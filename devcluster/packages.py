"""The Debian packages that the cluster and its images need: installed when they are missing."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from devcluster import network, paths, shell
from devcluster.errors import DevclusterError
from devcluster.locks import exclusive
from devcluster.progress import timed

CLUSTER = {
    "containerd": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "tc": "iproute2",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "socat": "socat",
    "sysctl": "procps",
    "curl": "curl",  # the admin API, as its how-to asks it
    network.CNI_LOOPBACK: "containernetworking-plugins",
}
"""Program, by name or path -> the package that brings it."""
CLOCKS = {"cc": "gcc", "/usr/include/stdlib.h": "libc6-dev"}
"""For nodes with clocks of their own."""
IMAGES = {"buildah": "buildah", "debootstrap": "debootstrap"}

Run = Callable[..., str]


def ensure(programs: Mapping[str, str], run: Run = shell.run) -> None:
    """Install what is missing of ``programs`` with apt-get, one command after the other.

    Raises:
        DevclusterError: not root, no apt-get here, or apt-get failed; the message names the packages.
    """
    if os.geteuid() != 0:
        raise DevclusterError("the cluster needs root: it makes network namespaces, mounts and control groups")
    if not missing(programs):
        return
    with exclusive(paths.cache() / "packages.lock", "installs packages"):  # apt-get fails next to another one
        if packages := missing(programs):
            _install(packages, run)


def _install(packages: list[str], run: Run) -> None:
    names = " ".join(packages)
    if shutil.which("apt-get") is None:
        raise DevclusterError(f"programs are missing and there is no apt-get; install {names}")
    with timed(f"installing {names}"):
        run("apt-get", "update", "--quiet=2")
        run("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "--yes", "--quiet=2", *packages)


def missing(programs: Mapping[str, str]) -> list[str]:
    """The packages of those programs that are not there."""
    return sorted({package for program, package in programs.items() if not is_there(program)})


def is_there(program: str) -> bool:
    """Whether a program is on the PATH, or at its path."""
    return Path(program).exists() if program.startswith("/") else shutil.which(program) is not None
