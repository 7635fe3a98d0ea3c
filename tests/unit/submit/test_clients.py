"""What is asked of the cluster about an application that a Spark operator runs."""

from typing import Any

import pytest
from kubernetes.client import ApiClient, CustomObjectsApi

from colocation.submit import clients
from colocation.submit.clients import KubernetesApplications
from colocation.submit.manifest import KUBEFLOW

from .applications_under_test import spark_application


def test_a_driver_on_a_lost_node_is_found_while_its_executors_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubeflow's operator reports a running application then, for as long as the node is away."""
    reported = {"applicationState": {"state": "RUNNING"}, "executorState": {"a": "RUNNING"},
                "driverInfo": {"podName": "report-driver"}}  # fmt: skip
    application = {**spark_application(), "status": reported}
    conditions = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]
    pods: list[dict[str, Any]] = [
        {"metadata": {"name": "report-driver", "labels": {"spark-role": "driver"}}, "spec": {"nodeName": "node-1"},
         "status": {"phase": "Running", "conditions": conditions}},
        {"metadata": {"name": "a", "labels": {"spark-role": "executor"}}, "status": {"phase": "Running"}},
    ]  # fmt: skip
    monkeypatch.setattr(CustomObjectsApi, "get_namespaced_custom_object", lambda *_, **__: application)
    monkeypatch.setattr(clients, "list_pods_if_allowed", lambda *_: pods)
    found = KubernetesApplications(ApiClient(), KUBEFLOW).look("shop", "report")
    assert found.state.startswith("RUNNING (the driver's node node-1 is not ready")
    assert (found.executors_running, found.ended) == (1, False)
    conditions[0]["status"] = "True"
    assert KubernetesApplications(ApiClient(), KUBEFLOW).look("shop", "report").state == "RUNNING"
