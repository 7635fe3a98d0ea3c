"""What Spark's pods and sessions need so that tasks run where their buckets lie.

The operator writes these pieces into the ConfigMap ``<group>-spark``; the submitter merges the same pieces into
SparkApplications. One source, so that a plain ``spark-submit`` and ``colocation submit`` place executors alike.

Why each piece is there (seen on a real cluster): node affinity puts executors on the group's nodes, by a label that the
operator keeps, so that executors of an application that runs for days follow the group to new nodes; the attribute
``NODE_NAME`` tells the driver which node an executor is on, because its host is a pod IP; the read-only claim lets a
task read its bucket from local disk, of tables of its own namespace; the projected token and CA let it read everything
else that its account may read from agents. Everything fits into a namespace that enforces Pod Security *restricted*.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..model.base import Frozen
from ..model.group import ExecutorAffinity
from ..model.names import (
    AGENTS_KEY,
    CA_PATH,
    DATA_CLAIM,
    DEFAULT_DATA_ROOT,
    LABEL_GROUP,
    LABEL_HOSTNAME,
    NODE_LABEL_VALUE,
    TOKEN_AUDIENCE,
    TOKEN_DIRECTORY,
    TOKEN_PATH,
    config_map_of,
    data_path,
    node_label,
)

DRIVER_CONTAINER = "spark-kubernetes-driver"
EXECUTOR_CONTAINER = "spark-kubernetes-executor"
"""Names that Spark gives its containers and that Kubeflow's operator expects in pod templates."""

DATA_VOLUME = "colocation-data"
"""The name of the volume in a pod."""
ACCESS_VOLUME = "colocation-access"
TOKEN_LIFETIME_SECONDS = 3600
NODE_NAME_VARIABLES = ("NODE_NAME", "SPARK_EXECUTOR_ATTRIBUTE_NODE_NAME")
"""Spark publishes every SPARK_EXECUTOR_ATTRIBUTE_<X> of an executor's environment as its attribute X."""

SPARK_ROLE_LABEL = "spark-role"
SPARK_APPLICATION_LABEL = "spark-app-selector"
"""Labels that Spark itself puts on its pods."""

REQUIRED_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED_AFFINITY = "preferredDuringSchedulingIgnoredDuringExecution"
MAX_PREFERENCE = 100
"""The weight of a preference that outweighs others."""

KubernetesObject = dict[str, Any]


class SparkPlacement(Frozen):
    """A group as Spark's pods see it.

    ``namespace`` is where the pods run; ``group_namespace`` is the group's own when that is another one. ``has_map``:
    False = no map yet, so that executors may start anywhere. ``spark_image`` is the installation's default image for
    Spark, or None.
    """

    namespace: str
    group: str
    group_namespace: str | None = None
    has_map: bool = False
    executor_affinity: ExecutorAffinity = "Required"
    data_root: str = DEFAULT_DATA_ROOT
    spark_image: str | None = None

    @property
    def node_label(self) -> str:
        """The label of the group's nodes."""
        return node_label(self.group_namespace or self.namespace, self.group)

    @property
    def mount_path(self) -> str:
        """Where the namespace's files are in an executor: at the same path as on the node."""
        return data_path(self.data_root, self.namespace)


def executor_pod_template(placement: SparkPlacement) -> KubernetesObject:
    """The executors' pod template: affinity, spreading, data mount, token and CA, node name."""
    container: KubernetesObject = {
        "name": EXECUTOR_CONTAINER,
        "env": node_name_variables(),
        "volumeMounts": [
            {"name": DATA_VOLUME, "mountPath": placement.mount_path, "readOnly": True},
            _access_mount(),
        ],
        "securityContext": container_security(),
    }
    spec: KubernetesObject = {
        "containers": [container],
        "volumes": [data_volume(), access_volume(placement)],
        "topologySpreadConstraints": [spread_over_nodes(placement)],
        "affinity": {"nodeAffinity": node_affinity(placement)},
    }
    return _pod_template(placement, spec)


def driver_pod_template(placement: SparkPlacement) -> KubernetesObject:
    """The driver's pod template: token and CA only. It reads no buckets, so it may run on any node."""
    container = {
        "name": DRIVER_CONTAINER,
        "volumeMounts": [_access_mount()],
        "securityContext": container_security(),
    }
    return _pod_template(placement, {"containers": [container], "volumes": [access_volume(placement)]})


def node_affinity(placement: SparkPlacement) -> KubernetesObject:
    """Keeps executors on the group's nodes, as they are whenever an executor starts."""
    term = {"matchExpressions": [on_labelled_node(placement.node_label)]}
    if placement.executor_affinity == "Preferred" or not placement.has_map:
        return {PREFERRED_AFFINITY: [{"weight": MAX_PREFERENCE, "preference": term}]}
    return {REQUIRED_AFFINITY: {"nodeSelectorTerms": [term]}}


def on_labelled_node(label: str) -> KubernetesObject:
    """The requirement of a node selector that a node has a label of ours."""
    return {"key": label, "operator": "In", "values": [NODE_LABEL_VALUE]}


def spread_over_nodes(placement: SparkPlacement) -> KubernetesObject:
    """One application's executors evenly over the nodes, where that is possible."""
    return {
        "maxSkew": 1,
        "topologyKey": LABEL_HOSTNAME,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {LABEL_GROUP: placement.group, SPARK_ROLE_LABEL: "executor"}},
        "matchLabelKeys": [SPARK_APPLICATION_LABEL],
    }


def node_name_variables() -> list[KubernetesObject]:
    """Environment that tells Spark, and our file system, on which node an executor runs."""
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}} for name in NODE_NAME_VARIABLES]


def pod_security() -> KubernetesObject:
    """What Pod Security *restricted* asks of a pod. No user id: the image sets the one that it is made for."""
    return {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def container_security() -> KubernetesObject:
    """What Pod Security *restricted* asks of a container."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def data_volume() -> KubernetesObject:
    """The node's replicas of the pod's own namespace; nothing else forces Kubernetes to mount them read-only."""
    return {"name": DATA_VOLUME, "persistentVolumeClaim": {"claimName": DATA_CLAIM, "readOnly": True}}


def access_volume(placement: SparkPlacement) -> KubernetesObject:
    """A ServiceAccount token that agents accept, the CA of their certificate, and their addresses; the kubelet renews
    all three.
    """
    token = {
        "audience": TOKEN_AUDIENCE,
        "expirationSeconds": TOKEN_LIFETIME_SECONDS,
        "path": TOKEN_PATH.rpartition("/")[2],
    }
    certificate = CA_PATH.rpartition("/")[2]
    config_map = {
        "name": config_map_of(placement.namespace, (placement.group_namespace or placement.namespace, placement.group)),
        "items": [{"key": key, "path": key} for key in (certificate, AGENTS_KEY)],
    }
    sources = [{"serviceAccountToken": token}, {"configMap": config_map}]
    return {"name": ACCESS_VOLUME, "projected": {"sources": sources}}


def _access_mount() -> KubernetesObject:
    return {"name": ACCESS_VOLUME, "mountPath": TOKEN_DIRECTORY, "readOnly": True}


def _pod_template(placement: SparkPlacement, spec: KubernetesObject) -> KubernetesObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {LABEL_GROUP: placement.group}},
        "spec": {"securityContext": pod_security(), **spec},
    }


def spark_defaults(placement: SparkPlacement) -> dict[str, str]:
    """Spark configuration of every session that reads the group; each key has its reason in a comment.

    Values are strings, as in ``spark-defaults.conf``.
    """
    image = {"spark.kubernetes.container.image": placement.spark_image} if placement.spark_image else {}
    return {
        **RECIPE,
        **image,
        "spark.colocation.namespace": placement.namespace,
        "spark.colocation.dataRoot": placement.data_root,
        "spark.kubernetes.driver.podTemplateContainerName": DRIVER_CONTAINER,
        "spark.kubernetes.executor.podTemplateContainerName": EXECUTOR_CONTAINER,
    }


RECIPE = {
    # ColocatedTables as colocation.<namespace>.<table>; it asks the API server when a statement names one.
    "spark.sql.catalog.colocation": "dev.colocation.spark.ColocationCatalog",
    # Trusts the order of rows in files, which saves the sorts of merge joins and windows.
    "spark.sql.extensions": "dev.colocation.spark.ColocationExtensions",
    # Counts local and remote bytes per task, and tells the driver on which nodes executors are.
    "spark.plugins": "dev.colocation.spark.ColocationPlugin",
    "spark.hadoop.fs.coloc.impl": "dev.colocation.spark.ColocFileSystem",
    # Executors come and go, snapshots change: an instance is cheap, a stale one wrong.
    "spark.hadoop.fs.coloc.impl.disable.cache": "true",
    # The file system lists from the manifest; Spark's own parallel listing would run as tasks and lose the locations.
    # Spark asks the session when it lists a registered table. It names our scheme and Spark's default, s3a.
    "spark.sql.sources.useListFilesFileSystemList": "coloc,s3a",
    # Else a join on (bucket key, partition column) shuffles. Spark asks once per join, whichever tables are in it; the
    # other joins that it changes are those whose two sides lie by some of their keys already.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    # A task that is started elsewhere reads its bucket over the network; waiting for its own node is mostly shorter.
    # The scheduler has one such time for all tasks of an application; tasks without a wanted node do not wait.
    "spark.locality.wait.node": "10s",
    # The first tasks wait until all executors are there, so that each bucket has one on its node. Spark's own 30 s are
    # over before a dozen pods have pulled their image and started.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    # Because of that time, which is for all tasks: reduce tasks would wait as long for the node with most of their
    # input, which gains them little.
    "spark.shuffle.reduceLocality.enabled": "false",
}
"""What makes bucketed joins over ``coloc://`` local and free of shuffles, in every session.

Only what Spark asks of the application as a whole. What concerns scans of our tables is with the tables: one file per
task (the extensions' ``FilePerTask``), checksums of pages (``table_statement.OPTIONS``, the catalog's relation), and
partitions that are not kept in the session catalog (``SessionCatalog.replace``).
"""

TUNING = (
    "spark.locality.wait.node",
    "spark.scheduler.minRegisteredResourcesRatio",
    "spark.scheduler.maxRegisteredResourcesWaitingTime",
)
"""Of these, what an application has of its own stays; the rest is needed for colocated joins."""

LISTS = ("spark.plugins", "spark.sql.extensions", "spark.sql.sources.useListFilesFileSystemList")
"""Comma-separated: an application's and ours together."""


def next_to(given: Mapping[str, str], ours: Mapping[str, str], lists: Sequence[str]) -> dict[str, str]:
    """What of ours to set where an application has ``given``: its tuning stays, and its ``lists`` get ours."""
    kept = {key: value for key, value in ours.items() if not (key in TUNING and key in given)}
    return kept | {key: _joined(given[key], ours[key]) for key in lists if key in given and key in ours}


def _joined(theirs: str, ours: str) -> str:
    """Both comma-separated lists in one, theirs first, no word of ours twice."""
    words = [word.strip() for word in theirs.split(",") if word.strip()]
    return ",".join([*words, *(word for word in ours.split(",") if word not in words)])


def render_properties(conf: dict[str, str]) -> str:
    """``spark-defaults.conf``: one ``key value`` per line, sorted."""
    return "".join(f"{key} {value}\n" for key, value in sorted(conf.items()))
