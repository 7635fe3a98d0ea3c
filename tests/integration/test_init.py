"""``colocation init`` on a real API server: what it makes suffices, and repeating it changes nothing."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml

from .accounts import user_roles
from .control_plane import ControlPlane, running_control_plane

NAMESPACE = "init-shop"


@pytest.fixture
def roles(cluster: ControlPlane) -> Iterator[None]:
    """The chart's ClusterRoles; what init makes in its namespace goes afterwards."""
    assert cluster.kubectl("apply", "-f", "-", stdin=user_roles()).returncode == 0
    yield
    cluster.kubectl("delete", "rolebindings,serviceaccounts", "--all", "-n", NAMESPACE)


def init(cluster: ControlPlane, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from colocation.cli.main import main; main()", "init", "-n", NAMESPACE, *options]
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def may(cluster: ControlPlane, what: str, namespace: str = NAMESPACE) -> bool:
    account = f"--as=system:serviceaccount:{NAMESPACE}:spark"
    return cluster.kubectl("auth", "can-i", *what.split(), "-n", namespace, account).stdout.strip() == "yes"


def test_init_lets_spark_work_in_one_namespace(cluster: ControlPlane, roles: None) -> None:
    """Drivers may make executors and commit loads there, and nowhere else; a second run finds all done."""
    dry = init(cluster, "--dry-run")
    assert [one["kind"] for one in yaml.safe_load_all(dry.stdout)] == [
        "Namespace", "ServiceAccount", "RoleBinding", "RoleBinding"
    ]  # fmt: skip
    assert cluster.kubectl("get", "serviceaccount", "spark", "-n", NAMESPACE).returncode != 0
    first, second = init(cluster), init(cluster)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert second.stdout.splitlines() == [
        f"namespace/{NAMESPACE} exists",
        "serviceaccount/spark applied",
        "rolebinding/colocation-spark-driver-spark applied",
        "rolebinding/colocation-user-spark applied",
    ]
    for what in ("create pods", "get colocatedtables", "patch colocatedtables --subresource=status"):
        assert may(cluster, what)
        assert not may(cluster, what, "default")
    assert not may(cluster, "get secrets")
    shown = cluster.kubectl("get", "namespace", NAMESPACE, "-o", "yaml").stdout
    assert yaml.safe_load(shown)["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_a_name_that_cannot_be_one_is_refused(cluster: ControlPlane) -> None:
    """Before anything is asked of the cluster."""
    done = init(cluster, "--service-account", "Spark_1")
    assert done.returncode == 2
    assert "'Spark_1' given; allowed: at most 63 lower-case letters, digits and dashes" in done.stderr


def test_in_a_cluster_without_the_operator_nothing_is_made() -> None:
    """It may be the cluster of another context, or one whose chart was uninstalled: that leaves the kinds."""
    with running_control_plane() as bare:
        for missing in ("colocationgroups.colocation.dev", "ClusterRole colocation-spark-driver"):
            done = init(bare)
            assert done.returncode == 1 and f"has no {missing}: install the operator" in done.stderr, done.stderr
            bare.serve_crds()
        assert bare.kubectl("get", "namespace", NAMESPACE).returncode != 0
