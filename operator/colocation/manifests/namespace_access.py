"""What `colocation init` makes: an account with which Spark can work with groups in a namespace, and its rights.

The rights are the chart's ClusterRoles, bound in the namespace alone.
"""

from typing import Any

from ..model.names import LABEL_MANAGED_BY

DRIVER_ROLE, USER_ROLE = "colocation-spark-driver", "colocation-user"
"""ClusterRoles of the chart: to make executors; to read and load tables."""
MANAGER = "colocation-init"
POD_SECURITY = {"pod-security.kubernetes.io/enforce": "restricted"}

KubernetesObject = dict[str, Any]


def namespace_object(name: str) -> KubernetesObject:
    """A namespace of its own for groups and Spark: every pod that we place fits Pod Security *restricted*."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {**_LABELS, **POD_SECURITY}}}


def access_objects(namespace: str, account: str) -> list[KubernetesObject]:
    """The ServiceAccount of drivers and executors, and the bindings of both roles to it."""
    service_account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": account, "namespace": namespace, "labels": dict(_LABELS)},
    }
    return [service_account, *(_binding(role, namespace, account) for role in (DRIVER_ROLE, USER_ROLE))]


def _binding(role: str, namespace: str, account: str) -> KubernetesObject:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{role}-{account}", "namespace": namespace, "labels": dict(_LABELS)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


_LABELS = {LABEL_MANAGED_BY: MANAGER}
