"""Buckets matched with the nodes that give them up, or take them, each node so many."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Set

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
