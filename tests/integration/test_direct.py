"""``colocation submit --direct`` on a real API server, on which nothing runs: what is made, and what is said of it."""

import os
import subprocess
import sys

import pytest

from .control_plane import ControlPlane
from .objects import JsonObject, as_json, group

APPLICATION = {
    "apiVersion": "sparkoperator.k8s.io/v1beta2",
    "kind": "SparkApplication",
    "metadata": {"name": "report", "labels": {"colocation.dev/group": "sales"}},
    "spec": {
        "type": "Python", "sparkVersion": "4.1.4", "mainApplicationFile": "local:///app/report.py",
        "image": "registry.example/report:1",
        "driver": {"env": [{"name": "TZ", "value": "UTC"}], "affinity": {"nodeAffinity": {}}},
        "executor": {"instances": 2},
    },
}  # fmt: skip


@pytest.fixture
def grouped(cluster: ControlPlane, namespace: str) -> str:
    """A namespace with a stable group and the ConfigMap that the operator would keep beside it."""
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=as_json(group()))
    status = as_json({"status": {"stable": True, "nodes": ["node-1", "node-2"]}})
    cluster.kubectl("patch", "cg", "sales", "-n", namespace, "--subresource=status", "--type=merge", "-p", status)
    cluster.kubectl("create", "configmap", "sales-spark", "-n", namespace)
    return namespace


def submit(cluster: ControlPlane, namespace: str, *options: str, **spec: object) -> subprocess.CompletedProcess[str]:
    body: JsonObject = {**APPLICATION, "spec": {**APPLICATION["spec"], **spec}}  # type: ignore[dict-item]
    command = [sys.executable, "-c", "from colocation.cli.main import main; main()", "submit", "-f", "-", "--direct"]
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    return subprocess.run(
        [*command, "--no-wait", "-n", namespace, *options], input=as_json(body), env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


def names(cluster: ControlPlane, namespace: str) -> set[str]:
    listed = cluster.kubectl("get", "pods,services,configmaps", "-n", namespace, "-o", "name").stdout.split()
    return {name for name in listed if "kube-root-ca" not in name}


def test_driver_service_and_template_are_made(cluster: ControlPlane, grouped: str) -> None:
    """As the dry run shows them, and owned by the driver's pod, so that they go with it."""
    done = submit(cluster, grouped)
    assert done.returncode == 0, done.stderr
    assert f"watch it: kubectl get pod report-driver -n {grouped}" in done.stderr
    assert names(cluster, grouped) == {
        "pod/report-driver", "service/report", "configmap/report-executor-template", "configmap/sales-spark",
    }  # fmt: skip
    owner = "jsonpath={.metadata.ownerReferences[0].name}"
    for made in ("service/report", "configmap/report-executor-template"):
        assert cluster.kubectl("get", made, "-n", grouped, "-o", owner).stdout == "report-driver"
    variables = "jsonpath={.spec.containers[0].env[*].name}"
    found = cluster.kubectl("get", "pod", "report-driver", "-n", grouped, "-o", variables).stdout
    assert found.split() == ["SPARK_DRIVER_BIND_ADDRESS", "TZ"]


def test_a_running_application_is_not_started_twice(cluster: ControlPlane, grouped: str) -> None:
    """The message says how it goes, and what to do."""
    assert submit(cluster, grouped).returncode == 0
    again = submit(cluster, grouped)
    assert again.returncode == 1
    assert "Spark application 'report' exists" in again.stderr and "is Pending" in again.stderr


def test_half_an_application_is_taken_back(cluster: ControlPlane, grouped: str) -> None:
    """The API server refuses the driver's pod: the ConfigMap that was made for it goes, too."""
    done = submit(cluster, grouped, driver={"env": [{"name": "not a name=", "value": "x"}]})
    assert done.returncode == 1
    assert "not a name=" in done.stderr
    assert names(cluster, grouped) == {"configmap/sales-spark"}


def test_what_an_interrupted_submission_left_is_no_obstacle(cluster: ControlPlane, grouped: str) -> None:
    """A ConfigMap without a driver is taken away first."""
    cluster.kubectl("create", "configmap", "report-executor-template", "-n", grouped)
    assert submit(cluster, grouped).returncode == 0
    assert "pod/report-driver" in names(cluster, grouped)
