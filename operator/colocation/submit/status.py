"""How an application goes on, read from its object: one shape for both operators and for Jobs."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..model.base import Frozen
from .obstacles import Obstacle, count_running, find_obstacle, newest_pod, of_role, pod_of

Phase = Literal["running", "succeeded", "failed"]

KUBEFLOW_SUCCEEDED = frozenset({"COMPLETED"})
KUBEFLOW_FAILED = frozenset({"FAILED"})
"""SUBMISSION_FAILED is no end: by the restart policy its operator submits again, or reports FAILED."""

APACHE_FAILED = frozenset(
    {"Failed", "SchedulingFailure", "DriverEvicted", "DriverStartTimedOut", "DriverReadyTimedOut",
     "ExecutorsStartTimedOut"}
)  # fmt: skip
APACHE_TERMINATED = frozenset({"ResourceReleased", "TerminatedWithoutReleaseResources"})
"""After the end, whichever it was: the state before tells (Apache's ApplicationStateSummary)."""



class ApplicationStatus(Frozen):
    """``state``: in its operator's word, empty before that saw the application.

    ``executors_wanted`` is None when it is not fixed. ``error``: the operator's message about a failure, of the
    application or of an attempt after which it may try again. ``driver_pod``: None while there is none.
    ``has_executors``: their pods are made. ``obstacle``: why it does not run.
    """

    state: str
    phase: Phase
    error: str = ""
    driver_pod: str | None = None
    executors_running: int = 0
    executors_wanted: int | None = None
    has_executors: bool = False
    obstacle: Obstacle | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.phase != "running"

    def with_obstacle(self, obstacle: Obstacle | None) -> "ApplicationStatus":
        """The same, and why it does not run."""
        if self.ended or obstacle is None:
            return self
        return self.model_copy(update={"obstacle": obstacle, "state": f"{self.state} ({obstacle.message})".strip()})


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
        has_executors=bool(executors),
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
        has_executors=bool(of_role(pods, "executor")),
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

    ``pods``: the driver and the executors of the application; ``refusal``: why a pod could not be made, or set up.
    """
    driver = newest_pod(pods, "driver")
    status = (pod_of(pods, driver) or {}).get("status") or {}
    conditions = (job.get("status") or {}).get("conditions") or ()
    ended = {str(item["type"]): item for item in conditions if item.get("status") == "True"}
    phase: Phase = "succeeded" if "Complete" in ended else "failed" if "Failed" in ended else "running"
    state = str(status.get("phase") or ("without a pod" if refusal else ""))
    if phase != "running":
        state = phase.capitalize()
    namespace = str((job.get("metadata") or {}).get("namespace") or "")
    return ApplicationStatus(
        state=state,
        phase=phase,
        error=(_termination(status) or str(ended["Failed"].get("message") or "")) if phase == "failed" else "",
        driver_pod=driver,
        executors_running=count_running(pods),
        has_executors=bool(of_role(pods, "executor")),
        executors_wanted=executors_wanted,
    ).with_obstacle(find_obstacle(pods, refusal, namespace))


def _termination(status: Mapping[str, Any]) -> str:
    ends = [(one.get("state") or {}).get("terminated") or {} for one in status.get("containerStatuses") or []]
    bad = [end for end in ends if end.get("exitCode")]
    if bad:
        return f"the driver ended with exit code {bad[0]['exitCode']} ({bad[0].get('reason') or 'no reason given'})"
    return str(status.get("message") or status.get("reason") or "")


def _configured_executors(conf: Mapping[str, str]) -> int | None:
    instances = conf.get("spark.executor.instances", "")
    fixed = conf.get("spark.dynamicAllocation.enabled") != "true"
    return int(instances) if fixed and instances.isdigit() else None
