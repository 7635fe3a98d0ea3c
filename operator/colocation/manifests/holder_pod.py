"""The holder pod of a node with replicas, which Kubernetes' own tools evict before they take the node.

It does nothing. Once it is evicted it stays Terminating until the operator deletes it, so that `kubectl drain`, managed
upgrades and autoscalers wait, who ignore pods of DaemonSets.

- Its controller is the operator's Deployment: `kubectl drain` refuses pods without one and ignores a DaemonSet's, and
  Karpenter ignores those of a Node. Helm's uninstallation takes it along.
- It tolerates no NoSchedule taint, as Karpenter drains no pod that tolerates its own. The node's name puts it past the
  scheduler, on tainted nodes, too; and a pod that is on a node when it is evicted is not removed at once.
- ``sleep`` has no handler for SIGTERM, which the kernel therefore does not deliver to a container's first process.
"""

from typing import Any

from pydantic import Field

from ..model.base import Frozen
from ..model.names import ANNOTATION_DO_NOT_DISRUPT, APP_NAME, LABEL_COMPONENT, LABEL_MANAGED_BY, LABEL_NAME

HOLDER_COMPONENT = "holder"
HOLDER_ACCOUNT = "colocation-holder"
HOLDER_NAME_PREFIX = "colocation-holder-"
HOLDER_LABELS = {LABEL_NAME: APP_NAME, LABEL_COMPONENT: HOLDER_COMPONENT, LABEL_MANAGED_BY: APP_NAME}
HOLDER_ANNOTATIONS = {
    "kubernetes.io/description": (
        "Keeps the node while it has replicas of colocation groups. Evicted, it stays Terminating until they are "
        "complete on other nodes. `colocation doctor` shows how far that is; `kubectl uncordon` takes it back."
    ),
    ANNOTATION_DO_NOT_DISRUPT: "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
"""For those who find it Terminating. Autoscalers do not choose the node, as they do not know which replicas are
elsewhere, nor where there is room.
"""
RESOURCES = {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"memory": "32Mi"}}
DEFAULT_GRACE_SECONDS = 86400

JsonObject = dict[str, Any]


class HolderSettings(Frozen):
    """What all holder pods of an installation share."""

    namespace: str = Field(description="The operator's own.")
    image: str
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    user_id: int = Field(0, ge=0)
    grace_seconds: int = Field(DEFAULT_GRACE_SECONDS, ge=1, description="An evicted holder stays for so long at most.")
    priority_class: str = Field("", description="Of the agents, so that it has a place where they have one.")


def holder_name(node: str) -> str:
    """One per node."""
    return f"{HOLDER_NAME_PREFIX}{node}"


def holder_pod(node: str, deployment: JsonObject, settings: HolderSettings) -> JsonObject:
    """The pod. ``deployment``: the operator's, as the API server has it."""
    owner = {
        "apiVersion": "apps/v1", "kind": "Deployment", "name": deployment["metadata"]["name"],
        "uid": deployment["metadata"]["uid"], "controller": True,
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": holder_name(node),
            "namespace": settings.namespace,
            "labels": HOLDER_LABELS,
            "annotations": HOLDER_ANNOTATIONS,
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": settings.grace_seconds,
            "serviceAccountName": HOLDER_ACCOUNT,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "imagePullSecrets": [{"name": name} for name in settings.image_pull_secrets],
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
            **({"priorityClassName": settings.priority_class} if settings.priority_class else {}),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": settings.user_id,
                "runAsGroup": settings.user_id,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(settings)],
        },
    }


def _container(settings: HolderSettings) -> JsonObject:
    return {
        "name": "holder",
        "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": ["sleep", "infinity"],
        "resources": RESOURCES,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
