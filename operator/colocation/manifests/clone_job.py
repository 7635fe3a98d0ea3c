"""The Job that makes one bucket whole on one node; see docs/reference/contracts.md.

Its name follows from group, bucket and target, so creating it twice gives one Job.
"""

import hashlib
from typing import Any

from pydantic import Field

from ..model.base import Frozen
from ..model.clone import CloneSpec, spec_to_environment
from ..model.names import (
    APP_NAME,
    CA_PATH,
    DEFAULT_DATA_ROOT,
    LABEL_BUCKET,
    LABEL_COMPONENT,
    LABEL_GROUP,
    LABEL_MANAGED_BY,
    LABEL_NAME,
    TOKEN_AUDIENCE,
    TOKEN_DIRECTORY,
    TOKEN_PATH,
)

CLONE_COMPONENT = "clone"
CLONE_NAME_PREFIX = "clone-"
CLONE_UID_DIGITS = 8
ANNOTATION_NAMESPACE = "colocation.dev/namespace"
ANNOTATION_TARGET = "colocation.dev/target"
ANNOTATION_SOURCE = "colocation.dev/source"
ANNOTATION_FAILURES = "colocation.dev/failures"
"""Failed attempts before this one: the Job carries it, so that a restarted operator goes on counting."""

ACTIVE_DEADLINE_SECONDS = 6 * 3600
PACED_DEADLINE_SECONDS = 30 * 86400
"""Of a clone with a limited bandwidth: it may take long. One that does not advance is ended within minutes anyway."""
TTL_AFTER_FINISHED_SECONDS = 3600
"""Longer than every back-off, as a failed Job is the memory of its failures."""
TOKEN_LIFETIME_SECONDS = 3600
Resources = dict[str, dict[str, str | float]]
"""A container's ``requests`` and ``limits``."""
DEFAULT_RESOURCES: Resources = {
    "requests": {"cpu": "100m", "memory": "128Mi"},
    "limits": {"memory": "512Mi"},
}
KEPT = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
"""Of a clone's pod: Cluster Autoscaler does not remove the node while it runs. Karpenter goes by the holder pod."""

JsonObject = dict[str, Any]


class CloneJobSettings(Frozen):
    """What all clone Jobs of an installation share."""

    namespace: str = Field(description="The operator's own.")
    image: str
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    service_account: str = "colocation-clone"
    ca_config_map: str = "colocation-agent-ca"
    data_root: str = DEFAULT_DATA_ROOT
    user_id: int = Field(0, ge=0, description="The owner of the data root on the nodes.")
    resources: Resources = DEFAULT_RESOURCES
    max_seconds: int | None = Field(None, ge=1, description="A Job is ended after this long. None: see below.")
    tolerated_taints: frozenset[str] = Field(
        frozenset(), description="Keys of taints with which nodes take new replicas, whatever the effect."
    )


def clone_job_name(group_uid: str, bucket: int, target: str) -> str:
    """One per (group, bucket, target); at most 63 characters."""
    node = hashlib.sha256(target.encode()).hexdigest()[:8]
    return f"{CLONE_NAME_PREFIX}{group_uid[:CLONE_UID_DIGITS]}-b{bucket:05d}-{node}"


def clone_job(name: str, spec: CloneSpec, source: str | None, failures: int, settings: CloneJobSettings) -> JsonObject:
    """The Job. ``source`` is the replica to be given up for the new one; ``failures`` the failed attempts so far."""
    labels = {
        LABEL_NAME: APP_NAME,
        LABEL_COMPONENT: CLONE_COMPONENT,
        LABEL_MANAGED_BY: APP_NAME,
        LABEL_GROUP: spec.group,
        LABEL_BUCKET: str(spec.bucket),
    }
    annotations = {
        ANNOTATION_NAMESPACE: spec.namespace,
        ANNOTATION_TARGET: spec.target,
        ANNOTATION_FAILURES: str(failures),
        **({ANNOTATION_SOURCE: source} if source else {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name, "namespace": settings.namespace, "labels": labels, "annotations": annotations,
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": settings.max_seconds or _deadline_seconds(spec),
            "ttlSecondsAfterFinished": TTL_AFTER_FINISHED_SECONDS,
            "template": {"metadata": {"labels": labels, "annotations": KEPT}, "spec": _pod_spec(spec, settings)},
        },
    }  # fmt: skip


def _deadline_seconds(spec: CloneSpec) -> int:
    is_paced = spec.max_bandwidth_mib_per_second is not None or spec.max_node_bandwidth_mib_per_second is not None
    return PACED_DEADLINE_SECONDS if is_paced else ACTIVE_DEADLINE_SECONDS


def _pod_spec(spec: CloneSpec, settings: CloneJobSettings) -> JsonObject:
    return {
        "restartPolicy": "Never",
        "serviceAccountName": settings.service_account,
        "automountServiceAccountToken": False,
        "imagePullSecrets": [{"name": name} for name in settings.image_pull_secrets],
        "affinity": _only_on(spec.target),
        "tolerations": _tolerations(settings),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": settings.user_id,
            "runAsGroup": settings.user_id,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(spec, settings)],
        "volumes": [
            {"name": "data", "hostPath": {"path": settings.data_root, "type": "Directory"}},
            {"name": "access", "projected": {"sources": _access(settings.ca_config_map)}},
        ],
    }


def _container(spec: CloneSpec, settings: CloneJobSettings) -> JsonObject:
    return {
        "name": "clone",
        "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": ["python", "-m", "colocation.clone"],
        "env": [
            *({"name": name, "value": value} for name, value in spec_to_environment(spec).items()),
            {"name": "COLOCATION_DATA_ROOT", "value": settings.data_root},
        ],
        "resources": settings.resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "data", "mountPath": settings.data_root},
            {"name": "access", "mountPath": TOKEN_DIRECTORY, "readOnly": True},
        ],
    }


def _only_on(node: str) -> JsonObject:
    """An affinity to the node by its name, since the label kubernetes.io/hostname differs from it on some clouds."""
    expression = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _tolerations(settings: CloneJobSettings) -> list[JsonObject]:
    """Tolerations of all taints but NoExecute, since data nodes may be reserved by taints.

    Of NoExecute taints, only those with which a node may take new replicas.
    """
    reserved = [{"operator": "Exists", "effect": effect} for effect in ("NoSchedule", "PreferNoSchedule")]
    return [*reserved, *({"key": key, "operator": "Exists"} for key in sorted(settings.tolerated_taints))]


def _access(ca_config_map: str) -> list[JsonObject]:
    token = {
        "audience": TOKEN_AUDIENCE,
        "expirationSeconds": TOKEN_LIFETIME_SECONDS,
        "path": TOKEN_PATH.rpartition("/")[2],
    }
    certificate = CA_PATH.rpartition("/")[2]
    items = [{"key": certificate, "path": certificate}]
    return [{"serviceAccountToken": token}, {"configMap": {"name": ca_config_map, "items": items}}]
