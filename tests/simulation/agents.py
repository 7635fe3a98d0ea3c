"""How operators reach the agents: inventories and orders, over a network that is slow or loses answers."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from colocation.kube.orders import AgentFailure
from colocation.model.agent import RecycledSchema, TableReference
from colocation.model.table import Column
from colocation.state.observation import AgentView, BucketBytes

from .disks import Disk, files_in
from .schedule import Turn

if TYPE_CHECKING:
    from .world import World

Tables = tuple[TableReference, ...]


LONGEST_ANSWER = timedelta(seconds=12)
"""After that the real client gives up, and the agent counts as silent."""


class FakeInventories:
    """What `colocation.kube.inventories.Inventories` is to the operator, without threads.

    A slow agent's last word stands, as with the real one; a node that cannot be reached is silent.
    """

    def __init__(self, world: "World", random: Random) -> None:
        self._world = world
        self._random = random
        self.version = 0
        self.views: dict[str, AgentView] = {}
        self.bucket_bytes: dict[tuple[str, str, str], BucketBytes] = {}

    async def ask(self, urls: Mapping[str, str | None], waited_for: frozenset[str], tables: Tables) -> None:
        await Turn()
        self.version += 1
        now = self._world.clock.now()
        for node in self.views.keys() - urls.keys():
            del self.views[node]
        for node, url in urls.items():
            before = self.views.get(node, AgentView(silent_since=now))
            disk = self._world.reachable(url)
            slow = self._random.random() < self._world.slow_rate
            age = now - before.answered_at if before.answered_at else timedelta.max
            if disk is None or (slow and age > LONGEST_ANSWER):
                silent_since = before.silent_since or now
                self.views[node] = AgentView(before.report, before.asked, before.answered_at, silent_since)
            elif not slow:
                report = disk.report(tables, self._world.manifests)
                self.views[node] = AgentView(report, tables, now)
                for table in report.tables:
                    if table.manifest and table.manifest_present:
                        sizes = {bucket: held.bytes_wanted for bucket, held in table.buckets.items()}
                        self.bucket_bytes[table.namespace, table.directory, table.manifest] = sizes


class FakeOrders:
    """What `colocation.kube.orders.AgentOrders` is to the operator."""

    def __init__(self, world: "World", random: Random) -> None:
        self._world = world
        self._random = random

    async def call(self, url: str, order: Callable[[Any], Any]) -> Any:
        await Turn()
        disk = self._world.reachable(url)
        if disk is None:
            raise AgentFailure(f"agent at {url}: no answer")
        answer = order(OrderedAgent(self._world, disk))
        if self._random.random() < self._world.fault_rate:
            raise AgentFailure(f"agent at {url} has not answered; it may still do it")
        return answer


class OrderedAgent:
    """The part of ``AgentClient`` that the operator orders; each order is checked before it is carried out."""

    def __init__(self, world: "World", disk: Disk) -> None:
        self._world = world
        self._disk = disk

    def drop_bucket(
        self, namespace: str, directory: str, bucket: int, manifests: tuple[str, ...], grace_seconds: int
    ) -> None:
        named = self._named(directory, manifests)
        old = self._older_than(namespace, directory, grace_seconds)
        doomed = {f for f in self._files(namespace, directory) if f.bucket == bucket and (f in named or f in old)}
        self._world.checks.before_delete(self._disk, doomed)
        self._disk.remove(doomed)

    def recycle(self, namespace: str, directory: str, keep_seconds: int) -> None:
        self._world.checks.before_recycle(namespace, directory)
        purge_at = self._world.clock.now() + timedelta(seconds=keep_seconds)
        self._disk.recycle((namespace, directory), purge_at)

    def restore(self, namespace: str, directory: str, successor: str) -> None:
        self._disk.restore((namespace, directory), successor)

    def recycled_schema(self, namespace: str, directory: str, manifest: str) -> RecycledSchema:
        if (namespace, directory) not in self._disk.bin or manifest not in self._disk.manifests:
            raise AgentFailure(f"manifest {manifest} is not in the bin")
        columns = (Column(name="key", type="bigint"),)
        return RecycledSchema(columns=columns, bucketed_by=("key",), buckets=self._world.buckets)

    def collect(self, namespace: str, directory: str, manifests: tuple[str, ...], grace_seconds: int) -> None:
        if not set(manifests) <= self._disk.manifests:
            raise AgentFailure("a live manifest is missing, so it is not known what is garbage")
        wanted = self._named(directory, manifests)
        doomed = self._older_than(namespace, directory, grace_seconds) - wanted
        self._world.checks.before_delete(self._disk, doomed)
        self._disk.remove(doomed)

    def _named(self, directory: str, manifests: tuple[str, ...]) -> set[Any]:
        return {file for digest in manifests for file in files_in(self._world.manifests[digest], directory)}

    def _older_than(self, namespace: str, directory: str, grace_seconds: int) -> set[Any]:
        oldest = self._world.clock.now() - timedelta(seconds=grace_seconds)
        return {file for file in self._files(namespace, directory) if self._world.written_at[file.load] < oldest}

    def _files(self, namespace: str, directory: str) -> set[Any]:
        return {f for f in self._disk.files if (f.namespace, f.directory) == (namespace, directory)}
