"""Names that users and the parts of the system share: API group, labels, paths, ports."""

API_GROUP = "colocation.dev"
API_VERSION = "v1alpha1"
GROUP_API_VERSION = f"{API_GROUP}/{API_VERSION}"

GROUP_KIND = "ColocationGroup"
GROUP_PLURAL = "colocationgroups"
TABLE_KIND = "ColocatedTable"
TABLE_PLURAL = "colocatedtables"
TABLE_DATA_SUBRESOURCE = "data"
"""Agents authorize callers on the virtual subresource ``colocatedtables/data``."""

LABEL_GROUP = "colocation.dev/group"
LABEL_BUCKET = "colocation.dev/bucket"
LABEL_TARGET_NODE = "colocation.dev/target-node"
LABEL_WEIGHT = "colocation.dev/weight"
LABEL_DRAIN = "colocation.dev/drain"
LABEL_ZONE = "topology.kubernetes.io/zone"
LABEL_HOSTNAME = "kubernetes.io/hostname"
LABEL_COMPONENT = "app.kubernetes.io/component"
LABEL_NAME = "app.kubernetes.io/name"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
APP_NAME = "colocation-operator"

DEFAULT_DATA_ROOT = "/var/lib/colocation"
INCOMING_DIRECTORY = ".incoming"
RECYCLE_DIRECTORY = ".recycle"

AGENT_PORT = 8440
"""HTTPS: files, inventory."""
AGENT_HEALTH_PORT = 8441
"""Plain HTTP: healthz, readyz, metrics; no table is named there."""
AGENT_TLS_SERVER_NAME = "colocation-agent"
"""The DNS name in every agent's certificate: agents are dialled by pod IP and verified by this name."""

TOKEN_AUDIENCE = "colocation.dev"
"""Audience of the projected ServiceAccount tokens that agents accept."""
TOKEN_DIRECTORY = "/var/run/secrets/colocation.dev"
TOKEN_PATH = f"{TOKEN_DIRECTORY}/token"
CA_PATH = f"{TOKEN_DIRECTORY}/ca.crt"

SPARK_CONFIG_MAP_SUFFIX = "-spark"


def spark_config_map_name(group: str) -> str:
    """The ConfigMap that the operator keeps beside a group for Spark (agents, CA, pod templates, confs)."""
    return f"{group}{SPARK_CONFIG_MAP_SUFFIX}"


def table_directory(table: str, uid: str) -> str:
    """A table's folder below its namespace: the uid keeps a re-created table off its predecessor's files."""
    return f"{table}-{uid[:8]}"
