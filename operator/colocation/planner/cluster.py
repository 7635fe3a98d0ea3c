"""A snapshot as the planner reads it: nodes, disks and loads of all groups together.

A `Cluster` is indexed once per pass: nodes, pools of nodes per selector, room on disks, loads over all groups, clones
per group. `view.GroupView` is one group within it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from functools import cached_property
from itertools import chain
from math import inf

from colocation.model.group import ColocationGroupSpec
from colocation.model.names import LABEL_ZONE
from colocation.model.plan import Plan
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


WIDE_OUTAGE_TOLERANCES = 12
"""Times the group's tolerance: so long is waited for nodes that are down together (see `Cluster.wide_outage`)."""
LIVE_REPLICAS_TO_WAIT = 2
"""A bucket with fewer live replicas does not wait for them."""

GroupKey = tuple[str, str]

NO_NODES: frozenset[str] = frozenset()


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
    the nodes that keep what they have and take nothing else. ``zones`` maps all these nodes to their zones; it is empty
    when fewer than two zones are known, as zones then decide nothing. ``standings``: of all nodes of the snapshot.
    ``either_way``: see `Shares`. ``unweighed``: those whose weight is not known: before it is, or the node is lost,
    nothing is balanced.
    """

    either_way: bool
    weights: dict[str, float]
    waiting: dict[str, float]
    unschedulable: dict[str, float]
    zones: dict[str, str]
    standings: dict[str, Standing]
    unweighed: frozenset[str] = NO_NODES
    _shares: dict[tuple[int, int, bool, bool, frozenset[str], frozenset[str]], Shares] = field(default_factory=dict)

    def shares(
        self,
        buckets: int,
        replicas: int,
        *,
        keep_for_waiting: bool = True,
        by_weight_alone: bool = False,
        keepers: frozenset[str] = NO_NODES,
        left_out: frozenset[str] = NO_NODES,
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
        self.bytes_by_node: dict[str, float] = {
            node.name: node.free_bytes - fraction * node.capacity_bytes if node.capacity_bytes else inf
            for node in snapshot.nodes
        }

    def available_bytes(self, node: str) -> float:
        return self.bytes_by_node.get(node, 0)

    def fits(self, node: str, size_bytes: int) -> bool:
        """Whether the node has room for these bytes. Zero bytes always fit, even on an overbooked node."""
        return not size_bytes or size_bytes <= self.available_bytes(node)

    def with_room(self, nodes: Iterable[str], size_bytes: int) -> list[str]:
        """The given nodes that have room for these bytes."""
        available = self.bytes_by_node
        return [node for node in nodes if available.get(node, 0) >= size_bytes]

    def take(self, node: str, size_bytes: int) -> None:
        """Reserve these bytes. Room below zero means that so many bytes are missing."""
        if node in self.bytes_by_node:
            self.bytes_by_node[node] -= size_bytes


def room_left(snapshot: Snapshot, plan: Plan) -> dict[str, float]:
    """Node -> bytes that may be written there beyond the clones in flight and those that the plan starts now."""
    room = Cluster(snapshot).room_now()
    for group in plan.groups:
        for index in group.start_now:
            move = group.moves[index]
            room.take(move.to, move.bytes)
    return room.bytes_by_node


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
        """The room that running clones leave. `room` starts with it, and loses what the pass plans."""
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
        zones, standings, unweighed = {}, {}, set[str]()
        for name, node in sorted(self.nodes.items()):
            standing = standings[name] = self._standing(node, spec)
            if standing in weights and is_selected(node, spec):
                unweighed |= set() if node.is_weight_known else {name}
                weights[standing][name] = node.weight
                zones[name] = zone_of(node, spec)
        decisive = len(set(zones.values())) > 1
        fit, waiting, keeping = weights[Standing.FIT], weights[Standing.WAITING], weights[Standing.KEEPING]
        settled = zones if decisive else {}
        return Pool(self.has_several, fit, waiting, keeping, settled, standings, frozenset(unweighed))

    def _standing(self, node: Node, spec: ColocationGroupSpec) -> Standing:
        """What the node is to a group of this spec."""
        if node.drain:
            return Standing.DRAINING
        if not node.ready:
            tolerance_seconds = self.down_tolerance_seconds(node.name, spec)
            return Standing.LOST if self.is_down_for(node, tolerance_seconds) else Standing.WAITING
        if node.is_disk_sick:
            since = node.disk_since or self.now
            tolerance = timedelta(seconds=spec.relocation.down_tolerance_seconds)
            return Standing.DRAINING if self.now - since >= tolerance else Standing.KEEPING
        if not is_selected(node, spec):
            return Standing.LEAVING
        return Standing.FIT if node.schedulable else Standing.KEEPING

    def is_down_for(self, node: Node, seconds: float) -> bool:
        """Whether an unready node has been unready for at least this time."""
        return self.now - (node.not_ready_since or self.now) >= timedelta(seconds=seconds)

    def down_tolerance_seconds(self, node: str, spec: ColocationGroupSpec) -> int:
        """How long the group waits for the node when it is down: longer in a wide outage."""
        times = WIDE_OUTAGE_TOLERANCES if node in self.wide_outage else 1
        return times * spec.relocation.down_tolerance_seconds

    @cached_property
    def wide_outage(self) -> dict[str, str]:
        """Nodes that are down with their whole zone, or with most nodes -> the cause in words.

        Such an outage is rarely a fault of the nodes themselves: they usually return with their files. Cloning all of
        it would fill the other nodes, and load them when they are needed most.
        """
        down = {node.name for node in self.nodes.values() if not node.ready and not node.drain}
        if len(down) > 1 and 2 * len(down) > len(self.nodes):
            return dict.fromkeys(down, f"{len(down)} of {len(self.nodes)} nodes are down")
        zones: dict[str, set[str]] = defaultdict(set)
        for node in self.nodes.values() if down else ():
            zones[node.zone or ""].add(node.name)
        lost = {zone: names for zone, names in zones.items() if len(names) > 1 and names <= down}
        causes = {zone: f"all nodes of zone {zone or '(none)'} are down" for zone in lost}
        return {name: causes[zone] for zone, names in lost.items() for name in names}

    @property
    def is_unweighed(self) -> bool:
        """Whether a node that a group with a map may use has an unknown weight."""
        if all(node.is_weight_known for node in self.nodes.values()):
            return False
        return any(self.pool(group.spec).unweighed for group in self.snapshot.groups if group.map is not None)

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
    """Whether the group's selector and the node's weight allow replicas there; health and drains do not count."""
    return node.weight > 0 and all(node.labels.get(key) == value for key, value in spec.node_selector.items())


def unknown_topology(spec: ColocationGroupSpec, nodes: Iterable[Node]) -> str:
    """That the group's topology key is the label of no node, and spreads nothing; empty where it does."""
    nodes = tuple(nodes)
    if not spec.topology_key or not nodes or any(zone_of(node, spec) for node in nodes):
        return ""
    return f"no node has the label {spec.topology_key} of spec.topologyKey, which so spreads no replicas"


def zone_of(node: Node, spec: ColocationGroupSpec) -> str:
    """The node's value of the group's topology key; nodes without that label form one zone, named by the empty text."""
    if spec.topology_key in ("", LABEL_ZONE):
        return node.zone or node.labels.get(LABEL_ZONE, "")
    return node.labels.get(spec.topology_key, "")
