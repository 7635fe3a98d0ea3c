"""The Krew plugin: its manifest names the archive that is there, and the archive's entry runs."""

import hashlib
import os
import shutil
import subprocess
import tarfile
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[3]
URL = "https://example.com/v1"


def krew(**variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(REPOSITORY / "scripts" / "krew")], env={**os.environ, **variables}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def test_it_needs_to_know_where_the_archive_will_lie() -> None:
    """A manifest without that is of no use."""
    done = krew(URL="")
    assert done.returncode == 2
    assert "make krew URL=https://" in done.stderr


NEW_PYTHON = """#!/bin/sh
case "$1 $2" in
  "-m venv") mkdir -p "$3/bin"; cp "$0.of-environment" "$3/bin/python" ;;
esac
"""
OF_ENVIRONMENT = """#!/bin/sh
[ "$1" = -m ] || {last}
"""
RUNS = '{ shift 5; echo "ran: $*"; }'
"""After -P, -c, the program, the entry and whether all is new."""


def plugin(folder: Path, of_environment: str) -> tuple[Path, Path, dict[str, str]]:
    """(entry, home, environment variables) of an unpacked plugin with a Python that makes such environments."""
    packed, path = folder / "store", folder / "path"
    packed.mkdir()
    path.mkdir()
    shutil.copy(REPOSITORY / "packaging" / "krew" / "kubectl-colocation", packed)
    (packed / "digest").write_text("0123456789abcdef")
    for name, text in (("python3", NEW_PYTHON), ("python3.of-environment", of_environment)):
        (path / name).write_text(text)
        (path / name).chmod(0o755)
    variables = {"PATH": f"{path}:/usr/bin:/bin", "XDG_CACHE_HOME": str(folder / "cache")}
    return packed / "kubectl-colocation", folder / "cache/colocation/kubectl/0123456789abcdef", variables


def called(entry: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([entry, "show", "a b"], env=variables, capture_output=True, text=True, check=False)


def without_packages(home: Path) -> None:
    """As after an upgrade: Python starts, and has its packages in another folder than they are in."""
    venv.create(home, symlinks=True)


def of_a_python_that_is_gone(home: Path) -> None:
    (home / "bin").mkdir(parents=True)
    (home / "bin/python").symlink_to(home / "was-removed")


@pytest.mark.parametrize("broken", [without_packages, of_a_python_that_is_gone])
def test_an_environment_whose_python_changed_is_made_again(tmp_path: Path, broken: Callable[[Path], None]) -> None:
    """Once, with a word on why; the call itself goes on, its arguments as they were."""
    entry, home, variables = plugin(tmp_path, OF_ENVIRONMENT.format(last=RUNS))
    broken(home)
    first, second = called(entry, variables), called(entry, variables)
    assert (first.stdout, second.stdout) == ("ran: show a b\n",) * 2
    assert "once, as the Python of before is gone or has changed" in first.stderr
    assert (second.stderr, [one.name for one in home.parent.iterdir()]) == ("", [home.name])


def test_an_environment_that_stays_without_packages_is_made_once(tmp_path: Path) -> None:
    """It ends with an error instead of starting again without end."""
    empty = tmp_path / "empty"
    without_packages(empty)
    entry, _, variables = plugin(tmp_path, OF_ENVIRONMENT.format(last=f'exec {empty}/bin/python "$@"'))
    done = called(entry, variables)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"error: no package colocation in {empty}, though it was just installed" in done.stderr


@pytest.mark.deep
def test_the_archives_entry_runs(tmp_path: Path) -> None:
    """As Krew does: check the sum, unpack, link, call. The first call installs, the second does not."""
    subprocess.run(["make", "krew", f"URL={URL}"], cwd=REPOSITORY, check=True, capture_output=True)
    plugin = yaml.safe_load((REPOSITORY / "build" / "krew" / "colocation.yaml").read_text())
    (platform,) = plugin["spec"]["platforms"]
    archive = REPOSITORY / "build" / "krew" / platform["uri"].removeprefix(f"{URL}/")
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "store", filter="data")
    entry = tmp_path / "kubectl-colocation"
    entry.symlink_to(tmp_path / "store" / platform["bin"])
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    calls = [
        subprocess.run([entry, "--version"], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    version = plugin["spec"]["version"].removeprefix("v")
    assert [call.stdout for call in calls] == [f"colocation, version {version}\n"] * 2
    assert "once" in calls[0].stderr
    assert calls[1].stderr == ""
