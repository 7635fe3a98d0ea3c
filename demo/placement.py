"""Counts over a group's map, computed independently of the planner."""

from collections import Counter
from collections.abc import Sequence

Map = Sequence[Sequence[str]]


def replicas_per_node(bucket_map: Map) -> Counter[str]:
    """How many replicas each node holds."""
    return Counter(node for nodes in bucket_map for node in nodes)


def moved_replicas(before: Map, after: Map) -> int:
    """Replicas that are on a node after, which did not hold that bucket before."""
    return sum(len(set(new) - set(old)) for old, new in zip(before, after, strict=True))


def minimal_moves(before: Map, nodes: Sequence[str]) -> int:
    """The fewest replicas that must move so that the counts of ``nodes`` differ by at most one.

    Every node must end with floor or ceiling of the average, and exactly ``total mod nodes`` of them with the
    ceiling; these are best given to the fullest nodes. Replicas on other nodes than ``nodes`` must move too.
    """
    held = replicas_per_node(before)
    floor, with_one_more = divmod(sum(held.values()), len(nodes))
    fullest_first = sorted((held[node] for node in nodes), reverse=True)
    kept = sum(min(count, floor + (rank < with_one_more)) for rank, count in enumerate(fullest_first))
    return sum(held.values()) - kept
