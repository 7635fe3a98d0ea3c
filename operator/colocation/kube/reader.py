"""ClusterReader: what is known of the cluster now, from watch events, full lists and the agents."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ..manifests.clone_job import CLONE_COMPONENT
from ..model.names import APP_NAME, LABEL_COMPONENT, LABEL_NAME
from ..state.observation import (
    DroppedTable,
    Observation,
    ObservedAgent,
    ObservedCloneJob,
    ObservedGroup,
    ObservedNode,
    ObservedTable,
)
from ..state.parse import parse_agent, parse_clone_job, parse_group, parse_node, parse_table
from ..state.recycled import recycled_records, reference_of
from .api import GROUPS, JOBS, NAMESPACES, NODES, PODS, TABLES, Api, NotFound, Resource
from .inventories import Inventories
from .store import Store

JsonObject = dict[str, Any]

AGENT_COMPONENT = "agent"
LABEL_SELECTORS: Mapping[Resource, str] = {
    PODS: f"{LABEL_NAME}={APP_NAME},{LABEL_COMPONENT}={AGENT_COMPONENT}",
    JOBS: f"{LABEL_NAME}={APP_NAME},{LABEL_COMPONENT}={CLONE_COMPONENT}",
}
MAX_REMEMBERED_DROPS = 1000


class LiveCluster:
    """The real ``ClusterReader``.

    Args:
        api: for full lists.
        namespace: the operator's own: agents and clone Jobs of others are not ours.
        now: the clock.
        inventories: the agents' last words.
        ca_path: PEM file of the agents' CA.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        now: Callable[[], datetime],
        inventories: Inventories,
        ca_path: Path,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._now = now
        self._inventories = inventories
        self._ca_path = ca_path
        self._groups: Store[ObservedGroup] = Store(parse_group)
        self._tables: Store[ObservedTable] = Store(parse_table)
        self._nodes: Store[ObservedNode] = Store(parse_node)
        self._agents: Store[ObservedAgent] = Store(parse_agent)
        self._jobs: Store[ObservedCloneJob] = Store(parse_clone_job)
        self._dropped: dict[str, DroppedTable] = {}
        self._ca_certificate = ""
        self._version = 0
        self._namespace_uids: dict[str, str] = {}

    @property
    def _stores(self) -> Mapping[Resource, Store[Any]]:
        return {
            GROUPS: self._groups, TABLES: self._tables, NODES: self._nodes, PODS: self._agents, JOBS: self._jobs,
        }  # fmt: skip

    @property
    def groups(self) -> tuple[ObservedGroup, ...]:
        """The groups as the watches tell them now."""
        return tuple(self._groups)

    @property
    def tables(self) -> tuple[ObservedTable, ...]:
        """The tables as the watches tell them now."""
        return tuple(self._tables)

    def take(self, resource: Resource, body: JsonObject, deleted: bool = False) -> bool:
        """An object as a watch or the answer to a write shows it; whether that changed anything that we look at."""
        if resource in (PODS, JOBS) and body["metadata"]["namespace"] != self._namespace:
            return False
        if deleted and resource == TABLES:
            self._remember_drop(parse_table(body))
        store = self._stores[resource]
        changed = store.remove(body) if deleted else store.put(body)
        self._version += changed
        return changed

    async def resync(self) -> bool:
        """Take full lists of everything; whether they changed anything. Must be called before the first pass."""
        changed = False
        for resource, store in self._stores.items():
            namespace = self._namespace if resource in (PODS, JOBS) else ""
            before = tuple(self._tables)
            bodies, version = await self._api.list_all(resource, namespace, LABEL_SELECTORS.get(resource, ""))
            changed = store.replace(bodies, version) or changed
            if resource == TABLES:
                uids = {table.identity.uid for table in self._tables}
                for table in before:
                    if table.identity.uid not in uids:
                        self._remember_drop(table)
        self._version += changed
        return changed

    async def observe(self) -> Observation:
        """Ask the agents, then tell what is known now."""
        urls = self._agent_urls()
        ready = frozenset(node.name for node in self._nodes if node.ready and urls.get(node.name))
        tables = tuple(self._tables)
        records = recycled_records(self._groups)
        await self._inventories.ask(urls, ready, tuple(reference_of(table, records) for table in tables))
        groups = tuple(self._groups)
        await self._learn_namespaces(groups)
        return Observation(
            now=self._now(),
            groups=tuple(self._groups),
            tables=tables,
            nodes=tuple(self._nodes),
            agents=tuple(self._agents),
            clone_jobs=tuple(self._jobs),
            agent_views=self._inventories.views,
            bucket_bytes=self._inventories.bucket_bytes,
            dropped_tables=dict(self._dropped),
            namespace_uids=dict(self._namespace_uids),
            ca_certificate=self._read_ca(),
            version=self._version + self._inventories.version,
        )

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
        return {**names, **Observation(self._now(), agents=tuple(self._agents)).agent_urls}

    async def _learn_namespaces(self, groups: Iterable[ObservedGroup]) -> None:
        for namespace in {group.identity.namespace for group in groups} - self._namespace_uids.keys():
            try:
                body = await self._api.get(NAMESPACES, "", namespace)
            except NotFound:
                continue  # it goes together with its groups
            self._namespace_uids[namespace] = body["metadata"]["uid"]

    def _remember_drop(self, table: ObservedTable) -> None:
        if len(self._dropped) >= MAX_REMEMBERED_DROPS:
            self._dropped.pop(next(iter(self._dropped)))
        self._dropped.setdefault(table.identity.uid, DroppedTable(table, self._now()))
