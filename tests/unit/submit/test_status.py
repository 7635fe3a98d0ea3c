"""How applications go on, as the objects of each operator tell it."""

from typing import Any

import pytest

from colocation.submit.status import apache_status, job_status, kubeflow_status, schedule_status

from .applications_under_test import apache_application, schedule, spark_application


def pod(name: str, role: str, created: str = "2026-11-21T00:00:00Z", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"spark-role": role}, "creationTimestamp": created}, "status": status}


def apache(*summaries: str, message: str = "", **spec: Any) -> dict[str, Any]:
    """An application that went through these states."""
    states = {str(number): {"currentStateSummary": one, "message": message} for number, one in enumerate(summaries)}
    status = {"currentState": states[str(len(summaries) - 1)], "stateTransitionHistory": states} if summaries else {}
    return {**apache_application(**spec), "status": status}


@pytest.mark.parametrize(
    ("states", "phase", "state"),
    [
        pytest.param([], "running", "", id="not seen yet"),
        pytest.param(["Submitted", "RunningHealthy"], "running", "RunningHealthy", id="running"),
        pytest.param(["RunningHealthy", "Succeeded"], "running", "Succeeded", id="ended, its pods are let go"),
        pytest.param(["Succeeded", "ResourceReleased"], "succeeded", "Succeeded", id="succeeded"),
        pytest.param(["Succeeded", "TerminatedWithoutReleaseResources"], "succeeded", "Succeeded", id="pods kept"),
        pytest.param(["Failed", "ResourceReleased"], "failed", "Failed", id="failed"),
        pytest.param(["Failed", "ScheduledToRestart"], "running", "ScheduledToRestart", id="tried again"),
        pytest.param(["Failed", "ScheduledToRestart", "RunningHealthy", "Succeeded", "ResourceReleased"], "succeeded",
                     "Succeeded", id="the last attempt counts"),
        pytest.param(["DriverRequested", "DriverStartTimedOut", "TerminatedWithoutReleaseResources"], "failed",
                     "DriverStartTimedOut", id="never started"),
        pytest.param([*["Submitted"] * 9, "Succeeded", "Failed", "ResourceReleased"], "failed", "Failed",
                     id="keys are numbers"),
    ],
)  # fmt: skip
def test_apaches_end_is_shown_by_the_state_before_the_last(states: list[str], phase: str, state: str) -> None:
    """ResourceReleased does not say how the application ended; the history does."""
    status = apache_status(apache(*states), [])
    assert (status.phase, status.state) == (phase, state)


def test_apaches_failure_has_the_operators_words() -> None:
    """The message of the state in which it failed."""
    status = apache_status(apache("SchedulingFailure", "ResourceReleased", message="quota exceeded"), [])
    assert status.error == "quota exceeded"


def test_apaches_pods_are_found_by_label() -> None:
    """Of several attempts the youngest driver; executors count while they run."""
    pods = [
        pod("report-0-driver", "driver"), pod("report-1-driver", "driver", created="2026-11-21T00:05:00Z"),
        pod("a", "executor", phase="Running"), pod("b", "executor", phase="Pending"),
    ]  # fmt: skip
    status = apache_status(apache("RunningHealthy", sparkConf={"spark.executor.instances": "2"}), pods)
    assert (status.driver_pod, status.executors_running, status.executors_wanted) == ("report-1-driver", 1, 2)


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param({}, 3, id="fixed"),
        pytest.param({"executor": {}}, None, id="not said"),
        pytest.param({"dynamicAllocation": {"enabled": True}}, None, id="dynamic"),
    ],
)
def test_kubeflows_executors_are_counted(spec: dict[str, Any], wanted: int | None) -> None:
    """The number wanted is given only where it is fixed."""
    reported = {"applicationState": {"state": "RUNNING"}, "executorState": {"a": "RUNNING", "b": "PENDING"},
                "driverInfo": {"podName": "report-driver"}}  # fmt: skip
    status = kubeflow_status({**spark_application(**spec), "status": reported})
    assert (status.executors_running, status.executors_wanted, status.driver_pod) == (1, wanted, "report-driver")


def test_a_schedule_may_be_replaced_at_any_time() -> None:
    """It runs nothing itself."""
    assert schedule_status({**schedule(), "status": {"scheduleState": "Scheduled"}}).ended


ENDED_BADLY = [{"type": "Failed", "status": "True", "message": "Job has reached the specified backoff limit"}]
NO_IMAGE = "; check the image (--image), its tag, and the registry's Secret: docs/how-to/install.md#images"
KILLED = [{"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]


@pytest.mark.parametrize(
    ("conditions", "driver", "phase", "state", "error"),
    [
        pytest.param([], None, "running", "", "", id="no pod yet"),
        pytest.param([], {"phase": "Pending"}, "running", "Pending", "", id="pending"),
        pytest.param([], {"phase": "Pending", "containerStatuses": [
            {"state": {"waiting": {"reason": "ErrImagePull"}}}]}, "running", f"Pending (ErrImagePull{NO_IMAGE})", "",
                     id="why it does not start"),
        pytest.param([], {"phase": "Pending", "containerStatuses": [
            {"state": {"waiting": {"reason": "ContainerCreating"}}}]}, "running", "Pending", "", id="starting"),
        pytest.param([{"type": "Failed", "status": "False"}], {"phase": "Running"}, "running", "Running", "",
                     id="running"),
        pytest.param([{"type": "Complete", "status": "True"}], {"phase": "Succeeded"}, "succeeded", "Succeeded", "",
                     id="succeeded"),
        pytest.param(ENDED_BADLY, {"phase": "Failed", "containerStatuses": KILLED}, "failed", "Failed",
                     "the driver ended with exit code 137 (OOMKilled)", id="killed"),
        pytest.param(ENDED_BADLY, {"phase": "Failed", "reason": "Evicted", "message": "no memory"}, "failed", "Failed",
                     "no memory", id="evicted"),
        pytest.param(ENDED_BADLY, None, "failed", "Failed", "Job has reached the specified backoff limit",
                     id="its pod is gone"),
    ],
)  # fmt: skip
def test_a_job_tells_how_it_goes(
    conditions: list[dict[str, Any]], driver: dict[str, Any] | None, phase: str, state: str, error: str
) -> None:
    """The Job has whether it ended, its pod how."""
    pods = [pod("report-x7k2p", "driver", **driver)] if driver else []
    executors = [pod("report-exec-1", "executor", phase="Running")]
    found = job_status({"status": {"conditions": conditions}}, [*pods, *executors], executors_wanted=2)
    assert (found.phase, found.state, found.error) == (phase, state, error)
    assert (found.driver_pod, found.executors_running) == ("report-x7k2p" if driver else None, 1)


UNSCHEDULABLE = {"phase": "Pending", "conditions": [
    {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 had untolerated taints"}]}
UNPULLED = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}
WHY = "Unschedulable: 0/3 nodes are available: 3 had untolerated taints"


@pytest.mark.parametrize(
    ("driver", "executors", "state"),
    [
        pytest.param(UNSCHEDULABLE, [], f"Pending ({WHY})", id="the driver fits on no node"),
        pytest.param({"phase": "Running"}, [{"phase": "Running"}, UNSCHEDULABLE], f"Running (an executor: {WHY})",
                     id="an executor fits on no node"),
        pytest.param({"phase": "Running"}, [UNPULLED], f"Running (an executor: ImagePullBackOff{NO_IMAGE})",
                     id="no image"),
        pytest.param({"phase": "Running"}, [{"phase": "Pending"}], "Running", id="executors start"),
    ],
)  # fmt: skip
def test_a_job_shows_which_pod_does_not_start(
    driver: dict[str, Any], executors: list[dict[str, Any]], state: str
) -> None:
    """Otherwise the command would wait without end and without a reason."""
    pods = [pod("report-x7k2p", "driver", **driver)]
    pods += [pod(f"report-exec-{number}", "executor", **one) for number, one in enumerate(executors)]
    assert job_status({}, pods, executors_wanted=2).state == state


def test_a_job_without_a_pod_shows_why() -> None:
    """The Job controller tries again; what it was refused for is all that there is to see."""
    found = job_status({}, [], executors_wanted=2, refusal="exceeded quota: pods")
    assert (found.phase, found.state) == ("running", "without a pod (exceeded quota: pods)")
