"""What every node holds over all groups: decides where a group's own evenness leaves a choice.

The loads are those of the maps in the snapshot, changed by what this pass has planned so far; otherwise every group
would choose the same light node.
"""

from collections import Counter
from functools import cached_property
from itertools import chain

from colocation.model.snapshot import Node, Snapshot

Load = tuple[float, float, str]
"""Replicas per weight, bytes per weight, name: nodes sort by it, the lightest first."""


class Loads:
    """Replicas and bytes per node, over all groups."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._nodes: dict[str, Node] = {node.name: node for node in snapshot.nodes}
        self.replicas: Counter[str] = Counter()
        self._loads: dict[str, Load] = {}
        for group in snapshot.groups:
            self.replicas.update(chain.from_iterable(group.map or ()))

    @cached_property
    def _bytes(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for group in self._snapshot.groups:
            for nodes, size_bytes in zip(group.map or (), group.bucket_bytes, strict=False):
                for node in nodes:
                    found[node] += size_bytes
        return found

    def of(self, node: str) -> Load:
        """The node's load by weight."""
        load = self._loads.get(node)
        if load is None:
            weight = self._nodes[node].weight
            load = self._loads[node] = (self.replicas[node] / weight, self._bytes[node] / weight, node)
        return load

    def add(self, node: str, replicas: int, size_bytes: int) -> None:
        """Count replicas that are planned to come (or, below 0, to go)."""
        self.replicas[node] += replicas
        self._bytes[node] += size_bytes
        self._loads.pop(node, None)
