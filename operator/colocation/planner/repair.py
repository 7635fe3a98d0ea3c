"""Repair: every lost replica goes to the fittest node, damaged ones are made whole in place, nothing else moves.

The replicas of drained nodes serve until their successors are complete. The fittest node is, in this order: in a zone
without a replica of the bucket; one on which the replica has been begun (so that plans stay the same while they are
carried out); the furthest below its share by weight; the lightest over all groups, by replicas and then bytes for its
weight; the first by name.
"""

from collections import Counter
from dataclasses import replace
from itertools import chain

from colocation.model.conditions import Reason

from .course import Course, in_place_moves, replaced, too_few_nodes
from .evening import Problem, solve
from .exchange import even_placement
from .losses import Losses, find_losses, kind_of, reason_of
from .map_size import too_large
from .surplus import give_up_surplus
from .view import GroupView

KIND_ORDER = ("repair", "drain", "place")

Made = tuple[int, str | None, str]
"""Bucket, the node of the lost replica, the node that takes its place."""


def repair(view: GroupView) -> Course:
    """The map after all repairs, by the moves that lead to it; the map as it is when there is nothing to repair."""
    course = Course(list(view.map))
    course.moves = in_place_moves(view)
    losses = _within_size(view, course, find_losses(view, course))
    give_up_surplus(view, course)
    if losses:
        chooser = _Chooser(view, course, losses)
        chooser.choose_all()
        for bucket, lost, node in chooser.evened_out():
            course.target[bucket] = replaced(course.target[bucket], lost, node)
            course.moves.append(view.move(bucket, lost, node, kind_of(view, lost), reason_of(view, lost)))
            view.cluster.loads.add(node, 1, view.bytes_of(bucket))
    course.pending = bool(course.moves or course.blocked or losses) or course.target != view.map
    return course


def _within_size(view: GroupView, course: Course, losses: Losses) -> Losses:
    """The losses, without replicas that were not there before when the map would be too large with them."""
    oversize = too_large(view) if any(None in lost for lost in losses.values()) else None
    if oversize is None:
        return losses
    course.hold_back("place", 0, Reason.INVALID_SPEC, oversize)
    known: Losses = {bucket: [node for node in lost if node is not None] for bucket, lost in losses.items()}
    return {bucket: lost for bucket, lost in known.items() if lost}


class _Chooser:
    """Chooses a node for each lost replica, big buckets first: the small ones fit into what room is left."""

    def __init__(self, view: GroupView, course: Course, losses: Losses) -> None:
        self.view = view
        self.course = course
        self.losses = losses
        self.shares = view.pool.shares(len(view.map), view.spec.replicas)
        kept = [
            [node for node in nodes if node not in losses.get(bucket, ())] for bucket, nodes in enumerate(course.target)
        ]
        self.holders = [set(nodes) for nodes in kept]
        self.counts = Counter(chain.from_iterable(kept))
        self.made: list[Made] = []

    def choose_all(self) -> None:
        jobs = [(bucket, lost) for bucket, nodes in self.losses.items() for lost in nodes]
        order = {job: KIND_ORDER.index(kind_of(self.view, job[1])) for job in jobs}
        for bucket, lost in sorted(jobs, key=lambda job: (order[job], -self.view.bytes_of(job[0]), job[0])):
            node = self._fittest(bucket, lost)
            if node is not None:
                self.holders[bucket].add(node)
                self.counts[node] += 1
                self._take_room(bucket, node, 1)
                self.made.append((bucket, lost, node))

    def _fittest(self, bucket: int, lost: str | None) -> str | None:
        """The fittest node with room; None, with the cause in the course, when there is none."""
        view, kind = self.view, kind_of(self.view, lost)
        used = self.holders[bucket].union(view.map[bucket])
        candidates = [node for node in view.pool.weights if node not in used]
        if not candidates:
            self.course.hold_back(kind, bucket, Reason.INSUFFICIENT_NODES, too_few_nodes(view))
            return None
        roomy = [node for node in candidates if self._fits(bucket, node)]
        if not roomy:
            best = max(candidates, key=view.cluster.room.available_bytes)
            size_bytes, room_bytes = view.bytes_of(bucket), view.cluster.room.available_bytes(best)
            message = (
                f"no node has room for the {size_bytes} bytes of the bucket: node {best} has most, "
                f"{size_bytes - room_bytes:.0f} bytes short"
            )
            self.course.hold_back(kind, bucket, Reason.INSUFFICIENT_SPACE, message)
            return None
        if view.pool.zones:
            zones = {view.zone(holder) for holder in self.holders[bucket]}
            roomy = [node for node in roomy if view.zone(node) not in zones] or roomy
        begun = [node for node in roomy if (bucket, node) in view.begun]
        roomy = [node for node in begun if view.begun[bucket, node]] or begun or roomy
        counts, deviation, load = self.counts, self.shares.deviation, view.cluster.loads.of
        return min((deviation(node, counts[node] + 1), load(node)) for node in roomy)[1][-1]

    def _fits(self, bucket: int, node: str) -> bool:
        size_bytes = self.view.bytes_of(bucket)
        if size_bytes <= self.view.cluster.room.available_bytes(node) or (bucket, node) in self.view.clones:
            return True
        return self.view.bytes_to_copy(bucket, node) == 0

    def _take_room(self, bucket: int, node: str, sign: int) -> None:
        if (bucket, node) not in self.view.clones:
            self.view.cluster.room.take(node, sign * self.view.bytes_to_copy(bucket, node))

    def evened_out(self) -> list[Made]:
        """The choices, exchanged where that is more even: each was made without knowing the later ones."""
        view = self.view
        if len(self.made) < 2 or view.pool.zones or self._is_even_enough():
            return self.made
        fixed = [one for one in self.made if (one[0], one[2]) in view.begun]
        open_ = [one for one in self.made if (one[0], one[2]) not in view.begun]
        holders = [set(nodes) for nodes in self.holders]
        places = set()
        for number, (bucket, _, node) in enumerate(open_):
            place = f"lost/{number}"  # no node's name: a holder that must give its replica up
            holders[bucket] = holders[bucket] - {node} | {place}
            places.add((bucket, place))
        problem = Problem(
            holders=holders,
            takers=sorted(view.pool.weights, key=view.cluster.loads.of),
            shares=self.shares,
            zones={},
            bucket_bytes=[view.bytes_of(bucket) for bucket in range(len(view.map))],
            spare=[view.spec.replicas] * len(view.map),
        )
        # The balance that follows should find as little to move as if all were decided at once; where none follows,
        # the repairs alone are made as even as they can be.
        chosen = even_placement(problem) if view.may_balance else solve(replace(problem, movable=places))
        return self._if_it_fits([*fixed, *self._as_made(open_, chosen)])

    def _is_even_enough(self) -> bool:
        """Whether no other node is further below its share than the chosen ones were."""
        counts, deviation = self.counts, self.shares.deviation
        worst = max(deviation(node, counts[node]) for _, _, node in self.made)
        return all(worst <= deviation(node, counts[node] + 1) for node in self.view.pool.weights)

    def _as_made(self, made: list[Made], chosen: list[set[str]]) -> list[Made]:
        """The choices in a placement: of the nodes that a bucket comes to, those furthest below their share."""
        settled = [set(nodes) for nodes in self.holders]
        for bucket, _, node in made:
            settled[bucket].remove(node)
        counts = Counter(chain.from_iterable(settled))
        result = []
        for bucket, lost, _ in made:
            arriving = sorted(chosen[bucket] - settled[bucket])
            node = min(arriving, key=lambda node: (self.shares.deviation(node, counts[node] + 1), node))
            settled[bucket].add(node)
            counts[node] += 1
            result.append((bucket, lost, node))
        return result

    def _if_it_fits(self, made: list[Made]) -> list[Made]:
        """``made`` when all nodes have room for it, else what was chosen first."""
        for bucket, _, node in self.made:
            self._take_room(bucket, node, -1)
        fits = True
        for bucket, _, node in made:
            fits = fits and self._fits(bucket, node)
            self._take_room(bucket, node, 1)
        if fits:
            return made
        for bucket, _, node in made:
            self._take_room(bucket, node, -1)
        for bucket, _, node in self.made:
            self._take_room(bucket, node, 1)
        return self.made
