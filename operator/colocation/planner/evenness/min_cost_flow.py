"""Even placements by the fewest moves: one minimum-cost flow over buckets, zones and nodes.

Source -> node (replicas it may give up) -> bucket -> node (that takes the replica) -> sink. The start is the present
placement; each augmentation gives one replica up and makes one. In order of weight, the cost of a flow is

1. deviation from fair shares (`shares.Shares.deviation`),
2. replicas newly made,
3. of these, the ones not already begun on their node (so that a plan stays the same while it is carried out),
4. their bytes,
5. the rank of their nodes (lighter nodes, over all groups, first).

An augmentation that would not lower the sum is not made; the result is therefore the optimum in this order, and the
optimum of an optimum is itself: planning ends.

Within a bucket the flow passes by its zones: one unit per zone is free, units beyond that ("spare") are limited to
what `EvennessProblem.spare` allows, so that no bucket comes to lie in fewer zones than that.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush

from .shares import Shares


class Network:
    """A directed network over vertices ``0 .. vertices - 1``. Edge ``e ^ 1`` is the reverse of edge e."""

    def __init__(self, vertices: int) -> None:
        self._edges_of: list[list[int]] = [[] for _ in range(vertices)]
        self._head: list[int] = []
        self._capacity: list[int] = []
        self._cost: list[int] = []
        self._potential = [0] * vertices

    def add_edge(self, tail: int, head: int, capacity: int, cost: int, flow: int = 0) -> int:
        """An edge that carries ``flow`` already; returns its number.

        Flow given at the start must be the cheapest of its size, e.g. all of cost 0.
        """
        number = len(self._head)
        self._edges_of[tail].append(number)
        self._edges_of[head].append(number + 1)
        self._head += (head, tail)
        self._capacity += (capacity - flow, flow)
        self._cost += (cost, -cost)
        return number

    def flow(self, edge: int) -> int:
        """What the edge carries."""
        return self._capacity[edge ^ 1]

    def augment(self, source: int, sink: int, cost_limit: int) -> bool:
        """Send one more unit along the cheapest path; False when there is none that costs less than ``cost_limit``."""
        distance, arrival = self._shortest_paths(source, sink)
        if sink not in distance:
            return False
        length = distance[sink]
        potential = self._potential
        if length + potential[sink] - potential[source] >= cost_limit:
            return False
        for vertex, so_far in distance.items():
            if so_far < length:
                potential[vertex] += so_far - length
        vertex = sink
        while vertex != source:
            edge = arrival[vertex]
            self._capacity[edge] -= 1
            self._capacity[edge ^ 1] += 1
            vertex = self._head[edge ^ 1]
        return True

    def _shortest_paths(self, source: int, sink: int) -> tuple[dict[int, int], dict[int, int]]:
        """Distances in reduced costs of the vertices nearer than the sink, the sink's, and the edges of arrival."""
        capacity, cost, head, potential = self._capacity, self._cost, self._head, self._potential
        best = {source: 0}
        arrival: dict[int, int] = {}
        settled: dict[int, int] = {}
        queue = [(0, source)]
        while queue:
            so_far, vertex = heappop(queue)
            if vertex in settled:
                continue
            settled[vertex] = so_far
            if vertex == sink:
                break
            base = so_far + potential[vertex]
            for edge in self._edges_of[vertex]:
                if capacity[edge]:
                    neighbour = head[edge]
                    if neighbour in settled:
                        continue
                    length = base + cost[edge] - potential[neighbour]
                    if neighbour not in best or length < best[neighbour]:
                        best[neighbour] = length
                        arrival[neighbour] = edge
                        heappush(queue, (length, neighbour))
        return settled, arrival


@dataclass
class EvennessProblem:
    """Whose replicas may go where.

    ``holders[b]``: the nodes of bucket b now. ``takers``: nodes that may hold replicas, lightest first. ``keepers``
    give as takers do, and take nothing; ``frozen`` nodes neither give nor take; any other holder has to give up all
    it has. ``spare[b]``: replicas of b that may lie in a zone with another one.
    ``begun``: (bucket, node) -> whether complete. Narrower problems: ``givers`` alone give replicas up, ``receivers``
    alone take some, replicas (bucket, node) alone are ``movable``; None = all.
    """

    holders: list[set[str]]
    takers: list[str]
    shares: Shares
    zones: dict[str, str]
    bucket_bytes: list[int]
    spare: list[int]
    begun: dict[tuple[int, str], bool] = field(default_factory=dict)
    keepers: frozenset[str] = frozenset()
    frozen: frozenset[str] = frozenset()
    givers: set[str] | None = None
    receivers: set[str] | None = None
    movable: set[tuple[int, str]] | None = None

    @property
    def size(self) -> int:
        """About the number of edges of the flow."""
        receivers = len(self.takers) if self.receivers is None else len(self.receivers)
        return sum(map(len, self.holders)) + len(self.holders) * receivers

    def preference(self, bucket: int, node: str) -> tuple[bool, int, int]:
        """Of the buckets that the node might take: begun ones first, then by the bytes that are left to copy."""
        complete = self.begun.get((bucket, node))
        return complete is None, 0 if complete else self.bucket_bytes[bucket], bucket

    def may_replace(self, bucket: int, giver: str, node: str) -> bool:
        """Whether zones allow that the node succeeds the giver."""
        if not self.zones or self.zones[giver] == self.zones[node]:
            return True
        zones = {self.zones[holder] for holder in self.holders[bucket] if holder != giver} | {self.zones[node]}
        return len(self.holders[bucket]) - len(zones) <= self.spare[bucket]

    def may_give(self, bucket: int, node: str) -> bool:
        if node in self.frozen or (self.givers is not None and node not in self.givers):
            return False
        return self.movable is None or (bucket, node) in self.movable


def solve(problem: EvennessProblem) -> list[set[str]]:
    """The holders of each bucket in the cheapest placement that the problem's moves can reach."""
    return _PlacementFlow(problem).solve()


class _Costs:
    """The five orders of cost as one integer each, such that no sum of a lower order reaches one of a higher."""

    def __init__(self, problem: EvennessProblem) -> None:
        replicas = sum(len(holders) for holders in problem.holders)
        self._rank = {node: rank for rank, node in enumerate(problem.takers)}
        self._problem = problem
        self.one_byte = 1 + replicas * len(problem.takers)
        self.one_fresh = self.one_byte * (1 + sum(problem.bucket_bytes) * max(1, len(problem.takers)))
        self.one_move = self.one_fresh * (1 + replicas)
        self.one_deviation = self.one_move * (1 + replicas)

    def of_new_replica(self, bucket: int, node: str) -> int:
        size_bytes = self._problem.bucket_bytes[bucket]
        complete = self._problem.begun.get((bucket, node))
        cost = self.one_move + self._rank[node]
        if complete is None:
            return cost + self.one_fresh + size_bytes * self.one_byte
        return cost + (0 if complete else size_bytes * self.one_byte)


class _PlacementFlow:
    def __init__(self, problem: EvennessProblem) -> None:
        self.problem = problem
        self.costs = _Costs(problem)
        others = set().union(*problem.holders) - set(problem.takers) if problem.holders else set()
        nodes = [*problem.takers, *sorted(others)]
        self.sharers = {*problem.takers, *(problem.keepers & others)}
        self.vertex = {node: index + 2 for index, node in enumerate(nodes)}
        self.zone_names = sorted({problem.zones.get(node, "") for node in nodes})
        self.zone_index = {zone: index for index, zone in enumerate(self.zone_names)}
        self.first_bucket = len(nodes) + 2
        self.per_bucket = len(self.zone_names) + 2
        self.network = Network(self.first_bucket + self.per_bucket * len(problem.holders))
        self.edges: list[tuple[int, str, int]] = []
        only = problem.receivers
        self.receivers = [node for node in problem.takers if only is None or node in only]
        self.result: list[set[str]] = [set() for _ in problem.holders]
        # Every path gives up once and takes once: this much added to both makes all costs non-negative.
        self.offset = self.costs.one_deviation * self._largest_deviation()

    def _largest_deviation(self) -> int:
        deviation, buckets = self.problem.shares.deviation, len(self.problem.holders)
        return 1 + max((abs(deviation(node, n)) for node in self.sharers for n in (1, buckets + 1)), default=0)

    def solve(self) -> list[set[str]]:
        for bucket, holders in enumerate(self.problem.holders):
            self._add_zones(bucket, holders)
            self._add_replicas(bucket, holders)
        self._add_nodes()
        while self.network.augment(0, 1, 2 * self.offset):
            pass
        for bucket, node, edge in self.edges:
            if self.network.flow(edge):
                self.result[bucket].add(node)
        return self.result

    def _slot(self, bucket: int, node: str) -> int:
        zone = self.zone_index[self.problem.zones.get(node, "")]
        return self.first_bucket + bucket * self.per_bucket + 2 + zone

    def _add_zones(self, bucket: int, holders: set[str]) -> None:
        """bucket -> zone (one each), bucket -> spare -> zone (the rest)."""
        if len(self.zone_names) < 2:
            return
        top = self.first_bucket + bucket * self.per_bucket
        counts = dict.fromkeys(self.zone_names, 0)
        for node in holders:
            counts[self.problem.zones.get(node, "")] += 1
        spare = sum(max(0, count - 1) for count in counts.values())
        self.network.add_edge(top, top + 1, max(self.problem.spare[bucket], spare), 0, spare)
        for index, zone in enumerate(self.zone_names):
            slot = top + 2 + index
            self.network.add_edge(top, slot, 1, 0, min(1, counts[zone]))
            self.network.add_edge(top + 1, slot, len(holders), 0, max(0, counts[zone] - 1))

    def _add_replicas(self, bucket: int, holders: set[str]) -> None:
        for node in sorted(holders):  # plans must not depend on the order of sets
            if self.problem.may_give(bucket, node):
                edge = self.network.add_edge(self._slot(bucket, node), self.vertex[node], 1, 0, 1)
                self.edges.append((bucket, node, edge))
            else:
                self.result[bucket].add(node)
        if not any(self.problem.may_give(bucket, node) for node in holders):
            return
        for node in self.receivers:
            if node not in holders:
                cost = self.costs.of_new_replica(bucket, node)
                edge = self.network.add_edge(self._slot(bucket, node), self.vertex[node], 1, cost)
                self.edges.append((bucket, node, edge))

    def _add_nodes(self) -> None:
        counts, movable = dict.fromkeys(self.vertex, 0), dict.fromkeys(self.vertex, 0)
        for bucket, holders in enumerate(self.problem.holders):
            for node in holders:
                counts[node] += 1
                movable[node] += self.problem.may_give(bucket, node)
        most = sum(movable.values())
        unit = self.costs.one_deviation
        receivers = set(self.receivers)
        for node, count in counts.items():
            if node not in self.sharers:
                self.network.add_edge(0, self.vertex[node], count, 0)
                continue
            deviation = self.problem.shares.deviation
            for number in range(count, count - movable[node], -1):
                self.network.add_edge(0, self.vertex[node], 1, self.offset - unit * deviation(node, number))
            room = min(len(self.problem.holders) - count, most) if node in receivers else 0
            for number in range(count + 1, count + room + 1):
                self.network.add_edge(self.vertex[node], 1, 1, self.offset + unit * deviation(node, number))
