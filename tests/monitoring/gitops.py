"""Health of objects as GitOps tools compute it: Argo CD's rules, and kstatus, which Flux and helm use."""

from typing import Any

JsonObject = dict[str, Any]
HEALTHY = {"Healthy", "Current"}


def unhealthy(objects: list[JsonObject]) -> dict[str, str]:
    """``kind/name`` -> what either tool reports of it, of the objects that are not healthy for both."""
    found = {}
    for item in objects:
        words = {argo_cd(item), kstatus(item)} - HEALTHY
        if words:
            found[f"{item['kind']}/{item['metadata']['name']}"] = ", ".join(sorted(words))
    return found


def argo_cd(item: JsonObject) -> str:
    """Argo CD has rules for some kinds; all others count as healthy."""
    status, spec = item.get("status", {}), item.get("spec", {})
    match item["kind"]:
        case "Deployment":
            wanted, updated = spec["replicas"], status.get("updatedReplicas", 0)
            if not _is_observed(item):
                return "Progressing"
            if _condition(status, "Progressing").get("reason") == "ProgressDeadlineExceeded":
                return "Degraded"
            is_done = updated >= wanted and status.get("replicas", 0) <= updated <= status.get("availableReplicas", 0)
            return "Healthy" if is_done else "Progressing"
        case "DaemonSet":
            wanted = status.get("desiredNumberScheduled", 0)
            reached = min(status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0))
            return "Healthy" if _is_observed(item) and reached >= wanted else "Progressing"
        case "PodDisruptionBudget":
            conditions = status.get("conditions", ())
            if any(one["status"] == "False" and one["reason"] != "InsufficientPods" for one in conditions):
                return "Degraded"
            return "Healthy" if conditions else "Progressing"
    return "Healthy"


def kstatus(item: JsonObject) -> str:
    """The conditions Reconciling and Stalled of any kind come first."""
    status, spec = item.get("status", {}), item.get("spec", {})
    if not _is_observed(item) or _condition(status, "Reconciling").get("status") == "True":
        return "InProgress"
    if _condition(status, "Stalled").get("status") == "True":
        return "Failed"
    match item["kind"]:
        case "Deployment":
            counts = [status.get(name, 0) for name in ("updatedReplicas", "readyReplicas", "availableReplicas")]
            is_whole = status.get("replicas", 0) == spec["replicas"] <= min(counts)
            is_done = is_whole and _condition(status, "Available").get("status") == "True"
            return "Current" if is_done else "InProgress"
        case "DaemonSet":
            names = ("currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady")
            is_done = all(status.get(name, 0) >= status["desiredNumberScheduled"] for name in names)
            return "Current" if is_done else "InProgress"
    ready = _condition(status, "Ready").get("status", "True")
    return "Current" if ready == "True" else "InProgress"


def _is_observed(item: JsonObject) -> bool:
    generation = item["metadata"].get("generation", 0)
    return bool(item.get("status", {}).get("observedGeneration", generation) == generation)


def _condition(status: JsonObject, kind: str) -> JsonObject:
    return next((one for one in status.get("conditions", ()) if one["type"] == kind), {})
