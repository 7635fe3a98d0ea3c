"""The quick way to even placements: replicas go straight from nodes that have too many to nodes that have too few.

`find_exchange` computes the fewest moves that any way to evenness needs. `straight_placement` looks for a placement
with just so many: every bucket moves at most once, matched with the nodes that may give it up (augmenting paths),
smallest buckets first. For one receiving node that is the optimum in bytes too (the sets of buckets that can be given
up form a matroid), as it is when all buckets are equally big. `quick_placement` finds the optimum of most exchanges
with several receiving nodes. Otherwise `colocation.planner.evening` is asked.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush, nsmallest
from itertools import chain

from .evening import Problem, solve
from .matching import Matching
from .shares import Shares

MOST_STEPS = 5_000_000
"""Edges times augmentations; some seconds."""


@dataclass
class Exchange:
    """How many replicas each node has to give up and take.

    ``giving``: certain ones; ``either``: nodes of which ``either_moves`` in all give one more, no matter which.
    ``taking``: the lightest nodes where there is a choice (``is_open``). ``may_take``: every node that could take in an
    optimum.
    """

    giving: Counter[str] = field(default_factory=Counter)
    either: set[str] = field(default_factory=set)
    either_moves: int = 0
    taking: Counter[str] = field(default_factory=Counter)
    may_take: set[str] = field(default_factory=set)
    is_open: bool = False

    def givers(self) -> Matching:
        """Of buckets with the nodes that give them up; as yet none."""
        return Matching(self.giving, self.either, self.either_moves)

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
        others = {node for need, _, node in needs if need == last_need}
        exchange.may_take |= others
        exchange.is_open = bool(others)
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


def straight_placement(problem: Problem, exchange: Exchange) -> list[set[str]] | None:
    """A placement that needs just ``exchange.moves`` moves, one per bucket at most; None when none was found."""
    givers = {node for node, number in exchange.giving.items() if number} | exchange.either
    matching = exchange.givers()
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
    return _exchanged(problem, matching.matched(), {bucket: {node} for bucket, node in receiver_of.items()})


def quick_placement(problem: Problem, exchange: Exchange) -> list[set[str]] | None:
    """A placement with just ``exchange.moves`` moves of the fewest bytes, for several receivers; None when not found.

    Two bounds are tried, each of which leaves out one side: if the other side can follow, the bound is the optimum.
    """
    if len(set(problem.zones.values())) > 1:
        return None
    return _smallest_given(problem, exchange) or _smallest_taken(problem, exchange)


def _smallest_given(problem: Problem, exchange: Exchange) -> list[set[str]] | None:
    """The smallest buckets that can be given up, each as often as it can be received, no matter by whom.

    What can be given up forms a matroid (of linkings), so no choice has fewer bytes. Then the receivers share them out.
    """
    if problem.begun:
        return None
    giving, taking, missing = exchange.givers(), Matching(exchange.taking), exchange.moves
    for bucket in sorted(range(len(problem.holders)), key=lambda bucket: (problem.bucket_bytes[bucket], bucket)):
        holders = problem.holders[bucket]
        takers = [node for node in exchange.taking if node not in holders]
        for _ in exchange.may_take - holders:
            if not missing or not giving.add(bucket, sorted(holders)):
                break
            if not taking.add(bucket, takers):
                return None
            missing -= 1
    return None if missing else _exchanged(problem, giving.matched(), taking.matched())


def _smallest_taken(problem: Problem, exchange: Exchange) -> list[set[str]] | None:
    """Every receiver takes those that are best for it; None when some of these cannot be given up.

    Only where it is certain how many each receiver takes, or no matter, as they are all alike.
    """
    alike = not problem.begun and exchange.may_take.isdisjoint(chain.from_iterable(problem.holders))
    if exchange.is_open and not alike:
        return None
    giving = exchange.givers()
    taken: dict[int, set[str]] = {}
    for node, number in exchange.taking.items():
        able = (bucket for bucket, holders in enumerate(problem.holders) if node not in holders)
        best = nsmallest(number, able, key=lambda bucket: problem.preference(bucket, node))
        for bucket in best:
            if not giving.add(bucket, sorted(problem.holders[bucket])):
                return None
            taken.setdefault(bucket, set()).add(node)
    return _exchanged(problem, giving.matched(), taken)


def _exchanged(problem: Problem, given: dict[int, set[str]], taken: dict[int, set[str]]) -> list[set[str]]:
    """The holders of each bucket, less the nodes that give it up, with those that take it."""
    nothing: set[str] = set()
    return [
        (set(nodes) - given.get(bucket, nothing)) | taken.get(bucket, nothing)
        for bucket, nodes in enumerate(problem.holders)
    ]


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
    quick = quick_placement(problem, exchange)
    if quick is not None:
        return quick
    narrow = replace(problem, givers=set(exchange.giving) | exchange.either, receivers=exchange.may_take)
    if straight is not None and narrow.size * exchange.moves > MOST_STEPS:
        return straight
    placement = solve(narrow)
    made = sum(len(new - old) for new, old in zip(placement, problem.holders, strict=True))
    left = find_exchange(Counter(chain.from_iterable(placement)), problem.takers, problem.shares)
    return placement if made == exchange.moves and not left.moves else solve(problem)
