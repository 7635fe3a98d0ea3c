"""The map of a group that was made anew, from what the nodes still hold: deleting a group object loses no data."""

from collections import Counter
from collections.abc import Mapping

from ..model.agent import ReplicaState
from ..model.group import BucketSequence


def recovered_map(
    held: Mapping[str, Mapping[int, ReplicaState]], buckets: int, replicas: int
) -> BucketSequence | None:
    """Per bucket up to ``replicas`` nodes that hold it complete, those with fewest buckets first.

    None when no node holds any bucket complete: then the group is placed like a new one. Buckets with fewer holders get
    fewer nodes, which the planner repairs.
    """
    counts: Counter[str] = Counter()
    rows: list[tuple[str, ...]] = []
    for bucket in range(buckets):
        holders = [node for node, states in held.items() if states.get(bucket) == "complete"]
        chosen = sorted(holders, key=lambda node: (counts[node], node))[:replicas]
        counts.update(chosen)
        rows.append(tuple(sorted(chosen)))
    return tuple(rows) if counts else None
