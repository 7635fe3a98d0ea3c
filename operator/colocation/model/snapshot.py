"""The planner's input: a frozen picture of nodes, groups, maps and replicas, the clock included.

The JSON form is design.md's "Snapshots and plans as files".
"""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field

from .agent import ReplicaState
from .base import UTC, Frozen
from .clone import CloneBandwidth
from .conditions import Reason
from .group import BucketSequence, ColocationGroupSpec, Proposal


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


Moment = Annotated[datetime, AfterValidator(_in_utc)]
"""RFC 3339; a time without a zone is UTC."""


class Limits(Frozen):
    """Operator-wide switches and limits."""

    disable_colocate_relocate: bool = False
    disable_colocate_balance: bool = False
    max_concurrent_clones_per_node: int = Field(2, ge=1)
    disk_headroom_fraction: float = Field(0.10, ge=0, lt=1, description="Share of a disk that clones leave free.")
    clone_deadline_seconds: int = Field(
        180, ge=1, description="A clone that does not advance for so long is ended, and tried again."
    )
    clone_bandwidth: CloneBandwidth = CloneBandwidth()


class Node(Frozen):
    """A node that may hold replicas. ``ready``: the Node is Ready and its agent answers.

    ``schedulable`` False (cordoned, or a taint that is not tolerated): the node keeps what it has and counts as live.
    It takes no new replica; damaged ones are made whole in place. Its share is kept for it in groups whose map names
    it.

    ``not_ready_reason`` and ``not_ready_message`` say which of the two is missing (Reason.NODE_NOT_READY,
    Reason.AGENT_NOT_READY, or Reason.DISK_MISSING). ``disk_reason`` is what else is wrong with its disk, since
    ``disk_since``: full (it keeps what it has and takes nothing), or read-only or failing (its replicas serve until
    their successors are complete, which are made after the group's tolerance). ``weight`` is relative to other nodes'
    weights. While it is not known (the agent has not reported since the operator's start, or another disk is mounted),
    nothing is balanced in the pools that the node belongs to; repairs go on.
    """

    name: str
    zone: str | None = None
    weight: float = Field(1.0, ge=0, allow_inf_nan=False)
    is_weight_known: bool = Field(True, description="False: the size of its disk is unknown; weight is a guess.")
    ready: bool = True
    not_ready_since: Moment | None = None
    not_ready_reason: str | None = None
    not_ready_message: str = ""
    drain: bool = False
    drain_message: str = Field("", description="Why it is drained; empty = not known.")
    schedulable: bool = Field(True, description="False: cordoned or tainted; it keeps its replicas, takes none.")
    capacity_bytes: int = Field(0, ge=0)
    free_bytes: int = Field(0, ge=0)
    labels: dict[str, str] = {}
    disk_id: str = Field("", description="Of the data root's marker; empty = not known.")
    disk_reason: str | None = Field(None, description="DiskReadOnly, DiskFailing or DiskFull; null = nothing.")
    disk_message: str = ""
    disk_since: Moment | None = None

    @property
    def is_disk_sick(self) -> bool:
        """Whether its disk takes no writes, or loses some: nothing is repaired in place there."""
        return self.disk_reason in (Reason.DISK_READ_ONLY, Reason.DISK_FAILING)


class FailingTarget(Frozen):
    """A node on which clones of a group failed again and again.

    Before ``retry_at`` it takes none: repairs go to other nodes, balance counts on others, and what no other node can
    take waits, with reason TargetFailing. From ``retry_at`` on it takes one clone of the group at a time, and a repair
    still prefers other nodes. The maker of the snapshot counts failures and leaves the entry out after a success.
    ``cause``: a sentence without a full stop, for messages.
    """

    failures: int = Field(ge=1)
    retry_at: Moment
    cause: str = ""


class GroupState(Frozen):
    """A group with its map and what the nodes hold of it.

    ``map`` is None for a new group. ``bucket_bytes[b]``: bytes of bucket b of all tables, one replica; missing
    entries are 0. ``held[node][bucket]``: the state of that node's files of the bucket, over all tables (absent =
    holds nothing). A bucket of 0 bytes has nothing to hold: every live node is complete.
    ``unstable_since[bucket]``: when the bucket was first seen unstable.

    ``unconfirmed[node]``: buckets of the map that were complete there before the last commit, and of which the agent
    has not reported since, for less than the grace; ``held`` does not say complete. The verdict takes them for
    complete, nothing is cloned to them, and clones that run or wait for another attempt there are left alone.
    For everything else they are not complete: no replica is deleted and no node enters the map because of them, none is
    cloned from them, and no replica that may be whole leaves the map as long as they are. An entry of a node that is
    not ready, or whose files ``held`` calls corrupt, counts for nothing. ``failing_targets``: by node.

    ``proposal``: the last one, approved or not; ``approved_proposal``: the id that was approved last.
    """

    namespace: str
    name: str
    spec: ColocationGroupSpec
    map: BucketSequence | None = None
    bucket_bytes: tuple[int, ...] = ()
    held: dict[str, dict[int, ReplicaState]] = {}
    unconfirmed: dict[str, tuple[int, ...]] = {}
    failing_targets: dict[str, FailingTarget] = {}
    unstable_since: dict[int, Moment] = {}
    marked_unstable: str | None = Field(None, description="Who marked the group unstable by hand, and why.")
    proposal: Proposal | None = None
    approved_proposal: str | None = None

    def bytes_of(self, bucket: int) -> int:
        """Bytes of a bucket of all tables, one replica."""
        return self.bucket_bytes[bucket] if bucket < len(self.bucket_bytes) else 0


class Clone(Frozen):
    """A clone Job that has not ended. ``source`` ('from') is the replica it was planned to replace, or None.

    ``since`` is when it last advanced (its start, when it never did).
    """

    namespace: str
    group: str
    bucket: int
    source: str | None = Field(None, alias="from")
    to: str
    since: Moment
    bytes_done: int = 0
    bytes_total: int = Field(0, description="Of a table that moves to another group; a group's own say it themselves.")
    failures: int = Field(0, description="Failed attempts so far.")
    retry_at: Moment | None = Field(None, description="Not before this time, after a failure.")


class Snapshot(Frozen):
    """All that a plan is computed from."""

    now: Moment
    limits: Limits = Limits()
    nodes: tuple[Node, ...] = ()
    groups: tuple[GroupState, ...] = ()
    clones: tuple[Clone, ...] = ()

    def find_group(self, key: tuple[str, str]) -> GroupState | None:
        """The group of this namespace and name; None when there is none."""
        return next((one for one in self.groups if (one.namespace, one.name) == key), None)
