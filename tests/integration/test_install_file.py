"""``install.yaml`` and the quickstart's objects on a real API server; the CA that a Job creates, with its rights."""

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from colocation.agent.node_certificate import new_request
from colocation.controller.authority import Authority
from release.install_file import NAMESPACE, write_install_file

from .control_plane import ControlPlane, running_control_plane

SECRET, CONFIG_MAP = "colocation-agent-authority", "colocation-agent-ca"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:colocation-ca"
FIRST_JOIN = Path(__file__).parents[2] / "examples" / "quickstart" / "first-join.yaml"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of its own, with install.yaml applied twice: it repeats without a change or an error."""
    with running_control_plane() as plane:
        path = write_install_file(tmp_path_factory.mktemp("install"), "0.1.0", "r.example/data")
        for _ in range(2):
            done = plane.kubectl("apply", "--server-side", "-f", str(path))
            assert done.returncode == 0, done.stderr
        assert plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=90s").returncode == 0
        yield plane


def create_ca(cluster: ControlPlane, folder: Path) -> subprocess.CompletedProcess[str]:
    """The Job's command with the Job's account."""
    settings = yaml.safe_load(cluster.kubeconfig.read_text())
    token = cluster.kubectl("create", "token", "colocation-ca", "-n", NAMESPACE).stdout
    settings["users"][0]["user"] = {"token": token}
    (folder / "kubeconfig").write_text(yaml.safe_dump(settings))
    environment = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig"), "COLOCATION_NAMESPACE": NAMESPACE,
                   "COLOCATION_CA_SECRET": SECRET, "COLOCATION_CA_DAYS": "30"}  # fmt: skip
    command = [sys.executable, "-m", "colocation.controller.create_ca"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def stored(cluster: ControlPlane) -> tuple[dict[str, str], str]:
    """The Secret's data, and the CAs that clients trust."""
    secret = yaml.safe_load(cluster.kubectl("get", "secret", SECRET, "-n", NAMESPACE, "-o", "yaml").stdout)
    trusted = yaml.safe_load(cluster.kubectl("get", "configmap", CONFIG_MAP, "-n", NAMESPACE, "-o", "yaml").stdout)
    return secret["data"], trusted["data"]["ca.crt"]


def test_the_ca_is_created_once_and_signs_what_clients_trust(cluster: ControlPlane, tmp_path: Path) -> None:
    """Also after the ConfigMap was lost: the key stays, since running queries trust it."""
    done = create_ca(cluster, tmp_path)
    assert done.returncode == 0, done.stderr
    data, trusted = stored(cluster)
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_bytes(base64.b64decode(data[name]))
    signed = Authority(tmp_path).issue(new_request("node-1").request, "node-1", 3600, datetime.now(UTC))
    x509.load_pem_x509_certificate(signed).verify_directly_issued_by(x509.load_pem_x509_certificate(trusted.encode()))
    cluster.kubectl("delete", "configmap", CONFIG_MAP, "-n", NAMESPACE)
    assert create_ca(cluster, tmp_path).returncode == 0
    assert stored(cluster) == (data, trusted)


def test_a_secret_without_a_ca_is_named(cluster: ControlPlane, tmp_path: Path) -> None:
    """Somebody else made it: it is left alone."""
    cluster.kubectl("delete", "secret", SECRET, "-n", NAMESPACE)
    cluster.kubectl("create", "secret", "generic", SECRET, "-n", NAMESPACE, "--from-literal=other=1")
    done = create_ca(cluster, tmp_path)
    cluster.kubectl("delete", "secret", SECRET, "-n", NAMESPACE)
    assert done.returncode == 1
    assert f"Secret {SECRET} has no tls.crt and tls.key: delete it" in done.stderr


@pytest.mark.parametrize(
    ("what", "is_allowed"),
    [
        ("get secrets/colocation-agent-authority", True),
        ("patch configmaps/colocation-agent-ca", True),
        ("get secrets/other", False),
        ("patch configmaps/other", False),
        ("list secrets", False),
        ("delete secrets/colocation-agent-authority", False),
    ],
)
def test_the_jobs_account_may_do_nothing_else(cluster: ControlPlane, what: str, is_allowed: bool) -> None:
    """It reads and writes the two objects by their names."""
    said = cluster.kubectl("auth", "can-i", *what.split(), "-n", NAMESPACE, f"--as={ACCOUNT}").stdout.strip()
    assert said == ("yes" if is_allowed else "no")


def test_the_first_joins_objects_are_taken(cluster: ControlPlane) -> None:
    """Unknown fields are errors, and Pod Security takes the Job's pod without a warning."""
    done = cluster.kubectl("apply", "--validate=strict", "-f", str(FIRST_JOIN))
    assert done.returncode == 0 and "Warning" not in done.stderr, done.stderr
