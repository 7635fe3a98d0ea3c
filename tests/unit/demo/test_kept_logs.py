"""What a failed end-to-end test leaves behind."""

from pathlib import Path

import pytest

from devcluster import paths
from tests.e2e import kept_logs

KUBECTL = """#!/bin/sh
case "$*" in
  *--output=json*) echo '{"items": [{"metadata": {"namespace": "demo", "name": "driver"}}]}' ;;
  *--previous*) echo "Error from server: there is none" >&2; exit 1 ;;
  *) echo "$@" ;;
esac
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where logs are kept of a cluster with one pod and one program."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "kubelet.log").write_text("kubelet")
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    monkeypatch.setattr(paths, "BIN", tmp_path / "bin")
    monkeypatch.setattr(paths, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(paths, "KUBECONFIG", tmp_path / "ours")
    monkeypatch.setattr(kept_logs, "FOLDER", tmp_path / "kept")
    return tmp_path / "kept"


def test_objects_pods_and_programs(folder: Path) -> None:
    """Of the tests' own cluster, whatever KUBECONFIG names; a container that never ran before has one log."""
    said = kept_logs.keep("test_a[one/two]")
    kept = folder / "test_a-one-two-"
    assert str(kept) in said
    names = {str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file()}
    assert names == {*kept_logs.QUESTIONS, "demo.driver.log", "cluster/kubelet.log"}
    assert f"--kubeconfig {folder.parent / 'ours'} logs driver" in (kept / "demo.driver.log").read_text()


def test_what_follows_from_the_first_failures_is_not_kept(folder: Path) -> None:
    """A story that went wrong fails at each of its later tests; the next run begins again."""
    said = [kept_logs.keep(f"test_{number}") for number in range(kept_logs.MOST_KEPT + 1)]
    assert "no logs kept" in said[-1] and len(list(folder.iterdir())) == kept_logs.MOST_KEPT
    kept_logs.begin()
    assert not folder.exists()


def test_without_a_cluster_nothing_fails(folder: Path) -> None:
    """What could not be asked is said in the file."""
    (folder.parent / "bin" / "kubectl").unlink()
    kept_logs.keep("test_a")
    assert (folder / "test_a" / "events.txt").read_text().startswith("Error: ")
