"""``colocation submit --direct`` on a real API server, on which nothing runs: what is made, and what is said of it."""

import json
import os
import subprocess
import sys

import pytest
import yaml

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
    """A namespace with a stable group and the ConfigMap that the operator would keep next to it."""
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
    listed = cluster.kubectl("get", "jobs,pods,services,configmaps", "-n", namespace, "-o", "name").stdout.split()
    return {name for name in listed if "kube-root-ca" not in name}


def stored(cluster: ControlPlane, namespace: str) -> JsonObject:
    """The Job as the API server has it."""
    found: JsonObject = json.loads(cluster.kubectl("get", "job", "report", "-n", namespace, "-o", "json").stdout)
    return found


def test_the_driver_is_a_job(cluster: ControlPlane, grouped: str) -> None:
    """It is the only object, and the API server keeps it as the dry run shows it."""
    done = submit(cluster, grouped)
    assert done.returncode == 0, done.stderr
    assert f"watch it: kubectl get job report -n {grouped}" in done.stderr
    assert names(cluster, grouped) == {"job.batch/report", "configmap/sales-spark"}
    shown = yaml.safe_load(submit(cluster, grouped, "--dry-run").stdout)
    found = stored(cluster, grouped)
    assert is_part(shown, found)
    assert found["spec"]["backoffLimit"] == 0


def is_part(shown: object, found: object) -> bool:
    """Whether the API server kept all of it; it adds defaults."""
    if isinstance(shown, dict) and isinstance(found, dict):
        return all(key in found and is_part(value, found[key]) for key, value in shown.items() if value not in ({}, []))
    if isinstance(shown, list) and isinstance(found, list):
        return len(shown) == len(found) and all(map(is_part, shown, found))
    return shown == found


def test_a_running_application_is_not_started_twice(cluster: ControlPlane, grouped: str) -> None:
    """The message names the state and what to do."""
    assert submit(cluster, grouped).returncode == 0
    again = submit(cluster, grouped)
    assert again.returncode == 1
    assert "Spark application 'report' exists" in again.stderr and "--watch" in again.stderr


@pytest.mark.parametrize(("labels", "said"), [
    pytest.param({"kueue.x-k8s.io/queue-name": "shop"}, "held back by Kueue in queue shop: it has no", id="by a queue"),
    pytest.param({}, "suspended by its field spec.suspend", id="by somebody"),
])  # fmt: skip
def test_a_suspended_driver_is_reported(cluster: ControlPlane, grouped: str, labels: JsonObject, said: str) -> None:
    """Also where no Kueue runs that could tell why."""
    assert submit(cluster, grouped).returncode == 0
    patch = as_json({"metadata": {"labels": labels}, "spec": {"suspend": True}})
    cluster.kubectl("patch", "job", "report", "-n", grouped, "-p", patch)
    again = submit(cluster, grouped).stderr
    assert f"exists in '{grouped}' and is {said}" in again and ": wait for its end" in again


def test_a_driver_that_is_refused_is_reported(cluster: ControlPlane, grouped: str) -> None:
    """The Job controller's event gives the reason why there is no pod; here it is a test that plays it."""
    assert submit(cluster, grouped).returncode == 0
    about = {key: stored(cluster, grouped)["metadata"][key] for key in ("name", "namespace", "uid")}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "one", "namespace": grouped},
             "involvedObject": {"apiVersion": "batch/v1", "kind": "Job", **about}, "type": "Warning",
             "reason": "FailedCreate", "message": "violates PodSecurity"}  # fmt: skip
    done = cluster.kubectl("create", "-n", grouped, "-f", "-", stdin=as_json(event))
    assert done.returncode == 0, done.stderr
    assert "is without a pod (violates PodSecurity; change what is refused" in submit(cluster, grouped).stderr


def pod_of_the_job(cluster: ControlPlane, namespace: str, name: str, role: str, status: JsonObject) -> str:
    """A pod as a kubelet would report it; returns its uid."""
    labels = {"spark-app-selector": "report", "spark-role": role}
    container = {"name": "spark", "image": "spark:1"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": "node-1", "containers": [container]}}  # fmt: skip
    done = cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=as_json(body))
    assert done.returncode == 0, done.stderr
    patch = as_json({"status": {"phase": "Pending", **status}})
    cluster.kubectl("patch", "pod", name, "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)
    found: JsonObject = json.loads(cluster.kubectl("get", "pod", name, "-n", namespace, "-o", "json").stdout)
    return str(found["metadata"]["uid"])


def waiting(reason: str, message: str = "") -> JsonObject:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "spark", "image": "spark:1", "imageID": "", "ready": False,
                                   "restartCount": 0, "state": state}]}  # fmt: skip


@pytest.mark.parametrize(("status", "event", "said"), [
    pytest.param(waiting("CreateContainerConfigError", 'secret "lake" not found'), "",
                 'CreateContainerConfigError: secret "lake" not found', id="as environment variables"),
    pytest.param(waiting("ContainerCreating"), 'MountVolume.SetUp failed for volume "l" : secret "lake" not found',
                 "FailedMount: MountVolume.SetUp failed", id="as a volume"),
    pytest.param(waiting("ContainerCreating"), "", "", id="it starts"),
])  # fmt: skip
def test_a_driver_that_cannot_start_gives_the_reason(
    cluster: ControlPlane, grouped: str, status: JsonObject, event: str, said: str
) -> None:
    """By its status, or by its events, as the kubelet writes them."""
    assert submit(cluster, grouped).returncode == 0
    uid = pod_of_the_job(cluster, grouped, "report-x7k2p", "driver", status)
    if event:
        about = {"kind": "Pod", "name": "report-x7k2p", "namespace": grouped, "uid": uid}
        body = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "two", "namespace": grouped},
                "involvedObject": about, "type": "Warning", "reason": "FailedMount", "message": event}  # fmt: skip
        assert cluster.kubectl("create", "-n", grouped, "-f", "-", stdin=as_json(body)).returncode == 0
    again = submit(cluster, grouped).stderr
    assert (f"is Pending ({said}" if said else "is Pending: wait") in again, again


def test_an_application_that_has_ended_may_be_replaced(cluster: ControlPlane, grouped: str) -> None:
    """The Job controller's word counts."""
    assert submit(cluster, grouped).returncode == 0
    now = "2026-11-22T00:00:00Z"
    ended = [{"type": kind, "status": "True", "lastProbeTime": now, "lastTransitionTime": now}
             for kind in ("FailureTarget", "Failed")]  # fmt: skip
    patch = as_json({"status": {"startTime": now, "conditions": ended}})
    patching = ("patch", "job", "report", "-n", grouped, "--subresource=status", "--type=merge", "-p", patch)
    assert cluster.kubectl(*patching).returncode == 0
    again = submit(cluster, grouped)
    assert again.returncode == 1
    assert "has ended (Failed): --replace deletes it" in again.stderr


def test_a_job_that_is_refused_leaves_nothing(cluster: ControlPlane, grouped: str) -> None:
    """The API server's words are the command's."""
    done = submit(cluster, grouped, driver={"env": [{"name": "not a name=", "value": "x"}]})
    assert done.returncode == 1
    assert "not a name=" in done.stderr
    assert names(cluster, grouped) == {"configmap/sales-spark"}
