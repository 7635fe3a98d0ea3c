"""The control plane after a crash: who needs the API server is started when it is ready; etcd's data are whole."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from devcluster import controlplane


def test_clients_of_the_api_server_are_started_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller manager ends itself where the API server does not serve; no one would start it again."""
    done: list[str] = []
    answers = iter([False, False, True])

    def is_ready() -> bool:
        done.append("asked")
        return next(answers)

    monkeypatch.setattr(controlplane, "start_again", done.append)
    monkeypatch.setattr(controlplane, "api_is_ready", is_ready)
    monkeypatch.setattr(controlplane.time, "sleep", lambda _: None)
    controlplane.start_all_again()
    began = {program: done.index(program) for program in controlplane.PROGRAMS}
    ready_at = max(number for number, what in enumerate(done) if what == "asked")
    assert began["etcd"] < began["kube-apiserver"] < ready_at
    assert all(began[program] > ready_at for program in controlplane.PROGRAMS[2:])


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """etcd's data in ``etcd``, and a copy of older ones in ``copy``. All programs but the scheduler run."""
    for name in ("etcd", "copy"):
        (tmp_path / name / "member").mkdir(parents=True)
        (tmp_path / name / "member" / "db").write_text(name)
    dead = {"kube-scheduler"}

    def kill(program: str, _signal: int) -> None:
        dead.add(program)

    def running(program: str) -> SimpleNamespace | None:
        return None if program in dead else SimpleNamespace(pid=program)

    monkeypatch.setattr(controlplane, "ETCD_DATA", tmp_path / "etcd")
    monkeypatch.setattr(controlplane.processes, "running", running)
    monkeypatch.setattr(controlplane.os, "kill", kill)
    return tmp_path


def content(folder: Path) -> dict[str, str]:
    """Folder -> what its database holds."""
    return {path.parts[-3]: path.read_text() for path in folder.glob("*/member/db")}


def test_etcd_is_restored_whatever_runs(folders: Path) -> None:
    """What does not run need not be ended; nothing runs afterwards that remembers what was."""
    controlplane.restore_etcd(folders / "copy")
    assert content(folders) == {"etcd": "copy", "copy": "copy"}
    assert not any(map(controlplane.processes.running, controlplane.KEEPERS_OF_STATE))


def fail(*_words: object, **_more: object) -> None:
    """As on a full disk."""
    raise OSError("full")


def test_etcd_that_cannot_be_restored_keeps_its_data(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the copy fails, or its last step; the next try does not mind what is left."""
    rename = Path.rename
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copytree", fail)
        with pytest.raises(OSError, match="full"):
            controlplane.restore_etcd(folders / "copy")
        assert controlplane.processes.running("etcd")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", lambda path, to: fail() if path.suffix == ".new" else rename(path, to))
        with pytest.raises(OSError, match="full"):
            controlplane.restore_etcd(folders / "copy")
    assert content(folders)["etcd"] == "etcd"
    controlplane.restore_etcd(folders / "copy")
    assert content(folders) == {"etcd": "copy", "copy": "copy"}


def test_copy_of_etcd_is_whole_or_the_one_before(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of one would be restored."""
    monkeypatch.setattr(controlplane.os, "kill", lambda *_: None)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copytree", fail)
        with pytest.raises(OSError, match="full"):
            controlplane.copy_etcd(folders / "copy")
    assert content(folders)["copy"] == "copy"
    controlplane.copy_etcd(folders / "copy")
    assert content(folders) == {"etcd": "etcd", "copy": "etcd"}
