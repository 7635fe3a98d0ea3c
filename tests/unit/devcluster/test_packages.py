"""What a fresh machine lacks is installed; what it has is left alone."""

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from devcluster import packages
from devcluster.errors import DevclusterError

Command = tuple[str, ...]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[Command]]:
    """A machine with the given programs, on which root installs; returns the commands that were run."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

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


def test_two_installations_at_once_follow_each_other(machine: Callable[..., list[Command]], tmp_path: Path) -> None:
    """apt-get takes no second one: images are built while the cluster starts. What the first has installed is there."""
    commands, running, most = machine("apt-get"), [0], [0]

    def install(*command: str) -> str:
        running[0] += 1
        most[0] = max(most[0], running[0])
        commands.append(command)
        time.sleep(0.05)
        if "install" in command:
            (tmp_path / "program").touch()
        running[0] -= 1
        return ""

    with ThreadPoolExecutor() as pool:
        done = [pool.submit(packages.ensure, {f"{tmp_path}/program": "package"}, install) for _ in range(3)]
    assert [one.result() for one in done] == [None] * 3
    assert most == [1] and [command for command in commands if "install" in command] == [commands[-1]]
