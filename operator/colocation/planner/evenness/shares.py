"""Fair shares: how many of a group's replicas each node should hold, by weight.

A node's share is its part of all replicas by weight, but never more than one replica of each bucket, and never so much
that a bucket's replicas could not lie in different zones. What a capped node cannot take goes to the others by weight
(water filling). Whole numbers come of shares by the largest remainder: the sum of squares of (replicas - share) is
then the least possible. `deviation` is what one more replica adds to that sum, so that minimal sums of deviations are
largest-remainder placements, ties included.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache

GRID = 1 << 20
"""Deviations are whole numbers of 1/GRID replicas, so that equal remainders compare equal."""
BISECTION_STEPS = 100
NEARLY_WHOLE = 0.05
"""Replicas."""


@dataclass(frozen=True, eq=False)
class Shares:
    """Equal by identity alone: `fair_shares` gives the same object for the same nodes and size.

    ``by_node``: the fair share of each node, in replicas. ``classes``: nodes whose shares add up to a whole number
    that is fixed by zone limits; every other node is in one class of its own kind. ``zone_limit``: the most replicas
    that a zone may take (none when zones decide nothing). ``either_way``: a share may be rounded down as well as up; so
    it is when there are several groups, which together are even by rounding differently."""

    by_node: dict[str, float]
    classes: tuple[tuple[str, ...], ...]
    zone_limit: dict[str, int]
    either_way: bool = False

    @cached_property
    def neediest(self) -> list[str]:
        """Nodes by share, the greatest first."""
        return sorted(self.by_node, key=lambda node: -self.by_node[node])

    def are_met_by(self, counts: Mapping[str, int]) -> bool:
        """Whether every node holds its share rounded down or up."""
        bounds = self.bounds
        for node, count in counts.items():
            least, most = bounds[node]
            if not least <= count <= most:
                return False
        return counts.keys() >= self._never_empty

    @cached_property
    def bounds(self) -> dict[str, tuple[int, int]]:
        """The share of each node, rounded down and up."""
        return {node: (doubled // (2 * GRID), -(-doubled // (2 * GRID))) for node, doubled in self.doubled.items()}

    @cached_property
    def _never_empty(self) -> frozenset[str]:
        return frozenset(node for node, (least, _) in self.bounds.items() if least)

    @cached_property
    def are_equal(self) -> bool:
        """Whether every node has the same share."""
        return len(set(self.doubled.values())) < 2

    @cached_property
    def doubled(self) -> dict[str, int]:
        """Twice the share of each node, in 1/GRID replicas.

        Where shares may be rounded either way, one that is nearly whole is taken as whole: disks of nearly the same
        size must not differ by two replicas.
        """
        return {node: 2 * round(self._settled(share) * GRID) for node, share in self.by_node.items()}

    def _settled(self, share: float) -> float:
        nearly = self.either_way and round(share) >= 1 and abs(share - round(share)) < NEARLY_WHOLE
        return round(share) if nearly else share

    def deviation(self, node: str, replicas: int) -> int:
        """What the node's replica number ``replicas`` (from 1) adds to the unevenness, in 1/GRID replicas."""
        deviation = (2 * replicas - 1) * GRID - self.doubled[node]
        if not self.either_way:
            return deviation
        # The replica that rounds the share up rather than down, where it is not whole, neither adds nor takes away.
        whole, rest = divmod(self.doubled[node], 2 * GRID)
        return 0 if rest and replicas == whole + 1 else deviation


def fair_shares(
    weights: dict[str, float], zones: dict[str, str], buckets: int, replicas: int, *, either_way: bool = False
) -> Shares:
    """Shares of a group over the nodes of ``weights`` (all above 0), replicas limited to their number.

    Remembered from pass to pass: nodes and sizes of groups seldom change.
    """
    return remembered_shares(tuple(weights.items()), tuple(zones.items()), buckets, replicas, either_way)


@lru_cache(maxsize=256)
def remembered_shares(
    weight_items: tuple[tuple[str, float], ...],
    zone_items: tuple[tuple[str, str], ...],
    buckets: int,
    replicas: int,
    either_way: bool,
) -> Shares:
    """`fair_shares` of hashable arguments."""
    weights, zones = dict(weight_items), dict(zone_items)
    replicas = min(replicas, len(weights))
    total = buckets * replicas
    members: dict[str, list[str]] = defaultdict(list)
    for node in weights:
        members[zones.get(node, "")].append(node)
    limits = {zone: _zone_limits(len(nodes), len(members), buckets, replicas) for zone, nodes in members.items()}
    fixed = _fixed_zones(weights, members, limits, buckets, total) if len(members) > 1 else {}
    free = [node for zone, nodes in members.items() if zone not in fixed for node in nodes]
    classes = [(free, total - sum(fixed.values()))] if free else []
    classes += [(members[zone], amount) for zone, amount in fixed.items()]
    by_node: dict[str, float] = {}
    for nodes, amount in classes:
        by_node.update(_fill({node: weights[node] for node in nodes}, buckets, amount))
    zone_limit = {zone: limit for zone, (_, limit) in limits.items()} if len(members) > 1 else {}
    return Shares(by_node, tuple(tuple(nodes) for nodes, _ in classes), zone_limit, either_way)


def _zone_limits(nodes: int, zones: int, buckets: int, replicas: int) -> tuple[int, int]:
    """Least and most replicas of a zone such that every bucket is in as many zones as possible."""
    if zones >= replicas:
        return 0, buckets
    return buckets, buckets * min(nodes, 1 + replicas - zones)


def _fixed_zones(
    weights: dict[str, float], members: dict[str, list[str]], limits: dict[str, tuple[int, int]], cap: int, total: int
) -> dict[str, int]:
    """The zones whose share by weight is outside their limits, with the limit that holds instead.

    The level (replicas per weight) at which the limited shares add up to ``total`` is found by bisection.
    """

    def share(zone: str, level: float) -> float:
        return sum(min(cap, level * weights[node]) for node in members[zone])

    low, high = 0.0, total / min(weights.values())
    for _ in range(BISECTION_STEPS):
        level = (low + high) / 2
        if sum(min(max(share(zone, level), limits[zone][0]), limits[zone][1]) for zone in members) < total:
            low = level
        else:
            high = level
    tolerance = 1 / GRID
    fixed = {}
    for zone, (least, most) in limits.items():
        if share(zone, high) <= least + tolerance and least > 0:
            fixed[zone] = least
        elif share(zone, high) >= most - tolerance:
            fixed[zone] = most
    return fixed


def _fill(weights: dict[str, float], cap: int, total: int) -> dict[str, float]:
    """``total`` by weight, at most ``cap`` per node; what capped nodes cannot take goes to the others by weight."""
    shares: dict[str, float] = {}
    open_weights = dict(weights)
    remaining = float(total)
    while open_weights:
        level = remaining / sum(open_weights.values())
        full = [node for node, weight in open_weights.items() if level * weight > cap]
        if not full:
            shares.update({node: level * weight for node, weight in open_weights.items()})
            break
        for node in full:
            shares[node] = float(cap)
            remaining -= cap
            del open_weights[node]
    return shares


def whole_shares(
    shares: Shares, zones: dict[str, str], rank: Mapping[str, int], backlog: Mapping[str, float]
) -> dict[str, int]:
    """Shares as whole numbers by the largest remainder; among equal remainders the lower ``rank`` gets one more.

    ``backlog``: what each node holds too little of all other groups, in replicas; it adds to the remainder, so that
    many groups together come as near to their shares as one does. A node gets its share rounded down or up.
    """

    def urgency(node: str) -> tuple[bool, int, int]:
        remainder = shares.by_node[node] - quotas[node]
        is_whole = shares.doubled[node] % (2 * GRID) == 0
        return is_whole, -round((remainder + backlog.get(node, 0)) * GRID), rank[node]

    quotas = {node: doubled // (2 * GRID) for node, doubled in shares.doubled.items()}
    zone_totals: dict[str, int] = defaultdict(int)
    for node, quota in quotas.items():
        zone_totals[zones.get(node, "")] += quota
    for nodes in shares.classes:
        missing = round(sum(shares.by_node[node] for node in nodes)) - sum(quotas[node] for node in nodes)
        fractional = [node for node in nodes if shares.by_node[node] - quotas[node] > 1 / GRID]
        for node in sorted(fractional, key=urgency):
            zone = zones.get(node, "")
            if missing <= 0:
                break
            if zone_totals[zone] >= shares.zone_limit.get(zone, zone_totals[zone] + 1):
                continue
            quotas[node] += 1
            zone_totals[zone] += 1
            missing -= 1
    return quotas


def is_even(shares: Shares, counts: Counter[str], takers: Mapping[str, float], keepers: Set[str] = frozenset()) -> bool:
    """Whether no replica moved from one node to another of ``takers`` would come nearer to the shares.

    Nodes that ``counts`` lacks hold nothing. ``keepers`` have shares and take nothing; a holder that is neither taker
    nor keeper has to give its replicas away.
    """
    if not counts.keys() <= takers.keys() | keepers:
        return False
    if shares.are_equal and not keepers:
        return not counts or max(counts.values()) <= 1 + least_of(counts, takers)
    if shares.either_way and shares.are_met_by(counts):
        return True
    empty = next((node for node in shares.neediest if node not in counts and node in takers), None)
    gains = [shares.deviation(node, count + 1) for node, count in counts.items() if node not in keepers]
    if empty is not None:
        gains.append(shares.deviation(empty, 1))
    losses = [shares.deviation(node, count) for node, count in counts.items() if count]
    return not losses or not gains or max(losses) <= min(gains)


def least_of(counts: Counter[str], nodes: Mapping[str, float]) -> int:
    """The fewest replicas that one of the nodes holds; ``counts`` has no others."""
    return min(counts.values()) if len(counts) == len(nodes) else 0
