"""Creating, awaiting and reading an application, on a cluster in memory and in virtual time."""

import pytest
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import ProtocolError

from colocation.model.write_progress import WriteProgress
from colocation.submit.run import Progress, RunError, create, find_error, find_result, outcome, watch

from .applications_under_test import spark_application
from .fake_applications import FakeApplications, Step, VirtualTime


def run_to_end(applications: FakeApplications, timeout_seconds: float | None = None) -> list[Progress]:
    time = VirtualTime()
    name = create(applications, spark_application(), replace=False, sleep=time.sleep)
    return list(
        watch(applications, "shop", name, timeout_seconds=timeout_seconds, clock=time.clock, sleep=time.sleep)
    )


def test_the_wait_shows_every_state_until_the_end() -> None:
    """One progress per poll, with the executors that run."""
    steps = run_to_end(FakeApplications(["", "SUBMITTED", "RUNNING", "COMPLETED"]))
    assert [step.state for step in steps] == ["", "SUBMITTED", "RUNNING", "COMPLETED"]
    assert (steps[2].executors_running, steps[2].executors_wanted, steps[2].elapsed_seconds) == (1, 3, 2.0)


@pytest.mark.parametrize("end", ["COMPLETED", "FAILED", "SUBMISSION_FAILED"])
def test_the_wait_ends_with_the_application(end: str) -> None:
    """States that are no end (PENDING_RERUN, FAILING, SUCCEEDING) are waited through."""
    steps = run_to_end(FakeApplications(["FAILING", "PENDING_RERUN", "RUNNING", "SUCCEEDING", end]))
    assert steps[-1].state == end


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ApiException(status=500, reason="etcd"), id="server error"),
        pytest.param(ApiException(status=429, reason="slow down"), id="too many requests"),
        pytest.param(ProtocolError("reset"), id="connection lost"),
    ],
)
def test_a_passing_error_does_not_end_the_wait(error: Exception) -> None:
    """An API server that restarts is asked again."""
    steps: list[Step] = ["RUNNING", *[error] * 20, "COMPLETED"]
    assert run_to_end(FakeApplications(steps))[-1].state == "COMPLETED"


def test_a_cluster_that_stays_away_ends_the_wait() -> None:
    """After enough unanswered polls the wait says so."""
    with pytest.raises(RunError, match="does not say how"):
        run_to_end(FakeApplications([ProtocolError("reset")]))


def test_a_deleted_application_ends_the_wait() -> None:
    """Somebody deleted it: waiting on would be for ever."""
    with pytest.raises(RunError, match="was deleted while it ran"):
        run_to_end(FakeApplications(["RUNNING", ApiException(status=404, reason="Not Found")]))


def test_the_timeout_leaves_the_application_running() -> None:
    """The message says how to watch it; nothing is deleted."""
    applications = FakeApplications(["RUNNING"])
    with pytest.raises(RunError, match=r"not ended after 5 s; it goes on.*--watch"):
        run_to_end(applications, timeout_seconds=5)
    assert applications.deleted == []


def test_a_generated_name_is_returned() -> None:
    """generateName is completed by the API server."""
    application = spark_application()
    application["metadata"] = {"generateName": "load-orders-", "namespace": "shop"}
    assert create(FakeApplications(), application, replace=False, sleep=VirtualTime().sleep) == "load-orders-x7k2p"


@pytest.mark.parametrize(
    ("state", "replace", "message"),
    [
        pytest.param("COMPLETED", False, "has ended .COMPLETED.: --replace", id="ended: replace is offered"),
        pytest.param("RUNNING", False, "is RUNNING: wait for its end", id="running"),
        pytest.param("RUNNING", True, "is RUNNING: wait for its end", id="running: never replaced"),
    ],
)
def test_an_application_of_the_same_name_is_left_alone(state: str, replace: bool, message: str) -> None:
    """Nobody's application is deleted unless asked, and never a running one."""
    applications = FakeApplications([state])
    applications.create(spark_application())
    with pytest.raises(RunError, match=message):
        create(applications, spark_application(), replace=replace, sleep=VirtualTime().sleep)
    assert applications.deleted == []


def test_replace_deletes_an_ended_application_first() -> None:
    """The new one is created once the old one is gone."""
    applications = FakeApplications(["FAILED"])
    applications.create(spark_application())
    assert create(applications, spark_application(), replace=True, sleep=VirtualTime().sleep) == "report"
    assert applications.deleted == ["report"]


def test_a_cluster_without_kubeflows_operator_is_explained() -> None:
    """404 on creation means that the kind, or the namespace, does not exist."""

    class NoSuchKind(FakeApplications):
        def create(self, application: dict[str, object]) -> str:
            raise ApiException(status=404, reason="Not Found")

    with pytest.raises(RunError, match="needs namespace 'shop' and Kubeflow's Spark operator"):
        create(NoSuchKind(), spark_application(), replace=False, sleep=VirtualTime().sleep)


def test_the_drivers_result_is_read() -> None:
    """The last marked line counts; what else the driver printed does not."""
    log = 'INFO x\nCOLOCATION_RESULT {"rows": 1}\nCOLOCATION_RESULT {"rows": 2}\nbye'
    applications = FakeApplications(["COMPLETED"], log=log)
    applications.create(spark_application())
    ended = outcome(applications, "shop", "report")
    assert (ended.succeeded, ended.result, ended.log_tail) == (True, {"rows": 2}, ())


def test_a_failure_carries_the_end_of_the_log_and_its_exception() -> None:
    """Forty lines, and the line that says what happened."""
    traceback = "Traceback (most recent call last):\n  File x\nValueError: no such table\nINFO stopped"
    log = "\n".join(f"line {number}" for number in range(100)) + "\n" + traceback
    applications = FakeApplications(["FAILED"], log=log, error_message="driver container failed")
    applications.create(spark_application())
    ended = outcome(applications, "shop", "report")
    assert (ended.succeeded, ended.state, ended.error) == (False, "FAILED", "driver container failed")
    assert ended.driver_error == "ValueError: no such table"
    assert len(ended.log_tail) == 40 and ended.log_tail[-1] == "INFO stopped"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        pytest.param("", "", id="no log"),
        pytest.param("INFO fine", "", id="no exception"),
        pytest.param("Exception in thread main x.Y: z\n\tat a.b", "Exception in thread main x.Y: z", id="Java"),
        pytest.param("Traceback (most recent call last):\n  a\nA: 1\nTraceback (most recent call last):\n  b\nB: 2",
                     "B: 2", id="the last of two"),
    ],
)  # fmt: skip
def test_the_exception_is_found_in_the_log(log: str, expected: str) -> None:
    """The line that names the exception, without its stack."""
    assert find_error(log) == expected


WRITE = WriteProgress(phase="writing", bytes=300, rows_done=30, rows=100)


@pytest.mark.parametrize("tells_progress", [True, False])
def test_a_drivers_progress_is_read_while_it_runs(tells_progress: bool) -> None:
    """Only where a driver tells it."""
    log = f"INFO\n{WRITE.line()}\nINFO"
    time, applications = VirtualTime(), FakeApplications(["", "RUNNING", "COMPLETED"], log=log)
    name = create(applications, spark_application(), replace=False, sleep=time.sleep)
    steps = watch(
        applications, "shop", name, timeout_seconds=None, clock=time.clock, sleep=time.sleep,
        tells_progress=tells_progress,
    )  # fmt: skip
    assert [step.write for step in steps][1] == (WRITE if tells_progress else None)


def test_a_log_that_may_not_be_read_does_not_end_the_wait() -> None:
    """The states are shown all the same."""

    class Silent(FakeApplications):
        def driver_log(self, namespace: str, pod: str, lines: int = 5000) -> str:
            raise ApiException(status=403, reason="Forbidden")

    time, applications = VirtualTime(), Silent(["RUNNING", "COMPLETED"])
    name = create(applications, spark_application(), replace=False, sleep=time.sleep)
    steps = list(watch(applications, "shop", name, timeout_seconds=None, clock=time.clock, sleep=time.sleep,
                       tells_progress=True))  # fmt: skip
    assert [(step.state, step.write) for step in steps] == [("RUNNING", None), ("COMPLETED", None)]


def test_the_end_of_a_failures_log_has_no_progress_in_it() -> None:
    """It would push out what tells the cause."""
    log = "cause\n" + "\n".join(WRITE.line() for _ in range(100))
    applications = FakeApplications(["FAILED"], log=log)
    applications.create(spark_application())
    assert outcome(applications, "shop", "report").log_tail == ("cause",)


@pytest.mark.parametrize("text", ["{", "[1]", "nonsense"])
def test_a_result_that_is_no_object_is_refused(text: str) -> None:
    """A driver of another version is not taken for one without a result."""
    with pytest.raises(RunError, match=r"the driver's result is not (a )?JSON"):
        find_result(f"COLOCATION_RESULT {text}")


def test_a_driver_without_a_result_is_fine() -> None:
    """An ordinary application prints none."""
    assert find_result("hello") is None
