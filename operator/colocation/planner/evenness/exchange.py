"""The quick way to even placements: replicas go straight from nodes that have too many to nodes that have too few.

`count_transfers` computes the fewest moves that any way to evenness needs. `straight_placement` looks for a placement
with just so many: every bucket moves at most once, matched with the nodes that may give it up (augmenting paths),
smallest buckets first. For one receiving node that is the optimum in bytes too (the sets of buckets that can be given
up form a matroid), as it is when all buckets are equally big. `quick_placement` finds the optimum of most exchanges
with several receiving nodes. Otherwise `min_cost_flow` is asked.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush, nsmallest
from itertools import chain

from .min_cost_flow import EvennessProblem, solve
from .shares import Shares

MOST_STEPS = 5_000_000
"""Edges times augmentations; some seconds."""


Step = tuple[int, str, str]
"""A bucket that wants a node, the node, and the node that the next bucket on the path leaves for it."""


class Matching:
    """Kuhn's augmenting paths with capacities: who is in the way is pushed to another of its nodes, if there is one.

    ``numbers``: how many buckets each node is matched with at most. ``either``: nodes of which ``either_moves`` in all
    may be matched with one more. A bucket may be added several times; it is then matched with as many nodes.
    """

    def __init__(self, numbers: Counter[str], either: Set[str] = frozenset(), either_moves: int = 0) -> None:
        self._numbers = numbers
        self._either = either
        self._either_left = either_moves
        self._able: dict[int, list[str]] = {}
        self._buckets: dict[str, set[int]] = defaultdict(set)

    def matched(self) -> dict[int, set[str]]:
        """The nodes of each bucket."""
        found: dict[int, set[str]] = defaultdict(set)
        for node, buckets in self._buckets.items():
            for bucket in buckets:
                found[bucket].add(node)
        return found

    def add(self, bucket: int, able: list[str]) -> bool:
        """Whether the bucket can be matched with one (more) of the nodes ``able``, besides all that already are."""
        self._able[bucket] = able
        came_from: dict[int, Step | None] = {bucket: None}
        queue = [bucket]
        for current in queue:
            for node in self._able[current]:
                if current in self._buckets[node]:
                    continue
                if self._has_one_left(node):
                    self._shift(current, node, came_from)
                    return True
                for other, left in self._in_the_way(node):
                    if other not in came_from:
                        came_from[other] = (current, node, left)
                        queue.append(other)
        return False

    def _has_one_left(self, node: str) -> bool:
        surplus = len(self._buckets[node]) - self._numbers[node]
        return surplus < 0 or (surplus == 0 and self._either_left > 0 and node in self._either)

    def _in_the_way(self, node: str) -> Iterator[tuple[int, str]]:
        """Buckets, with the node that each would have to leave, so that ``node`` can be matched with one more."""
        for bucket in self._buckets[node]:
            yield bucket, node
        if len(self._buckets[node]) == self._numbers[node] and node in self._either:
            for other in sorted(self._either):
                if len(self._buckets[other]) > self._numbers[other]:
                    for bucket in self._buckets[other]:
                        yield bucket, other

    def _shift(self, bucket: int, node: str, came_from: dict[int, Step | None]) -> None:
        """Every bucket on the path goes on to the node that it found, and leaves the one that it is in the way of."""
        step = came_from[bucket]
        self._join(bucket, node)
        while step is not None:
            current, wanted, left = step
            self._leave(bucket, left)
            self._join(current, wanted)
            bucket, step = current, came_from[current]

    def _join(self, bucket: int, node: str) -> None:
        self._either_left -= len(self._buckets[node]) >= self._numbers[node]
        self._buckets[node].add(bucket)

    def _leave(self, bucket: int, node: str) -> None:
        self._buckets[node].discard(bucket)
        self._either_left += len(self._buckets[node]) >= self._numbers[node]


@dataclass
class TransferCounts:
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


def count_transfers(
    counts: Counter[str], takers: list[str], shares: Shares, keepers: Set[str] = frozenset()
) -> TransferCounts:
    """The transfers after which no move would be nearer to the shares.

    Holders that are neither takers nor ``keepers`` give up all; keepers take nothing.
    """
    transfers = TransferCounts()
    able = {*keepers, *takers}
    needs = [(shares.deviation(node, counts[node] + 1), rank, node) for rank, node in enumerate(takers)]
    heapify(needs)
    last_need: int | None = None

    def take_one() -> None:
        nonlocal last_need
        last_need, rank, node = heappop(needs)
        transfers.taking[node] += 1
        heappush(needs, (shares.deviation(node, counts[node] + transfers.taking[node] + 1), rank, node))

    for node, count in counts.items():
        if node not in able:
            transfers.giving[node] = count
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
        _split_certain(transfers, counts, given, shares, -least_surplus)
    transfers.may_take = set(transfers.taking)
    if last_need is not None:
        others = {node for need, _, node in needs if need == last_need}
        transfers.may_take |= others
        transfers.is_open = bool(others)
    return transfers


def _split_certain(
    transfers: TransferCounts, counts: Counter[str], given: Counter[str], shares: Shares, least_surplus: int
) -> None:
    """Which of the given replicas are certain, and which could as well be given by another node of equal surplus."""
    for node, number in given.items():
        certain = shares.deviation(node, counts[node] - number + 1) > least_surplus
        transfers.giving[node] = number if certain else number - 1
        transfers.either_moves += not certain
    able = set(shares.by_node)
    transfers.either = {
        node
        for node, count in counts.items()
        if node in able
        and count > transfers.giving[node]
        and shares.deviation(node, count - transfers.giving[node]) == least_surplus
    }


def straight_placement(problem: EvennessProblem, transfers: TransferCounts) -> list[set[str]] | None:
    """A placement that needs just ``transfers.moves`` moves, one per bucket at most; None when none was found."""
    givers = {node for node, number in transfers.giving.items() if number} | transfers.either
    matching = transfers.givers()
    receiver_of: dict[int, str] = {}
    for node, number in transfers.taking.items():
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


def quick_placement(problem: EvennessProblem, transfers: TransferCounts) -> list[set[str]] | None:
    """A placement with just ``transfers.moves`` moves of the fewest bytes, for several receivers; None when not found.

    Two bounds are tried, each of which leaves out one side: if the other side can follow, the bound is the optimum.
    """
    if len(set(problem.zones.values())) > 1:
        return None
    return _smallest_given(problem, transfers) or _smallest_taken(problem, transfers)


def _smallest_given(problem: EvennessProblem, transfers: TransferCounts) -> list[set[str]] | None:
    """The smallest buckets that can be given up, each as often as it can be received, no matter by whom.

    What can be given up forms a matroid (of linkings), so no choice has fewer bytes. Then the receivers share them out.
    """
    if problem.begun:
        return None
    giving, taking, missing = transfers.givers(), Matching(transfers.taking), transfers.moves
    for bucket in sorted(range(len(problem.holders)), key=lambda bucket: (problem.bucket_bytes[bucket], bucket)):
        holders = problem.holders[bucket]
        takers = [node for node in transfers.taking if node not in holders]
        for _ in transfers.may_take - holders:
            if not missing or not giving.add(bucket, sorted(holders)):
                break
            if not taking.add(bucket, takers):
                return None
            missing -= 1
    return None if missing else _exchanged(problem, giving.matched(), taking.matched())


def _smallest_taken(problem: EvennessProblem, transfers: TransferCounts) -> list[set[str]] | None:
    """Every receiver takes those that are best for it; None when some of these cannot be given up.

    Only where it is certain how many each receiver takes, or no matter, as they are all alike.
    """
    alike = not problem.begun and transfers.may_take.isdisjoint(chain.from_iterable(problem.holders))
    if transfers.is_open and not alike:
        return None
    giving = transfers.givers()
    taken: dict[int, set[str]] = {}
    for node, number in transfers.taking.items():
        able = (bucket for bucket, holders in enumerate(problem.holders) if node not in holders)
        best = nsmallest(number, able, key=lambda bucket: problem.preference(bucket, node))
        for bucket in best:
            if not giving.add(bucket, sorted(problem.holders[bucket])):
                return None
            taken.setdefault(bucket, set()).add(node)
    return _exchanged(problem, giving.matched(), taken)


def _exchanged(problem: EvennessProblem, given: dict[int, set[str]], taken: dict[int, set[str]]) -> list[set[str]]:
    """The holders of each bucket, less the nodes that give it up, with those that take it."""
    nothing: set[str] = set()
    return [
        (set(nodes) - given.get(bucket, nothing)) | taken.get(bucket, nothing)
        for bucket, nodes in enumerate(problem.holders)
    ]


def even_placement(problem: EvennessProblem) -> list[set[str]]:
    """The cheapest even placement (see `min_cost_flow`), found in the least costly way that proves it.

    Beyond `MOST_STEPS` of work, a placement by the fewest moves is taken without the proof that its bytes are the
    fewest.
    """
    transfers = _transfers_of(problem, problem.holders)
    found = _least_costly(problem, transfers)
    return solve(problem) if found is None else found


def affordable_placement(problem: EvennessProblem) -> list[set[str]] | None:
    """`even_placement`; None where that takes more than `MOST_STEPS` of work."""
    transfers = _transfers_of(problem, problem.holders)
    if transfers.moves * sum(map(len, problem.holders)) > MOST_STEPS:
        return None
    found = _least_costly(problem, transfers)
    is_costly = problem.size * transfers.moves > MOST_STEPS
    return solve(problem) if found is None and not is_costly else found


def _least_costly(problem: EvennessProblem, transfers: TransferCounts) -> list[set[str]] | None:
    """The cheapest even placement; None where it takes the flow of the whole problem, or a narrower one is costly."""
    if not transfers.moves:
        return problem.holders
    straight = straight_placement(problem, transfers)
    alike = len(set(problem.bucket_bytes)) == 1 and not problem.begun
    if straight is not None and (alike or len(transfers.may_take) == 1):
        return straight
    quick = quick_placement(problem, transfers)
    if quick is not None:
        return quick
    narrow = replace(problem, givers=set(transfers.giving) | transfers.either, receivers=transfers.may_take)
    if narrow.size * transfers.moves > MOST_STEPS:
        return straight
    placement = solve(narrow)
    made = sum(len(new - old) for new, old in zip(placement, problem.holders, strict=True))
    return placement if made == transfers.moves and not _transfers_of(problem, placement).moves else None


def _transfers_of(problem: EvennessProblem, holders: list[set[str]]) -> TransferCounts:
    counts = Counter(chain.from_iterable(holders))
    for node in problem.frozen:
        del counts[node]
    return count_transfers(counts, problem.takers, problem.shares, problem.keepers)
