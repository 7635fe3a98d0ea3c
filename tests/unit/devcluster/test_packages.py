"""What a fresh machine lacks is installed; what it has is left alone."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from devcluster import packages
from devcluster.errors import DevclusterError

Command = tuple[str, ...]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Command]]:
    """A machine with the given programs, on which root installs; returns the commands that were run."""
    monkeypatch.setattr("os.geteuid", lambda: 0)

    def with_programs(*programs: str) -> list[Command]:
        monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name in programs else None)
        return []

    return with_programs


def test_missing_packages_are_installed_once_each(machine: Callable[..., list[Command]], tmp_path: Path) -> None:
    """Two programs of one package are one package; a file counts by its path."""
    commands = machine("apt-get", "runc")
    wanted = {"ip": "iproute2", "tc": "iproute2", "runc": "runc", str(tmp_path): "here", f"{tmp_path}/no": "plugins"}
    packages.ensure(wanted, run=lambda *command: commands.append(command) or "")
    assert commands[-1][-2:] == ("iproute2", "plugins")


def test_nothing_is_run_when_nothing_is_missing(machine: Callable[..., list[Command]]) -> None:
    """Not even the package lists are fetched."""
    commands = machine("runc")
    packages.ensure({"runc": "runc"}, run=lambda *command: commands.append(command) or "")
    assert commands == []


def test_without_apt_the_packages_are_named(machine: Callable[..., list[Command]]) -> None:
    """The error names what to install."""
    machine("runc")
    with pytest.raises(DevclusterError, match="install iproute2"):
        packages.ensure({"ip": "iproute2"})
