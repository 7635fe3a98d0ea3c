"""The command with a cluster in memory behind it."""

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from colocation.cli.cluster import SeenGroups
from colocation.cli.errors import CommandFailed
from colocation.cli.main import main
from colocation.cli.terminal import options
from colocation.model.reader_rules import CURRENT, Freshness

Run = Callable[..., Result]

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: one, cluster: {server: "http://127.0.0.1:%d"}}]
users: [{name: one, user: {token: secret}}]
contexts: [{name: one, context: {cluster: one, user: one, namespace: shop}}]
"""
"""Of an API server at a port of this machine."""


class FakeCluster:
    """The commands' view of a cluster, from two lists of objects."""

    connection = None

    def __init__(self, groups: list[dict[str, Any]], tables: list[dict[str, Any]]) -> None:
        self.namespace = "shop"
        self.drained: dict[str, bool] = {}
        self.nodes_by_name: dict[str, dict[str, Any]] = {}
        self.config_map: dict[str, Any] | None = {
            "data": {"spark-defaults.conf": "spark.kubernetes.container.image spark:installed\n"}
        }
        self.fresh = CURRENT
        self.gap = ""
        self.has_namespace = True
        self.served = {"sparkoperator.k8s.io": ("v1beta2",)}
        self._objects = {"group": groups, "table": tables}

    def api_versions(self, group: str) -> tuple[str, ...]:
        return self.served.get(group, ())

    def check_namespace(self) -> None:
        if not self.has_namespace:
            raise CommandFailed(f"there is no namespace {self.namespace!r}")

    def groups(self) -> list[dict[str, Any]]:
        return self._objects["group"]

    def tables(self) -> list[dict[str, Any]]:
        return self._objects["table"]

    def group(self, name: str) -> dict[str, Any]:
        return self._find("group", name)

    def table(self, name: str) -> dict[str, Any]:
        return self._find("table", name)

    def group_of(self, key: tuple[str, str]) -> dict[str, Any]:
        return self._find("group", key[1])

    def all_groups(self) -> list[dict[str, Any]]:
        return self.groups()

    def all_tables(self) -> list[dict[str, Any]]:
        return self.tables()

    def spark_config_map(self, group: tuple[str, str], namespace: str | None = None) -> dict[str, Any] | None:
        return self.config_map

    def freshness(self, config_map: dict[str, Any]) -> Freshness:
        return self.fresh

    def find_node(self, name: str) -> dict[str, Any] | None:
        return self.nodes_by_name.get(name)

    def set_drain(self, node: str, drain: bool) -> None:
        self.drained[node] = drain

    def find_table(self, name: str) -> dict[str, Any] | None:
        return next((item for item in self.tables() if item["metadata"]["name"] == name), None)

    def groups_everywhere(self) -> SeenGroups:
        return SeenGroups(self.groups(), self.gap)

    def annotate_group(self, namespace: str, name: str, annotation: str, value: str) -> None:
        self.group(name)["metadata"].setdefault("annotations", {})[annotation] = value
        self.on_annotation()

    def on_annotation(self) -> None:
        """What the operator does about it."""

    def events(self, group: str) -> list[dict[str, Any]]:
        at = "2026-11-21T00:00:00Z"
        return [{"lastTimestamp": at, "type": "Normal", "reason": "Stable", "message": "all complete"}]

    def _find(self, kind: str, name: str) -> dict[str, Any]:
        for item in self._objects[kind]:
            if item["metadata"]["name"] == name:
                return item
        raise CommandFailed(f"there is no {kind} {name!r}")


def group_object(name: str = "sales", **status: Any) -> dict[str, Any]:
    """A ColocationGroup of two buckets, stable unless ``status`` differs."""
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-of-{name}"},
        "spec": {"bucketKey": ["bigint"], "buckets": 2, "replicas": 2},
        "status": {
            "stable": True,
            "reason": "AllReplicasComplete",
            "tables": ["orders"],
            "tableCount": 1,
            "nodes": ["node-1", "node-2"],
            "backendsPerBucketSeq": [["node-1", "node-2"], ["node-2", "node-1"]],
            **status,
        },
    }


def table_object(name: str = "orders", **changes: Any) -> dict[str, Any]:
    """A ColocatedTable of the group, loaded once."""
    counts = {"partitions": 2, "files": 4, "rows": 10, "bytes": 2048}
    snapshot = {"id": 3, "manifest": f"sha256:{0:064x}", "committedAt": "2026-11-21T00:00:00Z", **counts}
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": "0badcafe-0", "resourceVersion": "1"},
        "spec": {"colocateWith": "sales", "columns": [{"name": "k", "type": "bigint"}], "bucketedBy": ["k"], **changes},
        "status": {"accepted": True, "snapshot": snapshot},
    }


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A namespace with one group and one table, which every command opens."""
    fake = FakeCluster([group_object()], [table_object()])
    monkeypatch.setattr(options, "Cluster", lambda context, namespace: fake)
    return fake


@pytest.fixture
def run() -> Run:
    """``run("groups", "-o", "json")``: the command's exit code, stdout and stderr."""

    def invoke(*arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(main, list(arguments), input=stdin)

    return invoke
