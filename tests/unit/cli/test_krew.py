"""The Krew plugin: its manifest names the archive that is there, and the archive's entry runs."""

import hashlib
import os
import subprocess
import tarfile
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
