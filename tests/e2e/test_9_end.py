"""The end: objects go while the operator is down, and the chart goes without the data."""

import pytest

from demo import cluster, disks, workload
from demo.shell import kubectl, kubectl_json
from demo.waiting import wait_until

from .conftest import Loaded

pytestmark = pytest.mark.e2e


@pytest.mark.deep
def test_objects_go_at_once_while_the_operator_is_down(loaded: Loaded) -> None:
    """kubectl delete returns within seconds; when the operator is back, the dropped table's files are recycled."""
    kubectl("scale", "deployment", "-l", "app.kubernetes.io/component=operator", "--replicas=0",
            "-n", cluster.OPERATOR_NAMESPACE)
    kubectl("wait", "--for=delete", "pod", "-l", "app.kubernetes.io/component=operator",
            "-n", cluster.OPERATOR_NAMESPACE, "--timeout=90s")
    kubectl("delete", "ct", "orders", "lineitem", "-n", workload.NAMESPACE, "--timeout=10s")
    kubectl("delete", "cg", workload.GROUP, "-n", workload.NAMESPACE, "--timeout=10s")
    kubectl("scale", "deployment", "-l", "app.kubernetes.io/component=operator", "--replicas=1",
            "-n", cluster.OPERATOR_NAMESPACE)
    live = [node for node in disks.nodes() if node_is_ready(node)]
    wait_until("dropped tables recycled", lambda: not any(map(disks.data_files, live)), deadline_seconds=180)


def test_uninstall_leaves_data_and_kinds(loaded: Loaded) -> None:
    """``helm uninstall`` removes neither the CRDs nor what is stored on the nodes."""
    before = {node: set(recycled(node)) for node in disks.nodes()}
    cluster.uninstall_colocation()
    assert "colocationgroups.colocation.dev" in kubectl("get", "crd", "-o", "name")
    assert all(names <= set(recycled(node)) for node, names in before.items())
    assert any(before.values())


def node_is_ready(node: str) -> bool:
    """Whether Kubernetes reports that the node is Ready."""
    conditions = kubectl_json("get", "node", node)["status"]["conditions"]
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def recycled(node: str) -> list[str]:
    """Names in the node's recycle bin."""
    bin_folder = disks.data_root(node) / ".recycle"
    return sorted(entry.name for entry in bin_folder.iterdir()) if bin_folder.exists() else []
