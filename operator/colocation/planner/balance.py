"""Balance: evenness by weight, by the fewest replica moves, then the fewest bytes; first per group, then over all.

Runs when nothing is lost or damaged. A replica on a live node that may no longer hold it (selector, weight 0) has to
leave. A node that is cordoned, tainted or failing as a target keeps what it has and takes nothing else: its share is
kept for it in groups that it holds replicas of, and it counts for nothing in others. No bucket ends up in fewer zones
than before; that is a limit on the moves, not a reason for some.

Each group is even when every node holds its share rounded down or up; which way is free. A new group uses that freedom
for the light nodes. When nodes are added later, groups that are even by themselves have no reason to move, and a
thousand groups with fewer replicas than nodes would leave a new node empty for ever. So, when a node's load over all
groups is further from its share than `TOLERANCE`, groups that may round either way move one replica each, until it is
within. The tolerance keeps small differences from moving data.
"""

from collections import Counter
from functools import lru_cache
from itertools import chain

from colocation.model.conditions import Reason
from colocation.model.group import BucketSequence, ColocationGroupSpec
from colocation.model.wording import listed

from .cluster import NO_NODES, Cluster, GroupKey, Pool, Standing
from .evenness.exchange import even_placement
from .evenness.min_cost_flow import EvennessProblem
from .evenness.shares import is_even
from .transitions import MovePlan, check_room, replaced, replacements, too_few_nodes
from .view import GroupView, Placement

TOLERANCE = 0.05
"""Of a node's fair load; at least `LEAST_TOLERANCE` replicas."""
LEAST_TOLERANCE = 2.0


def balance(view: GroupView) -> MovePlan:
    """The even map nearest to the present one; the present one when it is even, balancing is off, or a weight unknown.

    What was begun goes on, and nothing is deleted, until all weights are known.
    """
    move_plan = MovePlan(list(view.map), at_once=view.spec.balancing.strict)
    leaving = {node for node in set(chain.from_iterable(view.map)) if view.standing(node) is Standing.LEAVING}
    if view.pool.unweighed:
        move_plan.pending = True
        for bucket in _buckets_on(view, leaving):
            move_plan.block(bucket, Reason.AGENT_NOT_READY, unweighed_nodes(view))
        return move_plan
    limits = view.cluster.limits
    if not view.spec.balancing.enabled or limits.disable_colocate_balance:
        _say_disabled(view, move_plan, leaving)
        return move_plan
    if len(view.takers) + len(view.keepers) < view.spec.replicas or not view.takers:
        for bucket in _buckets_on(view, leaving):
            move_plan.stall(bucket, Reason.INSUFFICIENT_NODES, too_few_nodes(view))
        return move_plan
    if is_balanced(view.pool, view.spec, Counter(chain.from_iterable(view.map)), view.failing):
        return move_plan
    move_plan.target = _even_map(view)
    for bucket, nodes in enumerate(move_plan.target):
        if not leaving.isdisjoint(nodes):
            move_plan.stall(bucket, Reason.INSUFFICIENT_NODES, too_few_nodes(view))
    move_plan.moves = replacements(view, move_plan.target, "balance", Reason.BALANCING)
    check_room(view, move_plan)
    return move_plan


def is_balanced(
    pool: Pool, spec: ColocationGroupSpec, counts: Counter[str], failing: frozenset[str] = NO_NODES
) -> bool:
    """Whether the group is even by weight alone, or as even as one that spreads over the zones can be.

    A group that is even over all its nodes is left alone, even if some are cordoned or ``failing``: that alone moves
    nothing. Otherwise it is even when those that may take replicas have none to take. While a weight is not known, no
    group is found to be uneven.
    """
    if pool.unweighed:
        return True
    everyone = frozenset(pool.unschedulable)
    if _is_even(
        pool, spec, counts, pool.weights | pool.unschedulable if everyone else pool.weights, everyone, NO_NODES
    ):
        return True
    if not everyone and not failing:
        return False
    keepers = frozenset((everyone | (pool.weights.keys() & failing)) & counts.keys())
    takers = {node: weight for node, weight in pool.weights.items() if node not in failing}
    return _is_even(pool, spec, counts, takers, keepers, failing - keepers)


def _is_even(
    pool: Pool,
    spec: ColocationGroupSpec,
    counts: Counter[str],
    takers: dict[str, float],
    keepers: frozenset[str],
    left_out: frozenset[str],
) -> bool:
    only_keep = keepers - takers.keys()
    size = spec.buckets, spec.replicas
    if is_even(pool.shares(*size, keepers=keepers, left_out=left_out), counts, takers, only_keep):
        return True
    if not pool.zones:
        return False
    by_weight = pool.shares(*size, by_weight_alone=True, keepers=keepers, left_out=left_out)
    return is_even(by_weight, counts, takers, only_keep)


def _say_disabled(view: GroupView, move_plan: MovePlan, leaving: set[str]) -> None:
    switch = "spec.balancing.enabled is false" if not view.spec.balancing.enabled else "disableColocateBalance is set"
    for bucket in _buckets_on(view, leaving):
        nodes = listed(sorted(leaving.intersection(view.map[bucket])))
        move_plan.block(
            bucket, Reason.BALANCING_DISABLED, f"node {nodes} may no longer hold the bucket, but {switch}"
        )


def unweighed_nodes(view: GroupView) -> str:
    """Why nothing is balanced: nodes whose disk's size is not known."""
    nodes = listed(sorted(view.pool.unweighed))
    return f"the operator has not heard from node {nodes} since it started, so its disk's size is not known; moves wait"


def _buckets_on(view: GroupView, nodes: set[str]) -> list[int]:
    return [bucket for bucket, holders in enumerate(view.map) if not nodes.isdisjoint(holders)]


def _even_map(view: GroupView) -> Placement:
    weights, replicas = view.takers, view.spec.replicas
    zones = {node: view.zone(node) for node in sorted({*chain.from_iterable(view.map), *weights})}
    problem = EvennessProblem(
        holders=[set(nodes) for nodes in view.map],
        takers=sorted(weights, key=view.cluster.loads.of),
        shares=view.shares(by_weight_alone=True),
        zones=zones,
        bucket_bytes=[view.bytes_of(bucket) for bucket in range(len(view.map))],
        spare=[replicas - len({zones[node] for node in nodes}) for nodes in view.map],
        begun=dict(view.begun),
        keepers=view.keepers,
    )
    return list(last_even_map(view.key).nearest(tuple(view.map), problem))


class LastEvenMap:
    """The last one of a group; remembered, as moving the data takes many passes that all plan the same."""

    def __init__(self) -> None:
        self._given: tuple[BucketSequence, EvennessProblem] | None = None
        self._found: BucketSequence = ()

    def nearest(self, rows: BucketSequence, problem: EvennessProblem) -> BucketSequence:
        """The even map nearest to ``rows``, of which the problem knows the nodes, and not their places."""
        if self._given != (rows, problem):
            placed = even_placement(problem)
            self._found = tuple(in_order(old, new) for old, new in zip(rows, placed, strict=True))
            self._given = rows, problem
        return self._found


@lru_cache(maxsize=2048)
def last_even_map(group: GroupKey) -> LastEvenMap:
    """The last one only: they grow with the buckets, and each commit makes another one."""
    return LastEvenMap()


def in_order(old: tuple[str, ...], new: set[str]) -> tuple[str, ...]:
    """``new`` with the nodes that stay in their old places and the others, by name, in the places that became free."""
    arriving = iter(sorted(new.difference(old)))
    placed = [node if node in new else next(arriving, None) for node in old]
    return (*(node for node in placed if node is not None), *arriving)


class CrossGroupBalance:
    """Finds the nodes that are out of tolerance, and the moves that bring them within.

    The moves are those that would be made if every node that holds anything were schedulable, less those from or to
    nodes that are not: a cordon moves nothing that would not have been moved without it.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.fair_loads = cluster.usual_fair_loads
        self.surplus = self._surplus()
        if cluster.unschedulable and not self.is_within_tolerance():
            self.fair_loads = cluster.fair_loads
            self.surplus = self._surplus()
        self.move_plans: dict[GroupKey, MovePlan] = {}

    def _surplus(self) -> dict[str, float]:
        loads = self.cluster.loads.replicas
        return {node: loads[node] - share for node, share in self.fair_loads.items()}

    def is_within_tolerance(self) -> bool:
        """Whether there is nothing to do, as far as the weights are known."""
        if self.cluster.is_unweighed:
            return True
        return not self._beyond(-1) and not self._beyond(1)

    def even_out(self, views: list[GroupView]) -> dict[GroupKey, MovePlan]:
        """Plans of the groups that move a replica for the sake of all; ``views`` are balanced and may be moved."""
        for sign in (-1, 1):
            for node in self._beyond(sign):
                self._relieve_or_fill(views, node, sign)
        return self.move_plans

    def _tolerance(self, node: str) -> float:
        return max(LEAST_TOLERANCE, TOLERANCE * self.fair_loads[node])

    def _beyond(self, sign: int) -> list[str]:
        """Nodes that hold too little (-1) or too much (1), the worst first."""
        found = [node for node, surplus in self.surplus.items() if sign * surplus > self._tolerance(node)]
        return sorted(found, key=lambda node: (-sign * self.surplus[node], node))

    def _relieve_or_fill(self, views: list[GroupView], node: str, sign: int) -> None:
        for view in views:
            if sign * self.surplus[node] <= self._tolerance(node):
                return
            if view.key not in self.move_plans:
                self._move_one(view, node, sign)

    def _move_one(self, view: GroupView, node: str, sign: int) -> None:
        """Let the group give the node one replica, or take one from it, if it stays even by itself."""
        shares = view.pool.shares(len(view.map), view.spec.replicas, keepers=self._holding(view.pool)).bounds
        counts = Counter(chain.from_iterable(view.map))
        givers = [node] if sign > 0 else list(counts)
        takers = list(shares.keys() - view.pool.waiting.keys()) if sign > 0 else [node]
        givers = [name for name in givers if name in shares and counts[name] - 1 >= shares[name][0]]
        takers = [name for name in takers if name in shares and counts[name] + 1 <= shares[name][1]]
        found = self._best_exchange(view, set(givers), takers)
        if found is not None and self._stays_balanced(view, counts, *found[1:]):
            _, giver, taker = found
            if giver in view.pool.weights and taker in view.takers:
                self._carry_out(view, *found)

    def _holding(self, pool: Pool) -> frozenset[str]:
        """The unschedulable nodes of the pool that hold anything."""
        if not pool.unschedulable:
            return NO_NODES
        return frozenset(node for node in pool.unschedulable if node in self.fair_loads)

    def _stays_balanced(self, view: GroupView, counts: Counter[str], giver: str, taker: str) -> bool:
        """Whether balance would leave the group alone after the move: else it would move it back."""
        after = counts + Counter({taker: 1})
        after[giver] -= 1
        return is_balanced(view.pool, view.spec, +after, view.failing)

    def _best_exchange(self, view: GroupView, givers: set[str], takers: list[str]) -> tuple[int, str, str] | None:
        """The bucket, giver and taker: of what is begun, else from the fullest giver to the emptiest taker."""
        best: tuple[tuple[bool, float, float, int, int], int, str, str] | None = None
        for taker in sorted(takers, key=lambda name: (self.surplus[name], name))[:1]:
            room_bytes = self.cluster.room.available_bytes(taker)
            for bucket, row in enumerate(view.map):
                if taker in row or view.bytes_to_reserve(bucket, taker) > max(0, room_bytes):
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
        move_plan = MovePlan(list(view.map), at_once=view.spec.balancing.strict)
        move_plan.target[bucket] = replaced(move_plan.target[bucket], giver, taker)
        move_plan.moves = [view.move(bucket, giver, taker, "balance", Reason.BALANCING)]
        view.cluster.room.take(taker, view.bytes_to_reserve(bucket, taker))
        self.move_plans[view.key] = move_plan
        self.surplus[giver] -= 1
        self.surplus[taker] += 1
