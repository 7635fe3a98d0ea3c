"""All metrics of operator, agents and Spark's drivers: names, labels, meaning, numbers of series. Pure data.

Operator and agent make their collectors from this table, ``docs/reference/metrics.md`` is written from it, and tests
hold alerts and dashboard to it. Names are as Prometheus stores them.

Labels take two kinds of values: names that the API server has checked (namespaces, groups, tables, nodes), and words of
this project. What others write, as a reason in a status, is replaced by ``OTHER`` where it is none of our words.
"""

from typing import NamedTuple

from .base import StrEnum
from .conditions import Reason

OTHER = "Other"
_REASONS = frozenset(Reason)
MAX_REFUSED_TABLES = 200
"""Series of ``colocation_table_refused``; further refused tables are counted in ``colocation_tables`` only."""


class Kind(StrEnum):
    """What Prometheus calls the type."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Per(StrEnum):
    """What there is one series of, for each combination of the other labels."""

    PROCESS = "process"
    GROUP = "group"
    FAULTY_NODE = "node that is faulty"
    REFUSED_TABLE = "refused table, at most 200"


class Metric(NamedTuple):
    """One metric. ``words``: how many combinations its labels of our own words take at most."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()
    per: Per = Per.PROCESS
    words: int = 1

    @property
    def base_name(self) -> str:
        """As client libraries want it: they add ``_total`` to counters themselves."""
        return self.name.removesuffix("_total") if self.kind == Kind.COUNTER else self.name


def known_reason(reason: str | None) -> str:
    """The reason, if it is one of ours."""
    return reason if reason in _REASONS else OTHER


_GROUP = ("namespace", "group")

# the operator's own life
LEADING = Metric("colocation_leading", Kind.GAUGE, "1: this operator holds the Lease.")
LAST_PASS = Metric("colocation_last_pass_timestamp_seconds", Kind.GAUGE, "When the last pass ended; Unix time.")
PASS_SECONDS = Metric("colocation_pass_seconds", Kind.HISTOGRAM, "Duration of a pass.", words=15)
FAILED_PASSES = Metric("colocation_failed_passes_total", Kind.COUNTER, "Passes that could not observe the cluster.")
ACTIONS = Metric("colocation_actions_total", Kind.COUNTER, "Actions performed, by their kind.", ("action",), words=20)
ACTION_FAILURES = Metric(
    "colocation_action_failures_total", Kind.COUNTER,
    "Sequences of actions cut short by one that failed; stale=true: the object had changed meanwhile.",
    ("stale",), words=2,
)  # fmt: skip
INTERNAL_ERRORS = Metric(
    "colocation_internal_errors_total", Kind.COUNTER,
    "Unexpected errors; each stopped the work on one group or table. The log has the traceback.",
)  # fmt: skip
API_ERRORS = Metric(
    "colocation_api_errors_total", Kind.COUNTER,
    "Requests to the API server that failed, by verb and HTTP status; 0: no answer. 404, 409 and 410 are ordinary. "
    "Watches of groups and nodes are not counted.",
    ("verb", "code"), words=30,
)  # fmt: skip
CERTIFICATE_ANSWERS = Metric(
    "colocation_certificate_answers_total", Kind.COUNTER,
    "Answers to agents' requests for certificates: approved, signed, refused.", ("answer",), words=3,
)  # fmt: skip
AUTHORITY_END = Metric(
    "colocation_agent_authority_end_timestamp_seconds", Kind.GAUGE,
    "When the CA ends that signs the agents' certificates; Unix time. 0: the operator signs none.",
)  # fmt: skip
SERVER_CERTIFICATE_END = Metric(
    "colocation_server_certificate_end_timestamp_seconds", Kind.GAUGE,
    "When the certificate of one of the operator's HTTPS servers ends; Unix time.", ("server",), words=2,
)  # fmt: skip

# the cluster
NODES = Metric("colocation_nodes", Kind.GAUGE, "Data nodes.", ("ready",), words=2)
SILENT_AGENTS = Metric("colocation_silent_agents", Kind.GAUGE, "Agents that do not answer the operator.")
NODE_FAULT = Metric(
    "colocation_node_fault", Kind.GAUGE, "1: the node is not ready, or its disk is sick, for this reason.",
    ("node", "reason"), Per.FAULTY_NODE, 2,
)  # fmt: skip
DISK_FAULTS = Metric(
    "colocation_disk_faults", Kind.GAUGE, "Nodes by what is wrong with their disks.", ("reason",), words=4
)
WITHHELD_FOLDERS = Metric(
    "colocation_withheld_folders", Kind.GAUGE, "Folders of tables that are not recycled: TooManyDeletions."
)
ETCD_RESTORED = Metric(
    "colocation_etcd_restored", Kind.GAUGE, "1: etcd was restored from an older copy; nothing is deleted: EtcdRestored."
)
MISSING_FIELDS = Metric(
    "colocation_kind_missing_fields", Kind.GAUGE,
    "Fields of this release that the cluster's CRD lacks; those of statuses stop deletions: KindsOutdated.",
    ("kind",), words=2,
)  # fmt: skip
CLONES = Metric("colocation_clones", Kind.GAUGE, "Clones that have not ended.")
CLONE_SECONDS = Metric(
    "colocation_clone_seconds", Kind.HISTOGRAM, "Duration of clone Jobs that succeeded.", words=13
)
TABLES = Metric(
    "colocation_tables", Kind.GAUGE, "Tables by the status and reason of their condition Accepted.",
    ("accepted", "reason"), words=15,
)  # fmt: skip
TABLE_REFUSED = Metric(
    "colocation_table_refused", Kind.GAUGE,
    f"1: the table is not accepted, for this reason. The first {MAX_REFUSED_TABLES} such tables by name.",
    ("namespace", "table", "reason"), Per.REFUSED_TABLE,
)  # fmt: skip

# each group
GROUP_STABLE = Metric("colocation_group_stable", Kind.GAUGE, "1: stable.", _GROUP, Per.GROUP)
GROUP_CONDITION = Metric(
    "colocation_group_condition", Kind.GAUGE, "1: the condition has this status, for this reason.",
    (*_GROUP, "condition", "status", "reason"), Per.GROUP, 4,
)  # fmt: skip
DEAD_BUCKETS = Metric(
    "colocation_group_dead_buckets", Kind.GAUGE,
    "Buckets of a group with tables that have no complete replica on a node whose agent is ready.", _GROUP, Per.GROUP,
)  # fmt: skip
UNSTABLE_BUCKETS = Metric(
    "colocation_group_unstable_buckets", Kind.GAUGE, "Buckets that are not stable; none: no series.",
    (*_GROUP, "reason"), Per.GROUP,
)  # fmt: skip
BLOCKED_BUCKETS = Metric(
    "colocation_group_blocked_buckets", Kind.GAUGE, "Buckets whose move has to wait; none: no series.",
    (*_GROUP, "reason"), Per.GROUP,
)  # fmt: skip
MOVES = Metric("colocation_group_moves", Kind.GAUGE, "Replicas still to be made.", _GROUP, Per.GROUP)
GROUP_CLONES = Metric(
    "colocation_group_clones", Kind.GAUGE, "Clones that wait for their turn (pending) and that run (running).",
    (*_GROUP, "state"), Per.GROUP, 2,
)  # fmt: skip
GROUP_CLONE_BYTES = Metric(
    "colocation_group_clone_bytes", Kind.GAUGE, "Of the running clones: bytes copied (done), bytes to copy (left).",
    (*_GROUP, "part"), Per.GROUP, 2,
)  # fmt: skip
CLONES_SUCCEEDED = Metric(
    "colocation_group_clones_succeeded_total", Kind.COUNTER,
    "Clone Jobs that succeeded in the group's life; restarts of the operator do not reset it.", _GROUP, Per.GROUP,
)  # fmt: skip
CLONES_FAILED = Metric(
    "colocation_group_clones_failed_total", Kind.COUNTER,
    "Attempts of clone Jobs that failed in the group's life; restarts of the operator do not reset it.",
    _GROUP, Per.GROUP,
)  # fmt: skip
FAILING_TARGETS = Metric(
    "colocation_group_failing_targets", Kind.GAUGE, "Nodes on which clones of the group fail again and again.",
    _GROUP, Per.GROUP,
)  # fmt: skip
PROPOSED_MOVES = Metric(
    "colocation_group_proposed_moves", Kind.GAUGE,
    "Moves of a proposal that awaits approval; without a proposal there is no series.", _GROUP, Per.GROUP,
)  # fmt: skip
GROUP_TABLES = Metric("colocation_group_tables", Kind.GAUGE, "Tables of the group.", _GROUP, Per.GROUP)
GROUP_BYTES = Metric("colocation_group_bytes", Kind.GAUGE, "Bytes of one replica of all buckets.", _GROUP, Per.GROUP)

OPERATOR_METRICS = (
    LEADING, LAST_PASS, PASS_SECONDS, FAILED_PASSES, ACTIONS, ACTION_FAILURES, INTERNAL_ERRORS, API_ERRORS,
    CERTIFICATE_ANSWERS, AUTHORITY_END, SERVER_CERTIFICATE_END, NODES, SILENT_AGENTS, NODE_FAULT, DISK_FAULTS,
    WITHHELD_FOLDERS, ETCD_RESTORED, MISSING_FIELDS, CLONES, CLONE_SECONDS, TABLES, TABLE_REFUSED, GROUP_STABLE,
    GROUP_CONDITION, DEAD_BUCKETS, UNSTABLE_BUCKETS, BLOCKED_BUCKETS, MOVES, GROUP_CLONES, GROUP_CLONE_BYTES,
    CLONES_SUCCEEDED, CLONES_FAILED, FAILING_TARGETS, PROPOSED_MOVES, GROUP_TABLES, GROUP_BYTES,
)  # fmt: skip

# each node's agent
REQUESTS = Metric(
    "colocation_agent_requests_total", Kind.COUNTER,
    "Requests by verb and HTTP status; verb none: before caller and request are known; 499: cut off in the middle.",
    ("verb", "code"), words=30,
)  # fmt: skip
SERVED_BYTES = Metric(
    "colocation_agent_served_bytes_total", Kind.COUNTER, "Bytes of files sent; a read counts when it has ended."
)
CLONED_BYTES = Metric(
    "colocation_agent_cloned_bytes_total", Kind.COUNTER, "Bytes of files sent to clones; part of the bytes served."
)
RECEIVED_BYTES = Metric("colocation_agent_received_bytes_total", Kind.COUNTER, "Bytes of files received from loads.")
ACTIVE_TRANSFERS = Metric("colocation_agent_active_transfers", Kind.GAUGE, "Files being sent or received now.")
DAMAGED_FILES = Metric(
    "colocation_agent_damaged_files_found_total", Kind.COUNTER, "Files found with another content than before."
)
SCRUBBED_BYTES = Metric("colocation_agent_scrubbed_bytes_total", Kind.COUNTER, "Bytes read by the scrub.")
SCRUB_BACKLOG_FILES = Metric(
    "colocation_agent_scrub_backlog_files", Kind.GAUGE, "Files that the scrub should have read by now."
)
SCRUB_BACKLOG_BYTES = Metric(
    "colocation_agent_scrub_backlog_bytes", Kind.GAUGE, "Bytes that the scrub should have read by now."
)
OLDEST_VERIFICATION = Metric(
    "colocation_agent_oldest_verification_age_seconds", Kind.GAUGE,
    "Age of the verification of the file verified longest ago; above agent.scrub.intervalSeconds: too slow.",
)  # fmt: skip
UPKEEP_FAILURES = Metric(
    "colocation_agent_upkeep_failures_total", Kind.COUNTER,
    "Steps of the background work that failed: sweep, look, hash, scrub, clean, probe.", ("task",), words=6,
)  # fmt: skip
DISK_CAPACITY = Metric(
    "colocation_agent_disk_capacity_bytes", Kind.GAUGE,
    "Size of the data root's file system, without the kubelet's share.",
)  # fmt: skip
DISK_FREE = Metric(
    "colocation_agent_disk_free_bytes", Kind.GAUGE, "Room on the data root's file system, without the kubelet's share."
)
DISK_FAULT = Metric("colocation_agent_disk_fault", Kind.GAUGE, "1: this is wrong with the disk.", ("reason",), words=4)
CERTIFICATE_END = Metric(
    "colocation_agent_certificate_end_timestamp_seconds", Kind.GAUGE,
    "When this node's certificate ends; Unix time. 0: there is none.",
)  # fmt: skip
CERTIFICATE_FAULT = Metric(
    "colocation_agent_certificate_fault", Kind.GAUGE, "1: this is wrong with the certificate.", ("reason",), words=3
)

AGENT_METRICS = (
    REQUESTS, SERVED_BYTES, CLONED_BYTES, RECEIVED_BYTES, ACTIVE_TRANSFERS, DAMAGED_FILES, SCRUBBED_BYTES,
    SCRUB_BACKLOG_FILES, SCRUB_BACKLOG_BYTES, OLDEST_VERIFICATION, UPKEEP_FAILURES, DISK_CAPACITY, DISK_FREE,
    DISK_FAULT, CERTIFICATE_END, CERTIFICATE_FAULT,
)  # fmt: skip

# each Spark driver, in Spark's own metrics system
_ORDINARY = "Tables of the catalog that were read in the ordinary way"
SPARK_METRICS = (
    Metric("localBytes", Kind.GAUGE, "Bytes read from the executors' own nodes so far."),
    Metric("remoteBytes", Kind.GAUGE, "Bytes read from agents of other nodes so far."),
    Metric("localFiles", Kind.GAUGE, "Files read from the executors' own nodes so far."),
    Metric("remoteFiles", Kind.GAUGE, "Files read from agents of other nodes so far."),
    Metric("verdict.colocated", Kind.GAUGE, "Tables of the catalog that were read by bucket, so far."),
    Metric("verdict.notStable", Kind.GAUGE, f"{_ORDINARY}: a bucket of the group has no live replica."),
    Metric("verdict.operatorSilent", Kind.GAUGE, f"{_ORDINARY}: `OperatorSilent`."),
    Metric("verdict.noGroup", Kind.GAUGE, f"{_ORDINARY}: in no group, or not accepted."),
    Metric("verdict.inconsistent", Kind.GAUGE, f"{_ORDINARY}: their files do not fit the group's schema."),
    Metric("verdict.disabled", Kind.GAUGE, f"{_ORDINARY}: `spark.colocation.disableColocateJoin` is set."),
    Metric("commit.committed", Kind.GAUGE, "Changes of tables that the application committed so far, compactions too."),
    Metric("commit.conflicts", Kind.GAUGE, "Changes that failed with `LoadConflict` so far."),
    Metric("commit.unknown", Kind.GAUGE, "Changes that failed with `CommitUnknown` so far."),
    Metric("commit.rowsChanged", Kind.GAUGE, "Rows that its commits inserted, updated or deleted so far."),
    Metric("commit.bytesWritten", Kind.GAUGE, "Bytes of the files that it committed so far, of one replica."),
    Metric("commit.filesRemoved", Kind.GAUGE, "Files that its commits replaced or removed so far."),
)
