"""Creating, awaiting and reading an application, on a cluster in memory and in virtual time."""

import pytest
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import ProtocolError

from colocation.model.driver_output import WriteProgress
from colocation.submit.run import Outcome, Progress, RunError, create, find_result, outcome, watch

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


@pytest.mark.parametrize("end", ["COMPLETED", "FAILED"])
def test_the_wait_ends_with_the_application(end: str) -> None:
    """States that are no end are waited through: Kubeflow's operator may submit again after SUBMISSION_FAILED, too."""
    passed = ["SUBMISSION_FAILED", "FAILING", "PENDING_RERUN", "RUNNING", "SUCCEEDING"]
    steps = run_to_end(FakeApplications([*passed, end], error_message="no such image"))
    assert [step.state for step in steps] == [*passed, end]
    assert [step.end is None for step in steps] == [True] * 5 + [False]
    assert (steps[0].error, steps[-1].error) == ("no such image", "")


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
    steps: list[Step] = ["RUNNING", *[error] * 240, "COMPLETED"]
    assert run_to_end(FakeApplications(steps))[-1].state == "COMPLETED"


def test_a_cluster_that_stays_away_ends_the_wait() -> None:
    """After some minutes the wait fails; the message has that writes are not undone by that."""
    with pytest.raises(RunError, match=r"does not say how .* may run on, and commit .* look before .*kubectl get "):
        run_to_end(FakeApplications([ProtocolError("reset")]))


def test_a_refusal_that_ends_the_wait_is_one_line() -> None:
    """The API server's words, without the answer's headers."""
    refused = ApiException(status=403, reason="Forbidden")
    refused.body, refused.headers = '{"message": "you may not get jobs"}', {"Audit-Id": "7"}
    said = "goes on: the cluster answered 403: you may not get jobs; it may run on"
    with pytest.raises(RunError, match=said) as lost:
        run_to_end(FakeApplications(["RUNNING", refused]))
    assert "\n" not in str(lost.value) and "Audit-Id" not in str(lost.value)


def test_a_deleted_application_ends_the_wait() -> None:
    """Somebody deleted it: waiting on would be for ever."""
    with pytest.raises(RunError, match="was deleted while it ran"):
        run_to_end(FakeApplications(["RUNNING", ApiException(status=404, reason="Not Found")]))


def test_the_timeout_leaves_the_application_running() -> None:
    """The message has how to watch it; nothing is deleted."""
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
        pytest.param("RUNNING", False, "is RUNNING: wait for its end .*, end it .kubectl delete", id="running"),
        pytest.param("RUNNING", True, "is RUNNING: wait for its end", id="running: never replaced"),
        pytest.param("SUBMISSION_FAILED", True, "is SUBMISSION_FAILED: wait", id="may be submitted again"),
    ],
)
def test_an_application_of_the_same_name_is_left_alone(state: str, replace: bool, message: str) -> None:
    """No application is deleted unless asked, and never a running one."""
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


def ended_now(applications: FakeApplications, time: VirtualTime | None = None) -> Outcome:
    """How ``report`` ended."""
    time = time or VirtualTime()
    return outcome(applications, "shop", "report", applications.look("shop", "report"), sleep=time.sleep)


class Unread(FakeApplications):
    """The first reads of a driver's log fail."""

    def __init__(self, state: str, error: Exception | None, failures: int) -> None:
        super().__init__([state], log='COLOCATION_RESULT {"rows": 2}' if error else "")
        self._error, self._failures = error, failures

    def driver_log(self, namespace: str, pod: str, lines: int = 5000) -> str:
        self._failures -= 1
        if self._error and self._failures >= 0:
            raise self._error
        return super().driver_log(namespace, pod, lines)


FORBIDDEN = ApiException(status=403, reason="Forbidden")
FORBIDDEN.body = '{"message": "pods/log is forbidden"}'


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED"])
@pytest.mark.parametrize(
    ("error", "problem", "seconds"),
    [
        pytest.param(FORBIDDEN, "the log of its driver report-driver: the cluster answered 403: pods/log is forbidden",
                     0, id="no right"),
        pytest.param(ApiException(status=404, reason="Not Found"), "the pod of its driver, report-driver, is gone", 0,
                     id="gone"),
        pytest.param(ApiException(status=500, reason="no kubelet"),
                     "the log of its driver report-driver: the cluster answered 500: no kubelet", 30, id="no kubelet"),
        pytest.param(ProtocolError("reset"), "the log of its driver report-driver: reset", 30, id="no API server"),
        pytest.param(ValueError("not ready"), "the log of its driver report-driver: not ready", 0, id="anything"),
        pytest.param(None, "the log of its driver report-driver is empty", 0, id="empty"),
    ],
)  # fmt: skip
def test_a_log_that_cannot_be_read_changes_no_outcome(
    state: str, error: Exception | None, problem: str, seconds: float
) -> None:
    """Who hears that a load failed repeats it, and its rows would be there twice."""
    time, applications = VirtualTime(), Unread(state, error, failures=99)
    applications.create(spark_application())
    ended = ended_now(applications, time)
    assert (ended.succeeded, ended.result, ended.log_problem) == (state == "COMPLETED", None, problem)
    assert time.now == seconds


def test_a_log_is_read_again_after_a_passing_error() -> None:
    """The API server restarts just when the application ends."""
    applications = Unread("COMPLETED", ApiException(status=503, reason="restarting"), failures=20)
    applications.create(spark_application())
    ended = ended_now(applications)
    assert (ended.result, ended.log_problem) == ({"rows": 2}, "")


def test_a_result_that_cannot_be_understood_changes_no_outcome() -> None:
    """A driver of another version has committed its load all the same."""
    applications = FakeApplications(["COMPLETED"], log="COLOCATION_RESULT [1]")
    applications.create(spark_application())
    ended = ended_now(applications)
    assert (ended.succeeded, ended.result) == (True, None)
    assert "is not a JSON object" in ended.log_problem


def test_the_drivers_result_is_read() -> None:
    """The last marked line counts; what else the driver printed does not."""
    log = 'INFO x\nCOLOCATION_RESULT {"rows": 1}\nCOLOCATION_RESULT {"rows": 2}\nbye'
    applications = FakeApplications(["COMPLETED"], log=log)
    applications.create(spark_application())
    ended = ended_now(applications)
    assert (ended.succeeded, ended.result, ended.log_tail) == (True, {"rows": 2}, ())


@pytest.mark.parametrize(("end", "driver_error", "tail"), [
    pytest.param("Traceback (most recent call last):\n  File x\nValueError: no such table\nINFO stopped",
                 "ValueError: no such table", (), id="its exception is enough"),
    pytest.param("Killed", "", (*(f"line {number}" for number in range(61, 100)), "Killed"), id="forty lines else"),
])  # fmt: skip
def test_a_failure_carries_its_exception_or_the_end_of_the_log(
    end: str, driver_error: str, tail: tuple[str, ...]
) -> None:
    """No more of Java's stack and Spark's log is shown."""
    log = "\n".join([*(f"line {number}" for number in range(100)), end])
    applications = FakeApplications(["FAILED"], log=log, error_message="driver container failed")
    applications.create(spark_application())
    ended = ended_now(applications)
    assert (ended.succeeded, ended.state, ended.error) == (False, "FAILED", "driver container failed")
    assert (ended.driver_error, ended.log_tail, ended.driver_pod) == (driver_error, tail, "report-driver")


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
    assert ended_now(applications).log_tail == ("cause",)


@pytest.mark.parametrize("text", ["{", "[1]", "nonsense"])
def test_a_result_that_is_no_object_is_refused(text: str) -> None:
    """A driver of another version is not taken for one without a result."""
    with pytest.raises(RunError, match=r"the driver's result is not (a )?JSON"):
        find_result(f"COLOCATION_RESULT {text}")


def test_a_driver_without_a_result_is_fine() -> None:
    """An ordinary application prints none."""
    assert find_result("hello") is None
