"""How far a write is, from the stages of its application."""

import pytest

from colocation.model.driver_output import WriteProgress, find_progress
from colocation.spark.jobs.program import Stage, progress_of

READ = Stage(tasks=10, tasks_done=4, bytes_read=400, bytes_written=0, rows_written=0, rows_shuffled=40)
ALL_READ = Stage(tasks=10, tasks_done=10, bytes_read=1000, bytes_written=0, rows_written=0, rows_shuffled=100)
WRITE = Stage(tasks=8, tasks_done=2, bytes_read=0, bytes_written=300, rows_written=30, rows_shuffled=0)
INFERRED = Stage(tasks=1, tasks_done=1, bytes_read=50, bytes_written=0, rows_written=0, rows_shuffled=0)
WRITTEN = Stage(tasks=8, tasks_done=8, bytes_read=0, bytes_written=900, rows_written=100, rows_shuffled=0)


@pytest.mark.parametrize(
    ("stages", "active", "expected"),
    [
        pytest.param({}, set(), None, id="nothing runs"),
        pytest.param({0: ALL_READ}, set(), None, id="between two stages"),
        pytest.param(
            {0: READ}, {0}, WriteProgress(phase="reading", bytes=400, tasks_done=4, tasks=10), id="the input is read"
        ),
        pytest.param(
            {0: INFERRED, 1: READ}, {1}, WriteProgress(phase="reading", bytes=450, tasks_done=4, tasks=10),
            id="types were taken from the values before",
        ),
        pytest.param(
            {0: ALL_READ, 1: WRITE}, {1}, WriteProgress(phase="writing", bytes=300, rows_done=30, rows=100),
            id="written",
        ),
        pytest.param(
            {0: ALL_READ, 1: WRITTEN, 2: READ}, {2},
            WriteProgress(phase="reading", bytes=1400, tasks_done=4, tasks=10), id="what was written is merged at once",
        ),
    ],
)  # fmt: skip
def test_the_phase_is_shown_by_the_stage_that_runs(
    stages: dict[int, Stage], active: set[int], expected: WriteProgress | None
) -> None:
    """Reading by tasks; writing by the rows that were shuffled."""
    assert progress_of(stages, active) == expected


def test_a_log_tells_what_was_printed_last() -> None:
    """Among the driver's other lines."""
    first = WriteProgress(phase="reading", bytes=400, tasks_done=4, tasks=10)
    last = WriteProgress(phase="writing", bytes=300, rows_done=30, rows=100)
    assert find_progress(f"INFO x\n{first.line()}\nINFO y\n{last.line()}\nINFO z") == last
    assert find_progress("INFO x") is None


def test_a_driver_of_another_release_is_waited_for_all_the_same() -> None:
    """Lines that this release does not understand tell nothing."""
    assert find_progress('COLOCATION_PROGRESS {"phase": "dreaming"}') is None


def test_more_rows_than_expected_are_all_rows() -> None:
    """Attempts that failed have written, too."""
    again = Stage(tasks=8, tasks_done=2, bytes_read=0, bytes_written=300, rows_written=130, rows_shuffled=0)
    progress = progress_of({0: ALL_READ, 1: again}, {1})
    assert progress is not None and (progress.rows_done, progress.share) == (100, 1.0)
