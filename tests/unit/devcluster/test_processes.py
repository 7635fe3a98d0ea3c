"""Only processes that the cluster started are ever taken for its own."""

import json
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from devcluster import paths, processes
from devcluster.processes import Identity

BOOT = "3f0c"


def fake_process(proc: Path, pid: int, start_ticks: int, state: str = "S", boot: str = BOOT) -> None:
    """A /proc with one process in it, whose name is as awkward as the kernel allows."""
    (proc / str(pid)).mkdir(parents=True, exist_ok=True)
    before_start = " ".join(["0"] * 18)
    (proc / str(pid) / "stat").write_text(f"{pid} (a) b ( c) {state} {before_start} {start_ticks} 0 0")
    (proc / "sys/kernel/random").mkdir(parents=True, exist_ok=True)
    (proc / "sys/kernel/random/boot_id").write_text(f"{boot}\n")


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program that was recorded as process 77, started at tick 1000."""
    monkeypatch.setattr(paths, "PROCESSES", tmp_path / "processes")
    paths.PROCESSES.mkdir()
    processes.record_path("etcd").write_text('{"pid": 77, "start_ticks": 1000, "boot_id": "3f0c"}')
    return "etcd"


def test_the_recorded_process_is_ours(recorded: str, tmp_path: Path) -> None:
    """Same pid, same start, same boot."""
    fake_process(tmp_path, 77, 1000)
    assert processes.running(recorded, tmp_path) == Identity(77, 1000, BOOT)


@pytest.mark.parametrize(
    ("start_ticks", "state", "boot"),
    [
        pytest.param(1001, "S", BOOT, id="recycled pid"),
        pytest.param(1000, "S", "77aa", id="same pid and tick after a reboot"),
        pytest.param(1000, "Z", BOOT, id="zombie"),
    ],
)
def test_another_process_with_that_pid_is_not_ours(
    recorded: str, tmp_path: Path, start_ticks: int, state: str, boot: str
) -> None:
    """A pid alone proves nothing."""
    fake_process(tmp_path, 77, start_ticks, state, boot)
    assert processes.running(recorded, tmp_path) is None


def test_no_process_with_that_pid(recorded: str, tmp_path: Path) -> None:
    """The process ended."""
    assert processes.running(recorded, tmp_path) is None


def test_a_torn_record_counts_as_none(recorded: str) -> None:
    """A run that was killed while it wrote the record."""
    processes.record_path(recorded).write_text('{"pid": 7')
    assert processes.recorded(recorded) is None


def test_a_program_that_was_never_started(recorded: str) -> None:
    """No record, no process."""
    assert processes.running("coredns") is None


def test_program_that_is_ended_is_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the call returns; one that does not run is no error."""
    monkeypatch.setattr(paths, "PROCESSES", tmp_path)
    child = subprocess.Popen(["sleep", "60"])
    identity = processes.identify(child.pid)
    assert identity
    processes.record_path("etcd").write_text(json.dumps(asdict(identity)))
    try:
        for _ in range(2):
            processes.end("etcd")
            assert processes.running("etcd") is None
    finally:
        child.kill()
        child.wait(10)
