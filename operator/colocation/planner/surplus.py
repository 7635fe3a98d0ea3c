"""Replicas beyond the wanted number: which ones go after `spec.replicas` was lowered.

One minimum-cost flow over all buckets: source -> bucket (what it has too many) -> zone -> node -> sink. In order of
weight, the cost of letting replicas go is

1. replicas that serve: those that do not, or whose node may not hold them any more, go first;
2. zones that the bucket leaves for good;
3. the unevenness that remains (`shares.Shares.deviation`): the fullest nodes are relieved first, so that balance has
   nothing left to do where that is possible.
"""

from collections import Counter
from itertools import chain

from .cluster import Standing
from .course import Course
from .flow import Network
from .shares import Shares
from .view import GroupView

SOURCE, SINK, FIRST = 0, 1, 2


def give_up_surplus(view: GroupView, course: Course) -> None:
    """Take from the target what it has beyond the wanted replicas; the map follows when the others are complete."""
    wanted = view.spec.replicas
    surplus = {bucket: len(row) - wanted for bucket, row in enumerate(course.target) if len(row) > wanted}
    if not surplus:
        return
    for bucket, leaving in _Surplus(view, course, surplus).choose().items():
        course.target[bucket] = tuple(node for node in course.target[bucket] if node not in leaving)


class _Surplus:
    def __init__(self, view: GroupView, course: Course, surplus: dict[int, int]) -> None:
        self.view = view
        self.rows = {bucket: course.target[bucket] for bucket in surplus}
        self.surplus = surplus
        self.counts = Counter(chain.from_iterable(course.target))
        self.shares: Shares = view.pool.shares(len(view.map), view.spec.replicas)
        names = sorted(set(chain.from_iterable(self.rows.values())))
        self.vertex = {node: FIRST + index for index, node in enumerate(names)}
        slots = sum(1 + len(row) for row in self.rows.values())
        self.network = Network(FIRST + len(names) + slots)
        # Each cost outweighs the sum of all that come after it.
        self.one_zone = 1 + self._largest_deviation() * 2 * sum(surplus.values())
        self.one_serving = self.one_zone * (1 + sum(surplus.values()))
        self.edges: list[tuple[int, str, int]] = []

    def _largest_deviation(self) -> int:
        deviation, rows = self.shares.deviation, len(self.view.map)
        return 1 + max((abs(deviation(node, n)) for node in self.shares.by_node for n in (1, rows + 1)), default=0)

    def choose(self) -> dict[int, set[str]]:
        """The nodes that each bucket leaves."""
        self._add_buckets()
        self._add_nodes()
        limit = 2 * self.one_serving * (1 + sum(self.surplus.values()))
        while self.network.augment(SOURCE, SINK, limit):
            pass
        leaving: dict[int, set[str]] = {bucket: set() for bucket in self.surplus}
        for bucket, node, edge in self.edges:
            if self.network.flow(edge):
                leaving[bucket].add(node)
        return leaving

    def _add_buckets(self) -> None:
        vertex = FIRST + len(self.vertex)
        for bucket, row in self.rows.items():
            self.network.add_edge(SOURCE, vertex, self.surplus[bucket], 0)
            top, vertex = vertex, vertex + 1
            zones = Counter(self.view.zone(node) for node in row)
            for zone, number in zones.items():
                # All but the last replica of a zone go without leaving it.
                self.network.add_edge(top, vertex, number - 1, 0)
                self.network.add_edge(top, vertex, 1, self.one_zone)
                for node in (node for node in row if self.view.zone(node) == zone):
                    cost = self.one_serving if self._serves(bucket, node) else 0
                    self.edges.append((bucket, node, self.network.add_edge(vertex, self.vertex[node], 1, cost)))
                vertex += 1

    def _serves(self, bucket: int, node: str) -> bool:
        return self.view.standing(node) is Standing.FIT and self.view.is_complete(bucket, node)

    def _add_nodes(self) -> None:
        """The fuller a node, the cheaper it is relieved; each further replica costs more than the one before."""
        most, offset = Counter(chain.from_iterable(self.rows.values())), self._largest_deviation()
        for node, vertex in self.vertex.items():
            for number in range(self.counts[node], self.counts[node] - most[node], -1):
                known = node in self.shares.by_node
                cost = offset - self.shares.deviation(node, number) if known else 0
                self.network.add_edge(vertex, SINK, 1, cost)
