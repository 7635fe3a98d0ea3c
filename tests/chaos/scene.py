"""The cluster that a run plays on: its namespace, its first group, and what it may be asked.

Everything of a run is in the namespaces ``chaos`` and ``chaos-foreign``; ``open_scene`` begins with empty ones,
whatever an earlier run left.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from demo import cluster, workload
from demo.shell import kubectl, kubectl_json
from demo.waiting import wait_until
from devcluster import cluster as devcluster
from devcluster import node as nodes
from devcluster import oci, shell

from .rows import COLUMNS

NAMESPACE, GROUP = "chaos", "base"
FOREIGN, FOREIGN_TABLE = "chaos-foreign", "orders"
"""A namespace in which the session's account may do nothing, with a table that is called as one of ours."""
BUCKETS, REPLICAS = 4, 2
NODES = 3
DISK_GIB = 32
DOWN_TOLERANCE_SECONDS = 30
OTHER_TAG = "other"
"""Another name of the operator's image, for upgrades."""
VALUES = {
    "agent.sweepIntervalSeconds": "5", "agent.scrub.intervalSeconds": "30", "operator.inventorySeconds": "2",
    "limits.cloneDeadlineSeconds": "60", "operator.garbageGraceSeconds": "400", "operator.collectSeconds": "20",
}  # fmt: skip
PROGRAM = Path(__file__).parent / "programs" / "session_server.py"
READY_SECONDS = 180


def start_cluster(reuse: bool) -> None:
    """A fresh cluster; whatever an earlier run left is removed first. ``reuse``: one that is healthy will do."""
    if reuse and devcluster.is_healthy(NODES):
        cluster.use_embedded_cluster()
    else:
        cluster.start(NODES, DISK_GIB, clocks_for=cluster.OPERATOR_NAMESPACE)


def open_scene(values: Mapping[str, str]) -> None:
    """The chart with these values, an empty namespace, and the first group in it."""
    tag_images()
    cluster.install_colocation({**VALUES, **values})
    kubectl("delete", "namespace", NAMESPACE, FOREIGN, "--ignore-not-found", "--timeout=120s")
    for namespace in (NAMESPACE, FOREIGN):
        kubectl("create", "namespace", namespace)
    apply("ColocatedTable", FOREIGN_TABLE, table_spec(""), FOREIGN)
    access = (workload.EXAMPLES / "2-access.yaml").read_text().replace("namespace: demo", f"namespace: {NAMESPACE}")
    kubectl("apply", "-f", "-", stdin=access)
    program = kubectl("create", "configmap", "session-program", f"--from-file={PROGRAM}", "-n", NAMESPACE,
                      "--dry-run=client", "-o", "yaml")  # fmt: skip
    kubectl("apply", "-f", "-", stdin=program)
    apply_group(GROUP)
    wait_until("the group's ConfigMap", lambda: spark_config_map() is not None, deadline_seconds=READY_SECONDS)


def tag_images() -> None:
    """Give the operator's image its other name on every node that runs and has it: a fault takes it away."""
    repository, _, _ = cluster.OPERATOR_IMAGE.rpartition(":")
    for member in running():
        if oci.node_digest(member.socket, cluster.OPERATOR_IMAGE):
            ctr(member, "images", "tag", "--force", cluster.OPERATOR_IMAGE, f"{repository}:{OTHER_TAG}")


def ctr(member: nodes.Node, *words: str) -> None:
    """containerd's client on a node."""
    shell.run("ctr", "-a", member.socket, "-n", "k8s.io", *words)


def running() -> list[nodes.Node]:
    """Nodes whose programs run, cut off or not."""
    return [nodes.Node(number) for number in sorted(devcluster.running_nodes())]


def apply_group(name: str) -> None:
    """A group with chaos' tolerances."""
    relocation = {"downToleranceSeconds": DOWN_TOLERANCE_SECONDS}
    spec = {"bucketKey": ["bigint"], "buckets": BUCKETS, "replicas": REPLICAS, "relocation": relocation,
            "deletionPolicy": "Retain"}  # fmt: skip
    apply("ColocationGroup", name, spec)


def table_spec(group: str, added: int = 0) -> dict[str, Any]:
    """A table's spec, with so many columns more."""
    columns = [{"name": name, "type": kind} for name, kind in COLUMNS]
    columns += [{"name": f"added_{number}", "type": "string"} for number in range(1, added + 1)]
    return {"colocateWith": group, "buckets": BUCKETS, "replicas": REPLICAS, "columns": columns, "bucketedBy": ["key"],
            "partitionedBy": ["part"], "retention": {"seconds": 86400, "snapshots": 10}}  # fmt: skip


def apply(kind: str, name: str, spec: Mapping[str, Any], namespace: str = NAMESPACE) -> None:
    """``kubectl apply`` one of our kinds."""
    body = {"apiVersion": "colocation.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": namespace}, "spec": spec}  # fmt: skip
    kubectl("apply", "-f", "-", "--request-timeout=30s", stdin=yaml.safe_dump(body))


def patch(kind: str, name: str, spec: Mapping[str, Any]) -> None:
    """``kubectl patch`` the spec."""
    body = json.dumps({"spec": spec})
    kubectl("patch", kind, name, "-n", NAMESPACE, "--type=merge", "-p", body, "--request-timeout=30s")


def spark_config_map() -> dict[str, str] | None:
    """The data of the base group's ConfigMap, once it has a map."""
    found = kubectl_json("get", "configmaps", "-n", NAMESPACE, "--field-selector", f"metadata.name={GROUP}-spark")
    data: dict[str, str] | None = found["items"][0]["data"] if found["items"] else None
    return data if data and "affinity" in data["executor-pod-template.yaml"] else None


def close_scene() -> None:
    """Remove the namespaces."""
    for namespace in (NAMESPACE, FOREIGN):
        kubectl("delete", "ct,cg", "--all", "-n", namespace, "--ignore-not-found", "--timeout=60s")
        kubectl("delete", "namespace", namespace, "--ignore-not-found", "--timeout=180s")


def keep_cluster() -> bool:
    """Whether the user wants to look at it afterwards."""
    return os.environ.get("KEEP", "0") not in ("", "0")


