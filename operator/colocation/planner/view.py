"""A snapshot as the planner reads it: nodes, disks and loads of the cluster, and each group within it.

A `Cluster` is indexed once per pass: nodes, pools of nodes per selector, room on disks, loads over all groups, clones
per group. A `GroupView` has one group's map made regular, and what the nodes hold by bucket.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from functools import cached_property
from itertools import chain
from math import inf

from colocation.model.group import ColocationGroupSpec
from colocation.model.names import LABEL_ZONE
from colocation.model.plan import Move, MoveKind
from colocation.model.snapshot import Clone, GroupState, Node, Snapshot

from .evenness.shares import Shares, fair_shares

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


GroupKey = tuple[str, str]

NOBODY: frozenset[str] = frozenset()


class Standing(Enum):
    """What a node is to one group."""

    FIT = "may hold and take replicas"
    KEEPING = "cordoned or tainted: holds what it has, takes no more"
    LEAVING = "live, but the selector does not match it or its weight is 0"
    DRAINING = "live or not, marked for drain; or its disk is sick for longer than the group's tolerance"
    WAITING = "down, within the group's tolerance"
    LOST = "down beyond the group's tolerance"
    GONE = "not in the snapshot"


@dataclass(frozen=True)
class Pool:
    """The nodes of the groups with one selector, topology key and tolerance.

    ``weights``: of the nodes that may take replicas. ``waiting``: of the nodes that are down within the tolerance:
    they take nothing, but their share is kept for them, so that a short absence moves nothing. ``unschedulable``: of
    the nodes that keep what they have and take no more. ``zones`` maps all these nodes to their zones; it is empty when
    fewer than two zones are known, as zones then decide nothing. ``either_way``: see `Shares`.
    """

    either_way: bool
    weights: dict[str, float]
    waiting: dict[str, float]
    unschedulable: dict[str, float]
    zones: dict[str, str]
    _shares: dict[tuple[int, int, bool, bool, frozenset[str], frozenset[str]], Shares] = field(default_factory=dict)

    def shares(
        self,
        buckets: int,
        replicas: int,
        *,
        keep_for_waiting: bool = True,
        by_weight_alone: bool = False,
        keepers: frozenset[str] = NOBODY,
        left_out: frozenset[str] = NOBODY,
    ) -> Shares:
        """The fair share of every node of a group of this size; computed once per size.

        Shares that are not ``by_weight_alone`` are those of a group whose buckets all lie in different zones.
        ``keepers``: nodes that take nothing and have a share, as they hold replicas; ``left_out``: nodes without one.
        """
        zones = {} if by_weight_alone else self.zones
        size = (buckets, replicas, keep_for_waiting and bool(self.waiting), bool(zones), keepers, left_out)
        if size not in self._shares:
            weights = self.weights | self.waiting if keep_for_waiting else self.weights
            if keepers or left_out:
                able = self.weights | self.unschedulable
                weights = {node: weight for node, weight in weights.items() if node not in left_out}
                weights |= {node: able[node] for node in sorted(keepers)}
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
    """Everything about a snapshot that is not about one group alone.

    ``has_several``: whether there are several groups, which are even together (see `Shares`).
    """

    def __init__(self, snapshot: Snapshot, *, has_several: bool | None = None) -> None:
        self.snapshot = snapshot
        self.has_several = len(snapshot.groups) > 1 if has_several is None else has_several
        self.now = snapshot.now
        self.limits = snapshot.limits
        self.nodes: dict[str, Node] = {node.name: node for node in snapshot.nodes}
        self.ready = frozenset(node.name for node in snapshot.nodes if node.ready)
        self.sick_disks = frozenset(node.name for node in snapshot.nodes if node.is_disk_sick)
        self.unschedulable = frozenset(node.name for node in snapshot.nodes if not node.schedulable)
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
        """The nodes that may take or keep this group's replicas: not drained, selected, of a weight above 0."""
        is_all_well = len(self.ready) == len(self.nodes) and not self.sick_disks
        tolerance_seconds = 0 if is_all_well else spec.relocation.down_tolerance_seconds
        key = (frozenset(spec.node_selector.items()), spec.topology_key, tolerance_seconds)
        if key not in self._pools:
            self._pools[key] = self._make_pool(spec)
        return self._pools[key]

    def _make_pool(self, spec: ColocationGroupSpec) -> Pool:
        weights: dict[Standing, dict[str, float]] = {Standing.FIT: {}, Standing.WAITING: {}, Standing.KEEPING: {}}
        zones = {}
        for name, node in sorted(self.nodes.items()):
            standing = self.standing(name, spec)
            if standing in weights and is_selected(node, spec):
                weights[standing][name] = node.weight
                zones[name] = zone_of(node, spec)
        decisive = len(set(zones.values())) > 1
        fit, waiting, keeping = weights[Standing.FIT], weights[Standing.WAITING], weights[Standing.KEEPING]
        return Pool(self.has_several, fit, waiting, keeping, zones if decisive else {})

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
        if node.is_disk_sick:
            since = node.disk_since or self.now
            tolerance = timedelta(seconds=spec.relocation.down_tolerance_seconds)
            return Standing.DRAINING if self.now - since >= tolerance else Standing.KEEPING
        if not is_selected(node, spec):
            return Standing.LEAVING
        return Standing.FIT if node.schedulable else Standing.KEEPING

    @cached_property
    def loads(self) -> Loads:
        """What the nodes hold over all groups; changes as the pass plans."""
        return Loads(self.snapshot)

    @cached_property
    def fair_loads(self) -> dict[str, float]:
        """The nodes' fair shares of all groups that have a map; `add_fair_loads` adds those of groups that are placed.

        Of the unschedulable nodes, those that hold anything have a share.
        """
        return self._fair_loads(frozenset(node for node in self.unschedulable if self.loads.replicas[node]))

    @cached_property
    def usual_fair_loads(self) -> dict[str, float]:
        """`fair_loads`, were all nodes schedulable; the same object when they are."""
        return self._fair_loads(self.unschedulable) if self.unschedulable else self.fair_loads

    def add_fair_loads(self, shares: Mapping[str, float]) -> None:
        """Count a group that is being placed, so that those placed after it see it."""
        loads = [self.fair_loads] if not self.unschedulable else [self.fair_loads, self.usual_fair_loads]
        for node, share in shares.items():
            for fair in loads:
                fair[node] += share

    def _fair_loads(self, keepers: frozenset[str]) -> dict[str, float]:
        specs = [group.spec for group in self.snapshot.groups if group.map is not None]
        sizes = Counter((id(self.pool(spec)), spec.buckets, spec.replicas) for spec in specs)
        pools = {id(pool): pool for pool in self._pools.values()}
        fair: dict[str, float] = defaultdict(float)
        for (number, buckets, replicas), groups in sizes.items():
            pool = pools[number]
            shares = pool.shares(buckets, replicas, keepers=keepers.intersection(pool.unschedulable))
            for node, share in shares.by_node.items():
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
        self._standings: dict[str, Standing] = {}

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
        """Nodes of the map that keep what they have and take no more: cordoned, tainted, or failing as targets."""
        if not self.failing and not self.pool.unschedulable:
            return NOBODY
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

    def fragments(self, bucket: int) -> list[str]:
        """Ready nodes that hold part of a bucket; a clone takes each file from whoever has it."""
        held = self.group.held
        return [node for node in sorted(held) if node in self.cluster.ready and bucket in held[node]]

    def bytes_of(self, bucket: int) -> int:
        """Bytes of one replica of the bucket."""
        sizes = self.group.bucket_bytes
        return sizes[bucket] if bucket < len(sizes) else 0

    def bytes_to_copy(self, bucket: int, node: str) -> int:
        """Bytes that a clone of the bucket to the node writes at most; 0 when it is complete there."""
        return 0 if self.state(bucket, node) == "complete" else self.bytes_of(bucket)

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
        if node not in self._standings:
            self._standings[node] = self.cluster.standing(node, self.spec)
        return self._standings[node]

    def zone(self, node: str) -> str:
        """The node's zone; the same for all nodes when zones decide nothing, or the node is gone."""
        if not self.pool.zones or node not in self.cluster.nodes:
            return ""
        return self.pool.zones.get(node) or zone_of(self.cluster.nodes[node], self.spec)

    @cached_property
    def begun(self) -> dict[tuple[int, str], bool]:
        """Replicas outside the map that exist in part: (bucket, node) -> whether complete; clones in flight too."""
        found = dict.fromkeys(self.clones, False)
        for node, states in self.group.held.items():
            for bucket, state in states.items():
                if bucket < len(self.map) and node not in self.map[bucket] and state != "corrupt":
                    found[bucket, node] = state == "complete"
        for node, buckets in self.group.unconfirmed.items():
            for bucket in buckets:
                if bucket < len(self.map) and node not in self.map[bucket] and self.is_unconfirmed(bucket, node):
                    found[bucket, node] = True
        return found

    def move(self, bucket: int, source: str | None, to: str, kind: MoveKind, reason: str) -> Move:
        """A move with the bytes that are left to copy."""
        size_bytes = self.bytes_to_copy(bucket, to)
        return Move(bucket=bucket, source=source, to=to, kind=kind, reason=reason, bytes=size_bytes)
