"""What the operator saw of the cluster at one moment: the input of a pass, parsed, with the clock.

A frozen value, so that a pass can be replayed, simulated and interrupted anywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from ..model.agent import CloneProgress
from .agent_view import AgentView, AnsweringAgent
from .objects import (
    DroppedTable,
    ObservedAgent,
    ObservedClaim,
    ObservedCloneJob,
    ObservedGroup,
    ObservedHolder,
    ObservedNode,
    ObservedTable,
    ObservedVolume,
    RefusedFiles,
)

BucketBytes = Mapping[int, int]
ClonePlace = tuple[str, str, str, int]
"""(target node, namespace, group, bucket)."""


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
    namespace -> what the API server refused to this operator lately. ``lost_fields``: of statuses, which the cluster's
    CRDs lack: what the operator remembers there is not kept. ``etcd_restored``: the state went back to an older
    copy, and no administrator has accepted it.
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
    lost_fields: tuple[str, ...] = ()
    etcd_restored: bool = False
    holders: tuple[ObservedHolder, ...] = ()

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
        """Nodes on which no agent's pod is ready, as far as Kubernetes knows."""
        ready = {agent.node for agent in self.agents if agent.ready and not agent.deleting}
        return frozenset(agent.node for agent in self.agents) - ready

    @cached_property
    def evicted_nodes(self) -> frozenset[str]:
        """Nodes that others ask for: they take no new pods, and their holder was evicted."""
        asked = (holder.node for holder in self.holders if holder.deleting)
        return frozenset(name for name in asked if (node := self.nodes_by_name.get(name)) and not node.schedulable)

    @cached_property
    def clone_progress(self) -> "Mapping[ClonePlace, CloneProgress]":
        """What the targets' agents report of their clones, by ``ObservedCloneJob.place``."""
        found: dict[ClonePlace, CloneProgress] = {}
        for node, view in self.agent_views.items():
            for one in view.report.clones if view.report else ():
                found.setdefault((node, one.namespace, one.group, one.bucket), one)
        return found

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
