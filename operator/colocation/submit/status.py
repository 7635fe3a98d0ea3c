"""How an application goes on, read from its object: one shape for both operators and for Jobs."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..model.base import Frozen

Phase = Literal["running", "succeeded", "failed"]

KUBEFLOW_SUCCEEDED = frozenset({"COMPLETED"})
KUBEFLOW_FAILED = frozenset({"FAILED"})
"""SUBMISSION_FAILED is no end: by the restart policy its operator submits again, or says FAILED itself."""

APACHE_FAILED = frozenset(
    {"Failed", "SchedulingFailure", "DriverEvicted", "DriverStartTimedOut", "DriverReadyTimedOut",
     "ExecutorsStartTimedOut"}
)  # fmt: skip
APACHE_TERMINATED = frozenset({"ResourceReleased", "TerminatedWithoutReleaseResources"})
"""After the end, whichever it was: the state before tells (Apache's ApplicationStateSummary)."""

MAX_REASON_CHARACTERS = 300
WAITING_IS_NORMAL = frozenset({"ContainerCreating", "PodInitializing"})


class ApplicationStatus(Frozen):
    """``state``: in its operator's word, empty before that saw the application.

    ``executors_wanted`` is None when it is not fixed. ``error``: what the operator says of a failure, of the
    application or of an attempt after which it may try again. ``driver_pod``: None while there is none.
    """

    state: str
    phase: Phase
    error: str = ""
    driver_pod: str | None = None
    executors_running: int = 0
    executors_wanted: int | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.phase != "running"


def kubeflow_status(application: Mapping[str, Any]) -> ApplicationStatus:
    """Of Kubeflow's SparkApplication."""
    status = application.get("status") or {}
    reported = status.get("applicationState") or {}
    state = str(reported.get("state") or "")
    executors = status.get("executorState") or {}
    return ApplicationStatus(
        state=state,
        phase="succeeded" if state in KUBEFLOW_SUCCEEDED else "failed" if state in KUBEFLOW_FAILED else "running",
        error=str(reported.get("errorMessage") or ""),
        driver_pod=(status.get("driverInfo") or {}).get("podName") or None,
        executors_running=sum(one == "RUNNING" for one in executors.values()),
        executors_wanted=_kubeflow_executors(application.get("spec") or {}),
    )


def _kubeflow_executors(spec: Mapping[str, Any]) -> int | None:
    if (spec.get("dynamicAllocation") or {}).get("enabled"):
        return None
    instances = (spec.get("executor") or {}).get("instances")
    return int(instances) if instances is not None else None


def schedule_status(application: Mapping[str, Any]) -> ApplicationStatus:
    """Of Kubeflow's ScheduledSparkApplication, which runs nothing itself: it may be replaced at any time."""
    state = str((application.get("status") or {}).get("scheduleState") or "")
    return ApplicationStatus(state=state, phase="succeeded")


def apache_status(application: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> ApplicationStatus:
    """Of Apache's SparkApplication. ``pods``: those that its operator labelled with the application's name."""
    status = application.get("status") or {}
    current = status.get("currentState") or {}
    state = str(current.get("currentStateSummary") or "")
    decisive = _last_before_termination(status) if state in APACHE_TERMINATED else current
    word = str(decisive.get("currentStateSummary") or "")
    phase: Phase = "running"
    if state in APACHE_TERMINATED:
        phase = "succeeded" if word == "Succeeded" else "failed"
    conf = (application.get("spec") or {}).get("sparkConf") or {}
    return ApplicationStatus(
        state=word if phase != "running" else state,
        phase=phase,
        error=str(decisive.get("message") or "") if phase == "failed" else "",
        driver_pod=newest_pod(pods, "driver"),
        executors_running=count_running(pods),
        executors_wanted=_configured_executors(conf),
    )


def _last_before_termination(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The last state of the history that is not the termination itself: how the last attempt ended."""
    history = status.get("stateTransitionHistory") or {}
    states = [history[key] for key in sorted(history, key=int, reverse=True)]
    ended = (state for state in states if state.get("currentStateSummary") not in APACHE_TERMINATED)
    return next(ended, status.get("currentState") or {})


def job_status(
    job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], executors_wanted: int | None, refusal: str = ""
) -> ApplicationStatus:
    """Of a Job whose pod is the driver.

    ``pods``: the driver and the executors of the application; ``refusal``: why the Job's pod could not be made.
    """
    driver = newest_pod(pods, "driver")
    status = next((pod.get("status") or {} for pod in pods if pod["metadata"]["name"] == driver), {})
    conditions = (job.get("status") or {}).get("conditions") or ()
    ended = {str(item["type"]): item for item in conditions if item.get("status") == "True"}
    phase: Phase = "succeeded" if "Complete" in ended else "failed" if "Failed" in ended else "running"
    trouble = _trouble(status) or next((f"an executor: {one}" for one in map(_trouble, _executors(pods)) if one), "")
    state = str(status.get("phase") or "")
    if phase != "running":
        state = phase.capitalize()
    elif trouble:
        state = f"{state} ({trouble})"
    elif not driver and refusal:
        state = f"without a pod ({refusal})"
    return ApplicationStatus(
        state=state,
        phase=phase,
        error=(_termination(status) or str(ended["Failed"].get("message") or "")) if phase == "failed" else "",
        driver_pod=driver,
        executors_running=count_running(pods),
        executors_wanted=executors_wanted,
    )


def _executors(pods: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The statuses of the executors' pods."""
    return [pod.get("status") or {} for pod in _of_role(pods, "executor")]


def _of_role(pods: Sequence[Mapping[str, Any]], role: str) -> list[Mapping[str, Any]]:
    """Those with this ``spark-role``."""
    return [pod for pod in pods if (pod["metadata"].get("labels") or {}).get("spark-role") == role]


def _trouble(status: Mapping[str, Any]) -> str:
    """Why a pod does not run: what its container waits for, or why no node takes it; empty while that is ordinary."""
    if status.get("phase") == "Running":
        return ""
    reasons = [reason for reason in map(_waiting, status.get("containerStatuses") or []) if reason]
    unscheduled = [
        f"Unschedulable: {one.get('message')}"[:MAX_REASON_CHARACTERS]
        for one in status.get("conditions") or ()
        if one.get("type") == "PodScheduled" and one.get("status") == "False" and one.get("message")
    ]
    return next(iter((*reasons, *unscheduled)), "")


def _waiting(container: Mapping[str, Any]) -> str:
    reason = str(((container.get("state") or {}).get("waiting") or {}).get("reason") or "")
    return "" if reason in WAITING_IS_NORMAL else reason


def _termination(status: Mapping[str, Any]) -> str:
    ends = [(one.get("state") or {}).get("terminated") or {} for one in status.get("containerStatuses") or []]
    bad = [end for end in ends if end.get("exitCode")]
    if bad:
        return f"the driver ended with exit code {bad[0]['exitCode']} ({bad[0].get('reason') or 'no reason given'})"
    return str(status.get("message") or status.get("reason") or "")


def newest_pod(pods: Sequence[Mapping[str, Any]], role: str) -> str | None:
    """The name of the youngest pod with this ``spark-role``: of several attempts, the last one's."""
    fitting = [pod["metadata"] for pod in _of_role(pods, role)]
    youngest = max(fitting, key=lambda metadata: str(metadata.get("creationTimestamp") or ""), default=None)
    return str(youngest["name"]) if youngest else None


def count_running(pods: Sequence[Mapping[str, Any]]) -> int:
    """How many of the pods are running executors."""
    return sum(status.get("phase") == "Running" for status in _executors(pods))


def _configured_executors(conf: Mapping[str, str]) -> int | None:
    instances = conf.get("spark.executor.instances", "")
    fixed = conf.get("spark.dynamicAllocation.enabled") != "true"
    return int(instances) if fixed and instances.isdigit() else None
