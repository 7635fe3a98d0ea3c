"""Chooses a node for each lost replica, one replica after the other.

The fittest node is, in this order: one on which clones of the group do not fail; in a zone without a replica of the
bucket; one on which the replica has been begun (so that plans stay the same while they are carried out); the furthest
below its share by weight; the lightest over all groups, by replicas and then bytes for its weight; the first by name.

Room on disks is the only limit, and a replica without room holds up no other one:

- the buckets with the fewest live replicas choose first, and among them the big ones;
- where a replica finds no room, replicas chosen before it go to other nodes if that makes room for it;
- where still not all fit, the small ones choose first, if more replicas are made then;
- a bucket that no live node can give takes no room.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain

from colocation.model.plan import MoveKind

from .cluster import Standing
from .transitions import LOST_FOR_GOOD
from .view import GroupView, Placement

KIND_ORDER = ("repair", "drain", "place")
MOST_STEPS = 1_000_000
"""Looks at a node for a replica while room is made, per group; some tenths of a second."""

Losses = dict[int, list[str | None]]
"""Per bucket, the replicas to be made again: the node of each that was lost, None for one more than before."""

Lost = tuple[int, str | None]
"""Bucket and the node of its lost replica."""

Assignment = tuple[int, str | None, str]
"""Bucket, the node of the lost replica, the node that takes its place."""

Step = tuple[int, str | None]
"""On the way to make room: the bucket that wants a node, and the node that it leaves for that."""


def kind_of(view: GroupView, lost: str | None) -> MoveKind:
    """The kind of the move that succeeds a lost replica."""
    if lost is None:
        return "place"
    return "drain" if view.standing(lost) is Standing.DRAINING else "repair"


class Chooser:
    """Chooses nodes for the lost replicas of a group.

    ``assignments``: what was chosen. ``left_over``: the lost replicas that found no node. ``holders``: the nodes of
    each bucket with those chosen; ``counts``: the replicas of each node then.
    """

    def __init__(self, view: GroupView, rows: Placement, losses: Losses) -> None:
        self.view = view
        self.shares = view.shares()
        failing = view.group.failing_targets.keys()
        self.healthy = [node for node in view.takers if node not in failing]
        self._on_probation = [node for node in view.takers if node in failing]
        kept = [[node for node in nodes if node not in losses.get(bucket, ())] for bucket, nodes in enumerate(rows)]
        self.holders = [set(nodes) for nodes in kept]
        self.counts = Counter(chain.from_iterable(kept))
        self.left_over: list[Lost] = []
        self._chosen: dict[tuple[int, str], str | None] = {}
        self._arriving: dict[str, set[int]] = defaultdict(set)
        self._steps_left = MOST_STEPS
        lost = [(bucket, node) for bucket, nodes in losses.items() for node in nodes]
        self._urgency = {one: (KIND_ORDER.index(kind_of(view, one[1])), view.live_replicas(one[0])) for one in lost}
        self._lost = sorted(lost, key=lambda one: (self._urgency[one], -view.bytes_of(one[0]), one[0]))

    @property
    def assignments(self) -> list[Assignment]:
        return [(bucket, lost, node) for (bucket, node), lost in self._chosen.items()]

    def choose_all(self) -> None:
        self._choose(self._lost)
        if any(self.candidates(bucket) for bucket, _ in self.left_over):
            first = self.assignments, self.left_over, self._score()
            self._replace_all([])
            small_first = sorted(self._lost, key=lambda one: (self._urgency[one], self.view.bytes_of(one[0]), one[0]))
            self._choose(small_first)
            if self._score() <= first[2]:
                self._replace_all(first[0])
                self.left_over = first[1]

    def _score(self) -> list[int]:
        """How many replicas were chosen, the most urgent ones first."""
        chosen = Counter(self._urgency[bucket, lost] for bucket, lost, _ in self.assignments)
        return [chosen[urgency] for urgency in sorted(set(self._urgency.values()))]

    def _replace_all(self, assignments: list[Assignment]) -> None:
        for bucket, _, node in self.assignments:
            self._give_back(bucket, node)
        for bucket, lost, node in assignments:
            self._take(bucket, lost, node)

    def _choose(self, order: list[Lost]) -> None:
        self.left_over = []
        for bucket, lost in order:
            node = self._fittest(bucket) or self._make_room(bucket)
            if node is None:
                self.left_over.append((bucket, lost))
            else:
                self._take(bucket, lost, node)

    def candidates(self, bucket: int) -> list[str]:
        """The nodes that may take a replica of the bucket, with room or without."""
        used = self.holders[bucket].union(self.view.map[bucket])
        return [node for node in self.view.takers if node not in used]

    def _fittest(self, bucket: int) -> str | None:
        used = self.holders[bucket].union(self.view.map[bucket])
        for nodes in (self.healthy, self._on_probation):
            roomy = [node for node in self._with_room(bucket, nodes) if node not in used]
            if roomy:
                return self._best_of(bucket, roomy)
        return None

    def _with_room(self, bucket: int, nodes: list[str]) -> list[str]:
        roomy = self.view.cluster.room.with_room(nodes, self.view.bytes_of(bucket))
        return roomy if len(roomy) == len(nodes) else [node for node in nodes if self.fits(bucket, node)]

    def _best_of(self, bucket: int, roomy: list[str]) -> str:
        view = self.view
        if view.pool.zones:
            zones = {view.zone(holder) for holder in self.holders[bucket]}
            roomy = [node for node in roomy if view.zone(node) not in zones] or roomy
        begun = [node for node in roomy if (bucket, node) in view.begun]
        roomy = [node for node in begun if view.begun[bucket, node]] or begun or roomy
        counts, deviation, load = self.counts, self.shares.deviation, view.cluster.loads.of
        deviations = [deviation(node, counts[node] + 1) for node in roomy]
        least = min(deviations)
        return min(load(node) for node, one in zip(roomy, deviations, strict=True) if one == least)[-1]

    def _make_room(self, bucket: int) -> str | None:
        """A node that gets room for the bucket when chosen replicas move to other nodes; None if there is none.

        Searches breadth first and looks at each node once: a replica that moves may displace another one.
        """
        came_from: dict[str, Step] = dict.fromkeys(self._others(bucket), (bucket, None))
        for node in (queue := list(came_from)):
            for other in self._in_the_way(came_from[node][0], node):
                for elsewhere in self._others(other):
                    self._steps_left -= 1
                    if self.fits(other, elsewhere) and elsewhere not in _way_to(node, came_from):
                        return self._shift(other, node, elsewhere, came_from)
                    if elsewhere not in came_from:
                        came_from[elsewhere] = (other, node)
                        queue.append(elsewhere)
                if self._steps_left <= 0:
                    return None
        return None

    def _others(self, bucket: int) -> list[str]:
        used = self.holders[bucket].union(self.view.map[bucket])
        return [node for node in self.healthy if node not in used]

    def _in_the_way(self, bucket: int, node: str) -> list[int]:
        """Replicas chosen for the node that leave room for the bucket when one of them moves; the smallest first."""
        short = self._bytes_to_take(bucket, node) - self.view.cluster.room.available_bytes(node)
        able = [other for other in self._arriving[node] if self._bytes_to_take(other, node) >= short]
        return sorted(able, key=lambda other: (self.view.bytes_of(other), other))

    def _shift(self, bucket: int, node: str, elsewhere: str, came_from: dict[str, Step]) -> str:
        """Move every displaced replica to the node that the search found for it; returns the node that is free now."""
        while True:
            self._take(bucket, self._give_back(bucket, node), elsewhere)
            wanted, left = came_from[node]
            if left is None:
                return node
            bucket, node, elsewhere = wanted, left, node

    def _take(self, bucket: int, lost: str | None, node: str) -> None:
        self.holders[bucket].add(node)
        self.counts[node] += 1
        self.take_room(bucket, node, 1)
        self._chosen[bucket, node] = lost
        self._arriving[node].add(bucket)

    def _give_back(self, bucket: int, node: str) -> str | None:
        self.holders[bucket].discard(node)
        self.counts[node] -= 1
        self.take_room(bucket, node, -1)
        self._arriving[node].discard(bucket)
        return self._chosen.pop((bucket, node))

    def fits(self, bucket: int, node: str) -> bool:
        """Whether the node's disk has room for what is still to be copied of the bucket."""
        return self.view.cluster.room.fits(node, self._bytes_to_take(bucket, node))

    def take_room(self, bucket: int, node: str, sign: int) -> None:
        self.view.cluster.room.take(node, sign * self._bytes_to_take(bucket, node))

    def _bytes_to_take(self, bucket: int, node: str) -> int:
        """Bytes to reserve: none for a bucket that no live node has."""
        return self.view.bytes_to_reserve(bucket, node) if self.view.has_source(bucket) else 0

    @property
    def frozen(self) -> frozenset[str]:
        """Nodes that are down, lost or draining and still hold replicas in this placement; these are not moved."""
        gone = (Standing.WAITING, *LOST_FOR_GOOD)
        return frozenset(node for node in self.counts if self.view.standing(node) in gone)


def _way_to(node: str, came_from: dict[str, Step]) -> Iterator[str]:
    """The nodes through which the search reached this node, and the node itself."""
    left: str | None = node
    while left is not None:
        yield left
        left = came_from[left][1]
