"""How large a group's map is as JSON: one that no object of Kubernetes can hold is refused before it is made."""

from collections.abc import Iterable, Sequence
from math import ceil
from statistics import fmean

from colocation.model.limits import MAX_MAP_BYTES

from .view import GroupView
from .wording import count_of

SEPARATORS_OF_A_NODE = len('"",')
SEPARATORS_OF_A_BUCKET = len("[]")


def map_bytes(rows: Iterable[Sequence[str]]) -> int:
    """Of a map without spaces, but for its outer brackets; names of nodes are ASCII."""
    return sum(SEPARATORS_OF_A_BUCKET + sum(len(node) + SEPARATORS_OF_A_NODE for node in row) for row in rows)


def too_large(view: GroupView) -> str | None:
    """Why the map may not grow to the replicas that the group wants; None when it may, or has no need to.

    What is missing is counted by the mean length of the names of the nodes that may hold it.
    """
    names = [*view.pool.weights, *view.pool.waiting]
    lacking = sum(max(0, view.spec.replicas - len(nodes)) for nodes in view.map)
    if not lacking or not names:
        return None
    size_bytes = map_bytes(view.map) + ceil(lacking * (fmean(map(len, names)) + SEPARATORS_OF_A_NODE))
    if size_bytes <= MAX_MAP_BYTES:
        return None
    buckets, replicas = count_of(view.spec.buckets, "bucket"), count_of(view.spec.replicas, "replica")
    return (
        f"the map of {buckets} with {replicas} each takes {size_bytes} bytes with these nodes' names, and an object of "
        f"Kubernetes has room for {MAX_MAP_BYTES}; use fewer buckets or replicas"
    )
