"""Writes install.yaml: the chart, its CRDs and its namespace in one file, for kubectl, kustomize and Argo CD.

And first-join.yaml, the quickstart's example, with the image of the same registry.
"""

import re
import subprocess
from pathlib import Path

import yaml

from devcluster import binaries

from .errors import NotReleasable
from .versions import CHART, REPOSITORY

NAME = "install.yaml"
FIRST_JOIN = REPOSITORY / "examples" / "quickstart" / "first-join.yaml"
NAMESPACE = "colocation-system"
KUBERNETES_VERSION = next(iter(binaries.KUBERNETES_VERSIONS))
"""The oldest that takes the file: from it on the API server enforces the chart's ValidatingAdmissionPolicies."""
_VALUES = {"agent.tls.caFrom": "job", "adminApi.enabled": "false"}
"""What makes no key: a key in a file that is published would be everybody's."""
_HEAD = """\
# colocation-operator {version}: everything that is needed in a cluster of Kubernetes {kubernetes} or newer.
#   kubectl apply --server-side -f install.yaml
# The chart has more settings (docs/reference/chart.md); this file has its defaults, without the admin API.
"""


def write_install_file(folder: Path, version: str, registry: str) -> Path:
    """``registry``: where the nodes find the images, or empty: images of that name are on the nodes already.

    Raises:
        NotReleasable: helm does not render the chart, or it renders a key.
    """
    manifests = _rendered({**_VALUES, "image.repository": _operator_image(registry)})
    if "PRIVATE KEY" in manifests or "tls.key:" in manifests:
        raise NotReleasable(f"{NAME} would hold a private key; set the values that keep the chart from making one")
    path = folder / NAME
    head = _HEAD.format(version=version, kubernetes=KUBERNETES_VERSION)
    path.write_text(head + yaml.safe_dump(_namespace(), sort_keys=False) + manifests)
    return path


def write_first_join(folder: Path, version: str, registry: str) -> Path:
    """The example whose Job runs the operator's image; arguments as above."""
    image = re.compile(r"^( +image: )colocation-operator:.*$", re.MULTILINE)
    path = folder / FIRST_JOIN.name
    path.write_text(image.sub(rf"\g<1>{_operator_image(registry)}:{version}", FIRST_JOIN.read_text()))
    return path


def _operator_image(registry: str) -> str:
    return f"{registry}/colocation-operator" if registry else "colocation-operator"


def _namespace() -> dict[str, object]:
    """Agents use folders of the nodes, which Pod Security allows in *privileged* namespaces only."""
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def _rendered(values: dict[str, str]) -> str:
    binaries.ensure((binaries.HELM,))
    settings = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    command = [str(binaries.HELM.program("helm")), "template", "colocation", str(CHART), "--namespace", NAMESPACE,
               "--include-crds", "--kube-version", KUBERNETES_VERSION, *settings]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotReleasable(f"helm template failed: {done.stderr.strip()}")
    return done.stdout
