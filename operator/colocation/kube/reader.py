"""ClusterReader: what is known of the cluster now, from watch events, full lists and the agents."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from ..manifests.clone_job import CLONE_COMPONENT
from ..manifests.data_volume import DATA_LABELS
from ..manifests.holder_pod import HOLDER_COMPONENT
from ..model.names import APP_NAME, DATA_CLAIM, LABEL_COMPONENT, LABEL_NAME
from ..state.objects import (
    DroppedTable,
    ObservedAgent,
    ObservedClaim,
    ObservedCloneError,
    ObservedCloneJob,
    ObservedGroup,
    ObservedHolder,
    ObservedNode,
    ObservedTable,
    ObservedVolume,
)
from ..state.observation import Observation
from ..state.parse import (
    parse_agent,
    parse_claim,
    parse_clone_error,
    parse_clone_job,
    parse_group,
    parse_holder,
    parse_node,
    parse_table,
    parse_volume,
)
from .api import (
    CLAIMS,
    CLONE_PODS,
    GROUPS,
    HOLDERS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    TABLES,
    VOLUMES,
    Api,
    Expired,
    NotFound,
    Resource,
)
from .errors import ClusterError
from .inventories import Inventories
from .questions import Questions
from .sightings import Sightings
from .store import Store, StoreListing

logger = logging.getLogger(__name__)

JsonObject = dict[str, Any]

AGENT_COMPONENT = "agent"
_DATA_SELECTOR = ",".join(f"{label}={value}" for label, value in DATA_LABELS.items())
LABEL_SELECTORS: Mapping[Resource, str] = {
    PODS: f"{LABEL_NAME}={APP_NAME},{LABEL_COMPONENT}={AGENT_COMPONENT}",
    HOLDERS: f"{LABEL_NAME}={APP_NAME},{LABEL_COMPONENT}={HOLDER_COMPONENT}",
    JOBS: f"{LABEL_NAME}={APP_NAME},{LABEL_COMPONENT}={CLONE_COMPONENT}",
    CLONE_PODS: f"{LABEL_NAME}={APP_NAME},{LABEL_COMPONENT}={CLONE_COMPONENT}",
    VOLUMES: _DATA_SELECTOR,
    CLAIMS: _DATA_SELECTOR,
}
OWN_NAMESPACE = (PODS, HOLDERS, JOBS, CLONE_PODS)
"""Of these only what is in the operator's namespace is ours."""
MAX_REMEMBERED_DROPS = 1000
HISTORY_SECONDS = 5.0
"""The API server sends what it remembers at once."""
MAX_READS = 16
"""Requests to the API server at once."""
START_SECONDS = 30.0
"""How long an operator that starts waits for agents before its first pass."""
START_POLL_SECONDS = 0.25


class LiveCluster:
    """The real ``ClusterReader``.

    Args:
        api: for full lists.
        namespace: the operator's own: agents, holders and clone Jobs of others are not ours.
        now: the steady clock.
        inventories: the agents' last words.
        ca_path: PEM file of the agents' CA.
        term: of this operator's leadership.
        tolerated_taints: keys of taints with which Nodes take new replicas all the same.

    ``listed_at``: the resource versions of the last full lists.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        now: Callable[[], datetime],
        inventories: Inventories,
        ca_path: Path,
        term: Callable[[], int] = lambda: 0,
        tolerated_taints: frozenset[str] = frozenset(),
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._now = now
        self._inventories = inventories
        self._ca_path = ca_path
        self._term = term
        self._questions = Questions()
        self._sightings = Sightings()
        self._groups: Store[ObservedGroup] = Store(parse_group)
        self._tables: Store[ObservedTable] = Store(parse_table)
        self._nodes: Store[ObservedNode] = Store(partial(parse_node, tolerated_taints=tolerated_taints))
        self._agents: Store[ObservedAgent] = Store(parse_agent)
        self._holders: Store[ObservedHolder] = Store(parse_holder)
        self._jobs: Store[ObservedCloneJob] = Store(parse_clone_job)
        self._clone_errors: Store[ObservedCloneError] = Store(parse_clone_error)
        self._volumes: Store[ObservedVolume] = Store(parse_volume)
        self._claims: Store[ObservedClaim] = Store(parse_claim)
        self._dropped: dict[str, DroppedTable] = {}
        self._ca_certificate = ""
        self._version = 0
        self._has_started = False
        self._namespace_uids: dict[str, str] = {}
        self._groups_of_namespaces: dict[str, set[str]] = {}
        self.listed_at: dict[Resource, int] = {}
        self._readers_urls: Mapping[str, str] = {}
        self._agents_by_url: tuple[tuple[ObservedAgent, ...], dict[str, ObservedAgent]] = (), {}

    @property
    def _stores(self) -> Mapping[Resource, Store[Any]]:
        return {
            GROUPS: self._groups, TABLES: self._tables, NODES: self._nodes, PODS: self._agents,
            HOLDERS: self._holders, JOBS: self._jobs, CLONE_PODS: self._clone_errors, VOLUMES: self._volumes,
            CLAIMS: self._claims,
        }  # fmt: skip

    @property
    def groups(self) -> tuple[ObservedGroup, ...]:
        """The groups as the watches tell them now."""
        return self._groups.objects

    @property
    def tables(self) -> tuple[ObservedTable, ...]:
        """The tables as the watches tell them now."""
        return self._tables.objects

    @property
    def agents(self) -> tuple[ObservedAgent, ...]:
        """The agents' pods as the watches tell them now."""
        return self._agents.objects

    def agent_at(self, url: str) -> ObservedAgent | None:
        """The agent whose pod is at this URL, as the watches tell it now."""
        if self._agents_by_url[0] is not self._agents.objects:
            agents = self._agents.objects
            self._agents_by_url = agents, {one.url: one for one in agents if one.url}
        return self._agents_by_url[1].get(url)

    def take(self, resource: Resource, body: JsonObject, deleted: bool = False) -> bool:
        """An object as a watch or the answer to a write shows it; whether that changed anything that we look at."""
        if resource in OWN_NAMESPACE and _namespace_of(body) != self._namespace:
            return False
        store = self._stores[resource]
        if deleted and resource == TABLES:
            self._remember_drop_of(body)
        changed = store.remove(body) if deleted else store.put(body)
        self._version += changed
        return changed

    @property
    def kinds(self) -> tuple[Resource, ...]:
        """Whose full lists are taken."""
        return tuple(self._stores)

    async def list_again(self, resource: Resource) -> None:
        """Take the full list of one kind; that of each must be taken before the first pass. What a list tells before it
        breaks off counts, too.
        """
        namespace = self._namespace if resource in OWN_NAMESPACE else ""
        before, listing = self._tables.objects, self._stores[resource].listing()
        known_since = str(self.listed_at.get(resource, ""))
        try:
            version = await self._api.list_into(listing, resource, namespace, LABEL_SELECTORS.get(resource, ""))
            if resource in (VOLUMES, CLAIMS):
                await self._look_at_others(resource, listing)
            listing.end(version)
        finally:
            self._version += listing.has_changed
        self.listed_at[resource] = version
        if resource == TABLES:
            known = {table.identity.uid for table in self._tables} | self._dropped.keys()
            gone = [table for table in before if table.identity.uid not in known]
            for table in gone:
                self._remember_drop(table)
            await self._ask_for_drops({table.identity.uid for table in gone}, known_since)
            self._inventories.keep_bytes(frozenset(self._questions.live_manifests))

    async def _look_at_others(self, resource: Resource, listing: StoreListing) -> None:
        """What has our name and not our labels is in no list, and may be there still."""
        for namespace, name in sorted(listing.unlisted):
            if resource == VOLUMES or name == DATA_CLAIM:
                with contextlib.suppress(NotFound):
                    listing.take(await self._api.get(resource, namespace, name))

    async def hear_of_drops(self, since: str) -> None:
        """Learn how tables were when they went while no operator watched: a load may have been committed just before.

        Groups remember their tables as the operator saw them last.

        ``since``: a resource version of when the operator before this one was there; "" = there was none.
        """
        tables = {table.identity.uid for table in self._tables}
        gone = {one.uid for group in self._groups for one in group.status.members if one.uid not in tables}
        await self._ask_for_drops(gone - self._dropped.keys(), since)

    async def _ask_for_drops(self, gone: Set[str], since: str) -> None:
        """How tables were when they went. ``gone``: their uids.

        What the API server does not remember any more (it keeps some minutes) stays as it is known. One that has begun
        again since (a restored etcd's, above all) is asked for all that it remembers.
        """
        if not since or not gone:
            return
        try:
            async with asyncio.timeout(HISTORY_SECONDS):
                try:
                    await self._remember_drops(gone, since)
                except Expired as error:
                    if not error.remembered_since:
                        raise
                    await self._remember_drops(gone, error.remembered_since)
        except (ClusterError, TimeoutError) as error:
            logger.warning("loads of tables that went while no operator watched may not be known of: %r", error)

    async def _remember_drops(self, gone: Set[str], since: str) -> None:
        """As a watch reports them, until it has reported all of these, for ever if need be."""
        left = set(gone)
        async with aclosing(self._api.watch(TABLES, "", "", since)) as events:
            async for event in events:
                if event["type"] == "DELETED":
                    self._remember_drop_of(event["object"])
                    left.discard(event["object"]["metadata"]["uid"])
                    if not left:
                        return

    async def observe(self, doubtful: Mapping[str, datetime] | None = None) -> Observation:
        """Ask the agents what is new to ask, then tell what is known now.

        The first observation waits until every agent of a ready node has answered, for at most ``START_SECONDS``: an
        operator that does not know what a node holds, and how large its disk is, must decide nothing.

        ``doubtful``: nodes whose agents have to say again what they hold, from these moments on.
        """
        give_up_at = self._sightings.begin(self._now()) + timedelta(seconds=START_SECONDS)
        await self._ask_agents(doubtful or {})
        while not self._has_started:
            self._has_started = not self._awaits_agents() or self._now() >= give_up_at
            if not self._has_started:
                await asyncio.sleep(START_POLL_SECONDS)
                await self._ask_agents({})
        await self._learn_namespaces(self._groups.objects)
        return self._observe_now()

    def _observe_now(self) -> Observation:
        """Everything as it is at this moment: nothing is awaited, so what changes later has a later version."""
        now = self._now()
        certificate = self._read_ca()
        seen = self._sightings.look(self._groups.objects, self._tables.objects, now)
        observation = Observation(
            now=now,
            groups=self._groups.objects,
            tables=self._tables.objects,
            nodes=self._nodes.objects,
            agents=self._agents.objects,
            clone_jobs=self._jobs_with_errors(),
            agent_views=self._inventories.views,
            bucket_bytes=self._inventories.bucket_bytes,
            dropped_tables=dict(self._dropped),
            namespace_uids=dict(self._namespace_uids),
            ca_certificate=certificate,
            version=self._version + self._inventories.version,
            term=self._term(),
            started_at=seen.started_at,
            snapshots_seen_at=seen.snapshots_seen_at,
            tables_seen_at=seen.tables_seen_at,
            last_readers_urls=self._readers_urls,
            volumes=self._volumes.objects,
            claims=self._claims.objects,
            holders=self._holders.objects,
        )
        nodes = {node.name for node in self._nodes}
        self._readers_urls = {node: url for node, url in observation.readers_urls.items() if node in nodes}
        return observation

    def _jobs_with_errors(self) -> tuple[ObservedCloneJob, ...]:
        """Of a Job Kubernetes reports only that it failed; why, and why another does not start, its pod does."""
        errors = {one.job_uid: one.message for one in self._clone_errors}
        if not errors:
            return self._jobs.objects
        return tuple(
            replace(job, message=errors[job.identity.uid])
            if job.identity.uid in errors and job.phase in ("failed", "pending")
            else job
            for job in self._jobs
        )

    async def _ask_agents(self, doubtful: Mapping[str, datetime]) -> None:
        """About what their nodes should hold, and then about what else is there."""
        urls = self._agent_urls()
        ready = frozenset(node.name for node in self._nodes if node.ready and urls.get(node.name))
        self._update_questions()
        views, now = self._inventories.views, self._now()
        due = {one for one, at in doubtful.items() if at <= now and one in views and not views[one].is_newer_than(at)}
        again = (self._sightings.nodes_to_ask_again(views) | due) & ready
        await self._inventories.ask(urls, ready, self._questions.asked, again)
        if self._update_questions():
            await self._inventories.ask(self._agent_urls(), ready, self._questions.asked)

    def _awaits_agents(self) -> bool:
        """Whether a ready node that a map names, or that has an agent, has not been heard of by this operator."""
        views = self._inventories.views
        ready = (node.name for node in self._nodes if node.ready)
        return any(name in views and views[name].answered_at is None for name in ready)

    def _update_questions(self) -> bool:
        changed = self._questions.update(
            self._groups.objects, self._tables.objects, self._jobs.objects, self._inventories.views
        )
        self._inventories.forget_bytes(self._questions.forgotten_manifests())
        return changed

    def _read_ca(self) -> str:
        """The kubelet renews the file; without one (no agents' TLS yet) there is nothing to publish."""
        certificate = self._ca_path.read_text() if self._ca_path.exists() else ""
        if certificate != self._ca_certificate:
            self._ca_certificate = certificate
            self._version += 1
        return certificate

    def _agent_urls(self) -> dict[str, str | None]:
        """Nodes with an agent, and those that a map names: their silence is timed too."""
        names: dict[str, str | None] = {}
        for group in self._groups:
            names.update({name: None for nodes in group.status.backends_per_bucket_seq or () for name in nodes})
        return {**names, **Observation(self._now(), agents=self._agents.objects).agent_urls}

    async def _learn_namespaces(self, groups: Iterable[ObservedGroup]) -> None:
        """Once each; where all groups are others than before, the namespace may be another one, too."""
        now: dict[str, set[str]] = {}
        for group in groups:
            now.setdefault(group.identity.namespace, set()).add(group.identity.uid)
        before = self._groups_of_namespaces
        missing = sorted(one for one, uids in now.items() if uids.isdisjoint(before.get(one, ())))
        for start in range(0, len(missing), MAX_READS):
            await asyncio.gather(*(self._learn_namespace(one) for one in missing[start : start + MAX_READS]))
        self._groups_of_namespaces = {one: uids for one, uids in now.items() if one in self._namespace_uids}
        self._namespace_uids = {one: uid for one, uid in self._namespace_uids.items() if one in now}

    async def _learn_namespace(self, namespace: str) -> None:
        try:
            body = await self._api.get(NAMESPACES, "", namespace)
        except NotFound:
            self._namespace_uids.pop(namespace, None)  # it goes together with its groups
            return
        self._namespace_uids[namespace] = body["metadata"]["uid"]
        self._version += 1

    def _remember_drop_of(self, body: JsonObject) -> None:
        try:
            self._remember_drop(parse_table(body))
        except Exception:  # one object's fault must not harm the others
            logger.exception("a deleted table cannot be parsed; nothing of it is remembered: %.300r", body)

    def _remember_drop(self, table: ObservedTable) -> None:
        """As it was last: a full list may tell of the drop before the watch tells of the last commit."""
        known = self._dropped.get(table.identity.uid)
        if known is None:
            if len(self._dropped) >= MAX_REMEMBERED_DROPS:
                self._dropped.pop(next(iter(self._dropped)))
            self._dropped[table.identity.uid] = DroppedTable(table, self._now())
        elif int(table.identity.resource_version) > int(known.table.identity.resource_version):
            self._dropped[table.identity.uid] = replace(known, table=table)
            self._version += 1


def _namespace_of(body: JsonObject) -> object:
    metadata = body.get("metadata") if isinstance(body, dict) else None
    return metadata.get("namespace") if isinstance(metadata, dict) else None
