"""What the operator saw of the cluster at one moment: the input of a pass, parsed, with the clock.

A frozen value, so that a pass can be replayed, simulated and interrupted anywhere.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from sys import intern
from typing import Literal, NamedTuple

from ..model.adoption import Adoption
from ..model.agent import AgentReport, AskedTable, TableReference, TableReport
from ..model.group import ColocationGroupSpec, ColocationGroupStatus
from ..model.names import AGENT_PORT, table_directory
from ..model.table import ColocatedTableSpec, ColocatedTableStatus
from ..model.times import parse_time

JobPhase = Literal["pending", "running", "succeeded", "failed"]
TableKey = tuple[str, str]
"""(namespace, directory)."""


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
    """A ColocationGroup; ``spec`` is None when ``spec_error`` says why it cannot be understood.

    ``marked_unstable``: who marked it unstable by hand, and since when; None = nobody. ``approved_proposal``: the id
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
    def key(self) -> tuple[str, str]:
        """(namespace, name)."""
        return self.identity.namespace, self.identity.name


@dataclass(frozen=True)
class ObservedTable:
    """A ColocatedTable; ``spec`` is None when ``spec_error`` says why it cannot be understood.

    ``recovers``: uid of the dropped table that it brings back; ``adopts``: what that one was, where no group remembers
    it and it is made again from the manifests on the disks. ``status_error``: what of the status could not be
    understood, and is left out of ``status``; empty = nothing. ``replaces``: the manifest whose rows go, by a statement
    whose definition of the table is there already.
    """

    identity: Identity
    spec: ColocatedTableSpec | None
    spec_error: str
    status: ColocatedTableStatus
    recovers: str | None = None
    status_error: str = ""
    adopts: Adoption | None = None
    replaces: str | None = None

    @property
    def is_being_replaced(self) -> bool:
        """Whether the spec is that of rows which are still to be committed, in the place of all that are there.

        The next commit ends it, whoever makes it: every commit is of rows that fit the spec.
        """
        return self.status.snapshot is not None and self.status.snapshot.manifest == self.replaces

    @property
    def is_recovering(self) -> bool:
        """Whether it was made to bring back a dropped table's data, and has not got it yet.

        A table whose status cannot be read may have its snapshot already.
        """
        return self.recovers is not None and self.status.snapshot is None and not self.status_error

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


@dataclass(frozen=True)
class AgentView:
    """The last word of one node's agent.

    ``report``: the newest answer's header (disk, folders, clones, its process); its own ``tables`` are not all.
    ``tables``: all that it has said of the tables that are ``asked``; one that was asked and is missing is not there.
    ``answered_at`` is None when it never answered. ``silent_since`` is None while it answers. ``asked_at``: when the
    question was put that was answered last; None = at ``answered_at``.
    """

    report: AgentReport | None = None
    tables: Mapping[TableKey, TableReport] = field(default_factory=dict)
    asked: Mapping[TableKey, AskedTable] = field(default_factory=dict)
    answered_at: datetime | None = None
    silent_since: datetime | None = None
    asked_at: datetime | None = None

    @classmethod
    def of(
        cls,
        report: AgentReport,
        asked: Iterable[AskedTable] | None = None,
        answered_at: datetime | None = None,
        silent_since: datetime | None = None,
        asked_at: datetime | None = None,
    ) -> "AgentView":
        """The view after a full report; ``asked`` None: the tables that it speaks of."""
        tables = {(table.namespace, table.directory): table for table in report.tables}
        if asked is None:
            asked = tuple(_asked_about(table) for table in report.tables)
        return cls(report, tables, {key_of(one.reference): one for one in asked}, answered_at, silent_since, asked_at)

    def is_newer_than(self, moment: datetime) -> bool:
        """Whether the report was asked for after this moment."""
        told_at = self.asked_at or self.answered_at
        return told_at is not None and told_at > moment


def key_of(reference: TableReference) -> TableKey:
    """(namespace, directory) of the table."""
    return reference.namespace, reference.directory


def _asked_about(table: TableReport) -> AskedTable:
    reference = TableReference(namespace=table.namespace, directory=table.directory, manifest=table.manifest)
    return AskedTable(reference=reference, uid="")


BucketBytes = Mapping[int, int]


class AnsweringAgent(NamedTuple):
    """An agent that can be told something now. ``report``: the view's."""

    node: str
    url: str
    view: AgentView
    report: AgentReport


@dataclass(frozen=True)
class Observation:
    """The cluster at ``now``.

    ``agent_views``: by node name. ``bucket_bytes``: per (namespace, directory, manifest) the bytes of each bucket, as
    any agent has ever reported since this operator started. ``dropped_tables``: by uid, those that this
    operator saw deleted. ``namespace_uids``: of the groups' namespaces.
    ``ca_certificate``: PEM of the agents' CA. ``version``: two observations of the same one differ in the clock only;
    None = not known. ``term``: of the leader that observes; ``started_at``: when it began to lead and to ask agents.
    ``snapshots_seen_at``: table uid -> when its committed manifest of now was first seen, while that is recent.
    ``tables_seen_at``: table uid -> when it was first seen, of tables that were made since the start.
    ``last_readers_urls``: node -> where its agent was to be reached last, also while it has no pod.
    ``volumes`` and ``claims``: of namespaces' files; others' only where they have a name of ours. ``refused_files``:
    namespace -> what the API server refused to this operator lately.
    """

    now: datetime
    groups: tuple[ObservedGroup, ...] = ()
    tables: tuple[ObservedTable, ...] = ()
    nodes: tuple[ObservedNode, ...] = ()
    agents: tuple[ObservedAgent, ...] = ()
    clone_jobs: tuple[ObservedCloneJob, ...] = ()
    agent_views: Mapping[str, AgentView] = field(default_factory=dict)
    bucket_bytes: Mapping[tuple[str, str, str], BucketBytes] = field(default_factory=dict)
    dropped_tables: Mapping[str, DroppedTable] = field(default_factory=dict)
    namespace_uids: Mapping[str, str] = field(default_factory=dict)
    ca_certificate: str = ""
    version: int | None = None
    term: int = 0
    started_at: datetime | None = None
    snapshots_seen_at: Mapping[str, datetime] = field(default_factory=dict)
    tables_seen_at: Mapping[str, datetime] = field(default_factory=dict)
    last_readers_urls: Mapping[str, str] = field(default_factory=dict)
    volumes: tuple[ObservedVolume, ...] = ()
    claims: tuple[ObservedClaim, ...] = ()
    refused_files: Mapping[str, RefusedFiles] = field(default_factory=dict)

    def has_heard(self, view: AgentView, table: ObservedTable) -> bool:
        """Whether it is known what this agent has of the table, as it is wanted now.

        It was asked about it; or it was asked about anything since the table is known here, and does not say that the
        table's folder lies there.
        """
        asked = view.asked.get((table.identity.namespace, table.directory))
        if asked is not None:
            return asked.reference == table.reference
        seen_at = self.tables_seen_at.get(table.identity.uid) or self.started_at
        if view.report is None or seen_at is None or not view.is_newer_than(seen_at):
            return False
        return f"{table.identity.namespace}/{table.directory}" not in view.report.unknown_directories

    @cached_property
    def nodes_by_name(self) -> Mapping[str, ObservedNode]:
        """Of all Nodes."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def silent_nodes(self) -> frozenset[str]:
        """Nodes whose agent does not answer."""
        return frozenset(node for node, view in self.agent_views.items() if view.silent_since is not None)

    @cached_property
    def unready_nodes(self) -> frozenset[str]:
        """Nodes on which no agent's pod is ready, as far as Kubernetes says."""
        ready = {agent.node for agent in self.agents if agent.ready and not agent.deleting}
        return frozenset(agent.node for agent in self.agents) - ready

    @cached_property
    def shared_certificate_nodes(self) -> frozenset[str]:
        """Nodes whose agent is of the release before, and has no certificate of its own."""
        return frozenset(agent.node for agent in self.agents if agent.shares_certificate and not agent.deleting)

    @cached_property
    def agent_urls(self) -> Mapping[str, str | None]:
        """Node -> its agent's URL. Of two pods on a node (one is going) the one that has an address and stays."""
        urls: dict[str, str | None] = {}
        for agent in self.agents:
            urls[agent.node] = agent.url or urls.get(agent.node)
        return urls

    @cached_property
    def answering(self) -> "tuple[AnsweringAgent, ...]":
        """The agents that have an address, have reported, and are not silent; by node."""
        return tuple(
            AnsweringAgent(node, url, view, view.report)
            for node, view in sorted(self.agent_views.items())
            if (url := self.agent_urls.get(node)) and view.report is not None and view.silent_since is None
        )

    @cached_property
    def readers_urls(self) -> Mapping[str, str]:
        """Node -> where Spark and clone Jobs reach its agent, or did before its pod went."""
        leaving_first = sorted(self.agents, key=lambda agent: not agent.deleting)
        known = {agent.node: url for agent in leaving_first if (url := agent.readers_url)}
        return {**self.last_readers_urls, **known}
