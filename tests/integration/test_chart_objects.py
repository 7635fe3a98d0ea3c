"""The API server takes every object of the chart, with every option on: kinds, fields, values, names."""

from .charts import SYSTEM, rendered_with
from .control_plane import ControlPlane
from .objects import JsonObject, as_json

ALL_OPTIONS = {
    "agent.requireMountPoint": True,
    "limits.cloneBandwidth.perNodeMiBPerSecond": 100,
    "limits.cloneBandwidth.perClusterMiBPerSecond": 1000,
    "limits.maxUnexplainedFolders": 5,
    "logFormat": "json",
    "monitoring.enabled": True,
    "networkPolicies.enabled": True,
    "networkPolicies.nodeCIDRs": "{10.0.0.0/16}",
    "operator.priorityClassName": "system-cluster-critical",
    "operator.replicas": 2,
    "webhooks.enabled": True,
}
OTHERS = {("monitoring.coreos.com/v1", "PodMonitor"), ("monitoring.coreos.com/v1", "PrometheusRule")}
"""Kinds of the Prometheus operator, which this API server does not serve; tests/unit/chart looks at them."""


def kind_of(item: JsonObject) -> tuple[str, str]:
    return item["apiVersion"], item["kind"]


def test_the_api_server_takes_all_of_it(cluster: ControlPlane) -> None:
    """Nothing is stored. Fields that a kind does not have are errors, too."""
    cluster.kubectl("create", "namespace", SYSTEM)
    objects = rendered_with(**ALL_OPTIONS)
    ours = [item for item in objects if kind_of(item) not in OTHERS]
    assert {kind_of(item) for item in objects} - {kind_of(item) for item in ours} == OTHERS
    everything = as_json({"apiVersion": "v1", "kind": "List", "items": ours})
    done = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=everything)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(ours)
