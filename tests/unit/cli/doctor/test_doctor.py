"""`colocation doctor`: the message and advice of each finding, and the exit code."""

import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import Configuration

from colocation.cli.connection import Connection
from colocation.cli.doctor import command
from colocation.cli.doctor import command as doctor_facts
from colocation.cli.doctor.checks import CHECKS, Facts, Pod, Right, Webhook, diagnose
from colocation.model.snapshot import Snapshot

from ...docs.pages import REPOSITORY, Page
from ..conftest import FakeCluster, Run

NOW = datetime(2026, 11, 23, tzinfo=UTC)
GIB = 2**30


def node(**changes: Any) -> dict[str, Any]:
    return {"name": "node-1", "capacityBytes": 100 * GIB, "freeBytes": 50 * GIB, **changes}


def snapshot(*nodes: dict[str, Any], groups: tuple[dict[str, Any], ...] = ()) -> Snapshot:
    return Snapshot.model_validate({"now": NOW.isoformat(), "nodes": nodes or (node(),), "groups": groups})


def pod(name: str = "agent-1", **changes: Any) -> Pod:
    return Pod(**{"name": name, "node": "node-1", "ready": True, "image": "op:1", "version": "0.1.0", **changes})


def facts(**changes: Any) -> Facts:
    """An installation that is well, but for the changes."""
    well = {
        "cli_version": "0.1.0", "operator_namespace": "colocation-system", "now": NOW,
        "missing_fields": {"colocationgroups": (), "colocatedtables": ()},
        "rights": (Right(what="list groups", allowed=True, used_by="`colocation groups`", role="colocation-view"),),
        "operators": (pod("operator-1"),), "agents": (pod(),), "lease_renewed": NOW - timedelta(seconds=5),
        "snapshot": snapshot(), "webhooks": (Webhook(name="v", service="s/w", has_ca=True, endpoints=1),),
    }  # fmt: skip
    return Facts(**{**well, **changes})


def test_a_healthy_installation() -> None:
    """One line for each check."""
    assert [(one.check, one.level) for one in diagnose(facts())] == [(name, "ok") for name, _ in CHECKS]


FORBIDDEN = Right(what="patch nodes", allowed=False, used_by="`colocation drain`", role="colocation-admin")
UNSEEN = Right(what="list all", allowed=False, used_by="`drain --wait`", role="colocation-admin")
DOWN = {"ready": False, "notReadyReason": "NodeNotReady", "notReadyMessage": "Kubelet stopped posting node status."}
PLACED = {
    "namespace": "shop", "name": "sales", "spec": {"bucketKey": ["bigint"], "buckets": 2, "replicas": 1},
    "map": [["node-1"], ["node-1"]],
}  # fmt: skip
MISSPELT = {
    "namespace": "shop", "name": "sales", "map": [["node-1"]],
    "spec": {"bucketKey": ["bigint"], "buckets": 1, "replicas": 1, "topologyKey": "topology.kubernetes.io/zones"},
}  # fmt: skip
UNPLACED = {"namespace": "shop", "name": "sales", "spec": {"bucketKey": ["bigint"], "buckets": 1, "replicas": 1}}


@pytest.mark.parametrize(
    ("changes", "check", "level", "message", "advice"),
    [
        pytest.param({"missing_fields": {"colocatedtables": None}}, "kinds", "error",
                     "does not know colocatedtables.colocation.dev", "docs/how-to/install.md#install", id="no kind"),
        pytest.param({"missing_fields": {"colocationgroups": ("spec.x",)}}, "kinds", "warning",
                     "colocationgroups lack spec.x", "kubectl apply --server-side", id="older kind"),
        pytest.param({"rights": (FORBIDDEN, UNSEEN)}, "rights", "note",
                     "you may not: patch nodes (`colocation drain`); list all (`drain --wait`)",
                     "role colocation-admin", id="no right"),
        pytest.param({"missing_namespaces": ("nope",)}, "rights", "error", "there is no namespace nope",
                     "colocation init -n nope", id="no namespace"),
        pytest.param({"operators": ()}, "operator", "error", "it has no pod",
                     "it may be scaled to 0: kubectl get deployments -n colocation-system; or install the chart: "
                     "docs/how-to/install.md#install; if it runs in another namespace: --operator-namespace",
                     id="no operator"),
        pytest.param({"operators": (pod("operator-1", ready=False, trouble="ImagePullBackOff"),)}, "operator", "error",
                     "operator-1: ImagePullBackOff", "helm upgrade --install", id="its image cannot be had"),
        pytest.param({"operators": (pod("operator-1", ready=False, trouble="CrashLoopBackOff"),)}, "operator", "error",
                     "operator-1: CrashLoopBackOff", "kubectl get pods", id="it crashes"),
        pytest.param({"lease_renewed": NOW - timedelta(seconds=90)}, "operator", "error",
                     "no sign of life for 90 s", "kubectl get pods", id="a silent operator"),
        pytest.param({"etcd_restored": True}, "operator", "error",
                     "etcd was restored from an older copy", "colocation adopt -A", id="etcd restored"),
        pytest.param({"lease_renewed": None}, "operator", "error", "no operator leads", "its log", id="no Lease"),
        pytest.param({"agents": ()}, "agents", "error", "no agent runs", "agent.nodeSelector", id="no agent"),
        pytest.param({"agents": (pod(ready=False, trouble="no certificate"),)}, "agents", "error",
                     "the agent of node-1 is not ready: no certificate", "kubectl describe pod agent-1", id="agent"),
        pytest.param({"agents": (pod(ready=False, trouble="InvalidImageName Failed"),)}, "agents", "error",
                     "not ready: InvalidImageName", "the right image.repository", id="an agent's image"),
        pytest.param({"agents": (pod(image="op:2"),)}, "versions", "warning",
                     "different images: op:1, op:2", "rollout status", id="half a rollout"),
        pytest.param({name: (pod(image="op:v0.0.9"),) for name in ("operators", "agents")}, "versions", "warning",
                     "the chart is 0.1.0, but it runs the image op:v0.0.9", "upgrade.md#steps", id="a tag that stayed"),
        pytest.param({"cli_version": "0.2.0"}, "versions", "warning",
                     "this command is 0.2.0, the operator 0.1.0", "docs/tutorial.md", id="another release"),
        pytest.param({"snapshot": snapshot(node(ready=False, notReadyReason="AgentNotReady", notReadyMessage="late"))},
                     "reachability", "error", "node-1: AgentNotReady: late", "describe node node-1", id="unreachable"),
        pytest.param({"snapshot": snapshot(node(diskReason="DiskFailing", diskMessage="EIO"))}, "disks", "error",
                     "node-1: DiskFailing: EIO", "operate.md#sick-disks", id="a dying disk"),
        pytest.param({"snapshot": snapshot(node(freeBytes=5 * GIB))}, "disks", "warning",
                     "node-1: 5% of its disk is free", "add nodes", id="little room"),
        pytest.param({"snapshot": snapshot(node(freeBytes=0))}, "disks", "warning",
                     "node-1: 0% of its disk is free, not counting what the kubelet keeps",
                     "agent.kubeletReserveFraction", id="the kubelet's share is all that is left"),
        pytest.param({"snapshot": snapshot(node(drain=True, drainMessage="its holder was evicted"), groups=(PLACED,))},
                     "drains", "note", "node node-1 is drained (its holder was evicted): 2 replicas left to move",
                     "a-drain-does-not-end", id="a node that is drained"),
        pytest.param({"snapshot": snapshot(node(drain=True))}, "drains", "note", "0 replicas left to move",
                     "a kubectl drain goes on 150 s after the last replica went", id="a drained node that is empty"),
        pytest.param({"operators": (pod("operator-1"), pod("operator-2", ready=False, trouble="ErrImagePull: no"))},
                     "operator", "warning", "operator-2 is not ready: ErrImagePull: no; the one that runs goes on",
                     "with the right image.repository", id="an upgrade to an image that is not there"),
        pytest.param({"operators": (pod("operator-1"), pod("operator-2", ready=False, trouble="Unschedulable"))},
                     "operator", "warning", "operator-2 is not ready: Unschedulable", "kubectl describe pod operator-2",
                     id="an upgrade that finds no room"),
        pytest.param({"refused_operator": 'pods "o-" is forbidden: no PriorityClass with name high was found'},
                     "operator", "warning", "no new pod of it can be made: pods", "repeat helm upgrade --install",
                     id="an upgrade to a pod that is refused"),
        pytest.param({"webhooks": (Webhook(name="v", service="s/w", has_ca=True, endpoints=0),)}, "webhooks", "error",
                     "nothing answers behind the Service s/w", "answers within a minute; otherwise check",
                     id="a webhook without endpoints"),
        pytest.param({"webhooks": (Webhook(name="v", service="s/w", has_ca=False, endpoints=1),)}, "webhooks", "error",
                     "webhook v has no CA", "helm upgrade", id="a webhook without a CA"),
        pytest.param({"webhooks": (Webhook(name="v", service="s/w", has_ca=True, endpoints=1, failure="x509: no"),)},
                     "webhooks", "error", "webhook v is asked in vain: x509: no",
                     "docs/how-to/troubleshoot.md#webhooks-do-not-answer", id="a webhook with another CA"),
        pytest.param({"webhooks": (Webhook(name="v", service="s/w", has_ca=True, endpoints=1, untried="no right"),)},
                     "webhooks", "note", "webhook v was not tried: no right", "colocation doctor -n NAMESPACE",
                     id="a webhook that could not be tried"),
        pytest.param({"snapshot": snapshot(groups=(UNPLACED,))}, "groups", "warning",
                     "group shop/sales has no map yet", "colocation show sales -n shop", id="no map"),
        pytest.param({"snapshot": snapshot(groups=(MISSPELT,))}, "groups", "warning",
                     "group shop/sales: no node has the label topology.kubernetes.io/zones of spec.topologyKey",
                     "correct spec.topologyKey, or label the nodes", id="a topology key that no node has"),
        pytest.param({"snapshot": snapshot(node(**DOWN)), "agents": (pod(ready=False),)}, "reachability", "error",
                     "node node-1 is down: Kubelet stopped posting node status.", "kubectl delete node node-1",
                     id="a node that is down, with its agent"),
        pytest.param({"unknown": {"disks": "no operator", "groups": "no operator"}}, "not checked", "warning",
                     "disks, groups: no operator", "fix that first", id="cannot be asked"),
        pytest.param({"forbidden": ("webhooks", "agents"), "agents": None}, "not checked", "note",
                     "webhooks, agents: you may not see what they need", "administrator", id="may not be asked"),
    ],
)  # fmt: skip
def test_each_finding_shows_what_to_do(
    changes: dict[str, Any], check: str, level: str, message: str, advice: str
) -> None:
    """One thing is wrong; the other checks find nothing."""
    found = [one for one in diagnose(facts(**changes)) if one.level != "ok"]
    assert [(one.check, one.level) for one in found] == [(check, level)]
    assert message in found[0].message
    assert advice in found[0].advice
    for page, anchor in re.findall(r"(docs/[\w/.-]+\.md)#([\w-]+)", found[0].advice):
        assert anchor in Page(REPOSITORY / page).anchors


def test_an_uninstalled_chart_is_to_be_installed() -> None:
    """Not to be configured: the kinds and the groups stay without it."""
    found = [one for one in diagnose(facts(operators=(), agents=())) if one.level != "ok"]
    assert not any("scaled to 0" in one.advice for one in found)
    assert [(one.check, "install.md#install" in one.advice) for one in found] == [("operator", True), ("agents", True)]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param({}, 0, id="well"),
        pytest.param({"rights": (FORBIDDEN,)}, 0, id="a note"),
        pytest.param({"agents": ()}, 1, id="a failure"),
    ],
)
def test_exit_codes(
    run: Run, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], code: int
) -> None:
    """1 when something fails."""
    monkeypatch.setattr(command, "gather", lambda connection, namespace, operator_namespace: facts(**changes))
    done = run("doctor")
    assert done.exit_code == code
    assert done.stdout.startswith("ok    kinds")


def test_the_rights_that_commands_use_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--direct` creates Jobs, results are read from logs, and a drain lists all groups."""
    asked: list[dict[str, str]] = []

    class Reviews:
        def __init__(self, connection: object) -> None:
            """One server."""

        def create_self_subject_access_review(self, body: dict[str, Any]) -> SimpleNamespace:
            asked.append(body["spec"]["resourceAttributes"])
            return SimpleNamespace(status=SimpleNamespace(allowed=True))

    monkeypatch.setattr(doctor_facts.client, "AuthorizationV1Api", Reviews)
    rights = doctor_facts.gather_rights(Connection(Configuration()), "shop", "colocation-system")
    assert all(right.allowed for right in rights)
    assert {"verb": "create", "group": "batch", "resource": "jobs", "namespace": "shop"} in asked
    assert {"verb": "list", "group": "", "resource": "events", "namespace": "shop"} in asked
    assert {"verb": "list", "resource": "nodes"} in asked
    logs = {"verb": "get", "group": "", "resource": "pods", "subresource": "log", "namespace": "shop"}
    assert logs in asked
    assert {"verb": "list", "group": "colocation.dev", "resource": "colocationgroups"} in asked
    assert not [one for one in asked if one["resource"] == "pods" and "subresource" not in one]
