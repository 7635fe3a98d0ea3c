"""Questions of the API server, and an operator's knowledge, that the admission tests share."""

from datetime import UTC, datetime
from typing import Any

from colocation.admission import Known
from colocation.admission.review import Review, parse_review
from colocation.model.snapshot import Limits, Node, Snapshot
from colocation.state.parse import parse_group, parse_table

JsonObject = dict[str, Any]
NOW = datetime(2026, 11, 21, tzinfo=UTC)
RESOURCES = {
    "ColocationGroup": ("colocation.dev", "v1alpha1", "colocationgroups"),
    "ColocatedTable": ("colocation.dev", "v1alpha1", "colocatedtables"),
    "SparkApplication": ("sparkoperator.k8s.io", "v1beta2", "sparkapplications"),
    "ScheduledSparkApplication": ("sparkoperator.k8s.io", "v1beta2", "scheduledsparkapplications"),
    "SparkConnect": ("sparkoperator.k8s.io", "v1alpha1", "sparkconnects"),
}


def metadata(name: str, namespace: str) -> JsonObject:
    """As the API server stores it."""
    return {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "resourceVersion": "1",
            "creationTimestamp": "2026-11-21T00:00:00Z"}  # fmt: skip


def group(name: str = "sales", namespace: str = "shop", status: JsonObject | None = None, **spec: Any) -> JsonObject:
    """A stable group on two nodes; ``spec`` replaces fields."""
    placed = {"stable": True, "reason": "AllReplicasComplete", "nodes": ["node-1", "node-2"],
              "backendsPerBucketSeq": [["node-1", "node-2"], ["node-2", "node-1"]]}  # fmt: skip
    return {
        "apiVersion": "colocation.dev/v1alpha1", "kind": "ColocationGroup", "metadata": metadata(name, namespace),
        "spec": {"bucketKey": ["bigint"], "buckets": 2, "replicas": 2, **spec},
        "status": placed if status is None else status,
    }  # fmt: skip


def table(name: str = "orders", namespace: str = "shop", status: JsonObject | None = None, **spec: Any) -> JsonObject:
    """A table of the group; ``spec`` replaces fields."""
    columns = [{"name": "k", "type": "bigint"}, {"name": "day", "type": "date"}]
    return {
        "apiVersion": "colocation.dev/v1alpha1", "kind": "ColocatedTable", "metadata": metadata(name, namespace),
        "spec": {"colocateWith": "sales", "columns": columns, "bucketedBy": ["k"], **spec}, "status": status or {},
    }  # fmt: skip


def known(groups: list[JsonObject] | None = None, tables: list[JsonObject] | None = None) -> Known:
    """An operator that knows these objects and nodes node-1 to node-3."""
    nodes = tuple(
        Node(name=name, ready=True, capacity_bytes=1 << 40, free_bytes=1 << 40)
        for name in ("node-1", "node-2", "node-3")
    )
    return Known(
        now=NOW,
        groups=tuple(parse_group(one) for one in (groups if groups is not None else [group()])),
        tables=tuple(parse_table(one) for one in (tables if tables is not None else [table()])),
        snapshot=Snapshot(now=NOW, limits=Limits(), nodes=nodes, groups=(), clones=()),
        data_root="/var/lib/colocation",
        spark_image="spark:installed",
    )


def creation(body: JsonObject) -> Review:
    """The question when an object is made: it has no uid yet."""
    unborn = {key: value for key, value in body["metadata"].items() if key not in ("uid", "resourceVersion")}
    return _review("CREATE", {**body, "metadata": {**unborn, "creationTimestamp": None}}, None)


def update(old: JsonObject, new: JsonObject) -> Review:
    """The question when an object is changed."""
    return _review("UPDATE", new, old)


def deletion(body: JsonObject) -> Review:
    """The question when an object is deleted."""
    return _review("DELETE", None, body)


def _review(operation: str, new: JsonObject | None, old: JsonObject | None) -> Review:
    body = new or old or {}
    kind_group, version, resource = RESOURCES[body["kind"]]
    return parse_review(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "question-1", "operation": operation, "namespace": body["metadata"].get("namespace", "shop"),
                "resource": {"group": kind_group, "version": version, "resource": resource},
                "name": body["metadata"].get("name", ""), "object": new, "oldObject": old, "dryRun": False,
            },
        }
    )  # fmt: skip
