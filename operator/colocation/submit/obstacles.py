"""Why the pods of an application do not start, and what to do about it. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..model.base import Frozen

Json = Mapping[str, Any]

MAX_REASON_CHARACTERS = 300
WAITING_IS_NORMAL = frozenset({"ContainerCreating", "PodInitializing"})
MOUNT_REASONS = frozenset({"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"})
"""Of events: meanwhile the pod's containers say ``ContainerCreating``."""
_REFUSED_POD = re.compile(r'pods "[^"\n]+" is forbidden: [^\n]*?(?=\. Received status|$)', re.MULTILINE)


class Obstacle(Frozen):
    """Why an application does not run. ``is_lasting``: it stays until somebody changes something.

    Room on the nodes, or in a quota, may come by waiting. ``is_partial``: other executors run, and the application goes
    on with them.
    """

    message: str
    is_lasting: bool = True
    is_partial: bool = False
    advice: str = ""


class _Kind(NamedTuple):
    """Obstacles whose message has this pattern; the advice may use its groups and ``{namespace}``."""

    pattern: re.Pattern[str]
    is_lasting: bool
    advice: str


def _kind(pattern: str, advice: str, *, is_lasting: bool = True) -> _Kind:
    return _Kind(re.compile(pattern, re.IGNORECASE), is_lasting, advice)


KINDS = (
    _kind(r'secret "(?P<name>[^"]+)" not found',
          "create it (kubectl create secret generic {name} -n {namespace} --from-env-file=FILE), or name another one"),
    _kind(r'configmap "(?P<name>[^"]+)" not found', "create it in {namespace}, or leave it out of the manifest"),
    _kind(r"couldn't find key \S+ in (Secret|ConfigMap)", "add the key, or leave it out of the manifest"),
    _kind(r"persistentvolumeclaims? \"(?P<name>[^\"]+)\" not found",
          "create the claim in {namespace}, or leave it out of the manifest"),
    _kind(r'serviceaccounts? "(?P<name>[^"]+)" not found',
          "make it with `colocation init -n {namespace} --service-account {name}`, or name another one with "
          "--service-account"),
    _kind(r"^(ErrImage|ImagePull|InvalidImageName|RegistryUnavailable)",
          "check the image (--image), its tag, and the registry's Secret: docs/how-to/install.md#images"),
    _kind(r"exceeded quota|must specify (limits|requests|memory|cpu)",
          "wait until other pods end, ask for less (--set), or for a larger quota: "
          "kubectl describe quota -n {namespace}", is_lasting=False),
    _kind(r"^Unschedulable", "free room, ask for less (--set spark.executor.memory=…, spark.executor.instances=…), or "
          "wait longer with --timeout", is_lasting=False),
    _kind(r"violates PodSecurity|admission webhook|denied the request",
          "change what is refused in the manifest (--application), or ask who made the rule"),
)  # fmt: skip
"""The first that fits counts; what none of them fits lasts."""


def obstacle(message: str, namespace: str = "") -> Obstacle:
    """What the message means for the user who waits."""
    for kind in KINDS:
        if found := kind.pattern.search(message):
            advice = kind.advice.format(namespace=namespace, **found.groupdict())
            return Obstacle(message=message, is_lasting=kind.is_lasting, advice=advice)
    return Obstacle(message=message)


def find_obstacle(pods: Sequence[Json], refusal: str = "", namespace: str = "") -> Obstacle | None:
    """What keeps the application from running; None while its pods start in order.

    ``pods``: of the driver and the executors. ``refusal``: why a pod could not be made, or not be set up.
    """
    driver = pod_of(pods, newest_pod(pods, "driver"))
    if driver is None:
        return obstacle(refusal, namespace) if refusal else None
    if message := waits_for(driver):
        return obstacle(message, namespace)
    others_run = count_running(pods) > 0
    for message in filter(None, map(waits_for, of_role(pods, "executor"))):
        found = obstacle(message, namespace)
        return found.model_copy(update={"message": f"an executor: {found.message}", "is_partial": others_run})
    return obstacle(refusal, namespace) if refusal and not others_run else None


def waits_for(pod: Json) -> str:
    """Why a pod does not run: what a container waits for, or why no node takes it; empty while that is ordinary."""
    status = pod.get("status") or {}
    if status.get("phase") != "Pending":
        return ""
    containers = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return next(filter(None, (*map(_waiting, containers), *_unscheduled(status))), "")


def _waiting(container: Json) -> str:
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    if not reason or reason in WAITING_IS_NORMAL:
        return ""
    return in_short(f"{reason}: {message}" if message else reason)


def _unscheduled(status: Json) -> Iterable[str]:
    return (
        in_short(f"Unschedulable: {one['message']}")
        for one in status.get("conditions") or ()
        if one.get("type") == "PodScheduled" and one.get("status") == "False" and one.get("message")
    )


def in_short(text: str) -> str:
    """One line, not longer than people read."""
    return " ".join(text.split())[:MAX_REASON_CHARACTERS]


def being_set_up(pods: Sequence[Json]) -> Json | None:
    """The pod whose events say what it waits for: on a node, without a word of its containers, and nothing runs yet."""
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
    """Why the API server refuses executors, which only the driver's log has; empty when it does not refuse them."""
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
