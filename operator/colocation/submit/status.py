"""The state of an application, read from its object and its pods; and why the pods do not start. Pure.

One shape for both operators and for Jobs.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ..model.base import Frozen

Json = Mapping[str, Any]

MAX_REASON_CHARACTERS = 300
WAITING_IS_NORMAL = frozenset({"ContainerCreating", "PodInitializing"})
MOUNT_REASONS = frozenset({"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"})
"""Of events: meanwhile the pod's containers say ``ContainerCreating``."""
UNSCHEDULABLE, GATED = "Unschedulable", "SchedulingGated"
"""The second: the reason of a pod that a controller, such as Kueue, does not let be scheduled yet."""
_OF_PREEMPTION = re.compile(r"\s*(no new claims to deallocate,\s*)?preemption: .*", re.DOTALL)
"""The end of the scheduler's message: that no pod of a lower priority is in the way either."""
_REFUSED_POD = re.compile(r'pods "[^"\n]+" is forbidden: [^\n]*?(?=\. Received status|, metadata=|$)', re.MULTILINE)


class Obstacle(Frozen):
    """Why an application does not run. ``is_lasting``: it stays until something is changed.

    Room on the nodes, or in a quota, may come by waiting. ``is_partial``: other executors run, and the application goes
    on with them. ``is_queued``: a queue holds it back, for as long as that takes. ``is_usual``: runs that go well have
    it in their first seconds.
    """

    message: str
    is_lasting: bool = True
    is_partial: bool = False
    is_queued: bool = False
    is_usual: bool = False
    advice: str = ""


class _Kind(NamedTuple):
    """Obstacles whose message has this pattern; the advice may use its groups and ``{namespace}``."""

    pattern: re.Pattern[str]
    is_lasting: bool
    advice: str
    is_queued: bool
    is_usual: bool


def _kind(
    pattern: str, advice: str, *, is_lasting: bool = True, is_queued: bool = False, is_usual: bool = False
) -> _Kind:
    return _Kind(re.compile(pattern, re.IGNORECASE), is_lasting, advice, is_queued, is_usual)


LOST_NODE = "the driver's node"
GIVEN_UP = "and Kubernetes has given up the driver"

KINDS = (
    _kind(r'secret "(?P<name>[^"]+)" not found',
          "create it (kubectl create secret generic {name} -n {namespace} --from-env-file=FILE), or name another one"),
    _kind(r'configmap "spark-(exec|drv)-[^"]+" not found', "Spark makes it a moment after the pod", is_lasting=False,
          is_usual=True),
    _kind(r'configmap "(?P<name>[^"]+)" not found', "create it in {namespace}, or leave it out of the manifest"),
    _kind(r"couldn't find key \S+ in (Secret|ConfigMap)", "add the key, or leave it out of the manifest"),
    _kind(r"persistentvolumeclaims? \"(?P<name>[^\"]+)\" not found",
          "create the claim in {namespace}, or leave it out of the manifest"),
    _kind(r'serviceaccounts? "(?P<name>[^"]+)" not found',
          "make it with `colocation init -n {namespace} --service-account {name}`, or name another one with "
          "--service-account"),
    _kind(r"^(ErrImage|ImagePull|InvalidImageName|RegistryUnavailable)",
          "check the image (--image), its tag, and the registry's Secret: docs/how-to/install.md#images"),
    _kind(r"has runAsNonRoot and image",
          "end the image's Dockerfile with its user's number (`USER 185`), or set runAsUser in the securityContext of "
          "both pods' templates: docs/how-to/own-images.md#the-user"),
    _kind(r"exceeded quota|must specify (limits|requests|memory|cpu)",
          "wait until other pods end, ask for less (--set), or for a larger quota: "
          "kubectl describe quota -n {namespace}", is_lasting=False),
    _kind(r"^Unschedulable", "free room, ask for less (--set spark.executor.memory=…, spark.executor.instances=…), or "
          "wait longer with --timeout", is_lasting=False),
    _kind(f"^{GATED}", "", is_lasting=False, is_queued=True),
    _kind(f"^{LOST_NODE} .*{GIVEN_UP} (?P<pod>\\S+)",
          "run it again; of a write, look before whether it was committed (colocation tables -n {namespace}). Until "
          "the node is back its executors hold their room: kubectl delete pod {pod} -n {namespace} --force ends them"),
    _kind(f"^{LOST_NODE}", "", is_lasting=False),
    _kind(r"violates PodSecurity|admission webhook|denied the request",
          "change what is refused in the manifest (--application), or ask who made the rule"),
)  # fmt: skip
"""The first that matches counts; a message that matches none is lasting."""


def obstacle(message: str, namespace: str = "") -> Obstacle:
    """What the message means: whether it passes, and what to do."""
    for kind in KINDS:
        if found := kind.pattern.search(message):
            advice = kind.advice.format(namespace=namespace, **found.groupdict())
            return Obstacle(
                message=message, is_lasting=kind.is_lasting, advice=advice, is_queued=kind.is_queued,
                is_usual=kind.is_usual,
            )  # fmt: skip
    return Obstacle(message=message)


def find_obstacle(pods: Sequence[Json], refusal: str = "", namespace: str = "") -> Obstacle | None:
    """What keeps the application from running; None while its pods start as usual.

    ``pods``: of the driver and the executors. ``refusal``: why a pod could not be made, or not be set up.
    """
    driver = pod_of(pods, newest_pod(pods, "driver"))
    if driver is None:
        return obstacle(refusal, namespace) if refusal else None
    if message := waits_for(driver):
        return obstacle(message, namespace)
    if message := lost_node(driver):
        return obstacle(message, namespace)
    others_run = count_running(pods) > 0
    for message in filter(None, map(waits_for, of_role(pods, "executor"))):
        found = obstacle(message, namespace)
        return found.model_copy(update={"message": f"an executor: {found.message}", "is_partial": others_run})
    return obstacle(refusal, namespace) if refusal and not others_run else None


def waits_for(pod: Json) -> str:
    """Why a pod does not run: what a container waits for, or why no node takes it; empty while that is normal."""
    status = pod.get("status") or {}
    if status.get("phase") != "Pending":
        return ""
    containers = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return next(filter(None, (*map(_waiting, containers), *_unscheduled(status))), "")


def lost_node(driver: Json) -> str:
    """Which node of a running driver does not report any more; empty when it does.

    The pod is not ready then, while its kubelet's last report was that its containers are.
    """
    status = driver.get("status") or {}
    states = {str(one.get("type")): one.get("status") for one in status.get("conditions") or ()}
    if status.get("phase") != "Running" or (states.get("Ready"), states.get("ContainersReady")) != ("False", "True"):
        return ""
    node = (driver.get("spec") or {}).get("nodeName")
    if driver["metadata"].get("deletionTimestamp"):  # which only the node's kubelet can carry out
        return f"{LOST_NODE} {node} is not ready, {GIVEN_UP} {driver['metadata']['name']}"
    return (
        f"{LOST_NODE} {node} is not ready; unless it comes back, by default Kubernetes ends the driver after five "
        "minutes"
    )


def _waiting(container: Json) -> str:
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    if not reason or reason in WAITING_IS_NORMAL:
        return ""
    return in_short(f"{reason}: {message}" if message else reason)


def _unscheduled(status: Json) -> Iterable[str]:
    return (
        in_short(f"{GATED if one.get('reason') == GATED else UNSCHEDULABLE}: {_OF_PREEMPTION.sub('', one['message'])}")
        for one in status.get("conditions") or ()
        if one.get("type") == "PodScheduled" and one.get("status") == "False" and one.get("message")
    )


def in_short(text: str) -> str:
    """One line of bounded length."""
    return " ".join(text.split())[:MAX_REASON_CHARACTERS]


def being_set_up(pods: Sequence[Json]) -> Json | None:
    """The pod whose events have the reason of a wait: on a node, no report of its containers, no executor running."""
    if count_running(pods):
        return None
    driver = pod_of(pods, newest_pod(pods, "driver"))
    candidates = (driver, *of_role(pods, "executor")) if driver else ()
    return next((pod for pod in candidates if pod and _is_being_set_up(pod)), None)


def _is_being_set_up(pod: Json) -> bool:
    status = pod.get("status") or {}
    is_bound = bool((pod.get("spec") or {}).get("nodeName"))
    return status.get("phase") == "Pending" and is_bound and not waits_for(pod)


def refused_executors(log: str) -> str:
    """Why the API server refuses executors, which only the driver's log reports; empty when it does not."""
    found = _REFUSED_POD.findall(log)
    return in_short(f"no executor is made: {found[-1]}") if found else ""


def of_role(pods: Sequence[Json], role: str) -> list[Json]:
    """Those with this ``spark-role``."""
    return [pod for pod in pods if (pod["metadata"].get("labels") or {}).get("spark-role") == role]


def newest_pod(pods: Sequence[Json], role: str) -> str | None:
    """The name of the youngest pod with this ``spark-role``: of several attempts, the last one's."""
    fitting = [pod["metadata"] for pod in of_role(pods, role)]
    youngest = max(fitting, key=lambda metadata: str(metadata.get("creationTimestamp") or ""), default=None)
    return str(youngest["name"]) if youngest else None


def pod_of(pods: Sequence[Json], name: str | None) -> Json | None:
    """The pod of this name."""
    return next((pod for pod in pods if pod["metadata"]["name"] == name), None)


def count_running(pods: Sequence[Json]) -> int:
    """How many of the pods are running executors."""
    return sum((pod.get("status") or {}).get("phase") == "Running" for pod in of_role(pods, "executor"))


Phase = Literal["running", "succeeded", "failed"]

KUBEFLOW_SUCCEEDED = frozenset({"COMPLETED"})
KUBEFLOW_FAILED = frozenset({"FAILED"})
"""SUBMISSION_FAILED is no end: by the restart policy its operator submits again, or sets FAILED itself."""

APACHE_FAILED = frozenset(
    {"Failed", "SchedulingFailure", "DriverEvicted", "DriverStartTimedOut", "DriverReadyTimedOut",
     "ExecutorsStartTimedOut"}
)  # fmt: skip
APACHE_TERMINATED = frozenset({"ResourceReleased", "TerminatedWithoutReleaseResources"})
"""After the end, whichever it was: the state before tells (Apache's ApplicationStateSummary)."""



class ApplicationStatus(Frozen):
    """``state``: as its operator calls it, empty until the operator has seen the application.

    ``executors_wanted`` is None when it is not fixed. ``error``: what the operator reports about a failure, of the
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
        """The same, why it does not run, and, if that does not pass by itself, what to do.

        A usual wait is kept for the case that it lasts, and not shown.
        """
        if self.ended or obstacle is None:
            return self
        if obstacle.is_usual:
            return self.model_copy(update={"obstacle": obstacle})
        advice = f"; {obstacle.advice}" if obstacle.advice and obstacle.is_lasting else ""
        state = f"{self.state} ({obstacle.message}{advice})" if self.state else f"{obstacle.message}{advice}"
        return self.model_copy(update={"obstacle": obstacle, "state": state})


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


def server_status(application: Mapping[str, Any]) -> ApplicationStatus:
    """Of Kubeflow's SparkConnect, which runs until it is deleted."""
    return ApplicationStatus(state=str((application.get("status") or {}).get("state") or ""), phase="running")


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
