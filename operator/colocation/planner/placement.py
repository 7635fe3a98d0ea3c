"""Maps that are made whole: a group's first map, or the one set by hand; and whether an object can hold a map.

The first map gives every node its whole share by weight, then bucket by bucket the nodes with most of their share left.
That is Havel's and Hakimi's construction: it reaches every possible whole shares. Zones are chosen the same way first,
then nodes within them. A bucket sequence set by hand is checked in the words of Doris's ``bucketseq`` call, then
honoured as the target. A map that no object of Kubernetes can hold is refused before it is made.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from math import ceil
from statistics import fmean
from zlib import crc32

from colocation.model.base import MAX_MAP_BYTES, MAX_SEQUENCE_BYTES
from colocation.model.conditions import Reason
from colocation.model.group import BucketSequence
from colocation.model.plan import BucketProblem, MoveKind
from colocation.model.wording import counted

from .cluster import Standing
from .evenness.min_cost_flow import EvennessProblem, solve
from .evenness.shares import is_even, whole_shares
from .status import waiting_message
from .transitions import MovePlan, check_room, in_place_moves, replacements, too_few_nodes
from .view import GroupView, Placement

SEPARATORS_OF_A_NODE = len('"",')
SEPARATORS_OF_A_BUCKET = len("[]")


def place(view: GroupView) -> MovePlan:
    """A new group's map; it holds at once, as there is nothing to wait for."""
    move_plan = MovePlan(list(view.map), at_once=True, pending=True)
    if len(view.pool.weights) < view.spec.replicas:
        move_plan.stall(0, Reason.INSUFFICIENT_NODES, too_few_nodes(view))
        return move_plan
    oversize = too_large(view)
    if oversize:
        move_plan.stall(0, Reason.INVALID_SPEC, oversize)
        return move_plan
    move_plan.target = new_map(view)
    _count(view, move_plan.target)
    for bucket, nodes in enumerate(move_plan.target):
        made = [node for node in nodes if view.state(bucket, node) != "complete"]
        move_plan.moves += [view.move(bucket, None, node, "place", Reason.PLACING) for node in made]
    return move_plan


def _count(view: GroupView, placement: Placement) -> None:
    """Let the groups that are placed after this one see its load."""
    shares = view.pool.shares(len(placement), view.spec.replicas, keep_for_waiting=False)
    view.cluster.add_fair_loads(shares.by_node)
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


def _as_problem(view: GroupView, holders: list[set[str]], rank: dict[str, int]) -> EvennessProblem:
    buckets, replicas, zones = len(view.map), view.spec.replicas, view.pool.zones
    spare = max(0, replicas - len(set(zones.values()))) if zones else replicas
    return EvennessProblem(
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


def sequence_problem(view: GroupView, sequence: BucketSequence) -> BucketProblem | None:
    """Why the sequence cannot be the group's map; None when it can."""
    expected, actual = view.spec.buckets, len(sequence)
    if actual != expected:
        return _problem(0, f"Invalid bucket num. expected: {expected}, actual: {actual}")
    for bucket, nodes in enumerate(sequence):
        expected, actual = view.spec.replicas, len(set(nodes))
        if actual != expected or len(nodes) != expected:
            return _problem(bucket, f"Invalid backend num per bucket. expected: {expected}, actual: {actual}")
        for node in nodes:
            # A node that is down or cordoned for a while keeps its place; one that lost its replicas is no target.
            standing = view.standing(node)
            keeps = standing is Standing.WAITING or (standing is Standing.KEEPING and view.group.map is not None)
            if standing is not Standing.FIT and not keeps:
                return _problem(bucket, f"The backend {node} does not exist or not available")
    size_bytes = map_bytes(sequence)
    if size_bytes > MAX_SEQUENCE_BYTES:
        return _problem(0, f"a map set by hand may take {MAX_SEQUENCE_BYTES} bytes, and this one takes {size_bytes}")
    return None


def _problem(bucket: int, message: str) -> BucketProblem:
    return BucketProblem(bucket=bucket, reason=Reason.INVALID_BUCKET_SEQUENCE, message=message)


def follow_sequence(view: GroupView, sequence: BucketSequence) -> MovePlan:
    """From the map to a valid sequence; what is damaged on the way is repaired in place."""
    wanted = [tuple(nodes) for nodes in sequence]
    target = [old if set(old) == set(new) else new for old, new in zip(view.map, wanted, strict=True)]
    is_first = view.group.map is None
    move_plan = MovePlan(target, at_once=is_first or view.spec.balancing.strict)
    move_plan.moves = in_place_moves(view)
    kind: MoveKind = "place" if is_first else "balance"
    move_plan.moves += replacements(view, target, kind, Reason.PLACING if is_first else Reason.BALANCING)
    if not is_first:
        check_room(view, move_plan)
    for bucket, nodes in enumerate(view.map):
        for node in nodes:
            if view.standing(node) is Standing.WAITING:
                move_plan.block(bucket, Reason.WITHIN_DOWN_TOLERANCE, waiting_message(view, node))
    move_plan.pending = bool(move_plan.moves) or target != view.map
    return move_plan


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
    buckets, replicas = counted(view.spec.buckets, "bucket"), counted(view.spec.replicas, "replica")
    return (
        f"the map of {buckets} with {replicas} each takes {size_bytes} bytes with these nodes' names, and an object of "
        f"Kubernetes has room for {MAX_MAP_BYTES}; use fewer buckets or replicas"
    )
