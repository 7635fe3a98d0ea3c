"""A story of whole passes over a fake cluster."""

from colocation.controller.reconciler import Reconciler
from colocation.controller.settings import Settings

from .fake_cluster import FakeCluster

SETTINGS = Settings(namespace="colocation", image="operator:1")


class Story:
    """A cluster with an operator that may be restarted; clones end between passes."""

    def __init__(self, nodes: int = 3) -> None:
        self.cluster = FakeCluster()
        for number in range(1, nodes + 1):
            self.cluster.add_node(f"node-{number}")
        self.restart()

    def restart(self) -> None:
        self.operator = Reconciler(self.cluster, self.cluster, SETTINGS)

    async def passes(self, number: int = 8, restarting: bool = False) -> None:
        for _ in range(number):
            if restarting:
                self.restart()
            await self.operator.reconcile_once()
            self.cluster.end_clones()

    async def loaded(self, name: str, group: str = "sales", **spec: object) -> None:
        self.cluster.add_table(name, group, **spec)
        await self.passes()
        self.cluster.load(name)
        await self.passes()

    def condition(self, name: str, kind: str) -> tuple[str, str, str]:
        found = {one.type: one for one in self.cluster.table(name).status.conditions}
        return (found[kind].status, found[kind].reason, found[kind].message) if kind in found else ("", "", "")

    def places_of(self, name: str) -> list[set[str]]:
        """The nodes that hold each bucket of the table."""
        directory = self.cluster.table(name).directory
        disks = self.cluster.disks.items()
        return [{node for node, disk in disks if bucket in disk.get(directory, ())} for bucket in range(4)]

    def map_of(self, group: str) -> list[set[str]]:
        return [set(row) for row in self.cluster.group(group).status.backends_per_bucket_seq or ()]


async def two_groups() -> Story:
    """Table ``orders`` next to ``customers`` in ``sales``; group ``stock`` with table ``items`` has another map."""
    story = Story(nodes=4)
    story.cluster.add_group("sales")
    story.cluster.add_group("stock", bucketSequence=[["node-3", "node-4"]] * 4)
    await story.loaded("orders")
    await story.loaded("customers")
    await story.loaded("items", "stock")
    return story
