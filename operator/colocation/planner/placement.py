"""The first map of a group: whole shares by weight, then bucket by bucket the nodes with most of their share left.

Taking the nodes with most left is Havel's and Hakimi's construction: it reaches every possible whole shares. Zones are
chosen the same way first, then nodes within them.
"""

from collections import Counter, defaultdict

from colocation.model.conditions import Reason

from .course import Course
from .evening import Problem, even_placement
from .shares import is_even, whole_shares
from .view import GroupView, Placement
from .wording import count_of


def place(view: GroupView) -> Course:
    """A new group's map; it holds at once, as there is nothing to wait for."""
    course = Course([], at_once=True, pending=True)
    able, wanted = len(view.pool.weights), view.spec.replicas
    if able < wanted:
        message = f"{count_of(wanted, 'replica')} need as many nodes; {able} may hold replicas now"
        course.hold_back("place", 0, Reason.INSUFFICIENT_NODES, message)
        return course
    course.target = new_map(view)
    for bucket, nodes in enumerate(course.target):
        if view.bytes_of(bucket):
            course.moves += [
                view.move(bucket, None, node, "place", Reason.PLACING)
                for node in nodes
                if not view.is_complete(bucket, node)
            ]
    return course


def new_map(view: GroupView) -> Placement:
    """Even by weight; where that leaves a choice, lighter nodes over all groups hold more (by count, then bytes)."""
    weights, zones, cluster = view.pool.weights, view.pool.zones, view.cluster
    buckets, replicas = len(view.map), view.spec.replicas

    def load(node: str) -> tuple[float, float, str]:
        weight = weights[node]
        return cluster.replicas_per_node[node] / weight, cluster.bytes_per_node[node] / weight, node

    rank = {node: position for position, node in enumerate(sorted(weights, key=load))}
    shares = view.pool.shares(buckets, replicas)
    quotas = whole_shares(shares, zones, rank)
    holders = _deal(quotas, zones, rank, buckets, replicas)
    counts = Counter(node for nodes in holders for node in nodes)
    if not is_even(shares, counts):
        holders = even_placement(_as_problem(view, holders, rank))
    return [tuple(sorted(nodes, key=rank.__getitem__)) for nodes in holders]


def _as_problem(view: GroupView, holders: list[set[str]], rank: dict[str, int]) -> Problem:
    buckets, replicas, zones = len(view.map), view.spec.replicas, view.pool.zones
    spare = max(0, replicas - len(set(zones.values()))) if zones else replicas
    return Problem(
        holders=holders,
        takers=sorted(rank, key=rank.__getitem__),
        shares=view.pool.shares(buckets, replicas),
        zones=zones,
        bucket_bytes=[0] * buckets,
        spare=[spare] * buckets,
    )


def _deal(
    quotas: dict[str, int], zones: dict[str, str], rank: dict[str, int], buckets: int, replicas: int
) -> list[set[str]]:
    """Deal every node's quota out over the buckets, no node twice in one, zones as different as possible."""
    left = dict(quotas)
    members: dict[str, list[str]] = defaultdict(list)
    for node in sorted(quotas, key=rank.__getitem__):
        members[zones.get(node, node)].append(node)
    holders = []
    for _ in range(buckets):
        chosen: set[str] = set()
        taken: Counter[str] = Counter()
        for _ in range(replicas):
            node = max(
                (name for zone in members.values() for name in zone if name not in chosen),
                key=lambda name: (-taken[zones.get(name, name)], left[name], -rank[name]),
            )
            chosen.add(node)
            taken[zones.get(node, node)] += 1
            left[node] -= 1
        holders.append(chosen)
    return holders
