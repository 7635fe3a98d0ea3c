"""A small minimum-cost flow: successive shortest paths with potentials.

Costs are non-negative integers; every augmentation keeps the flow the cheapest of its size, so one may stop at any
path length. See Ahuja, Magnanti, Orlin, "Network Flows", chapter 9.7.
"""

from heapq import heappop, heappush


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
