"""The cluster of the control plane's benchmark as Kubernetes objects: nodes, agents' pods, groups, tables.

The maps are even: bucket b of group g is on nodes g * 16 + 2 b and the next one, so that a planner has nothing to do.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from colocation.model.names import (
    AGENT_PORT,
    GROUP_API_VERSION,
    GROUP_KIND,
    NODE_LABEL_VALUE,
    TABLE_KIND,
    node_label,
)

Json = dict[str, Any]

SYSTEM = "colocation-system"
NAMESPACES = 10
BUCKETS, REPLICAS = 8, 2
PARTITIONS = 2000
"""Of every table, with one file per partition and bucket."""
GIB = 1 << 30
COMMITTED_AT = "2026-11-21T00:00:00Z"
COLUMNS = [{"name": "key", "type": "bigint"}, {"name": "day", "type": "date"}, {"name": "value", "type": "string"}]


@dataclass(frozen=True)
class ClusterSize:
    """How much there is."""

    nodes: int
    groups: int
    tables: int

    @property
    def node_names(self) -> list[str]:
        return [f"node-{number:04d}" for number in range(self.nodes)]

    @property
    def namespaces(self) -> list[str]:
        return [f"shop-{number}" for number in range(min(NAMESPACES, self.groups))]

    @property
    def group_keys(self) -> list[tuple[str, str]]:
        """(namespace, name) by the group's number."""
        namespaces = self.namespaces
        return [(namespaces[number % len(namespaces)], f"group-{number}") for number in range(self.groups)]

    def tables_of(self, group: int) -> list[str]:
        """Names of the group's tables."""
        return [f"table-{number}" for number in range(group, self.tables, self.groups)]

    def rows_of(self, group: int) -> list[list[str]]:
        """The group's map: the nodes of each bucket."""
        names, first = self.node_names, group * BUCKETS * REPLICAS
        return [
            [names[(first + bucket * REPLICAS + replica) % self.nodes] for replica in range(REPLICAS)]
            for bucket in range(BUCKETS)
        ]


def address(number: int) -> str:
    """The loopback address of one node's agent."""
    return f"127.77.{number // 250}.{number % 250 + 1}"


def node_body(name: str, labels: Mapping[str, str] | None = None) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": dict(labels or {})}}


def labels_by_node(size: ClusterSize) -> dict[str, dict[str, str]]:
    """What an earlier operator has put on the nodes, so that executors find them."""
    found: dict[str, dict[str, str]] = {name: {} for name in size.node_names}
    for number, key in enumerate(size.group_keys):
        for node, _ in buckets_by_node(size, number):
            found[node][node_label(*key)] = NODE_LABEL_VALUE
    return found


def node_status(ready: bool = True, since: str = COMMITTED_AT) -> Json:
    """What kubelets write every five minutes when nothing has changed; or the node controller, of a node it lost."""
    condition = {
        "type": "Ready",
        "status": "True" if ready else "Unknown",
        "reason": "KubeletReady" if ready else "NodeStatusUnknown",
        "message": "kubelet is posting ready status" if ready else "Kubelet stopped posting node status.",
        "lastTransitionTime": since,
        "lastHeartbeatTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    return {"status": {"conditions": [condition]}}


def pod_body(node: str) -> Json:
    """The pod of the node's agent."""
    labels = {"app.kubernetes.io/name": "colocation-operator", "app.kubernetes.io/component": "agent"}
    return {
        "metadata": {"name": f"agent-{node}", "namespace": SYSTEM, "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "agent", "image": "agent"}]},
    }


def pod_status(number: int) -> Json:
    ip = address(number)
    ready = {"type": "Ready", "status": "True"}
    return {"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [ready]}}


def group_body(namespace: str, name: str) -> Json:
    return {
        "apiVersion": GROUP_API_VERSION,
        "kind": GROUP_KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"bucketKey": ["bigint"], "buckets": BUCKETS, "replicas": REPLICAS},
    }


def placed_status(size: ClusterSize, group: int) -> Json:
    """The map, as an earlier operator wrote it; nothing else, so that this operator has all to say."""
    return {"status": {"backendsPerBucketSeq": size.rows_of(group), "mapVersion": 1}}


def table_body(namespace: str, name: str, group: str) -> Json:
    return {
        "apiVersion": GROUP_API_VERSION,
        "kind": TABLE_KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"colocateWith": group, "columns": COLUMNS, "bucketedBy": ["key"], "partitionedBy": ["day"]},
    }


def manifest_of(uid: str, snapshot_id: int) -> str:
    """64 hex digits that name the manifest of one of a table's snapshots."""
    return f"{uid.replace('-', '')}{snapshot_id:032x}"


def snapshot_of_load(uid: str, snapshot_id: int, committed_at: str = COMMITTED_AT) -> Json:
    """What a loader commits."""
    return {
        "id": snapshot_id, "manifest": f"sha256:{manifest_of(uid, snapshot_id)}", "committedAt": committed_at,
        "partitions": PARTITIONS, "files": PARTITIONS * BUCKETS, "rows": 10**9, "bytes": BUCKETS * GIB,
    }  # fmt: skip


def accepted_status(uid: str, group: str, generation: int = 1) -> Json:
    """A table's status as an earlier operator and a load left it."""
    verdicts = (
        ("Ready", "Reconciled", f"group {group} has a map"),
        ("Accepted", "Accepted", f"the table is in group {group}"),
    )
    conditions = [
        {
            "type": kind, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": COMMITTED_AT, "observedGeneration": generation,
        }
        for kind, reason, message in verdicts
    ]  # fmt: skip
    return {
        "status": {
            "observedGeneration": generation, "accepted": True, "group": group, "buckets": BUCKETS,
            "replicas": REPLICAS, "columns": [{**one, "nullable": True, "storedAs": ""} for one in COLUMNS],
            "snapshot": snapshot_of_load(uid, 1), "conditions": conditions,
        }
    }  # fmt: skip


def agent_url(number: int) -> str:
    return f"https://{address(number)}:{AGENT_PORT}"


def buckets_by_node(size: ClusterSize, group: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """(node, buckets of the group in its map)."""
    found: dict[str, list[int]] = {}
    for bucket, row in enumerate(size.rows_of(group)):
        for node in row:
            found.setdefault(node, []).append(bucket)
    return ((node, tuple(buckets)) for node, buckets in found.items())
