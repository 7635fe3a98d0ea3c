"""The optimum by another way: networkx's minimum-cost flow from nothing, exact fractions for the shares.

Shares nothing with the planner but the definition of evenness: whole shares of all replicas by weight, by the largest
remainder, at most one replica of a bucket per node; equal remainders are alike.
"""

from fractions import Fraction

import networkx as nx

from colocation.model.group import BucketSequence


def exact_shares(weights: dict[str, float], buckets: int, replicas: int) -> dict[str, Fraction]:
    """Shares by weight, capped at one replica of every bucket; the rest again by weight."""
    shares: dict[str, Fraction] = {}
    open_weights = {node: Fraction(weight) for node, weight in weights.items()}
    remaining = Fraction(buckets * replicas)
    while open_weights:
        level = remaining / sum(open_weights.values())
        full = [node for node, weight in open_weights.items() if weight * level > buckets]
        for node in full or list(open_weights):
            shares[node] = Fraction(buckets) if full else open_weights[node] * level
            remaining -= shares[node]
            del open_weights[node]
    return shares


def largest_remainder(shares: dict[str, Fraction]) -> tuple[dict[str, int], set[str], int]:
    """Certain whole shares, the nodes of which some get one more, and how many of them do."""
    whole = {node: int(share) for node, share in shares.items()}
    missing = int(sum(shares.values())) - sum(whole.values())
    remainders = sorted((shares[node] - whole[node] for node in shares), reverse=True)
    if missing == 0:
        return whole, set(), 0
    threshold = remainders[missing - 1]
    for node in shares:
        if shares[node] - whole[node] > threshold:
            whole[node] += 1
            missing -= 1
    tied = {node for node in shares if shares[node] - int(shares[node]) == threshold}
    return whole, tied, missing


def fewest_moves(
    weights: dict[str, float],
    bucket_map: BucketSequence,
    bucket_bytes: tuple[int, ...],
    zones: dict[str, str] | None = None,
    replicas: int | None = None,
    spread: list[int] | None = None,
) -> tuple[int, int] | None:
    """Replica moves to the nearest even map over the nodes of ``weights``, and the fewest bytes with so many.

    With ``zones``, no bucket may be in fewer zones than before, or than ``spread`` gives; None when no even map
    is like that. ``replicas``: of each bucket in the even map, when they are others than now.
    """
    replicas = replicas or len(bucket_map[0])
    whole, tied, extra = largest_remainder(exact_shares(weights, len(bucket_map), replicas))
    one_move = 1 + sum(bucket_bytes) * replicas
    graph = nx.DiGraph()
    for bucket, nodes in enumerate(bucket_map):
        graph.add_edge("source", bucket, capacity=replicas, weight=0)
        _add_zones(graph, bucket, replicas - (spread[bucket] if spread else _spread(nodes, zones or {})), zones or {})
        for node in weights:
            cost = 0 if node in nodes else one_move + bucket_bytes[bucket]
            tail = (bucket, zones[node]) if zones else bucket
            graph.add_edge(tail, node, capacity=1, weight=cost)
    for node, quota in whole.items():
        graph.add_edge(node, "sink", capacity=quota, weight=0)
        if node in tied:
            graph.add_edge(node, "extra", capacity=1, weight=0)
    graph.add_edge("extra", "sink", capacity=extra, weight=0)
    flow = nx.max_flow_min_cost(graph, "source", "sink")
    if sum(flow["source"].values()) < replicas * len(bucket_map):
        return None
    return divmod(nx.cost_of_flow(graph, flow), one_move)


def most_repairs(wanted: dict[int, int], slots: dict[str, int], barred: BucketSequence) -> int:
    """How many replicas can be made when all buckets are equally big.

    ``wanted``: replicas to make per bucket. ``slots``: how many each node has room for. ``barred``: per bucket, the
    nodes that may take none.
    """
    graph = nx.DiGraph()
    graph.add_nodes_from(("source", "sink"))
    for bucket, number in wanted.items():
        graph.add_edge("source", bucket, capacity=number)
        graph.add_edges_from(((bucket, node) for node in slots.keys() - set(barred[bucket])), capacity=1)
    for node, number in slots.items():
        graph.add_edge(node, "sink", capacity=number)
    return int(nx.maximum_flow_value(graph, "source", "sink"))


def _spread(nodes: tuple[str, ...], zones: dict[str, str]) -> int:
    return len({zones.get(node) for node in nodes})


def widest_spread(nodes: tuple[str, ...], zones: dict[str, str]) -> int:
    """In how many zones a bucket can lie when nodes that ``zones`` lacks are succeeded and the others stay."""
    kept = {zones[node] for node in nodes if node in zones}
    lost = sum(node not in zones for node in nodes)
    return len(kept) + min(lost, len(set(zones.values()) - kept))


def _add_zones(graph: nx.DiGraph, bucket: int, doubled: int, zones: dict[str, str]) -> None:
    """One replica per zone, and ``doubled`` more, in whatever zones."""
    for zone in set(zones.values()):
        graph.add_edge(bucket, (bucket, zone), capacity=1, weight=0)
        graph.add_edge((bucket, "spare"), (bucket, zone), capacity=doubled, weight=0)
    graph.add_edge(bucket, (bucket, "spare"), capacity=doubled, weight=0)
