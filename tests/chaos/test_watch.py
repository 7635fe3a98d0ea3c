"""What is left over."""

from pathlib import Path

import pytest

from colocation.model.agent import CloneProgress
from colocation.storage.clone_reports import PROGRESS_FILE

from . import cluster_view
from .cluster_view import Machinery
from .disks import Disks
from .history import History
from .session import Session
from .watch import Watch, is_finished
from .work import Work


def progress_of(bytes_done: int, bytes_total: int = 100) -> str:
    """What a clone writes."""
    progress = CloneProgress(
        namespace="chaos", group="base", bucket=3, bytes_done=bytes_done, bytes_total=bytes_total, updated_at=""
    )
    return progress.model_dump_json(by_alias=True)


@pytest.mark.parametrize(
    ("progress", "finished"),
    [
        pytest.param(progress_of(100), True, id="all has arrived, so the folder should be gone"),
        pytest.param(progress_of(60), False, id="given up: the next clone of the bucket resumes it"),
        pytest.param(progress_of(0, 0), False, id="given up before it knew what it lacks"),
        pytest.param(None, False, id="given up before it began"),
        pytest.param("", False, id="given up when its disk failed"),
    ],
)
def test_a_clone_that_was_given_up_may_stay(tmp_path: Path, progress: str | None, finished: bool) -> None:
    """Agents remove it after a day."""
    if progress is not None:
        (tmp_path / PROGRESS_FILE).write_text(progress)
    assert is_finished(tmp_path) is finished


def test_a_replica_that_is_still_to_be_placed_is_a_problem_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the group may be stable without it until then."""
    status = {"stable": True, "backendsPerBucketSeq": [["node-1", "node-2"]]}
    group = {"metadata": {"name": "base"}, "spec": {"buckets": 1, "replicas": 3}, "status": status}
    monkeypatch.setattr(cluster_view, "groups_and_tables", lambda: ([group], []))
    monkeypatch.setattr(cluster_view, "machinery", lambda: Machinery(True, {}, ()))
    monkeypatch.setattr(cluster_view, "reachable", lambda: {"node-1", "node-2"})
    history = History()
    watch = Watch(history, Disks(), Work(history, Session(history), 1))
    assert watch.problems() == ["group base lacks bucket 0 is on 2 of 3 nodes"]
    assert watch.last_look() == ["bucket 0 is on 2 of 3 nodes"]


def test_an_executor_whose_driver_is_gone_is_left_over() -> None:
    """One of a driver that is there is not, nor a driver itself."""
    driver = {"metadata": {"name": "session-2", "uid": "a"}}
    executors = [
        {"metadata": {"name": name, "uid": name, "ownerReferences": [{"kind": "Pod", "uid": owner}]}}
        for name, owner in (("exec-1", "a"), ("exec-2", "gone"))
    ]
    assert Watch._orphans([driver, *executors]) == ["pod exec-2, whose driver is gone"]
