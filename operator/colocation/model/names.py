"""Names that users and the parts of the system share: API group, labels, paths, ports."""

import hashlib

API_GROUP = "colocation.dev"
API_VERSION = "v1alpha1"
GROUP_API_VERSION = f"{API_GROUP}/{API_VERSION}"

GROUP_KIND = "ColocationGroup"
GROUP_PLURAL = "colocationgroups"
GROUP_ADMIN_SUBRESOURCE = "admin"
"""The admin API authorizes callers on the virtual subresource ``colocationgroups/admin``."""
TABLE_KIND = "ColocatedTable"
TABLE_PLURAL = "colocatedtables"
TABLE_DATA_SUBRESOURCE = "data"
"""Agents authorize callers on the virtual subresource ``colocatedtables/data``."""

LABEL_GROUP = "colocation.dev/group"
LABEL_GROUP_NAMESPACE = "colocation.dev/group-namespace"
"""In addition to ``colocation.dev/group``, on applications whose group is in another namespace."""
ANNOTATION_DECISION = "colocation.dev/decision"
"""On Spark applications: colocated or not, and why, as it was decided when the application was created."""
ANNOTATION_NODE_LABEL = "colocation.dev/node-label"
"""On executors' pod templates: the label of the group's nodes that was put into the affinity."""
ANNOTATION_NODES = "colocation.dev/nodes"
"""The same of earlier releases: the nodes that were put into the affinity by their names."""
ANNOTATION_COPIED_FIELDS = "colocation.dev/copied-fields"
"""On pod templates of Kubeflow's applications: what was copied into them of fields next to the template."""
NODE_LABEL_PREFIX = "group.colocation.dev/"
"""Of labels that the operator keeps on the nodes of each group; see ``node_label``."""
NODE_LABEL_VALUE = "true"
NODE_LABEL_NAME_CHARACTERS = 46
"""Of the group's name in that label: with a dot and 16 digits at most the 63 that Kubernetes allows."""
LABEL_BUCKET = "colocation.dev/bucket"
LABEL_TARGET_NODE = "colocation.dev/target-node"
LABEL_WEIGHT = "colocation.dev/weight"
LABEL_ADMIN_WEIGHT = "colocation.dev.node-restriction.kubernetes.io/weight"
"""The same, without a bound: no kubelet can set it on its own Node."""
LABEL_DRAIN = "colocation.dev/drain"
LABEL_PRIVATE = "colocation.dev/private"
"""Of a group that the operator made for one table that is in no group: nothing else may be in it."""
ANNOTATION_RECOVERS = "colocation.dev/recovers"
"""Of a table that the operator made to bring back a dropped one: that one's uid."""
ANNOTATION_ADOPTS = "colocation.dev/adopts"
"""Of a table that takes over the files of a lost one: the first 8 digits of the uid in the name of their folder."""
ANNOTATION_ETCD_RESTORED = "colocation.dev/etcd-restored"
"""Of the operator's Lease: the resourceVersion that agents remembered when etcd was found restored to an older one."""
ANNOTATION_REPLACES = "colocation.dev/replaces"
"""Of a table whose definition is that of rows which are still to be committed: the manifest of the rows that go."""
RECOVER_PREFIX = "recover.colocation.dev/"
"""Annotation of a group, followed by 8 digits of a dropped table's uid: a user wants the table back."""
ANNOTATION_MARKED_UNSTABLE = "colocation.dev/marked-unstable"
"""Of a group that was marked unstable by hand: who did it, since when; any text counts."""
ANNOTATION_APPROVED_PROPOSAL = "colocation.dev/approved-proposal"
"""Of a group: the id of the proposal in its status whose moves may be made."""
ANNOTATION_ACCEPTED_DISK = "colocation.dev/accepted-disk"
"""Of a Node: the id of the disk that may lie at its data root from now on, whatever lay there before."""
ANNOTATION_DISCARDED_FOLDERS = "colocation.dev/discarded-folders"
"""Of a Node: the folders there, '<namespace>/<directory>' each, that may go although no group knows of their drop."""
LABEL_ZONE = "topology.kubernetes.io/zone"
LABEL_HOSTNAME = "kubernetes.io/hostname"
LABEL_COMPONENT = "app.kubernetes.io/component"
LABEL_NAME = "app.kubernetes.io/name"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
APP_NAME = "colocation-operator"

LABEL_LEADS = "colocation.dev/leads"
"""Of the pod of the operator that leads, "true": the admin API and the webhooks are asked there."""
ANNOTATION_DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
"""Karpenter removes no node by its own choice on which a pod has this annotation with the value "true"."""

LEASE_NAME = APP_NAME
"""Of the Lease by which one operator leads; in the operator's own namespace."""
LEASE_DURATION_SECONDS = 20
LEASE_RENEW_SECONDS = 6

DEFAULT_DATA_ROOT = "/var/lib/colocation"
DATA_CLAIM = "colocation-data"
"""The PersistentVolumeClaim by which Spark's pods of a namespace get its files, and no other namespace's."""
LABEL_NAMESPACE = "colocation.dev/namespace"
"""Of a PersistentVolume of ours: the namespace whose files it holds."""
DATA_COMPONENT = "data"
"""Value of the component's label on those PersistentVolumes and claims."""
INCOMING_DIRECTORY = ".incoming"
RECYCLE_DIRECTORY = ".recycle"
QUARANTINE_DIRECTORY = ".quarantine"

AGENT_PORT = 8440
"""HTTPS: files, inventory."""
AGENT_HEALTH_PORT = 8441
"""Plain HTTP: healthz, readyz, metrics; no table is named there."""
AGENT_TLS_SERVER_NAME = "colocation-agent"
"""The DNS name that all agents share. Clients of the release before insist on it; today's insist on the node's
(``agent_certificate_name``)."""
AGENT_NODE_HEADER = "Colocation-Node"
"""The node whose agent a caller means: addresses are given to others in time."""
AGENT_SIGNER_NAME = "colocation.dev/agent"
"""``spec.signerName`` of agents' CertificateSigningRequests that the operator itself signs."""
AGENT_ACCOUNT = "colocation-agent"
"""The agents' ServiceAccount."""

TOKEN_AUDIENCE = "colocation.dev"
"""Audience of the projected ServiceAccount tokens that all agents accept, for what tenants and clone Jobs may do."""
LABEL_NODE_TOKENS = "colocation.dev/node-tokens"
"""Of agents' pods, "true": the agent takes orders and inventory questions by tokens with its node's audience only. The
agents of the release before know the general audience alone. A label, as kubelets may change pods' annotations."""
LABEL_NODE_CERTIFICATES = "colocation.dev/node-certificates"
"""Of agents' pods, "true": the agent has a certificate with the name of its node. The agents of the release before
share one that has none. A label, for the same reason."""
TOKEN_DIRECTORY = "/var/run/secrets/colocation.dev"
TOKEN_PATH = f"{TOKEN_DIRECTORY}/token"
CA_PATH = f"{TOKEN_DIRECTORY}/ca.crt"
AGENTS_KEY = "agents.json"
"""Of a group's ConfigMap: node -> its agent's URL, if it is ready. Spark's pods have it as a file next to the CA, which
the kubelet renews."""
OTHER_AGENTS_KEY = "agents-not-ready.json"
"""The same of the group's other agents, which readers ask last: without an operator the list may be out of date."""

SPARK_CONFIG_MAP_SUFFIX = "-spark"


def node_audience(node: str) -> str:
    """The audience of tokens that are good at the agent of this node alone."""
    return f"{TOKEN_AUDIENCE}/{node}"


def agent_certificate_name(node: str) -> str:
    """The DNS name that clients insist on: they dial an IP address, and verify that this node's agent answers.

    Not the node's bare name, which may look like an IP address, or be a name of something else under the same CA.
    """
    return f"{node}.{AGENT_TLS_SERVER_NAME}"


def node_label(namespace: str, group: str) -> str:
    """The label that is on exactly the nodes of a group; groups of several namespaces may have one name.

    It follows from the names alone, so every component can compute it.
    """
    digits = hashlib.sha256(f"{namespace}/{group}".encode()).hexdigest()[:16]
    return f"{NODE_LABEL_PREFIX}{group[:NODE_LABEL_NAME_CHARACTERS].rstrip('-._')}.{digits}"


def spark_config_map_name(group: str) -> str:
    """The ConfigMap that the operator keeps for Spark in a group's namespace (agents, CA, pod templates, confs)."""
    return f"{group}{SPARK_CONFIG_MAP_SUFFIX}"


def config_map_of(namespace: str, group: tuple[str, str]) -> str:
    """The name of the group's ConfigMap in ``namespace``, where pods of its tables run.

    Pods can only mount ConfigMaps of their own namespace, so a group of another namespace has one there too. Its name
    cannot be that of a group there (those end in ``-spark``), and names no other group (namespaces hold no dots).
    """
    group_namespace, name = group
    if group_namespace == namespace:
        return spark_config_map_name(name)
    return f"{name}.{group_namespace}{SPARK_CONFIG_MAP_SUFFIX}-shared"


def data_volume_name(namespace: str) -> str:
    """The PersistentVolume of a namespace's files; at most 74 characters, as namespaces have 63."""
    return f"colocation-{namespace}"


def data_path(data_root: str, namespace: str) -> str:
    """Where a namespace's files lie, on nodes and in Spark's pods alike."""
    return f"{data_root}/{namespace}"


def table_directory(table: str, uid: str) -> str:
    """A table's folder below its namespace: the uid keeps a re-created table off its predecessor's files."""
    return f"{table}-{uid[:8]}"


def group_key(namespace: str, colocate_with: str) -> tuple[str, str]:
    """(namespace, name) of the group that a table in ``namespace`` names in ``colocateWith``.

    ``sales`` is the group in the table's own namespace, ``accounts/sales`` the one in namespace ``accounts``; a table
    in no group names the empty one.
    """
    other, slash, name = colocate_with.partition("/")
    return (other, name) if slash else (namespace, colocate_with)


def private_group_name(table: str, uid: str) -> str:
    """The group of one table that is in no group; at most 63 characters, as group names are."""
    return f"{table[:54].rstrip('-.')}-{uid[:8]}"


def group_reference(namespace: str, group: tuple[str, str]) -> str:
    """What a table in ``namespace`` writes into ``colocateWith`` for the group: the inverse of ``group_key``."""
    return group[1] if group[0] == namespace else "/".join(group)
