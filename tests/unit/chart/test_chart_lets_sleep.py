"""With kube-prometheus' alerts and a GitOps tool's health check, an installation that is well is silent.

Statuses are those that Kubernetes' controllers write for the rendered objects; ``tests/e2e`` asks real ones.
"""

from typing import Any

import pytest

from tests.monitoring.gitops import unhealthy
from tests.monitoring.kube_state import firing

from .conftest import Render

JsonObject = dict[str, Any]
NODES = 5


def observed(objects: list[JsonObject], agents: int = NODES) -> list[JsonObject]:
    """The objects as controllers leave them when all pods are ready; ``agents``: of ``NODES`` that are available."""
    return [{**item, "metadata": {**item["metadata"], "generation": 1}, "status": _status(item, agents)}
            for item in objects if _status(item, agents)]  # fmt: skip


def _status(item: JsonObject, agents: int) -> JsonObject:
    match item["kind"]:
        case "Deployment":
            count = item["spec"]["replicas"]
            names = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
            return {"observedGeneration": 1, **dict.fromkeys(names, count),
                    "conditions": [{"type": "Available", "status": "True"}]}  # fmt: skip
        case "DaemonSet":
            names = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled")
            return {"observedGeneration": 1, **dict.fromkeys(names, NODES),
                    "numberReady": agents, "numberAvailable": agents, "numberMisscheduled": 0}  # fmt: skip
        case "PodDisruptionBudget":
            return _budget(item["spec"], agents)
        case "ResourceQuota":
            return {"hard": item["spec"]["hard"], "used": {"pods": agents}}
    return {}


def _budget(spec: JsonObject, agents: int) -> JsonObject:
    """As the disruption controller: a share, or what may be away, needs a scale, which a DaemonSet does not have."""
    is_of_agents = spec["selector"]["matchLabels"]["app.kubernetes.io/component"] == "agent"
    pods = agents if is_of_agents else 2
    wanted = spec.get("minAvailable")
    if is_of_agents and not isinstance(wanted, int):
        return {"conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed"}]}
    desired = wanted if isinstance(wanted, int) else pods - spec["maxUnavailable"]
    reason = "SufficientPods" if pods > desired else "InsufficientPods"
    condition = {"type": "DisruptionAllowed", "status": str(pods > desired), "reason": reason}
    return {"observedGeneration": 1, "currentHealthy": pods, "desiredHealthy": desired, "conditions": [condition]}


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="default"),
        pytest.param({"operator.replicas": 2}, id="two operators"),
        pytest.param({"operator.replicas": 2, "webhooks.enabled": True, "monitoring.enabled": True}, id="everything"),
    ],
)
def test_an_installation_that_is_well_is_silent(render: Render, values: dict[str, Any]) -> None:
    """No alert for half a day, and every object is healthy."""
    objects = observed(render(**values))
    assert {"Deployment", "DaemonSet"} <= {item["kind"] for item in objects}
    assert firing(objects) == set()
    assert unhealthy(objects) == {}


BUDGET = {"kind": "PodDisruptionBudget", "metadata": {"name": "colocation-agent", "namespace": "colocation-system"}}
OF_AGENTS = {"selector": {"matchLabels": {"app.kubernetes.io/component": "agent"}}}


@pytest.mark.parametrize(
    ("spec", "alerts", "health"),
    [
        pytest.param({"minAvailable": 1_000_000}, {"KubePdbNotEnoughHealthyPods"}, {}, id="more than there are"),
        pytest.param({"maxUnavailable": 0}, set(), {"PodDisruptionBudget/colocation-agent": "Degraded"}, id="a number"),
        pytest.param({"minAvailable": "100%"}, set(), {"PodDisruptionBudget/colocation-agent": "Degraded"}, id="all"),
    ],
)
def test_no_budget_of_a_daemon_set_is_silent(spec: JsonObject, alerts: set[str], health: dict[str, str]) -> None:
    """Those that refuse all evictions of agents wake somebody: the chart has none."""
    objects = observed([{**BUDGET, "spec": {**spec, **OF_AGENTS}}])
    assert firing(objects) == alerts
    assert unhealthy(objects) == health


def test_an_operator_that_never_gets_ready_is_heard(render: Render) -> None:
    """As one that waited for the Lease did: these checks see it."""
    objects = observed(render(**{"operator.replicas": 2}))
    [deployment] = [item for item in objects if item["kind"] == "Deployment"]
    deployment["status"].update(readyReplicas=1, availableReplicas=1)
    assert firing(objects) == {"KubeDeploymentReplicasMismatch"}
    assert unhealthy(objects) == {"Deployment/colocation-operator": "InProgress, Progressing"}


def test_an_agent_that_is_away_is_heard(render: Render) -> None:
    """Of a node that stays NotReady: Kubernetes counts its DaemonSets' pods as missing."""
    objects = observed(render(), agents=NODES - 1)
    assert firing(objects) == {"KubeDaemonSetRolloutStuck"}
