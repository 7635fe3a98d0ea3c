"""The quick look: most groups in most passes need nothing, and a pass over them must cost next to nothing."""

from collections import Counter
from itertools import chain

from colocation.model.group import ColocationGroupSpec
from colocation.model.snapshot import GroupState

from .cluster import Cluster, Pool
from .shares import is_even


def is_quiet(cluster: Cluster, group: GroupState) -> bool:
    """Whether the group is stable, where it should be, and holds nothing beyond its map.

    A False costs time, never correctness: the group is then looked at in full.
    """
    spec = group.spec
    if group.map is None or group.marked_unstable is not None or spec.bucket_sequence is not None:
        return False
    if len(group.map) != spec.buckets or cluster.clones.get((group.namespace, group.name)):
        return False
    pool = cluster.pool(spec)
    if len(pool.weights) < spec.replicas or not _all_complete(group, pool):
        return False
    if cluster.limits.disable_colocate_balance or not spec.balancing.enabled:
        return True
    counts = Counter(chain.from_iterable(group.map))
    return is_settled(pool, spec, counts)


def is_settled(pool: Pool, spec: ColocationGroupSpec, counts: Counter[str]) -> bool:
    """Whether the group is even by weight alone, or as even as one that spreads over the zones can be."""
    if is_even(pool.shares(spec.buckets, spec.replicas), counts, pool.weights):
        return True
    by_weight = pool.shares(spec.buckets, spec.replicas, by_weight_alone=True)
    return bool(pool.zones) and is_even(by_weight, counts, pool.weights)


def _all_complete(group: GroupState, pool: Pool) -> bool:
    """Whether every replica of the map is complete on a fit node, and no node holds another one."""
    assert group.map is not None
    fit, held, sizes, replicas = pool.weights, group.held, group.bucket_bytes, group.spec.replicas
    empty: dict[int, str] = {}
    found = 0
    for bucket, nodes in enumerate(group.map):
        if len(nodes) != replicas or len(set(nodes)) != replicas:
            return False
        for node in nodes:
            if node not in fit:
                return False
            if held.get(node, empty).get(bucket) == "complete":
                found += 1
            elif bucket < len(sizes) and sizes[bucket]:
                return False
    return found == sum(map(len, held.values()))
