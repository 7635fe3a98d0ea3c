"""Repair: every lost replica goes to the fittest node, damaged ones are made whole in place, nothing else moves.

Lost means: on a node that is gone, marked for drain, or down beyond the group's tolerance. The replicas of drained
nodes serve until their successors are complete. A changed number of replicas is a shortage or a surplus of the same
kind. The fittest node is, in this order: in a zone without a replica of the bucket; one on which the replica has been
begun (so that plans stay the same while they are carried out); the furthest below its share by weight; the one with
the fewest bytes for its weight; the first by name.
"""

from collections import Counter
from itertools import chain

from colocation.model.conditions import Reason
from colocation.model.plan import Move, MoveKind

from .cluster import Standing
from .course import Course, in_place_moves, replaced
from .evening import Problem, even_placement
from .shares import is_even
from .view import GroupView
from .wording import count_of, timestamp

LOSSES: dict[Standing, MoveKind] = {Standing.GONE: "repair", Standing.LOST: "repair", Standing.DRAINING: "drain"}


def repair(view: GroupView) -> Course:
    """The map after all repairs, by the moves that lead to it; the map as it is when there is nothing to repair."""
    course = Course(list(view.map))
    course.moves = in_place_moves(view)
    short = _find_losses(view, course)
    if any(len(nodes) > view.spec.replicas for nodes in course.target):
        _give_up_surplus(view, course)
    if short:
        _Repair(view, course, short).run()
    course.pending = bool(course.moves or course.blocked or short) or course.target != view.map
    return course


def _find_losses(view: GroupView, course: Course) -> dict[int, list[str | None]]:
    """Per bucket, the replicas to be made anew: the node of each that was lost, None for one more than before.

    Losses that may not be made good are left in the target, and say why.
    """
    limits, relocation = view.cluster.limits, view.spec.relocation
    may_relocate = relocation.enabled and not limits.disable_colocate_relocate
    short: dict[int, list[str | None]] = {}
    for bucket, nodes in enumerate(view.map):
        lost: list[str | None] = []
        for node in nodes:
            standing = view.standing(node)
            if standing is Standing.WAITING:
                course.block(bucket, Reason.WITHIN_DOWN_TOLERANCE, _tolerance_message(view, node))
            elif standing in LOSSES and may_relocate:
                lost.append(node)
            elif standing in LOSSES:
                switch = "spec.relocation.enabled is false" if limits.disable_colocate_relocate is False else ""
                cause = switch or "disableColocateRelocate is set on the operator"
                course.block(bucket, Reason.RELOCATION_DISABLED, f"the replica on node {node} stays: {cause}")
        kept = len(nodes) - len(lost)
        wanted: list[str | None] = [*lost, *[None] * view.spec.replicas][: max(0, view.spec.replicas - kept)]
        if wanted:
            short[bucket] = wanted
        surplus = lost[len(wanted) :]
        course.target[bucket] = tuple(node for node in nodes if node not in surplus)
    return short


def _tolerance_message(view: GroupView, node: str) -> str:
    since = view.cluster.nodes[node].not_ready_since or view.cluster.now
    seconds = view.spec.relocation.down_tolerance_seconds
    return f"node {node} is down since {timestamp(since)}; its replicas are made anew after {seconds} s"


def _give_up_surplus(view: GroupView, course: Course) -> None:
    """Take replicas off the map down to the wanted number: ones that do not serve first, then of the fullest nodes."""
    counts = Counter(chain.from_iterable(course.target))
    shares = view.pool.shares(len(view.map), view.spec.replicas)
    for bucket, nodes in enumerate(course.target):
        left = list(nodes)
        while len(left) > view.spec.replicas:

            def surplus(node: str, bucket: int = bucket) -> tuple[bool, float, str]:
                known = node in shares.by_node
                deviation = shares.deviation(node, counts[node]) if known else float("inf")
                return not view.is_complete(bucket, node), deviation, node

            fullest = max(left, key=surplus)
            left.remove(fullest)
            counts[fullest] -= 1
        course.target[bucket] = tuple(left)


class _Repair:
    """Chooses a node for each replica that is short, first for the buckets with the fewest live replicas."""

    def __init__(self, view: GroupView, course: Course, short: dict[int, list[str | None]]) -> None:
        self.view = view
        self.course = course
        self.short = short
        self.shares = view.pool.shares(len(view.map), view.spec.replicas)
        lost = {(bucket, node) for bucket, nodes in short.items() for node in nodes}
        kept = [[node for node in nodes if (b, node) not in lost] for b, nodes in enumerate(course.target)]
        self.holders = [set(nodes) for nodes in kept]
        self.counts = Counter(chain.from_iterable(kept))
        self.made: list[tuple[int, str | None, str]] = []

    def run(self) -> None:
        for kind in ("repair", "drain", "place"):
            jobs = [(b, lost) for b, nodes in self.short.items() for lost in nodes if self._kind(lost) == kind]
            # Big buckets first: the small ones fit into what room is left.
            for bucket, lost in sorted(jobs, key=lambda job: (-self.view.bytes_of(job[0]), job[0])):
                self._choose(bucket, lost)
        self._even_out()
        for bucket, lost, node in self.made:
            self._make(bucket, lost, node)

    def _kind(self, lost: str | None) -> MoveKind:
        return "place" if lost is None else LOSSES[self.view.standing(lost)]

    def _choose(self, bucket: int, lost: str | None) -> None:
        view, size_bytes = self.view, self.view.bytes_of(bucket)
        candidates = [n for n in view.pool.weights if n not in self.holders[bucket] and n not in view.map[bucket]]
        if not candidates:
            able, wanted = len(view.pool.weights), view.spec.replicas
            message = f"{count_of(wanted, 'replica')} need as many nodes; {able} may hold replicas now"
            self.course.hold_back(self._kind(lost), bucket, Reason.INSUFFICIENT_NODES, message)
            return
        roomy = [node for node in candidates if self._fits(bucket, node)]
        if not roomy:
            best = max(candidates, key=view.cluster.room.available_bytes)
            missing = size_bytes - view.cluster.room.available_bytes(best)
            message = f"{missing:.0f} bytes short: the bucket has {size_bytes} bytes, node {best} has most room"
            self.course.hold_back(self._kind(lost), bucket, Reason.INSUFFICIENT_SPACE, message)
            return
        node = min(roomy, key=lambda candidate: self._fitness(bucket, candidate))
        self.holders[bucket].add(node)
        self.counts[node] += 1
        self._take_room(bucket, node, 1)
        self.made.append((bucket, lost, node))

    def _fits(self, bucket: int, node: str) -> bool:
        size_bytes = self.view.bytes_to_copy(bucket, node)
        in_flight = (bucket, node) in self.view.clones
        return size_bytes == 0 or in_flight or self.view.cluster.room.available_bytes(node) >= size_bytes

    def _take_room(self, bucket: int, node: str, sign: int) -> None:
        if (bucket, node) not in self.view.clones:
            self.view.cluster.room.take(node, sign * self.view.bytes_to_copy(bucket, node))

    def _fitness(self, bucket: int, node: str) -> tuple[bool, int, int, float, str]:
        view = self.view
        zones = {view.zone(holder) for holder in self.holders[bucket]} if view.pool.zones else set()
        begun = {True: 0, False: 1, None: 2}[view.begun.get((bucket, node))]
        deviation = self.shares.deviation(node, self.counts[node] + 1)
        load = view.cluster.bytes_per_node[node] / view.pool.weights[node]
        return view.zone(node) in zones, begun, deviation, load, node

    def _even_out(self) -> None:
        """Exchange the choices where that is more even: each was made without knowing the later ones."""
        view = self.view
        counts = {node: count for node, count in self.counts.items() if node in view.pool.weights}
        if len(self.made) < 2 or view.pool.zones or is_even(self.shares, counts, view.pool.weights):
            return
        made = {(bucket, node) for bucket, _, node in self.made if (bucket, node) not in view.begun}
        problem = Problem(
            holders=self.holders,
            takers=list(view.pool.weights),
            shares=self.shares,
            zones={},
            bucket_bytes=[0] * len(view.map),
            spare=[view.spec.replicas] * len(view.map),
            movable=made,
        )
        chosen = even_placement(problem)
        self._exchange(chosen)

    def _exchange(self, chosen: list[set[str]]) -> None:
        view, before = self.view, list(self.made)
        lost_nodes = {bucket: set(view.map[bucket]) - self.holders[bucket] for bucket, _, _ in before}
        taken = [set(self.holders[bucket]) for bucket in range(len(self.holders))]
        after = []
        for bucket, lost, node in before:
            if node not in chosen[bucket]:
                node = min(chosen[bucket] - taken[bucket])
                taken[bucket].add(node)
            after.append((bucket, lost, node))
        if any(node in lost_nodes[bucket] for bucket, _, node in after):
            return
        for bucket, _, node in before:
            self._take_room(bucket, node, -1)
        fits = True
        for bucket, _, node in after:
            fits = fits and self._fits(bucket, node)
            self._take_room(bucket, node, 1)
        if fits:
            self.made = after
            return
        for bucket, _, node in after:
            self._take_room(bucket, node, -1)
        for bucket, _, node in before:
            self._take_room(bucket, node, 1)

    def _make(self, bucket: int, lost: str | None, node: str) -> None:
        course = self.course
        course.target[bucket] = replaced(course.target[bucket], lost, node)
        reasons = {
            Standing.GONE: Reason.NODE_GONE,
            Standing.LOST: Reason.NODE_NOT_READY,
            Standing.DRAINING: Reason.NODE_DRAINING,
        }
        reason = Reason.PLACING if lost is None else reasons[self.view.standing(lost)]
        move: Move = self.view.move(bucket, lost, node, self._kind(lost), reason)
        course.moves.append(move)
