"""What the machine is: the release that images are made of, and the processor that programs are built for."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field

from devcluster.errors import DevclusterError

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""The kernel's name of a processor -> the one of Go and of OCI images."""


@dataclass(frozen=True)
class Release:
    """A release of a distribution: its package suite, and packages of Dockerfiles that have another name there."""

    codename: str
    renamed: Mapping[str, str] = field(default_factory=dict)

    def with_its_packages(self, dockerfile: str) -> str:
        """A Dockerfile, which is written for Debian 12, with this release's names of packages."""
        for name, name_here in self.renamed.items():
            dockerfile = dockerfile.replace(name, name_here)
        return dockerfile


RELEASES = {
    release.codename: release
    for release in (
        Release("bookworm"),  # Debian 12
        Release("trixie", {"openjdk-17-jre-headless": "openjdk-21-jre-headless"}),  # Debian 13
        Release("noble"),  # Ubuntu 24.04
    )
}


def release(facts: Mapping[str, str] | None = None) -> Release:
    """The machine's release, by its os-release file (``facts``: another machine's).

    Raises:
        DevclusterError: it is none of those that images can be made of.
    """
    facts = platform.freedesktop_os_release() if facts is None else facts
    known = RELEASES.get(facts.get("VERSION_CODENAME", ""))
    if known is None:
        name = facts.get("PRETTY_NAME") or facts.get("ID", "unknown")
        raise DevclusterError(
            f"this machine is {name}; images are made on Debian 12 or 13 and on Ubuntu 24.04. "
            "Use one of these, or a cluster that you have (KUBECONFIG)"
        )
    return known


def architecture(machine: str | None = None) -> str:
    """The processor as OCI images name it.

    Raises:
        DevclusterError: it is neither amd64 nor arm64.
    """
    machine = platform.machine() if machine is None else machine
    if machine not in ARCHITECTURES:
        raise DevclusterError(f"this machine is {machine}; {' and '.join(ARCHITECTURES)} are supported")
    return ARCHITECTURES[machine]
