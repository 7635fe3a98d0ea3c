"""The control plane's faults: one thread at a time, each healed when it serves; after a restore nothing watches on."""

import threading
from random import Random
from typing import Any

import pytest

from devcluster import node as nodes
from devcluster.errors import DevclusterError

from . import control_plane_faults
from .control_plane_faults import ControlPlaneFaults
from .failing import do_nothing, fails
from .faults import Faults
from .history import SEEN, History
from .plan import Step
from .targets import CannotNow


@pytest.fixture
def control_plane(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> ControlPlaneFaults:
    """All its programs run, and a copy of etcd was taken."""
    monkeypatch.setattr(control_plane_faults, "ETCD_COPY", tmp_path)
    monkeypatch.setattr(control_plane_faults.processes, "running", lambda _: True)
    monkeypatch.setattr(control_plane_faults.controlplane, "api_is_ready", lambda: True)
    monkeypatch.setattr(control_plane_faults.nodes, "known", list)
    for function in ("kill", "start_all_again", "restore_etcd", "copy_etcd"):
        monkeypatch.setattr(control_plane_faults.controlplane, function, do_nothing)
    return ControlPlaneFaults(History())


def is_free(found: ControlPlaneFaults) -> bool:
    """Whether another thread may change the control plane."""
    answers: list[bool] = []

    def ask() -> None:
        answers.append(found._lock.acquire(blocking=False))
        if answers[0]:
            found._lock.release()

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(10)
    return answers[0]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("api_server_stopped", "kill"), ("etcd_stopped", "kill"), ("watches_cut", "kill"),
        ("watches_cut", "start_all_again"), ("etcd_restored", "restore_etcd"), ("etcd_restored", "start_all_again"),
        ("save_etcd", "copy_etcd"), ("start", "start_all_again"),
    ],
)  # fmt: skip
def test_one_thread_at_a_time_changes_the_control_plane(
    name: str, function: str, control_plane: ControlPlaneFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one would start etcd in the midst of a restore. A fault that holds keeps no one out."""
    free: list[bool] = []
    plane = control_plane_faults.controlplane
    monkeypatch.setattr(plane, function, lambda *_words: free.append(is_free(control_plane)))
    action = getattr(control_plane, name)
    action(*([] if name in ("save_etcd", "start") else [Random(1)]))
    assert (free, is_free(control_plane)) == ([False], True)


def test_program_that_does_not_run_cannot_be_killed_now(
    control_plane: ControlPlaneFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier fault's heal is still starting it."""
    monkeypatch.setattr(control_plane_faults.processes, "running", lambda _: None)
    with pytest.raises(CannotNow, match="etcd does not run"):
        control_plane.etcd_stopped(Random(1))


def test_control_plane_is_healed_when_it_serves(
    control_plane: ControlPlaneFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That its programs were started is not enough."""
    _, heal = control_plane.api_server_stopped(Random(1))
    heal()
    monkeypatch.setattr(control_plane_faults.controlplane, "api_is_ready", lambda: False)
    with pytest.raises(DevclusterError, match="does not serve"):
        heal()


@pytest.mark.parametrize(("error", "seen"), [([], ["restored"]), ([OSError("full")], [])])
def test_etcd_is_restored_or_as_it_was(
    error: list[Exception], seen: list[str], control_plane: ControlPlaneFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was ended is started in any case, and kubelets are to be started again."""
    started: list[str] = []
    monkeypatch.setattr(control_plane_faults.controlplane, "restore_etcd", fails(*error))
    monkeypatch.setattr(control_plane_faults.controlplane, "start_all_again", lambda: started.append("all"))
    found = Faults(control_plane.history, None)  # type: ignore[arg-type]
    found.make(Step(7, 0.0, -1, "etcd-restored", 0.5))
    assert [event.name for event in found.history.events if event.kind == SEEN] == seen
    assert started == ["all"]
    assert list(found._healing) == [7]


def test_no_program_of_a_node_watches_on_after_a_restore(
    control_plane: ControlPlaneFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would hear of nothing until etcd has reached the revision that they know (seed 20251125). Each once: a heal
    that fails is tried again. What does not run whole is started as a whole later.
    """
    done: list[str] = []
    again = fails(DevclusterError("no"))

    def restart(number: int) -> None:
        if number == 4:
            again()
        done.append(f"node-{number}")

    monkeypatch.setattr(control_plane_faults.controlplane, "start_all_again", lambda: done.append("control plane"))
    monkeypatch.setattr(control_plane_faults.nodes, "known", lambda: [nodes.Node(number) for number in (1, 3, 4)])
    monkeypatch.setattr(control_plane_faults.nodes, "is_complete", lambda node: node.number != 3)
    monkeypatch.setattr(control_plane_faults.devcluster, "restart_node_agents", restart)
    _, heal = control_plane.etcd_restored(Random(1))
    with pytest.raises(DevclusterError):
        heal()
    heal()
    assert done == ["control plane", "control plane", "node-1", "control plane", "node-4"]
