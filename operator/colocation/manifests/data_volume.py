"""A namespace's files as a PersistentVolume and a claim on it, for Spark's pods of that namespace.

The volume is the same folder on every node (``hostPath``), so a pod finds there what its own node holds. A namespace
that enforces Pod Security *restricted* allows claims and no hostPath.

Safety: the volume names the claim that may bind it by namespace, name and uid. No other claim gets it, neither of
another namespace nor one of the same name that somebody else has made.
"""

from typing import Any

from ..model.names import (
    APP_NAME,
    DATA_CLAIM,
    DATA_COMPONENT,
    LABEL_COMPONENT,
    LABEL_MANAGED_BY,
    LABEL_NAME,
    LABEL_NAMESPACE,
    data_path,
    data_volume_name,
)

JsonObject = dict[str, Any]

DATA_LABELS = {LABEL_NAME: APP_NAME, LABEL_COMPONENT: DATA_COMPONENT, LABEL_MANAGED_BY: APP_NAME}
"""By these the operator knows what it has made itself."""
ACCESS_MODES = ["ReadOnlyMany"]
CAPACITY = {"storage": "1Gi"}
"""Kubernetes wants a size; a folder of a node has none."""


def data_claim(namespace: str) -> JsonObject:
    """The claim. The selector keeps it from every other volume; Kubernetes binds it as soon as the volume is there."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": DATA_CLAIM, "namespace": namespace, "labels": DATA_LABELS},
        "spec": {
            "accessModes": ACCESS_MODES,
            "storageClassName": "",
            "selector": {"matchLabels": {**DATA_LABELS, LABEL_NAMESPACE: namespace}},
            "resources": {"requests": CAPACITY},
        },
    }


def data_volume(namespace: str, data_root: str, claim_uid: str) -> JsonObject:
    """The volume, for the claim with this uid.

    The kubelet makes a folder that is missing: a pod that starts on a node before the agent does not wait. The agent
    takes such an empty folder over when it needs it (``storage.folders``).
    """
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": data_volume_name(namespace),
            "labels": {**DATA_LABELS, LABEL_NAMESPACE: namespace},
        },
        "spec": {
            "accessModes": ACCESS_MODES,
            "capacity": CAPACITY,
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": data_path(data_root, namespace), "type": "DirectoryOrCreate"},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": namespace, "name": DATA_CLAIM, "uid": claim_uid,
            },
        },
    }  # fmt: skip
