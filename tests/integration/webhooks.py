"""The chart's webhook configurations on a bare API server, and the kinds of both Spark operators without operators."""

import base64
import subprocess
from pathlib import Path

import yaml

from colocation.submit.manifest import APACHE_GROUP, APACHE_VERSIONS
from devcluster import binaries
from tests.support.certificates import self_signed
from tests.support.ports import free_ports

from .installation import Installation
from .objects import JsonObject, as_json

CHART = Path(__file__).parents[2] / "charts" / "colocation-operator"
CONFIGURATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def serve_webhooks(installation: Installation) -> int:
    """Let the operator, which is not started yet, serve its webhooks on loopback; their port."""
    [port] = free_ports(1)
    folder = installation.folder / "webhooks"
    folder.mkdir()
    self_signed(folder, "colocation-webhooks", ["127.0.0.1"])
    installation.operator_environment |= {
        "COLOCATION_WEBHOOK_PORT": str(port), "COLOCATION_WEBHOOK_TLS_DIRECTORY": str(folder),
    }  # fmt: skip
    return port


def register_webhooks(installation: Installation, port: int, excluded: str) -> None:
    """The chart's configurations, pointing at the loopback address; ``excluded``: a namespace that is left alone."""
    authority = base64.b64encode((installation.folder / "webhooks" / "tls.crt").read_bytes()).decode()
    for configuration in _rendered(excluded):
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority}
        installation.kubectl("apply", "-f", "-", stdin=as_json(configuration))


def _rendered(excluded: str) -> list[JsonObject]:
    binaries.ensure((binaries.HELM,))
    settings = ["--set", f"webhooks.enabled=true,webhooks.excludedNamespaces[0]={excluded}"]
    command = [str(binaries.HELM.program("helm")), "template", "colocation", str(CHART), "-n", "colocation-system",
               "--set", "image.repository=colocation-operator"]  # fmt: skip
    done = subprocess.run([*command, *settings], capture_output=True, text=True, check=True)
    return [item for item in yaml.safe_load_all(done.stdout) if item and item["kind"] in CONFIGURATIONS]


def add_spark_kinds(installation: Installation) -> None:
    """Kubeflow's own CRDs, and a stand-in for Apache's, whose schema is not at hand; they are served a little later."""
    crds = sorted((binaries.spark_operator_chart() / "crds").glob("*.yaml"))
    for crd in crds:
        installation.kubectl("apply", "--server-side", "-f", str(crd))
    installation.kubectl("apply", "--server-side", "-f", "-", stdin=as_json(_apache_crd()))


def await_spark_kinds(installation: Installation) -> None:
    """Until they are served. (Right after their creation ``kubectl wait`` stumbles over a CRD without conditions.)"""
    for name in ("sparkapplications.sparkoperator.k8s.io", f"sparkapplications.{APACHE_GROUP}"):
        installation.kubectl("wait", f"crd/{name}", "--for=condition=Established", "--timeout=90s")


def _apache_crd() -> JsonObject:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}
    versions = [
        {"name": version, "served": True, "storage": version == "v1", "schema": schema} for version in APACHE_VERSIONS
    ]
    names = {"kind": "SparkApplication", "plural": "sparkapplications", "singular": "sparkapplication"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"sparkapplications.{APACHE_GROUP}"},
        "spec": {"group": APACHE_GROUP, "scope": "Namespaced", "names": names, "versions": versions},
    }
