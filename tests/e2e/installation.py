"""The installation as monitoring and GitOps tools see it: its objects, what would fire, what is not healthy."""

from typing import Any

from colocation.model.names import LABEL_COMPONENT, LABEL_LEADS
from demo import cluster
from demo.shell import kubectl_json
from tests.monitoring.gitops import unhealthy
from tests.monitoring.kube_state import firing

JsonObject = dict[str, Any]
KINDS = "deployments,daemonsets,poddisruptionbudgets,resourcequotas,pods,jobs"


def alerts() -> set[str]:
    """Of kube-prometheus, that fire if everything stays as it is."""
    return firing(_objects(KINDS, "-n", cluster.OPERATOR_NAMESPACE))


def troubles() -> dict[str, str]:
    """What GitOps tools say of objects that are not healthy, groups and tables among them."""
    ours = _objects("colocationgroups,colocatedtables", "--all-namespaces")
    return unhealthy([*_objects(KINDS, "-n", cluster.OPERATOR_NAMESPACE), *ours])


def pods(component: str) -> set[str]:
    """Names of a component's pods."""
    return {pod["metadata"]["name"] for pod in _pods(component)}


def leaders() -> set[str]:
    """Names of operators' pods with the leader's label."""
    return {pod["metadata"]["name"] for pod in _pods("operator") if pod["metadata"]["labels"].get(LABEL_LEADS)}


def ready_agents() -> dict[str, str]:
    """Node -> uid of its agent's pod, of those that are ready."""
    return {pod["spec"]["nodeName"]: pod["metadata"]["uid"] for pod in _pods("agent") if _is_ready(pod)}


def holders() -> dict[str, str]:
    """Node -> uid of its holder pod, of those that run and are not asked for."""
    return {
        pod["spec"]["nodeName"]: pod["metadata"]["uid"]
        for pod in _pods("holder")
        if _is_ready(pod) and "deletionTimestamp" not in pod["metadata"]
    }


def _is_ready(pod: JsonObject) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))


def _pods(component: str) -> list[JsonObject]:
    return _objects("pods", "-n", cluster.OPERATOR_NAMESPACE, "-l", f"{LABEL_COMPONENT}={component}")


def _objects(*what: str) -> list[JsonObject]:
    found: list[JsonObject] = kubectl_json("get", *what)["items"]
    return found
