"""The holder pod, as drains and autoscalers look at it."""

from typing import Any

from colocation.manifests.holder_pod import HolderSettings, holder_pod
from colocation.state.parse import parse_holder

SETTINGS = HolderSettings(
    namespace="system", image="operator:1", image_pull_secrets=("registry",), user_id=10440, grace_seconds=7200,
    priority_class="system-node-critical",
)  # fmt: skip
POD = holder_pod("node-1", {"metadata": {"name": "colocation-operator", "uid": "u"}}, SETTINGS)


def test_tools_that_drain_evict_it_and_wait() -> None:
    """kubectl refuses pods without a controller and ignores DaemonSets'; Karpenter ignores Nodes', those that tolerate
    its NoSchedule taint, and those that are Terminating for longer than their grace.
    """
    [owner] = POD["metadata"]["ownerReferences"]
    assert owner["controller"] is True and owner["kind"] not in ("DaemonSet", "Node")
    assert [one["effect"] for one in POD["spec"]["tolerations"]] == ["NoExecute"]
    assert POD["spec"]["terminationGracePeriodSeconds"] == 7200
    assert "volumes" not in POD["spec"], "kubectl refuses pods with local storage"


def test_autoscalers_do_not_choose_its_node() -> None:
    """Each by its own annotation; the third one tells people."""
    annotations = dict(POD["metadata"]["annotations"])
    assert "colocation doctor" in annotations.pop("kubernetes.io/description")
    assert annotations == {
        "karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    }  # fmt: skip


def test_it_may_do_nothing() -> None:
    """It fits Kubernetes' profile *restricted*, and has no token."""
    spec = POD["spec"]
    [container] = spec["containers"]
    assert container["command"] == ["sleep", "infinity"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] == 10440
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True,
    }  # fmt: skip


def test_it_is_read_as_it_was_written() -> None:
    """Its node, and how it is."""

    def read(**more: Any) -> tuple[str, bool, bool]:
        metadata = {**POD["metadata"], "deletionTimestamp": more.get("deleted")}
        found = parse_holder({**POD, "metadata": metadata, "status": {"phase": more.get("phase", "Running")}})
        return found.node, found.deleting, found.has_ended

    assert read() == ("node-1", False, False)
    assert read(deleted="2026-11-27T12:00:00Z") == ("node-1", True, False)
    assert read(phase="Failed") == ("node-1", False, True)
