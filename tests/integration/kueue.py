"""Kueue's manager as a process next to a bare control plane, with the objects of its own chart.

Its webhooks keep their Service, which is an alias of loopback here. The test plays the kubelet that mounts the
certificate that Kueue makes for itself.
"""

import base64
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from devcluster import binaries
from tests.support.ports import free_ports

from .control_plane import ControlPlane, dying_with_us, kubeconfig_of
from .objects import JsonObject, as_json

EXAMPLES = Path(__file__).parents[2] / "examples" / "kueue"
SYSTEM = "kueue-system"
SERVICE, SECRET = "kueue-webhook-service", "kueue-webhook-server-cert"
ACCOUNT = "kueue-controller-manager"
INSTALLED = ("ServiceAccount", "Secret", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
             "CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")  # fmt: skip
START_SECONDS = 120


@contextmanager
def running_kueue(plane: ControlPlane, folder: Path) -> Iterator[None]:
    """Install Kueue with ``examples/kueue/values.yaml``, and run it under the rights of its chart.

    The kinds that it manages are served before.
    """
    binaries.ensure((binaries.KUEUE, binaries.HELM))
    webhook_port, health_port = free_ports(2)
    objects = _chart()
    _install(plane, objects, webhook_port)
    certificates, log = folder / "certificates", folder / "kueue.log"
    certificates.mkdir()
    with log.open("wb") as stream:
        process = subprocess.Popen(
            dying_with_us(_command(objects, folder, webhook_port, health_port)), stdout=stream, stderr=stream,
            env={**os.environ, "KUBECONFIG": str(_kubeconfig(plane, folder))},
        )  # fmt: skip
    try:
        _until(lambda: _mount_certificate(plane, certificates), process, log)
        _until(lambda: _answers(f"http://127.0.0.1:{health_port}/readyz"), process, log)
        yield
    finally:
        process.kill()
        process.wait()


def _chart() -> list[JsonObject]:
    command = [str(binaries.HELM.program("helm")), "template", "kueue", str(binaries.kueue_chart()), "-n", SYSTEM,
               "-f", str(EXAMPLES / "values.yaml")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [item for item in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if item]


def _install(plane: ControlPlane, objects: list[JsonObject], port: int) -> None:
    assert plane.kubectl("create", "namespace", SYSTEM).returncode == 0
    alias = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": SYSTEM},
             "spec": {"type": "ExternalName", "externalName": "localhost"}}  # fmt: skip
    items = [_at_port(item, port) for item in objects if item["kind"] in INSTALLED]
    webhooks = [item for item in items if item["kind"].endswith("WebhookConfiguration")]
    others = [alias, *(item for item in items if item not in webhooks)]
    for some in (others, webhooks):  # the API server asks these webhooks once they exist
        body = as_json({"apiVersion": "v1", "kind": "List", "items": some})
        done = plane.kubectl("apply", "--server-side", "-f", "-", stdin=body)
        assert done.returncode == 0, done.stderr


def _at_port(item: JsonObject, port: int) -> JsonObject:
    """With the port of the alias in each reference to the Service: an alias forwards none."""
    clients = [webhook["clientConfig"] for webhook in item.get("webhooks", ())]
    conversion = item.get("spec", {}).get("conversion", {}) if item["kind"] == "CustomResourceDefinition" else {}
    for client in [*clients, *([conversion["webhook"]["clientConfig"]] if "webhook" in conversion else [])]:
        client["service"]["port"] = port
    return item


def _command(objects: list[JsonObject], folder: Path, webhook_port: int, health_port: int) -> list[str]:
    """The chart's configuration and flags, on loopback, without the visibility API, which needs an APIService."""
    [deployment] = [item for item in objects if item["kind"] == "Deployment"]
    [arguments] = [one["args"] for one in deployment["spec"]["template"]["spec"]["containers"]]
    [gates] = [one for one in arguments if one.startswith("--feature-gates=")]
    [configured] = [item["data"]["controller_manager_config.yaml"] for item in objects if item["kind"] == "ConfigMap"]
    configuration: dict[str, Any] = yaml.safe_load(configured)
    configuration |= {
        "namespace": SYSTEM,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": str(folder / "certificates")},
        "leaderElection": {"leaderElect": False},
    }
    path = folder / "configuration.yaml"
    path.write_text(yaml.safe_dump(configuration))
    return [str(binaries.KUEUE.program("kueue")), f"--config={path}", f"{gates},VisibilityOnDemand=false"]


def _kubeconfig(plane: ControlPlane, folder: Path) -> Path:
    token = plane.kubectl("create", "token", ACCOUNT, "-n", SYSTEM).stdout
    path = folder / "kubeconfig"
    path.write_text(kubeconfig_of(plane.url, token))
    return path


def _mount_certificate(plane: ControlPlane, folder: Path) -> bool:
    data = plane.get(f"/api/v1/namespaces/{SYSTEM}/secrets/{SECRET}").get("data") or {}
    for name, text in data.items():
        (folder / name).write_bytes(base64.b64decode(text))
    return "tls.crt" in data


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status == 200
    except urllib.error.URLError:
        return False


def _until(done: Any, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not done():
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-4000:]
        time.sleep(0.2)
