"""A table of a group of another namespace, and an account with the chart's rights only: a loader, or Spark."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from colocation.model.names import config_map_of
from devcluster import binaries

from .control_plane import ControlPlane
from .objects import as_json, group, table

CHART = Path(__file__).parents[2] / "charts" / "colocation-operator"
SHOP, LAKE = "foreign-shop", "foreign-lake"


@dataclass(frozen=True)
class Account:
    """The ServiceAccount ``spark`` of the table's namespace."""

    cluster: ControlPlane
    kubeconfig: Path

    def bind(self, namespace: str, role: str) -> None:
        """Give it a ClusterRole in a namespace."""
        subject = f"--serviceaccount={LAKE}:spark"
        done = self.cluster.kubectl("create", "rolebinding", role, "-n", namespace, f"--clusterrole={role}", subject)
        assert done.returncode == 0, done.stderr

    def python(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program as this account."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)

    def colocation(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command as this account."""
        return self.python("from colocation.cli.main import main; main()", *arguments)


@contextmanager
def running_account(cluster: ControlPlane, tmp_path: Path) -> Iterator[Account]:
    """Group ``sales`` of one namespace with a table of another, as the operator leaves them; the chart's roles."""
    for namespace in (SHOP, LAKE):
        cluster.kubectl("create", "namespace", namespace)
    cluster.kubectl("apply", "-f", "-", stdin=user_roles())
    make(cluster, SHOP, group(allowedNamespaces=[LAKE]), "cg", stable=True, backendsPerBucketSeq=[["node-1"]] * 2)
    make(cluster, LAKE, table("clicks", colocateWith=f"{SHOP}/sales"), "ct", accepted=True, group=f"{SHOP}/sales")
    agents = '--from-literal=agents.json={"node-1": "https://10.0.0.1:8440"}'
    cluster.kubectl("create", "configmap", config_map_of(LAKE, (SHOP, "sales")), "-n", LAKE, agents)
    yield Account(cluster, kubeconfig_of_account(cluster, LAKE, tmp_path))
    for namespace in (SHOP, LAKE):  # the namespaces stay: no controller would finish their deletion
        cluster.kubectl("delete", "cg,ct,rolebindings,configmaps,serviceaccounts", "--all", "-n", namespace)


def kubeconfig_of_account(cluster: ControlPlane, namespace: str, folder: Path) -> Path:
    """That of a new ServiceAccount ``spark``, which has no rights yet; it is written into the folder."""
    cluster.kubectl("create", "serviceaccount", "spark", "-n", namespace)
    settings = yaml.safe_load(cluster.kubeconfig.read_text())
    settings["users"][0]["user"] = {"token": cluster.kubectl("create", "token", "spark", "-n", namespace).stdout}
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(settings))
    return path


def make(cluster: ControlPlane, namespace: str, body: dict[str, object], kind: str, **status: object) -> None:
    """An object with its status."""
    name = body["metadata"]["name"]  # type: ignore[index]
    assert cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=as_json(body)).returncode == 0
    patch = as_json({"status": status})
    cluster.kubectl("patch", kind, name, "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)


def user_roles() -> str:
    """The chart's ClusterRoles for users."""
    binaries.ensure((binaries.HELM,))
    command = [str(binaries.HELM.program("helm")), "template", "colocation", str(CHART),
               "--set", "image.repository=colocation-operator"]  # fmt: skip
    rendered = subprocess.run(
        [*command, "--show-only", "templates/user-roles.yaml"], capture_output=True, text=True, check=True
    ).stdout
    return yaml.safe_dump_all(one for one in yaml.safe_load_all(rendered) if one and one["kind"] == "ClusterRole")
