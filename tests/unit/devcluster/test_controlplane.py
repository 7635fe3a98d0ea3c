"""The control plane after a crash: who needs the API server is started when it is ready."""

import pytest

from devcluster import controlplane


def test_clients_of_the_api_server_are_started_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller manager ends itself where the API server does not serve; nobody would start it again."""
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
