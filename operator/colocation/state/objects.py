"""Objects of the API server that the operator looks at, parsed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from sys import intern
from typing import Literal

from ..manifests.clone_job import CLONE_NAME_PREFIX, CLONE_UID_DIGITS, clone_job_name
from ..model.agent import TableReference
from ..model.base import parse_time
from ..model.group import ColocationGroupSpec, ColocationGroupStatus
from ..model.names import AGENT_PORT, group_key, private_group_name, table_directory
from ..model.table import ColocatedTableSpec, ColocatedTableStatus

JobPhase = Literal["pending", "running", "succeeded", "failed"]


@dataclass(frozen=True, slots=True)
class Identity:
    """What every Kubernetes object has. ``resource_version`` is the precondition of writes."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created_at: datetime
    deleting: bool = False


@dataclass(frozen=True)
class ObservedGroup:
    """A ColocationGroup; ``spec`` is None when ``spec_error`` gives the reason why it cannot be understood.

    ``marked_unstable``: who marked it unstable by hand, and since when; None = unmarked. ``approved_proposal``: the id
    that somebody approved. ``private``: it is of one table that is in no group. ``recover_requests``: beginnings of
    uids of dropped tables that a user wants back. ``status_error``: what of the status could not be understood, and is
    left out of ``status``; empty = nothing.
    """

    identity: Identity
    spec: ColocationGroupSpec | None
    spec_error: str
    status: ColocationGroupStatus
    marked_unstable: str | None = None
    approved_proposal: str | None = None
    private: bool = False
    recover_requests: frozenset[str] = frozenset()
    status_error: str = ""

    @property
    def scope(self) -> str:
        """The name of what is decided about the group, for logs and metrics."""
        return f"group {self.identity.namespace}/{self.identity.name}"

    @property
    def key(self) -> tuple[str, str]:
        """(namespace, name)."""
        return self.identity.namespace, self.identity.name


@dataclass(frozen=True)
class ObservedTable:
    """A ColocatedTable; ``spec`` is None when ``spec_error`` gives the reason why it cannot be understood.

    ``recovers``: uid of the dropped table that it brings back. ``adopts``: the first digits of the uid under which its
    files lie, where objects were lost and an administrator allows it; empty = none. ``status_error``: what of it
    could not be understood (``status`` lacks it); empty = nothing. ``replaces``: the manifest whose rows go,
    by a statement whose definition of the table is there already.
    """

    identity: Identity
    spec: ColocatedTableSpec | None
    spec_error: str
    status: ColocatedTableStatus
    recovers: str | None = None
    status_error: str = ""
    adopts: str = ""
    replaces: str | None = None

    @property
    def scope(self) -> str:
        """The name of what is decided about the table, for logs and metrics."""
        return f"table {self.identity.namespace}/{self.identity.name}"

    @property
    def is_being_replaced(self) -> bool:
        """Whether the spec is that of rows which are still to be committed, in the place of all that are there.

        The next commit ends it, whatever makes it: every commit is of rows that fit the spec.
        """
        return self.status.snapshot is not None and self.status.snapshot.manifest == self.replaces

    @property
    def is_recovering(self) -> bool:
        """Whether it was made to bring back the data of a dropped or lost table, and has not got it yet.

        A table whose status cannot be read may have its snapshot already.
        """
        is_made_again = self.recovers is not None or bool(self.adopts)
        return is_made_again and self.status.snapshot is None and not self.status_error

    @cached_property
    def history_ends_at(self) -> datetime | None:
        """When time alone first takes a retained snapshot away; None = it takes none."""
        snapshot, history = self.status.snapshot, self.status.history
        if snapshot is None or self.spec is None:
            return None
        newer = (snapshot, *history)[: len(history)]
        times = [moment for one in newer if (moment := parse_time(one.committed_at))]
        try:
            return min(times) + timedelta(seconds=self.spec.retention.seconds) if times else None
        except OverflowError:
            return None  # beyond the end of all calendars

    @cached_property
    def status_group(self) -> tuple[str, str] | None:
        """(namespace, name) of the group that its status names."""
        return group_key(self.identity.namespace, self.status.group) if self.status.group else None

    @cached_property
    def spec_group(self) -> tuple[str, str] | None:
        """That of the group that its spec names; its private one when it names none; None = the spec is not valid."""
        if self.spec is None:
            return None
        if self.spec.colocate_with:
            return group_key(self.identity.namespace, self.spec.colocate_with)
        return self.identity.namespace, private_group_name(self.identity.name, self.identity.uid)

    @cached_property
    def directory(self) -> str:
        """The table's folder below its namespace."""
        return intern(table_directory(self.identity.name, self.identity.uid))

    @cached_property
    def reference(self) -> TableReference:
        """The table as agents know it."""
        snapshot = self.status.snapshot
        return TableReference(
            namespace=self.identity.namespace,
            directory=self.directory,
            manifest=snapshot.manifest_sha256 if snapshot else None,
            retained_manifests=tuple(one.manifest_sha256 for one in self.status.history),
        )


@dataclass(frozen=True)
class DroppedTable:
    """A table as it was last seen before it was deleted, and when its deletion was heard of."""

    table: ObservedTable
    dropped_at: datetime


@dataclass(frozen=True)
class ObservedNode:
    """A Node. ``ready_changed_at`` is when its Ready condition last changed.

    ``schedulable``: whether it takes new replicas, i.e. it is not cordoned and has no taint that is not tolerated.
    ``accepted_disk``: the disk that an admin has said may lie there from now on. ``discarded_folders``: those of which
    an admin has said that they may go, '<namespace>/<directory>'.
    ``group_labels``: those by which Spark's executors find a group's nodes; ``labels`` holds all others.
    """

    name: str
    labels: Mapping[str, str]
    ready: bool
    ready_changed_at: datetime | None
    not_ready_message: str
    deleting: bool
    schedulable: bool = True
    uid: str = ""
    accepted_disk: str = ""
    discarded_folders: frozenset[str] = frozenset()
    group_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ObservedAgent:
    """An agent's pod; ``address`` is the pod's IP, None before it has one.

    ``node_address``, ``node_port``: the node's IP, and its port that leads to the agent's; None and 0 = it has none.
    ``ready``: no probe of Kubernetes fails.
    ``takes_node_tokens``: it knows the audience of its node; agents of the release before do not.
    ``shares_certificate``: it is of the release before, whose agents share one that names no node.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    node: str
    address: str | None
    deleting: bool
    node_address: str | None = None
    node_port: int = 0
    ready: bool = True
    takes_node_tokens: bool = False
    shares_certificate: bool = False

    @property
    def readers_url(self) -> str | None:
        """Where Spark and clone Jobs reach the agent: at its node's address if it has a port there, which outlives the
        pod; else at the pod's.
        """
        if self.node_address and self.node_port:
            return _https(self.node_address, self.node_port)
        return self.url

    @property
    def url(self) -> str | None:
        """Where the agent listens, once its pod has an address."""
        if self.address is None or self.deleting:
            return None
        return _https(self.address, AGENT_PORT)


@dataclass(frozen=True)
class ObservedHolder:
    """A node's holder pod. ``deleting``: it is Terminating. ``has_ended``: its container has ended for good."""

    namespace: str
    name: str
    uid: str
    node: str
    created_at: datetime
    deleting: bool = False
    has_ended: bool = False


@dataclass(frozen=True)
class ObservedCloneError:
    """Why the pod of a clone failed, or does not start. ``job_uid``: of the clone's Job."""

    job_uid: str
    message: str


def _https(address: str, port: int) -> str:
    host = f"[{address}]" if ":" in address else address
    return f"https://{host}:{port}"


@dataclass(frozen=True)
class ObservedCloneJob:
    """A clone Job. ``failures`` counts the failed attempts so far, this one included when it failed.

    ``advanced_at``: since when its phase and bytes are what they are, by the operator's own clock; None = not known.
    """

    identity: Identity
    group_namespace: str
    group: str
    bucket: int
    source: str | None
    target: str
    failures: int
    phase: JobPhase
    started_at: datetime | None
    finished_at: datetime | None
    message: str = ""
    advanced_at: datetime | None = None

    @property
    def place(self) -> tuple[str, str, str, int]:
        """Where it copies to, and what: (target, namespace, group, bucket)."""
        return self.target, self.group_namespace, self.group, self.bucket

    @cached_property
    def owner(self) -> str:
        """First digits of the uid of the group, or table, that it copies for; empty if its name does not fit its
        bucket and target.
        """
        name = self.identity.name
        uid = name.removeprefix(CLONE_NAME_PREFIX)[:CLONE_UID_DIGITS]
        return uid if name == clone_job_name(uid, self.bucket, self.target) else ""


@dataclass(frozen=True)
class ObservedVolume:
    """A PersistentVolume. ``namespace``: whose files it holds, if the operator has made it; empty = it has not.

    ``path``: the folder of each node that it is. ``claim_uid``: of the claim that may have it.
    """

    identity: Identity
    namespace: str
    path: str
    claim_uid: str


@dataclass(frozen=True)
class ObservedClaim:
    """A PersistentVolumeClaim. ``is_ours``: the operator has made it. ``volume``: what it has; empty = nothing yet."""

    identity: Identity
    is_ours: bool
    volume: str


@dataclass(frozen=True)
class RefusedFiles:
    """That the API server refused the volume or the claim of a namespace: why, and when to try again."""

    message: str
    retry_at: datetime
