"""The snapshot, indexed once per pass: nodes, pools of nodes per selector, room on disks, clones per group."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from functools import cached_property
from math import inf

from colocation.model.group import ColocationGroupSpec
from colocation.model.names import LABEL_ZONE
from colocation.model.snapshot import Clone, GroupState, Node, Snapshot

from .loads import Loads
from .shares import Shares, fair_shares

GroupKey = tuple[str, str]


class Standing(Enum):
    """What a node is to one group."""

    FIT = "may hold and take replicas"
    LEAVING = "live, but the selector does not match it or its weight is 0"
    DRAINING = "live or not, marked for drain"
    WAITING = "down, within the group's tolerance"
    LOST = "down beyond the group's tolerance"
    GONE = "not in the snapshot"


@dataclass(frozen=True)
class Pool:
    """The nodes of the groups with one selector, topology key and tolerance.

    ``weights``: of the nodes that may take replicas. ``waiting``: of the nodes that are down within the tolerance:
    they take nothing, but their share is kept for them, so that a short absence moves nothing. ``zones`` maps all
    these nodes to their zones; it is empty when fewer than two zones are known, as zones then decide nothing.
    ``either_way``: see `Shares`.
    """

    either_way: bool
    weights: dict[str, float]
    waiting: dict[str, float]
    zones: dict[str, str]
    _shares: dict[tuple[int, int, bool, bool], Shares] = field(default_factory=dict)

    def shares(
        self, buckets: int, replicas: int, *, keep_for_waiting: bool = True, by_weight_alone: bool = False
    ) -> Shares:
        """The fair share of every node of a group of this size; computed once per size.

        Shares that are not ``by_weight_alone`` are those of a group whose buckets all lie in different zones.
        """
        zones = {} if by_weight_alone else self.zones
        size = (buckets, replicas, keep_for_waiting and bool(self.waiting), bool(zones))
        if size not in self._shares:
            weights = self.weights | self.waiting if keep_for_waiting else self.weights
            self._shares[size] = fair_shares(weights, zones, buckets, replicas, either_way=self.either_way)
        return self._shares[size]

    @cached_property
    def are_weights_equal(self) -> bool:
        return len(set(self.weights.values())) < 2

    @cached_property
    def mean_weight(self) -> float:
        return sum(self.weights.values()) / len(self.weights) if self.weights else 1.0


class Room:
    """Bytes that clones may still write on each node: free, less the headroom, less what clones in flight need.

    A node of capacity 0 has not reported its disk and is not limited.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        fraction = snapshot.limits.disk_headroom_fraction
        self._bytes: dict[str, float] = {
            node.name: node.free_bytes - fraction * node.capacity_bytes if node.capacity_bytes else inf
            for node in snapshot.nodes
        }

    def available_bytes(self, node: str) -> float:
        return self._bytes.get(node, 0)

    def take(self, node: str, size_bytes: int) -> None:
        """Reserve room; may go below zero, which means that much is short."""
        if node in self._bytes:
            self._bytes[node] -= size_bytes


class Cluster:
    """Everything about a snapshot that is not about one group alone."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.now = snapshot.now
        self.limits = snapshot.limits
        self.nodes: dict[str, Node] = {node.name: node for node in snapshot.nodes}
        self.ready = frozenset(node.name for node in snapshot.nodes if node.ready)
        self.groups: dict[GroupKey, GroupState] = {(group.namespace, group.name): group for group in snapshot.groups}
        self.clones: dict[GroupKey, list[tuple[int, Clone]]] = defaultdict(list)
        self._pools: dict[tuple[frozenset[tuple[str, str]], str, int], Pool] = {}
        for index, clone in enumerate(snapshot.clones):
            self.clones[clone.namespace, clone.group].append((index, clone))
        self.room = self.room_now()

    def room_now(self) -> Room:
        """The room that clones in flight leave; `room` is this, less what the pass has planned so far."""
        room = Room(self.snapshot)
        for clone in self.snapshot.clones:
            room.take(clone.to, self._remaining_bytes(clone))
        return room

    def _remaining_bytes(self, clone: Clone) -> int:
        group = self.groups.get((clone.namespace, clone.group))
        sizes = group.bucket_bytes if group else ()
        total = sizes[clone.bucket] if clone.bucket < len(sizes) else clone.bytes_total
        return max(0, total - clone.bytes_done)

    def pool(self, spec: ColocationGroupSpec) -> Pool:
        """The nodes that may take this group's replicas: ready, not drained, selected, of a weight above 0."""
        tolerance_seconds = spec.relocation.down_tolerance_seconds if len(self.ready) < len(self.nodes) else 0
        key = (frozenset(spec.node_selector.items()), spec.topology_key, tolerance_seconds)
        if key not in self._pools:
            self._pools[key] = self._make_pool(spec)
        return self._pools[key]

    def _make_pool(self, spec: ColocationGroupSpec) -> Pool:
        weights: dict[Standing, dict[str, float]] = {Standing.FIT: {}, Standing.WAITING: {}}
        zones = {}
        for name, node in sorted(self.nodes.items()):
            standing = self.standing(name, spec)
            if standing in weights and is_selected(node, spec):
                weights[standing][name] = node.weight
                zones[name] = zone_of(node, spec)
        decisive = len(set(zones.values())) > 1
        several = len(self.groups) > 1
        return Pool(several, weights[Standing.FIT], weights[Standing.WAITING], zones if decisive else {})

    def standing(self, name: str, spec: ColocationGroupSpec) -> Standing:
        """What the node is to a group of this spec."""
        node = self.nodes.get(name)
        if node is None:
            return Standing.GONE
        if node.drain:
            return Standing.DRAINING
        if not node.ready:
            since = node.not_ready_since or self.now
            tolerance = timedelta(seconds=spec.relocation.down_tolerance_seconds)
            return Standing.LOST if self.now - since >= tolerance else Standing.WAITING
        return Standing.FIT if is_selected(node, spec) else Standing.LEAVING

    @cached_property
    def loads(self) -> Loads:
        """What the nodes hold over all groups; changes as the pass plans."""
        return Loads(self.snapshot)

    @cached_property
    def fair_loads(self) -> dict[str, float]:
        """The nodes' fair shares of all groups that have a map; `place` adds those of the groups that it places."""
        specs = [group.spec for group in self.snapshot.groups if group.map is not None]
        sizes = Counter((id(self.pool(spec)), spec.buckets, spec.replicas) for spec in specs)
        pools = {id(pool): pool for pool in self._pools.values()}
        fair: dict[str, float] = defaultdict(float)
        for (pool, buckets, replicas), groups in sizes.items():
            for node, share in pools[pool].shares(buckets, replicas).by_node.items():
                fair[node] += groups * share
        return fair


def is_selected(node: Node, spec: ColocationGroupSpec) -> bool:
    """Whether the group may use the node, its health and drain mark aside."""
    return node.weight > 0 and all(node.labels.get(key) == value for key, value in spec.node_selector.items())


def zone_of(node: Node, spec: ColocationGroupSpec) -> str:
    """The node's value of the group's topology key; nodes without one share the empty zone."""
    if spec.topology_key in ("", LABEL_ZONE):
        return node.zone or node.labels.get(LABEL_ZONE, "")
    return node.labels.get(spec.topology_key, "")
