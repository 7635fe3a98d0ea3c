"""Applications that Kueue suspends until their queue has room: by which queue, and why. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from .status import Obstacle, in_short

Json = Mapping[str, Any]

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
WORKLOAD_GROUP, WORKLOAD_PLURAL = "kueue.x-k8s.io", "workloads"
WORKLOAD_VERSIONS = ("v1beta2", "v1beta1")
"""Newest first; what we read is the same in both."""
WORKLOAD_LABEL = "kueue.x-k8s.io/job-uid"
"""Of a Workload: the uid of the application for which Kueue made it."""

NO_WORKLOAD = (
    "it has no Workload yet; if that stays, Kueue's manager does not run, or does not manage this kind "
    "(docs/how-to/gitops.md#kueue)"
)


def is_suspended(application: Json) -> bool:
    """Whether a SparkApplication of Kubeflow's, or a Job, is not to run for now."""
    return bool((application.get("spec") or {}).get("suspend"))


def queue_of(application: Json) -> str:
    """Kueue's queue that the application names; empty = none."""
    return str((application["metadata"].get("labels") or {}).get(QUEUE_LABEL) or "")


def hold_of(application: Json, workloads: Sequence[Json] | None) -> Obstacle:
    """Why a suspended application does not run.

    ``workloads``: Kueue's, of this application; None when they may not be read.
    """
    metadata, queue = application["metadata"], queue_of(application)
    if not queue:
        return _hold(
            "suspended by its field spec.suspend; set it to false, or, where Kueue manages what names no queue, name "
            f"one in the label {QUEUE_LABEL}"
        )
    by_queue = f"held back by Kueue in queue {queue}"
    if workloads is None:
        selector = f"{WORKLOAD_LABEL}={metadata['uid']}"
        return _hold(f"{by_queue}; why: kubectl describe workloads -n {metadata['namespace']} -l {selector}")
    newest = max(workloads, key=lambda one: str(one["metadata"].get("creationTimestamp") or ""), default=None)
    why = _reason(newest.get("status") or {}) if newest else NO_WORKLOAD
    return _hold(f"{by_queue}: {why}" if why else by_queue)


def _hold(message: str) -> Obstacle:
    return Obstacle(message=message, is_lasting=False, is_queued=True)


def _reason(status: Json) -> str:
    """Kueue's own words: no quota, or an admission check that is not ready."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "QuotaReserved" and condition.get("status") == "False":
            return in_short(str(condition.get("message") or ""))
    checks = (one for one in status.get("admissionChecks") or () if one.get("state") != "Ready")
    return next((in_short(f"admission check {one.get('name')} is {one.get('state')}") for one in checks), "")
