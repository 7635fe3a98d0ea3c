"""One group within its cluster, as the planner reads it: its map made regular, and what the nodes hold by bucket."""

from functools import cached_property
from itertools import chain

from colocation.model.plan import Move, MoveKind
from colocation.model.snapshot import Clone, GroupState

from .cluster import NO_NODES, Cluster, Pool, Standing, zone_of
from .evenness.shares import Shares

Placement = list[tuple[str, ...]]
"""The nodes of each bucket; index = bucket."""


class GroupView:
    """A group within its cluster. ``map`` has one entry per bucket of the spec, without repeated nodes.

    A map of another length than the spec's (buckets are immutable, but objects can be re-made) is cut or filled up with
    empty buckets; a missing map is all empty buckets.
    """

    def __init__(self, cluster: Cluster, group: GroupState) -> None:
        self.cluster = cluster
        self.group = group
        self.spec = group.spec
        self.key = (group.namespace, group.name)
        buckets = group.spec.buckets
        known = [tuple(dict.fromkeys(nodes)) for nodes in (group.map or ())[:buckets]]
        self.map: Placement = known + [()] * (buckets - len(known))

    @cached_property
    def pool(self) -> Pool:
        return self.cluster.pool(self.spec)

    @cached_property
    def failing(self) -> frozenset[str]:
        """Nodes that take no clone of this group yet, as the last ones failed there."""
        targets = self.group.failing_targets
        return frozenset(node for node, target in targets.items() if self.cluster.now < target.retry_at)

    @cached_property
    def takers(self) -> dict[str, float]:
        """The nodes that may take replicas now, with their weights."""
        weights = self.pool.weights
        return {node: weights[node] for node in weights if node not in self.failing} if self.failing else weights

    @cached_property
    def keepers(self) -> frozenset[str]:
        """Nodes of the map that keep what they have and take nothing else: cordoned, tainted, or failing as targets."""
        if not self.failing and not self.pool.unschedulable:
            return NO_NODES
        able = self.pool.unschedulable.keys() | (self.pool.weights.keys() & self.failing)
        return frozenset(able & set(chain.from_iterable(self.map)))

    def shares(self, *, by_weight_alone: bool = False) -> Shares:
        """The fair shares of the nodes that may take replicas, keep some, or come back to theirs."""
        size = len(self.map), self.spec.replicas
        left_out = self.failing - self.keepers
        return self.pool.shares(*size, by_weight_alone=by_weight_alone, keepers=self.keepers, left_out=left_out)

    @property
    def may_balance(self) -> bool:
        """Whether replicas may move for evenness: no switch forbids it, and the map is not set by hand."""
        is_enabled = self.spec.balancing.enabled and not self.cluster.limits.disable_colocate_balance
        return is_enabled and self.spec.bucket_sequence is None

    @cached_property
    def clones(self) -> dict[tuple[int, str], tuple[int, Clone]]:
        """Clones that have not ended, with their index in the snapshot, by (bucket, target)."""
        return {(clone.bucket, clone.to): (index, clone) for index, clone in self.cluster.clones.get(self.key, ())}

    @cached_property
    def sources(self) -> dict[int, list[str]]:
        """Ready nodes that hold a bucket complete, in the map or not; what a clone can read from."""
        found: dict[int, list[str]] = {}
        for node, states in sorted(self.group.held.items()):
            if node in self.cluster.ready:
                for bucket, state in states.items():
                    if state == "complete":
                        found.setdefault(bucket, []).append(node)
        return found

    @cached_property
    def whole(self) -> frozenset[int]:
        """The buckets of which every replica in the map is complete on a ready node."""
        ready, sources = self.cluster.ready, self.sources
        found = []
        for bucket, nodes in enumerate(self.map):
            holders = sources.get(bucket, ()) if self.bytes_of(bucket) else ready
            if nodes and all(node in holders for node in nodes):
                found.append(bucket)
        return frozenset(found)

    def fragments(self, bucket: int) -> list[str]:
        """Ready nodes that hold part of a bucket; a clone takes each file from a node that has it."""
        held = self.group.held
        return [node for node in held if node in self.cluster.ready and bucket in held[node]]

    def has_source(self, bucket: int) -> bool:
        """Whether a clone can be made now: a live node holds at least part of the bucket, or it is empty."""
        return self.bytes_of(bucket) == 0 or bucket in self.sources or bool(self.fragments(bucket))

    def bytes_of(self, bucket: int) -> int:
        """Bytes of one replica of the bucket."""
        sizes = self.group.bucket_bytes
        return sizes[bucket] if bucket < len(sizes) else 0

    def bytes_to_copy(self, bucket: int, node: str) -> int:
        """Bytes that a clone of the bucket to the node writes at most; 0 when it is complete there."""
        return 0 if self.state(bucket, node) == "complete" else self.bytes_of(bucket)

    def bytes_to_reserve(self, bucket: int, node: str) -> int:
        """Room that a clone of the bucket to the node takes of what is left; one in flight has taken it."""
        return 0 if (bucket, node) in self.clones else self.bytes_to_copy(bucket, node)

    def state(self, bucket: int, node: str) -> str | None:
        """What the node holds of the bucket, whether or not it is ready."""
        states = self.group.held.get(node)
        return states.get(bucket) if states else None

    def is_complete(self, bucket: int, node: str) -> bool:
        """Whether the node serves the bucket now: it is ready, and holds all of it or there is nothing to hold."""
        if node not in self.cluster.ready:
            return False
        return self.bytes_of(bucket) == 0 or self.state(bucket, node) == "complete"

    def is_unconfirmed(self, bucket: int, node: str) -> bool:
        """Whether the node was complete when it was last heard, and has not been since (see `GroupState`)."""
        if node not in self.cluster.ready or bucket not in self.group.unconfirmed.get(node, ()):
            return False
        return self.state(bucket, node) != "corrupt" and not self.is_complete(bucket, node)

    def is_presumed_complete(self, bucket: int, node: str) -> bool:
        """Whether the verdict takes the node's replica for complete. No deletion and no map may rest on this."""
        return self.is_complete(bucket, node) or self.is_unconfirmed(bucket, node)

    def live_replicas(self, bucket: int) -> int:
        """Nodes from which the bucket can be read now."""
        if self.bytes_of(bucket) == 0:
            return sum(node in self.cluster.ready for node in self.map[bucket])
        return len(self.sources.get(bucket, ()))

    def standing(self, node: str) -> Standing:
        """What the node is to the group."""
        return self.pool.standings.get(node, Standing.GONE)

    def zone(self, node: str) -> str:
        """The node's zone; the same for all nodes when zones decide nothing, or the node is gone."""
        if not self.pool.zones or node not in self.cluster.nodes:
            return ""
        return zone_of(self.cluster.nodes[node], self.spec)

    @cached_property
    def begun(self) -> dict[tuple[int, str], bool]:
        """Replicas outside the map that exist in part: (bucket, node) -> whether complete; clones in flight too."""
        found = dict.fromkeys(self.clones, False)
        for node, states in self.group.held.items():
            for bucket, state in states.items():
                if bucket < len(self.map) and node not in self.map[bucket] and state != "corrupt":
                    found[bucket, node] = state == "complete"
        return found

    def move(self, bucket: int, source: str | None, to: str, kind: MoveKind, reason: str) -> Move:
        """A move with the bytes that are left to copy."""
        size_bytes = self.bytes_to_copy(bucket, to)
        return Move(bucket=bucket, source=source, to=to, kind=kind, reason=reason, bytes=size_bytes)
