"""A restore of etcd: it is done or nothing is, and what was ended runs again."""

from typing import Any

import pytest

from . import control_plane_faults
from .control_plane_faults import ControlPlaneFaults
from .failing import do_nothing, fails
from .faults import Faults
from .history import SEEN, History
from .plan import Step


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
