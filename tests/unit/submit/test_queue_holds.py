"""Suspended applications: which queue holds them back, and why."""

from typing import Any

import pytest

from colocation.submit.queue_holds import hold_of, is_suspended
from colocation.submit.status import job_status, kubeflow_status

LABELS = {"kueue.x-k8s.io/queue-name": "shop"}
NO_QUOTA = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor data, 1 more needed"


def application(labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "report", "namespace": "team", "uid": "42", "labels": labels}, "spec": spec}


def workload(created: str = "2026-11-27T00:00:00Z", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "job-report", "creationTimestamp": created}, "status": status}


def quota(status: str, message: str) -> dict[str, Any]:
    return {"type": "QuotaReserved", "status": status, "message": message}


PENDING = workload(conditions=[quota("False", NO_QUOTA)])
CHECKS = [{"name": "a", "state": "Ready"}, {"name": "b", "state": "Pending"}]
SEE = "kubectl describe workloads -n team -l kueue.x-k8s.io/job-uid=42"


@pytest.mark.parametrize(("labels", "workloads", "message"), [
    pytest.param(LABELS, [PENDING], f"held back by Kueue in queue shop: {NO_QUOTA}", id="no quota"),
    pytest.param(LABELS, [workload("2026-11-26T00:00:00Z", conditions=[quota("False", "old")]), PENDING],
                 f"held back by Kueue in queue shop: {NO_QUOTA}", id="the newest counts"),
    pytest.param(LABELS, [workload(conditions=[quota("True", "reserved")], admissionChecks=CHECKS)],
                 "held back by Kueue in queue shop: admission check b is Pending", id="an admission check"),
    pytest.param(LABELS, [workload(conditions=[quota("True", "reserved")])], "held back by Kueue in queue shop",
                 id="admitted in this moment"),
    pytest.param(LABELS, [], "held back by Kueue in queue shop: it has no Workload yet; if that stays, Kueue's manager "
                 "does not run, or does not manage this kind (docs/how-to/gitops.md#kueue)", id="not seen yet"),
    pytest.param(LABELS, None, f"held back by Kueue in queue shop; why: {SEE}", id="Workloads may not be read"),
    pytest.param({}, [], "suspended by its field spec.suspend; set it to false, or, where Kueue manages what names no "
                 "queue, name one in the label kueue.x-k8s.io/queue-name", id="suspended by its author"),
])  # fmt: skip
def test_why_it_does_not_run(labels: dict[str, str], workloads: list[dict[str, Any]] | None, message: str) -> None:
    """Kueue's words, or how to see them; it may take any time."""
    held = application(labels, suspend=True)
    found = hold_of(held, workloads)
    assert is_suspended(held) and found.message == message and found.is_queued
    assert job_status(held, [], 2).with_obstacle(found).state == message
    assert kubeflow_status(held).with_obstacle(found).state == message


@pytest.mark.parametrize("spec", [{}, {"suspend": False}, {"suspend": None}])
def test_what_was_admitted_is_not_suspended(spec: dict[str, Any]) -> None:
    """Nor is what no queue holds."""
    assert not is_suspended(application(LABELS, **spec))
