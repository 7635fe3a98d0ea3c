"""The quick way to even placements: replicas go straight from nodes that have too many to nodes that have too few.

`find_exchange` computes the fewest moves that any way to evenness needs. `straight_placement` looks for a placement
with just so many: every bucket moves at most once, matched with the nodes that may give it up (augmenting paths),
smallest buckets first. For one receiving node that is the optimum in bytes too (the sets of buckets that can be given
up form a matroid), as it is when all buckets are equally big. Otherwise `colocation.planner.evening` is asked.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import chain

from .evening import Problem, solve
from .shares import Shares

MOST_STEPS = 5_000_000
"""Edges times augmentations; some seconds."""


@dataclass
class Exchange:
    """How many replicas each node has to give up and take.

    ``giving``: certain ones; ``either``: nodes of which ``either_moves`` in all give one more, no matter which.
    ``taking``: the lightest nodes where there is a choice. ``may_take``: every node that could take in an optimum.
    """

    giving: Counter[str] = field(default_factory=Counter)
    either: set[str] = field(default_factory=set)
    either_moves: int = 0
    taking: Counter[str] = field(default_factory=Counter)
    may_take: set[str] = field(default_factory=set)

    @property
    def moves(self) -> int:
        return self.giving.total() + self.either_moves


def find_exchange(counts: Counter[str], takers: list[str], shares: Shares) -> Exchange:
    """The exchange after which no move would be nearer to the shares. Holders that are not takers give up all."""
    exchange = Exchange()
    able = set(takers)
    needs = [(shares.deviation(node, counts[node] + 1), rank, node) for rank, node in enumerate(takers)]
    heapify(needs)
    last_need: int | None = None

    def take_one() -> None:
        nonlocal last_need
        last_need, rank, node = heappop(needs)
        exchange.taking[node] += 1
        heappush(needs, (shares.deviation(node, counts[node] + exchange.taking[node] + 1), rank, node))

    for node, count in counts.items():
        if node not in able:
            exchange.giving[node] = count
            for _ in range(count):
                take_one()
    surplus = [(-shares.deviation(node, count), node) for node, count in counts.items() if count and node in able]
    heapify(surplus)
    given: Counter[str] = Counter()
    least_surplus: int | None = None
    while surplus and needs and -surplus[0][0] > needs[0][0]:
        least_surplus, node = heappop(surplus)
        given[node] += 1
        take_one()
        if counts[node] > given[node]:
            heappush(surplus, (-shares.deviation(node, counts[node] - given[node]), node))
    if least_surplus is not None:
        _split_certain(exchange, counts, given, shares, -least_surplus)
    exchange.may_take = set(exchange.taking)
    if last_need is not None:
        exchange.may_take |= {node for need, _, node in needs if need == last_need}
    return exchange


def _split_certain(
    exchange: Exchange, counts: Counter[str], given: Counter[str], shares: Shares, least_surplus: int
) -> None:
    """Which of the given replicas are certain, and which could as well be given by another node of equal surplus."""
    for node, number in given.items():
        certain = shares.deviation(node, counts[node] - number + 1) > least_surplus
        exchange.giving[node] = number if certain else number - 1
        exchange.either_moves += not certain
    able = set(shares.by_node)
    exchange.either = {
        node
        for node, count in counts.items()
        if node in able
        and count > exchange.giving[node]
        and shares.deviation(node, count - exchange.giving[node]) == least_surplus
    }


class StraightMatching:
    """Finds for each of many buckets a node that gives it up, within the exchange.

    Kuhn's algorithm with capacities: a bucket for which no node has a replica left to give may push another bucket to
    another of its nodes.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._givers_of: dict[int, list[str]] = {}
        self._given: dict[str, set[int]] = defaultdict(set)
        self._either_left = exchange.either_moves
        self.giver: dict[int, str] = {}

    def add(self, bucket: int, givers: list[str]) -> bool:
        """Whether the bucket, given up by one of ``givers``, can move besides those that already do."""
        self._givers_of[bucket] = givers
        came_from: dict[int, tuple[int, str] | None] = {bucket: None}
        queue = [bucket]
        for current in queue:
            for node in self._givers_of[current]:
                if self._has_one_left(node):
                    self._shift(current, node, came_from)
                    return True
                for other in self._in_the_way(node):
                    if other not in came_from:
                        came_from[other] = (current, node)
                        queue.append(other)
        return False

    def _has_one_left(self, node: str) -> bool:
        surplus = len(self._given[node]) - self._exchange.giving[node]
        return surplus < 0 or (surplus == 0 and self._either_left > 0 and node in self._exchange.either)

    def _in_the_way(self, node: str) -> Iterable[int]:
        """Buckets that would let the node give one (more), if another node gave them."""
        yield from self._given[node]
        if len(self._given[node]) == self._exchange.giving[node] and node in self._exchange.either:
            for other in sorted(self._exchange.either):
                if len(self._given[other]) > self._exchange.giving[other]:
                    yield from self._given[other]

    def _shift(self, bucket: int, node: str, came_from: dict[int, tuple[int, str] | None]) -> None:
        step: int | None = bucket
        while step is not None:
            previous = came_from[step]
            self._assign(step, node)
            if previous is None:
                break
            step, node = previous

    def _assign(self, bucket: int, node: str) -> None:
        old = self.giver.get(bucket)
        if old is not None:
            self._given[old].discard(bucket)
            self._either_left += len(self._given[old]) >= self._exchange.giving[old]
        self._either_left -= len(self._given[node]) >= self._exchange.giving[node]
        self._given[node].add(bucket)
        self.giver[bucket] = node


def straight_placement(problem: Problem, exchange: Exchange) -> list[set[str]] | None:
    """A placement that needs just ``exchange.moves`` moves, one per bucket at most; None when none was found."""
    givers = {node for node, number in exchange.giving.items() if number} | exchange.either
    matching = StraightMatching(exchange)
    receiver_of: dict[int, str] = {}
    for node, number in exchange.taking.items():
        missing = number
        for bucket in sorted(range(len(problem.holders)), key=lambda bucket: problem.preference(bucket, node)):
            if not missing:
                break
            holders = problem.holders[bucket]
            if bucket in receiver_of or node in holders:
                continue
            able = [giver for giver in sorted(holders & givers) if problem.may_replace(bucket, giver, node)]
            if matching.add(bucket, able):
                receiver_of[bucket] = node
                missing -= 1
        if missing:
            return None
    result = [set(nodes) for nodes in problem.holders]
    for bucket, node in receiver_of.items():
        result[bucket].remove(matching.giver[bucket])
        result[bucket].add(node)
    return result


def even_placement(problem: Problem) -> list[set[str]]:
    """The cheapest even placement (see `colocation.planner.evening`), found in the least costly way that proves it.

    Beyond `MOST_STEPS` of work, a placement by the fewest moves is taken without the proof that its bytes are the
    fewest.
    """
    counts = Counter(chain.from_iterable(problem.holders))
    exchange = find_exchange(counts, problem.takers, problem.shares)
    if not exchange.moves:
        return problem.holders
    straight = straight_placement(problem, exchange)
    alike = len(set(problem.bucket_bytes)) == 1 and not problem.begun
    if straight is not None and (alike or len(exchange.may_take) == 1):
        return straight
    narrow = replace(problem, givers=set(exchange.giving) | exchange.either, receivers=exchange.may_take)
    if straight is not None and narrow.size * exchange.moves > MOST_STEPS:
        return straight
    placement = solve(narrow)
    made = sum(len(new - old) for new, old in zip(placement, problem.holders, strict=True))
    left = find_exchange(Counter(chain.from_iterable(placement)), problem.takers, problem.shares)
    return placement if made == exchange.moves and not left.moves else solve(problem)
