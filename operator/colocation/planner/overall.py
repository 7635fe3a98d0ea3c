"""Evenness over all groups: a node that many small groups together pass over, or all burden, is filled or relieved.

Each group is even when every node holds its share rounded down or up; which way is free. A new group uses that freedom
for the light nodes. When nodes are added later, groups that are even by themselves have no reason to move, and a
thousand groups with fewer replicas than nodes would leave a new node empty for ever. So, when a node's load over all
groups is further from its share than `TOLERANCE`, groups that may round either way move one replica each, until it is
within. The tolerance keeps small differences from moving data.
"""

from collections import Counter
from itertools import chain

from colocation.model.conditions import Reason

from .cluster import Cluster, GroupKey
from .course import Course, replaced
from .quiet import is_settled
from .view import GroupView

TOLERANCE = 0.05
"""Of a node's fair load; at least `LEAST_TOLERANCE` replicas."""
LEAST_TOLERANCE = 2.0


class Overall:
    """Finds the nodes that are out of tolerance, and the moves that bring them within."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.surplus = {node: cluster.loads.replicas[node] - share for node, share in cluster.fair_loads.items()}
        self.courses: dict[GroupKey, Course] = {}

    def is_within_tolerance(self) -> bool:
        """Whether there is nothing to do."""
        return not self._beyond(-1) and not self._beyond(1)

    def even_out(self, views: list[GroupView]) -> dict[GroupKey, Course]:
        """Courses of the groups that move a replica for the sake of all; ``views`` are settled and may be balanced."""
        for sign in (-1, 1):
            for node in self._beyond(sign):
                self._relieve_or_fill(views, node, sign)
        return self.courses

    def _tolerance(self, node: str) -> float:
        return max(LEAST_TOLERANCE, TOLERANCE * self.cluster.fair_loads[node])

    def _beyond(self, sign: int) -> list[str]:
        """Nodes that hold too little (-1) or too much (1), the worst first."""
        found = [node for node, surplus in self.surplus.items() if sign * surplus > self._tolerance(node)]
        return sorted(found, key=lambda node: (-sign * self.surplus[node], node))

    def _relieve_or_fill(self, views: list[GroupView], node: str, sign: int) -> None:
        for view in views:
            if sign * self.surplus[node] <= self._tolerance(node):
                return
            if view.key not in self.courses:
                self._move_one(view, node, sign)

    def _move_one(self, view: GroupView, node: str, sign: int) -> None:
        """Let the group give the node one replica, or take one from it, if it stays even by itself."""
        shares = view.pool.shares(len(view.map), view.spec.replicas).bounds
        if node not in view.pool.weights or node not in shares:
            return
        counts = Counter(chain.from_iterable(view.map))
        givers = [node] if sign > 0 else list(counts)
        takers = list(view.pool.weights) if sign > 0 else [node]
        givers = [name for name in givers if name in shares and counts[name] - 1 >= shares[name][0]]
        takers = [name for name in takers if counts[name] + 1 <= shares[name][1]]
        found = self._best_exchange(view, set(givers), takers)
        if found is not None and self._stays_settled(view, counts, *found[1:]):
            self._carry_out(view, *found)

    def _stays_settled(self, view: GroupView, counts: Counter[str], giver: str, taker: str) -> bool:
        """Whether balance would leave the group alone after the move: else it would move it back."""
        after = counts + Counter({taker: 1})
        after[giver] -= 1
        return is_settled(view.pool, view.spec, +after)

    def _best_exchange(self, view: GroupView, givers: set[str], takers: list[str]) -> tuple[int, str, str] | None:
        """The bucket, giver and taker: of what is begun, else from the fullest giver to the emptiest taker."""
        best: tuple[tuple[bool, float, float, int, int], int, str, str] | None = None
        for taker in sorted(takers, key=lambda name: (self.surplus[name], name))[:1]:
            for bucket, row in enumerate(view.map):
                if taker in row:
                    continue
                for giver in row:
                    gain = self.surplus[giver] - self.surplus[taker] if giver in givers else 0
                    if gain <= 1 or not self._zones_allow(view, row, giver, taker):
                        continue
                    begun = (bucket, taker) not in view.begun
                    key = (begun, -self.surplus[giver], self.surplus[taker], view.bytes_of(bucket), bucket)
                    if best is None or key < best[0]:
                        best = key, bucket, giver, taker
        return best[1:] if best else None

    def _zones_allow(self, view: GroupView, row: tuple[str, ...], giver: str, taker: str) -> bool:
        before = {view.zone(node) for node in row}
        after = {view.zone(node) for node in row if node != giver} | {view.zone(taker)}
        return len(after) >= len(before)

    def _carry_out(self, view: GroupView, bucket: int, giver: str, taker: str) -> None:
        if view.cluster.room.available_bytes(taker) < view.bytes_to_copy(bucket, taker):
            return
        course = Course(list(view.map), at_once=view.spec.balancing.strict)
        course.target[bucket] = replaced(course.target[bucket], giver, taker)
        course.moves = [view.move(bucket, giver, taker, "balance", Reason.BALANCING)]
        view.cluster.room.take(taker, course.moves[0].bytes)
        self.courses[view.key] = course
        self.surplus[giver] -= 1
        self.surplus[taker] += 1
