"""Conditions of Kubernetes objects, and the reasons that the whole system uses: one word per cause.

A reason goes unchanged from the check that found it into the condition, the event, the metric and the CLI.
"""

from typing import Literal

from pydantic import Field

from .base import Observed, Shared, StrEnum, Time

APPLY_KINDS = "kubectl apply --server-side --force-conflicts -f charts/colocation-operator/crds/"
"""What to do about CRDs that are older than the operator: Helm never changes them."""


class Condition(Observed):
    """metav1.Condition. ``status`` is ``True``, ``False`` or ``Unknown``; times are RFC 3339, UTC."""

    type: Shared
    status: Literal["True", "False", "Unknown"]
    reason: Shared = Field(description="Why, in one word.")
    message: Shared = Field("", description="Why, in words.")
    last_transition_time: Time | None = Field(None, description="When the status last changed.")
    observed_generation: int | None = Field(None, description="The generation of the spec that this is about.")


class ConditionType(StrEnum):
    READY = "Ready"
    STABLE = "Stable"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    ACCEPTED = "Accepted"


class Reason(StrEnum):
    """Why a bucket, group or table is in its state."""

    # stable
    ALL_REPLICAS_COMPLETE = "AllReplicasComplete"
    # not stable, per bucket; the most severe first (the order in which a group's one reason is chosen)
    NO_MAP = "NoMap"
    NODE_GONE = "NodeGone"
    NODE_NOT_READY = "NodeNotReady"
    AGENT_NOT_READY = "AgentNotReady"
    DISK_MISSING = "DiskMissing"
    DISK_FAILING = "DiskFailing"
    DISK_READ_ONLY = "DiskReadOnly"
    NODE_DRAINING = "NodeDraining"
    REPLICA_CORRUPT = "ReplicaCorrupt"
    REPLICA_MISSING = "ReplicaMissing"
    REPLICA_INCOMPLETE = "ReplicaIncomplete"
    BALANCING = "Balancing"
    MARKED_UNSTABLE = "MarkedUnstable"
    # blocked or stalled
    INSUFFICIENT_NODES = "InsufficientNodes"
    INSUFFICIENT_SPACE = "InsufficientSpace"
    DISK_FULL = "DiskFull"
    NO_LIVE_REPLICA = "NoLiveReplica"
    CLONE_NOT_ADVANCING = "CloneNotAdvancing"
    CLONE_FAILED = "CloneFailed"
    RELOCATION_DISABLED = "RelocationDisabled"
    BALANCING_DISABLED = "BalancingDisabled"
    AWAITING_APPROVAL = "AwaitingApproval"
    WITHIN_DOWN_TOLERANCE = "WithinDownTolerance"
    INVALID_BUCKET_SEQUENCE = "InvalidBucketSequence"
    UNSAFE_PLAN = "UnsafePlan"
    TARGET_FAILING = "TargetFailing"
    TOO_MANY_DELETIONS = "TooManyDeletions"
    KINDS_OUTDATED = "KindsOutdated"
    ETCD_RESTORED = "EtcdRestored"
    INTERNAL_ERROR = "InternalError"
    STATUS_NOT_WRITTEN = "StatusNotWritten"
    DATA_CLAIM_TAKEN = "DataClaimTaken"
    DATA_CLAIM_REFUSED = "DataClaimRefused"
    # agents' certificates
    CERTIFICATE_MISSING = "CertificateMissing"
    CERTIFICATE_REFUSED = "CertificateRefused"
    CERTIFICATE_EXPIRING = "CertificateExpiring"
    # unknown: the verdict is older than the operator's last sign of life
    OPERATOR_SILENT = "OperatorSilent"
    # tables
    ACCEPTED = "Accepted"
    NO_GROUP = "NoGroup"
    SCHEMA_MISMATCH = "SchemaMismatch"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    PRIVATE_GROUP = "PrivateGroup"
    GROUP_FULL = "GroupFull"
    RECOVERING = "Recovering"
    PURGED = "Purged"
    MOVING = "Moving"
    REPLACING = "Replacing"
    INVALID_SPEC = "InvalidSpec"
    INVALID_STATUS = "InvalidStatus"
    MANIFEST_MISSING = "ManifestMissing"
    GROUP_IN_USE = "GroupInUse"
    # objects as a whole
    RECONCILED = "Reconciled"
    CLONING = "Cloning"
    PLACING = "Placing"
    REPLICAS_RAISED = "ReplicasRaised"
    WAITING = "Waiting"


class EventReason(StrEnum):
    """The reason of an Event; its page is in `docs/reference/conditions.md`."""

    STABLE = "Stable"
    UNSTABLE = "Unstable"
    MAP_CREATED = "MapCreated"
    MAP_CHANGED = "MapChanged"
    CLONE_STARTED = "CloneStarted"
    CLONE_SUCCEEDED = "CloneSucceeded"
    CLONE_FAILED = "CloneFailed"
    TARGET_FAILING = "TargetFailing"
    STALLED = "Stalled"
    AWAITING_APPROVAL = "AwaitingApproval"
    PROPOSAL_APPROVED = "ProposalApproved"
    MARKED_UNSTABLE = "MarkedUnstable"
    MARK_REMOVED = "MarkRemoved"
    BUCKET_SEQUENCE_SET = "BucketSequenceSet"
    TABLE_ACCEPTED = "TableAccepted"
    TABLE_REFUSED = "TableRefused"
    TABLE_MOVE_STARTED = "TableMoveStarted"
    TABLE_MOVED = "TableMoved"
    TABLE_DROPPED = "TableDropped"
    TABLE_PURGED = "TablePurged"
    TABLE_RECOVERED = "TableRecovered"
    RECOVER_REFUSED = "RecoverRefused"
    CERTIFICATE_REFUSED = "CertificateRefused"


DISK_REASONS = (Reason.DISK_MISSING, Reason.DISK_FAILING, Reason.DISK_READ_ONLY, Reason.DISK_FULL)
"""The faults of a node's disk."""


def is_disk_usable(reason: str | None) -> bool:
    """Whether an agent may use its disk. A full one takes no data files, but folders, renames and small files.

    ``reason``: the disk's fault; None or empty = none.
    """
    return not reason or reason == Reason.DISK_FULL
