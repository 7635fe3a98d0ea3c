"""What is left over."""

from pathlib import Path

import pytest

from colocation.model.agent import CloneProgress
from colocation.storage.clone_progress import PROGRESS_FILE

from .watch import is_finished


@pytest.mark.parametrize(
    ("bytes_done", "finished"),
    [
        pytest.param(100, True, id="all has arrived, so the folder should be gone"),
        pytest.param(60, False, id="given up: the next clone of the bucket resumes it"),
        pytest.param(None, False, id="given up before it knew what it lacks"),
    ],
)
def test_a_clone_that_was_given_up_may_stay(tmp_path: Path, bytes_done: int | None, finished: bool) -> None:
    """Agents remove it after a day."""
    if bytes_done is not None:
        progress = CloneProgress(
            namespace="chaos", group="base", bucket=3, bytes_done=bytes_done, bytes_total=100, updated_at=""
        )
        (tmp_path / PROGRESS_FILE).write_text(progress.model_dump_json(by_alias=True))
    assert is_finished(tmp_path) is finished
