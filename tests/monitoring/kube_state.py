"""What kube-state-metrics reports of objects, and which alerts of kube-prometheus fire if it stays so."""

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from .programs import program

JsonObject = dict[str, Any]
RULES = Path(__file__).parent / "kube_rules.yaml"
HOURS = 13
"""Longer than every alert waits."""
DEPLOYMENT = {
    "status_observed_generation": "observedGeneration", "status_replicas_available": "availableReplicas",
    "status_replicas_updated": "updatedReplicas",
}  # fmt: skip
DAEMON_SET = {
    "status_current_number_scheduled": "currentNumberScheduled", "status_number_misscheduled": "numberMisscheduled",
    "status_desired_number_scheduled": "desiredNumberScheduled", "status_number_available": "numberAvailable",
    "status_updated_number_scheduled": "updatedNumberScheduled",
}  # fmt: skip
BUDGET = {"status_desired_healthy": "desiredHealthy", "status_current_healthy": "currentHealthy"}


def series(objects: Iterable[JsonObject]) -> dict[str, float]:
    """Name and labels of a series -> its value."""
    return {name: float(value) for one in objects for name, value in _series_of(one)}


def firing(objects: Iterable[JsonObject], hours: int = HOURS) -> set[str]:
    """Names of the alerts that fire when these objects stay as they are for so long."""
    lines = [{"series": name, "values": f"{value:g}x{60 * hours}"} for name, value in series(objects).items()]
    return firing_of(lines, hours)


def firing_of(lines: list[dict[str, str]], hours: int = HOURS) -> set[str]:
    """The same of series in promtool's notation, a value a minute."""
    alerts = [rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    silent = [{"eval_time": f"{hours}h", "alertname": alert, "exp_alerts": []} for alert in alerts]
    case = {"interval": "1m", "input_series": lines, "alert_rule_test": silent}
    test = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [case]}
    done = subprocess.run(
        [str(program("promtool")), "test", "rules", "/dev/stdin"], input=yaml.safe_dump(test),
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    found = set(re.findall(r"alertname: ?(\w+)", done.stdout + done.stderr))
    assert (done.returncode == 0) == (not found), done.stdout + done.stderr
    return found


def _series_of(item: JsonObject) -> Iterator[tuple[str, float]]:
    metadata, status, spec = item["metadata"], item.get("status", {}), item.get("spec", {})
    match item["kind"]:
        case "Deployment":
            labels = _labels(metadata, "deployment")
            yield from _fields("kube_deployment", labels, DEPLOYMENT, status)
            yield f"kube_deployment_spec_replicas{labels}", spec["replicas"]
            yield f"kube_deployment_metadata_generation{labels}", metadata["generation"]
        case "DaemonSet":
            yield from _fields("kube_daemonset", _labels(metadata, "daemonset"), DAEMON_SET, status)
        case "PodDisruptionBudget":
            labels = _labels(metadata, "poddisruptionbudget")
            yield from _fields("kube_poddisruptionbudget", labels, BUDGET, status)
        case "Pod":
            yield from _pod(item)
        case "Job":
            labels = _labels(metadata, "job_name")
            failed = any(one["type"] == "Failed" and one["status"] == "True" for one in status.get("conditions", ()))
            yield f"kube_job_failed{labels}", failed
            yield f"kube_job_status_active{labels}", status.get("active", 0)
            yield f"kube_job_status_start_time{labels}", 0
        case "ResourceQuota":
            for kind in ("hard", "used"):
                for resource, value in status.get(kind, {}).items():
                    labels = _labels(metadata, "resourcequota", resource=resource, type=kind)
                    yield f"kube_resourcequota{labels}", _quantity(str(value))


def _pod(pod: JsonObject) -> Iterator[tuple[str, float]]:
    metadata, status = pod["metadata"], pod["status"]
    owners = metadata.get("ownerReferences") or [{"kind": "<none>"}]
    yield f"kube_pod_owner{_labels(metadata, 'pod', owner_kind=owners[0]['kind'])}", 1
    for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown"):
        yield f"kube_pod_status_phase{_labels(metadata, 'pod', phase=phase)}", phase == status["phase"]
    for one in status.get("containerStatuses", ()):
        waiting = one.get("state", {}).get("waiting")
        if waiting:
            labels = _labels(metadata, "pod", container=one["name"], reason=waiting["reason"])
            yield f"kube_pod_container_status_waiting_reason{labels}", 1
    for container in pod["spec"]["containers"]:
        if "cpu" in container.get("resources", {}).get("limits", {}):
            labels = _labels(metadata, "pod", container=container["name"], resource="cpu")
            yield f"kube_pod_container_resource_limits{labels}", 1
            yield f"container_cpu_cfs_throttled_periods_total{_labels(metadata, 'pod')}", 1


def _quantity(text: str) -> float:
    """A count as Kubernetes writes it: 250, 12k, 1M."""
    factors = {"k": 1e3, "M": 1e6, "G": 1e9}
    return float(text.rstrip("kMG")) * factors.get(text[-1], 1.0)


def _fields(prefix: str, labels: str, names: Mapping[str, str], status: JsonObject) -> Iterator[tuple[str, float]]:
    for metric, name in names.items():
        yield f"{prefix}_{metric}{labels}", status.get(name, 0)


def _labels(metadata: JsonObject, kind: str, **more: str) -> str:
    labels = {"namespace": metadata.get("namespace", ""), kind: metadata["name"], **more}
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
