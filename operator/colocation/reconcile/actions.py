"""What a pass may do to the cluster, as values: decided by pure code, performed by a writer, replayed by tests.

Every action may be performed twice, by two operators at once, and after any crash: names are deterministic, writes
carry what they were decided from as a precondition.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ..manifests.config_map import SparkConfigMap
from ..model.agent import DeletionProof
from ..model.clone import CloneSpec
from ..model.conditions import EventReason
from ..model.group import ColocationGroupSpec, RecycledTable
from ..model.reader_rules import SignOfLife
from ..state.objects import Identity

JsonObject = dict[str, Any]

EventKind = Literal["Normal", "Warning"]


@dataclass(frozen=True)
class Owner:
    """An object with which another one goes."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True)
class CreateGroup:
    """Make the group that a table names and that is missing; one that exists by then is left alone."""

    namespace: str
    name: str
    spec: ColocationGroupSpec
    private: bool = False


@dataclass(frozen=True)
class DroppedFolder:
    """A dropped table's folder on a node, in the recycle bin or in its place; ``url``: of the node's agent."""

    url: str
    directory: str


@dataclass(frozen=True)
class CreateTable:
    """Make the table that brings a dropped one back, with the schema in its manifest. Agents are asked one after the
    other: a node that was away at the last commit may hold files, and not the manifest.

    A table of that name that exists by then is left alone.
    """

    record: RecycledTable
    folders: tuple[DroppedFolder, ...]
    colocate_with: str
    replicas: int


@dataclass(frozen=True)
class EndRecoverRequests:
    """Take away annotations by which users asked for dropped tables."""

    group: Identity
    requests: tuple[str, ...]


@dataclass(frozen=True)
class DeleteGroup:
    """Delete a group that has outlived its last table."""

    group: Identity


@dataclass(frozen=True)
class MarkGroupUnstable:
    """Merge ``status``, a few fields that call the group unstable, into its status, even if it was written meanwhile.

    Only the group's uid is a precondition: that a group is stable must not stand because a write was overtaken.
    """

    group: Identity
    status: Mapping[str, object]


@dataclass(frozen=True)
class WriteGroupStatus:
    """Merge ``status`` into the group's, if it was not written since it was read.

    When it fails, ``fallbacks`` are tried in turn, up to the first that succeeds; the write still counts as failed.
    """

    group: Identity
    status: Mapping[str, object]
    fallbacks: "tuple[WriteGroupStatus | MarkGroupUnstable, ...]" = ()


@dataclass(frozen=True)
class WriteTableStatus:
    """Merge ``status`` into the table's, if it was not written since it was read (loaders commit there)."""

    table: Identity
    status: Mapping[str, object]


@dataclass(frozen=True)
class StartClone:
    """Create the clone Job ``name``, in place of ``replaces``, the Job of the last attempt, if there was one.

    ``source`` is the replica that the new one succeeds; ``failures`` the failed attempts so far.
    """

    name: str
    spec: CloneSpec
    source: str | None
    failures: int = 0
    replaces: Identity | None = None


@dataclass(frozen=True)
class RemoveClone:
    """Delete a clone Job: it has ended and is counted, or is not wanted any more."""

    job: Identity


@dataclass(frozen=True)
class TableDrop:
    """One table's part of a deletion: ``manifests`` are all whose files are wanted, never none of them."""

    namespace: str
    directory: str
    manifests: tuple[str, ...]
    proof: DeletionProof


@dataclass(frozen=True)
class DropBucket:
    """Delete one bucket's files of all tables of a group on a node, but for those that a load may yet commit.

    Performed only if the group's map still has ``map_version``: the drop was decided against that map. Each table goes
    by an order of its own, which the agent carries out only while its proof holds.
    """

    group: Identity
    map_version: int
    node: str
    url: str
    bucket: int
    tables: tuple[TableDrop, ...]
    grace_seconds: int


@dataclass(frozen=True)
class RecycleTable:
    """Move a dropped table's folder on one node into the recycle bin, unless the table turns out to exist.

    ``is_explained``: a group remembers that the table was dropped. ``size_bytes``: of its files, as the agent reports.
    """

    node: str
    url: str
    namespace: str
    directory: str
    keep_seconds: int
    proof: DeletionProof
    is_explained: bool = True
    size_bytes: int = 0


@dataclass(frozen=True)
class RestoreTable:
    """Make a dropped table's folder on one node that of the table that brings it back.

    ``term``: of the operator that orders it.
    """

    node: str
    url: str
    namespace: str
    directory: str
    successor: str
    term: int = 0


@dataclass(frozen=True)
class CollectGarbage:
    """Remove files of a table on one node that no live manifest has named for the grace."""

    node: str
    url: str
    namespace: str
    directory: str
    manifests: tuple[str, ...]
    grace_seconds: int
    proof: DeletionProof


@dataclass(frozen=True)
class WriteConfigMap:
    """Make the group's ConfigMap for Spark so, in the namespace of ``content``.

    It goes with its owners: the group, or in another namespace the tables there that are in the group. ``sign``: of the
    operator's life, when it is written; no part of what is decided.
    """

    group: Identity
    content: SparkConfigMap
    owners: tuple[Owner, ...]
    sign: SignOfLife | None = None


@dataclass(frozen=True)
class CreateDataClaim:
    """Make the claim on a namespace's files; whatever has its name already is looked at in the next pass."""

    namespace: str


@dataclass(frozen=True)
class CreateDataVolume:
    """Make the volume of a namespace's files, for the claim with this uid; ``data_root``: of the nodes."""

    namespace: str
    data_root: str
    claim_uid: str


@dataclass(frozen=True)
class DeleteDataClaim:
    """Delete a claim of ours; it stays until no pod uses it."""

    claim: Identity


@dataclass(frozen=True)
class DeleteDataVolume:
    """Delete a volume of ours, no files; it stays until no claim has it."""

    volume: Identity


@dataclass(frozen=True)
class LabelNode:
    """Make labels of a Node so; None takes one away. ``uid``: of the Node, a precondition."""

    node: str
    uid: str
    labels: Mapping[str, str | None]


@dataclass(frozen=True)
class CreateHolder:
    """Make the holder pod of a node."""

    node: str


@dataclass(frozen=True)
class ReleaseHolder:
    """Remove a node's holder pod at once. ``only_if_schedulable``: unless the node takes no new pods after all: it may
    have been cordoned before the holder was evicted, of which this operator had not heard.
    """

    namespace: str
    name: str
    uid: str
    node: str
    only_if_schedulable: bool


@dataclass(frozen=True)
class PostEvent:
    """An Event about a group, a table or an agent's pod; the same one again only counts up."""

    kind: str
    subject: Identity
    type: EventKind
    reason: EventReason
    message: str


Action = (
    CreateGroup
    | CreateTable
    | EndRecoverRequests
    | DeleteGroup
    | MarkGroupUnstable
    | WriteGroupStatus
    | WriteTableStatus
    | StartClone
    | RemoveClone
    | DropBucket
    | RecycleTable
    | RestoreTable
    | CollectGarbage
    | WriteConfigMap
    | CreateDataClaim
    | CreateDataVolume
    | DeleteDataClaim
    | DeleteDataVolume
    | LabelNode
    | CreateHolder
    | ReleaseHolder
    | PostEvent
)


class ClusterWriter(Protocol):
    """Performs actions; the real one is ``kube.writer``, simulations have their own."""

    async def perform(self, action: Action) -> None:
        """Do it.

        Raises:
            ClusterError: it could not be done; the next pass decides again.
        """
