"""How an application on its way is shown, without a terminal."""

import pytest

from colocation.cli.jobs.launch import follow
from colocation.model.driver_output import WriteProgress
from colocation.submit.run import Progress

MIB = 2**20


def at(second: float, state: str = "RUNNING", write: WriteProgress | None = None) -> Progress:
    return Progress(
        name="load-1", runner="Kubeflow's Spark operator", state=state, executors_running=3, executors_wanted=3,
        elapsed_seconds=second, write=write,
    )  # fmt: skip


def reading(tasks_done: int, mib: int) -> WriteProgress:
    return WriteProgress(phase="reading", tasks_done=tasks_done, tasks=20, bytes=mib * MIB)


def writing(rows: int, mib: int) -> WriteProgress:
    return WriteProgress(phase="writing", rows_done=rows, rows=6_000_000, bytes=mib * MIB)


def test_a_load_shows_bytes_and_rate(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each step of the bar; the rate is that of the phase."""
    follow([
        at(0, ""), at(10), at(20, write=reading(1, 10)), at(30, write=reading(10, 1034)),
        at(31, write=reading(10, 1100)), at(40, write=writing(0, 0)),
        at(45, write=writing(3_000_000, 500)), at(60, "COMPLETED"),
    ])  # fmt: skip
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "load-1: waiting for Kubeflow's Spark operator (0 s)",
        "load-1: RUNNING, 3 of 3 executors (10 s)",
        "load-1: RUNNING, 3 of 3 executors, reading [#...................] 1 of 20 tasks, 10.0 MiB read (20 s)",
        "load-1: RUNNING, 3 of 3 executors, reading [##########..........] 10 of 20 tasks, 1.0 GiB read, "
        "102.4 MiB/s (30 s)",
        "load-1: RUNNING, 3 of 3 executors, writing [....................] 0 of 6,000,000 rows, 0 B written (40 s)",
        "load-1: RUNNING, 3 of 3 executors, writing [##########..........] 3,000,000 of 6,000,000 rows, 500.0 MiB "
        "written, 100.0 MiB/s (45 s)",
        "load-1: COMPLETED (60 s)",
    ]


def test_an_operator_that_does_not_see_the_application(capsys: pytest.CaptureFixture[str]) -> None:
    """After half a minute the line asks whether it runs."""
    follow([at(31, "")])
    assert "does it run, and watch this namespace?" in capsys.readouterr().err


def test_on_a_terminal_one_line_moves(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It is cut at the terminal's edge, so that it can be cleared."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    follow([at(10), at(45, write=writing(3_000_000, 500))])
    first, second = capsys.readouterr().err.removesuffix("\n").split("\r\x1b[K")[1:]
    assert first == "load-1: RUNNING, 3 of 3 executors (10 s"
    assert second == "load-1: RUNNING, 3 of 3 executors, writ"


def test_why_an_attempt_failed_is_said_while_another_one_is_awaited(capsys: pytest.CaptureFixture[str]) -> None:
    """Of spark-submit's whole output the exception; else the command would wait and say nothing of why."""
    spark_submit = "failed to run spark-submit: WARN x\nException in thread main a.B: no such image\n\tat c.d"
    steps = [at(0, "SUBMISSION_FAILED").model_copy(update={"error": error}) for error in (spark_submit, "x" * 999)]
    follow(steps)
    assert capsys.readouterr().err.splitlines() == [
        "load-1: SUBMISSION_FAILED: Exception in thread main a.B: no such image (0 s)",
        f"load-1: SUBMISSION_FAILED: {'x' * 300} (0 s)",
    ]
