"""ColocationGroup: the schema that all tables of a group share, and what the operator reports about it.

The status also holds the group's proposal, and remembers its tables (members and recycled ones), so that nothing is
lost when a table is dropped while the operator is away. Of a table it remembers only what the manifests on the nodes
lack: which manifest was committed, and how long to keep it.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, field_validator

from .base import MAX_BUCKETS, MAX_KEY_COLUMNS, MAX_REPLICAS, MAX_SECONDS, Frozen, Observed, Shared, Time
from .conditions import Condition, Reason
from .names import table_directory
from .spark_types import canonical_type, is_key_type
from .table import COLUMNS_DIGEST_DIGITS, Compaction, Retention, SharedCompaction, SharedRetention, TableSnapshot

Approval = Literal["automatic", "manual"]
MAX_PROPOSED_MOVES = 200
"""Moves of one proposal, which the group's status has in full; further moves come with the next proposal."""
ID_DIGITS = 16


class ProposedMove(Observed):
    """One replica that would move."""

    bucket: int
    source: str | None = Field(None, alias="from", description="The node that gives the replica up.")
    to: str = Field(description="The node that takes it.")
    bytes: int = Field(0, description="Bytes to copy, when the proposal was made.")


class Proposal(Observed):
    """Balance moves that are held until they are approved by name.

    The id is a digest of the group, the time and the moves: no two proposals have one id, so an approval is good for
    what was looked at, once.
    """

    id: str = Field(description="Digest of the proposal; an approval names it.")
    made_at: Time = Field(description="RFC 3339, UTC.")
    reason: str = Field(description="Why the replicas would move, in one word.")
    approved: bool = Field(False, description="Whether it was approved; the moves are then made.")
    replicas: int = Field(description="How many replicas would move.")
    bytes: int = Field(description="Bytes to copy, when the proposal was made.")
    moves: tuple[ProposedMove, ...] = ()

    @property
    def keys(self) -> frozenset[tuple[int, str | None, str]]:
        """The moves, as (bucket, from, to)."""
        return frozenset((move.bucket, move.source, move.to) for move in self.moves)

    def is_of(self, group: tuple[str, str]) -> bool:
        """Whether the id is that of this content, and of this group."""
        return self.id == _digest(group, self.made_at, self.moves)


def make_proposal(group: tuple[str, str], made_at: str, reason: str, moves: Iterable[ProposedMove]) -> Proposal:
    """A proposal of these moves for the group (namespace, name)."""
    kept = tuple(moves)
    return Proposal(
        id=_digest(group, made_at, kept),
        made_at=made_at,
        reason=reason,
        replicas=len(kept),
        bytes=sum(move.bytes for move in kept),
        moves=kept,
    )


def _digest(group: tuple[str, str], made_at: str, moves: tuple[ProposedMove, ...]) -> str:
    content = [*group, made_at, [[move.bucket, move.source, move.to, move.bytes] for move in moves]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:ID_DIGITS]


def awaiting_message(group: tuple[str, str], proposal: Proposal) -> str:
    """The message for a proposal of the group (namespace, name) that is not approved; the same in conditions,
    events and commands.
    """
    namespace, name = group
    replicas = f"{proposal.replicas} replica{'' if proposal.replicas == 1 else 's'}"
    return (
        f"proposal {proposal.id} moves {replicas}, {proposal.bytes} bytes; nothing moves until it is approved: "
        f"colocation approve {name} -n {namespace} --proposal {proposal.id}"
    )


def approved_message(proposal: Proposal) -> str:
    """The message for a proposal that was just approved."""
    moves = "1 replica moves" if proposal.replicas == 1 else f"{proposal.replicas} replicas move"
    return f"proposal {proposal.id}: {moves}"


MAX_TABLES = 1000
"""Of a group: its status remembers some 650 bytes of each, and etcd takes 1.5 MiB for the object."""
MAX_RECYCLED_TABLES = 500
"""Kept in a group's status; of more, the first dropped are forgotten: they are purged, and cannot be recovered."""


class GroupMember(Observed):
    """A table that the group places, as it was last seen."""

    namespace: Shared
    name: Shared
    uid: Shared
    snapshot: TableSnapshot | None = None
    recycle_after_seconds: int = Field(
        86400, ge=0, le=MAX_SECONDS, description="How long its files are kept once it is dropped."
    )
    retention: SharedRetention = Retention()
    compaction: SharedCompaction = Compaction()
    replicas: int | None = Field(None, description="Of the table, when the group took its spec last.")
    columns_digest: Shared = Field(
        "", max_length=COLUMNS_DIGEST_DIGITS, description="Of the columns that the group took last; see the table."
    )
    leaving: bool = Field(
        False, description="It moves to another group: this one serves it, and deletes none of its files any more."
    )

    @property
    def directory(self) -> str:
        """The table's folder below its namespace."""
        return table_directory(self.name, self.uid)


class RecycledTable(GroupMember):
    """A dropped table that waits in the recycle bins."""

    deleted_at: Time = Field(description="When the operator learned of it; RFC 3339, UTC.")
    purge_at: Time = Field(description="When its files go for good; RFC 3339, UTC.")
    recovery_uids: tuple[str, ...] = Field(
        (), description="Uids of tables made to bring it back: its folders lie under their names too."
    )

    @property
    def directories(self) -> tuple[str, ...]:
        """Folders in which its files may lie, its own first."""
        return tuple(table_directory(self.name, uid) for uid in (self.uid, *self.recovery_uids))


MAX_LISTED_UNSTABLE_BUCKETS = 20
MAX_ALLOWED_NAMESPACES = 256


class Relocation(Frozen):
    """What happens when a node is lost (Doris' and StarRocks' ``disable_colocate_relocate``)."""

    enabled: bool = Field(True, description="Replace the replicas of lost nodes.")
    down_tolerance_seconds: int = Field(
        1800, ge=0, le=MAX_SECONDS,
        description="How long a node may be down before its replicas are made again on other nodes.",
    )


class Balancing(Frozen):
    """How replicas are spread over the nodes (Doris' and StarRocks' ``disable_colocate_balance``)."""

    enabled: bool = Field(True, description="Move replicas when nodes are added or weights change.")
    approval: Approval = Field(
        "automatic",
        description="manual: such moves are proposed in status.proposal, and made once they are approved by "
        "`colocation approve`. Repairs and drains never wait.",
    )
    max_concurrent_clones: int = Field(4, ge=1, le=1000, description="Clone Jobs of this group at one time.")
    max_bandwidth_mib_per_second: float | None = Field(
        None, alias="maxBandwidthMiBPerSecond", gt=0,
        description="Bandwidth of all clones of this group; null = no limit.",
    )
    strict: bool = Field(
        False,
        description="As in Doris and StarRocks, the group is unstable while replicas move. Default: it stays stable.",
    )


ExecutorAffinity = Literal["Required", "Preferred"]

BucketSequence = tuple[tuple[Shared, ...], ...]
"""Nodes per bucket; index = bucket. The order within a bucket has no meaning."""


class ColocationGroupSpec(Frozen):
    """The wanted state of a group. ``bucketKey``, ``buckets`` and ``replicas`` are its CGS."""

    bucket_key: Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_KEY_COLUMNS)] = Field(
        description="Spark SQL types of the bucket key, in order, e.g. [bigint]."
    )
    buckets: int = Field(ge=1, le=MAX_BUCKETS, description="Number of buckets of every table of the group.")
    replicas: int = Field(ge=1, le=MAX_REPLICAS, description="Replicas of every bucket, on different nodes.")
    node_selector: dict[str, str] = Field(
        default_factory=dict, description="Labels of the nodes that may hold buckets; empty = every node with an agent."
    )
    topology_key: str = Field(
        "",
        description="Node label; replicas of a bucket go to different values where possible. Empty: "
        "topology.kubernetes.io/zone.",
    )
    relocation: Relocation = Relocation()
    balancing: Balancing = Balancing()
    bucket_sequence: BucketSequence | None = Field(None, description="A map set by hand: the nodes of each bucket.")
    deletion_policy: Literal["WithLastTable", "Retain"] = Field(
        "WithLastTable", description="WithLastTable: the group goes with its last table. Retain: it stays."
    )

    allowed_namespaces: Annotated[tuple[str, ...], Field(max_length=MAX_ALLOWED_NAMESPACES)] = Field(
        (), description="Other namespaces whose tables may be in the group; * = every namespace."
    )

    executor_affinity: ExecutorAffinity = Field(
        "Required",
        description="How Spark's executors are kept on the group's nodes. Required: they start nowhere else. "
        "Preferred: elsewhere too while those nodes have no room; they then read over the network.",
    )

    @field_validator("bucket_key")
    @classmethod
    def _known_key_types(cls, types: tuple[str, ...]) -> tuple[str, ...]:
        for name in types:
            if not is_key_type(name):
                raise ValueError(f"bucketKey type {name!r} cannot be hashed into buckets")
        return tuple(canonical_type(name) for name in types)


class UnstableBucket(Observed):
    bucket: int
    reason: str = Field(description="Why, in one word.")
    message: str = Field("", description="Why, with the node and what is missing there.")
    since: Time | None = Field(None, description="RFC 3339, UTC.")
    replicas: dict[str, str] = Field(
        default_factory=dict,
        description="Node of the map -> complete, partial, corrupt, missing, or down when it cannot be read now.",
    )


class CloneCounts(Observed):
    """Clones of the group; bytes are of the running ones.

    ``counted`` makes the counts exact across restarts: a Job that has ended is counted once, however long it stays.
    """

    pending: int = Field(0, description="Replicas that are still to be cloned and wait for their turn.")
    running: int = Field(0, description="Clone Jobs that have not ended.")
    succeeded: int = Field(0, description="Clone Jobs that have succeeded so far.")
    failed: int = Field(0, description="Clone Jobs that have failed so far; failed ones are tried again.")
    bytes_total: int = Field(0, description="Bytes that the running clones copy.")
    bytes_done: int = Field(
        0,
        description="Bytes that the running clones have copied, rounded down to a tenth of bytesTotal; the metric "
        "colocation_group_clone_bytes is exact.",
    )
    counted: tuple[str, ...] = Field((), description="Uids of the ended Jobs that the counts include already.")


class FailingTargetStatus(Observed):
    """A node on which clones of the group failed again and again."""

    node: str
    failures: int = Field(description="Failed attempts in a row.")
    retry_at: Time = Field(description="It takes no clone before this time; RFC 3339, UTC.")
    message: str = Field("", description="How the last attempt failed.")


class RememberedDisk(Observed):
    """The disk on which a node holds, or held, the group's replicas."""

    node: str
    node_uid: str = Field("", description="The first 8 characters of the Node's uid: another Node may have another.")
    disk: str = Field(description="The id in the marker of the node's data root.")


class ColocationGroupStatus(Observed):
    observed_generation: int | None = Field(None, description="The generation of the spec that this status is about.")
    group_id: str | None = Field(None, description="Id in the cluster: the namespace's short uid, a dot, a number.")
    stable: bool | None = Field(
        None, description="Whether every replica in the map is complete on a live node: joins need no shuffle."
    )
    reason: str | None = Field(None, description="Why the group is (not) stable, in one word; the Stable condition's.")
    dist_cols: str | None = Field(None, description="Types of the bucket key, in order.")
    tables: tuple[str, ...] = Field(
        (),
        description="The group's tables, those of other namespaces as <namespace>/<name>; with * behind it: dropped, "
        "and in the recycle bin until it is purged.",
    )
    table_count: int | None = Field(None, description="How many tables the group has; dropped ones do not count.")
    nodes: tuple[str, ...] = Field((), description="The nodes in the map.")
    node_count: int | None = Field(None, description="How many nodes are in the map.")
    backends_per_bucket_seq: BucketSequence | None = Field(
        None, description="The map: the nodes of each bucket; index = bucket."
    )
    map_version: int | None = Field(None, description="Grows with every change of the map.")
    unstable_buckets: tuple[UnstableBucket, ...] = Field((), description="The first 20 buckets that are not stable.")
    unstable_bucket_count: int | None = Field(None, description="How many buckets are not stable.")
    clones: CloneCounts | None = None
    proposal: Proposal | None = Field(
        None, description="The balance moves that await approval, or that were approved and are being made."
    )
    failing_targets: tuple[FailingTargetStatus, ...] = Field(
        (), description="Nodes that are left out as targets of clones for a growing time."
    )
    disks: tuple[RememberedDisk, ...] = Field(
        (), description="The disks of the nodes of the map; a node with another one takes no replicas: DiskMissing."
    )
    members: tuple[GroupMember, ...] = Field(
        (), description="What the operator has to know of a table that is dropped while it is away."
    )
    recycled: tuple[RecycledTable, ...] = Field(
        (), description="Dropped tables that can be brought back by `colocation recover`; at most 500 are kept."
    )
    delete_after: Time | None = Field(None, description="When the group goes, now that its last table has gone.")
    conditions: tuple[Condition, ...] = Field((), description="Ready, Stable, Reconciling, Stalled.")


def namespace_refusal(group: tuple[str, str], allowed: Iterable[str], namespace: str) -> str:
    """Why tables and applications of a namespace may not use a group; empty when they may.

    Args:
        group: its (namespace, name).
        allowed: ``allowedNamespaces`` of its spec.
        namespace: of the table or application.
    """
    listed = tuple(allowed)
    if group[0] == namespace or {"*", namespace} & set(listed):
        return ""
    return (
        f"{Reason.NAMESPACE_NOT_ALLOWED}: group {'/'.join(group)} allows namespaces [{', '.join(listed)}], and this is "
        f"namespace {namespace}; add it to allowedNamespaces of the group"
    )
