"""The first map of a group: whole shares by weight, then bucket by bucket the nodes with most of their share left.

Taking the nodes with most left is Havel's and Hakimi's construction: it reaches every possible whole shares. Zones are
chosen the same way first, then nodes within them.
"""

from collections import Counter, defaultdict
from heapq import heappop, heappush
from zlib import crc32

from colocation.model.conditions import Reason

from .course import Course, too_few_nodes
from .evening import Problem, solve
from .map_size import too_large
from .shares import is_even, whole_shares
from .view import GroupView, Placement


def place(view: GroupView) -> Course:
    """A new group's map; it holds at once, as there is nothing to wait for."""
    course = Course(list(view.map), at_once=True, pending=True)
    if len(view.pool.weights) < view.spec.replicas:
        course.hold_back("place", 0, Reason.INSUFFICIENT_NODES, too_few_nodes(view))
        return course
    oversize = too_large(view)
    if oversize:
        course.hold_back("place", 0, Reason.INVALID_SPEC, oversize)
        return course
    course.target = new_map(view)
    _count(view, course.target)
    for bucket, nodes in enumerate(course.target):
        made = [node for node in nodes if view.state(bucket, node) != "complete"]
        course.moves += [view.move(bucket, None, node, "place", Reason.PLACING) for node in made]
    return course


def _count(view: GroupView, placement: Placement) -> None:
    """Let the groups that are placed after this one see its load."""
    for node, share in view.pool.shares(len(placement), view.spec.replicas, keep_for_waiting=False).by_node.items():
        view.cluster.fair_loads[node] += share
    for bucket, nodes in enumerate(placement):
        for node in nodes:
            view.cluster.loads.add(node, 1, view.bytes_of(bucket))


def new_map(view: GroupView) -> Placement:
    """Even by weight; where that leaves a choice, lighter nodes over all groups hold more (by count, then bytes)."""
    weights, zones = view.pool.weights, view.pool.zones
    buckets, replicas = len(view.map), view.spec.replicas
    rank = {node: position for position, node in enumerate(sorted(weights, key=view.cluster.loads.of))}
    shares = view.pool.shares(buckets, replicas, keep_for_waiting=False)
    fair_loads, loads = view.cluster.fair_loads, view.cluster.loads
    quotas = whole_shares(shares, zones, rank, {node: fair_loads[node] - loads.replicas[node] for node in weights})
    dealer = _Dealer(quotas, zones)
    holders = [dealer.deal(bucket, replicas) for bucket in range(buckets)]
    counts = Counter(node for nodes in holders for node in nodes)
    # Whole shares are found zone by zone; what could be evened out between zones must not be left to balance.
    if not is_even(shares, counts, weights):
        holders = solve(_as_problem(view, holders, rank))
    return [tuple(sorted(nodes)) for nodes in holders]


def _as_problem(view: GroupView, holders: list[set[str]], rank: dict[str, int]) -> Problem:
    buckets, replicas, zones = len(view.map), view.spec.replicas, view.pool.zones
    spare = max(0, replicas - len(set(zones.values()))) if zones else replicas
    return Problem(
        holders=holders,
        takers=sorted(rank, key=rank.__getitem__),
        shares=view.pool.shares(buckets, replicas, keep_for_waiting=False, by_weight_alone=True),
        zones=zones,
        bucket_bytes=[0] * buckets,
        spare=[spare] * buckets,
    )


class _Dealer:
    """Deals every node's quota out over the buckets: no node twice in one, zones as different as possible.

    Among nodes with as much left, a hash of node and bucket decides: the successors of a lost node's replicas then
    lie on many nodes and not always on the same two.
    """

    def __init__(self, quotas: dict[str, int], zones: dict[str, str]) -> None:
        self._zone_left: Counter[str] = Counter()
        self._nodes: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        for node, quota in quotas.items():
            zone = zones.get(node, "")
            self._zone_left[zone] += quota
            heappush(self._nodes[zone], (-quota, _scattered(node, 0), node))

    def deal(self, bucket: int, replicas: int) -> set[str]:
        """The nodes of the next bucket."""
        chosen = set()
        for zone, number in self._zones_of_next(replicas).items():
            taken = [heappop(self._nodes[zone]) for _ in range(number)]
            self._zone_left[zone] -= number
            for left, _, node in taken:
                chosen.add(node)
                heappush(self._nodes[zone], (left + 1, _scattered(node, bucket + 1), node))
        return chosen

    def _zones_of_next(self, replicas: int) -> Counter[str]:
        """How many nodes of each zone: all different while there are enough, of the zones with most left."""
        numbers: Counter[str] = Counter()
        while numbers.total() < replicas:
            open_zones = [zone for zone, nodes in self._nodes.items() if numbers[zone] < len(nodes)]
            zones = [zone for zone in open_zones if not numbers[zone]] or open_zones
            numbers[max(zones, key=lambda zone: (self._zone_left[zone] - numbers[zone], zone))] += 1
        return numbers


def _scattered(node: str, bucket: int) -> int:
    return crc32(f"{bucket}/{node}".encode())
