"""Which node takes each lost replica: the fittest one, chosen with the balance that follows in mind.

The fittest node is, in this order: one on which clones of the group do not fail; in a zone without a replica of the
bucket; one on which the replica has been begun (so that plans stay the same while they are carried out); the furthest
below its share by weight; the lightest over all groups, by replicas and then bytes for its weight; the first by name.
Room on disks is a limit.

Each replica is given away without knowing the later ones. When the map would not be even after all of them, one
minimum-cost flow decides repair and balance together: lost replicas have to go somewhere, all others may move. Of the
nodes that a bucket comes to in its optimum, the repair takes as many as the bucket lost; what is left of the optimum is
left for balance. So repair and balance together make no more replicas than the optimum of both (see
docs/decisions/0027-repair-with-balance-in-mind.md for the limits of this).
"""

from collections import Counter
from dataclasses import replace
from itertools import chain

from colocation.model.conditions import Reason
from colocation.model.plan import MoveKind

from .balance import is_balanced
from .cluster import Standing
from .evenness.exchange import affordable_placement
from .evenness.min_cost_flow import EvennessProblem, solve
from .evenness.shares import is_even
from .status import failing_message
from .transitions import LOST_FOR_GOOD, MovePlan, too_few_nodes, unschedulable_nodes
from .view import GroupView

KIND_ORDER = ("repair", "drain", "place")

Losses = dict[int, list[str | None]]
"""Per bucket, the replicas to be made anew: the node of each that was lost, None for one more than before."""

Assignment = tuple[int, str | None, str]
"""Bucket, the node of the lost replica, the node that takes its place."""


def kind_of(view: GroupView, lost: str | None) -> MoveKind:
    """The kind of the move that succeeds a lost replica."""
    if lost is None:
        return "place"
    return "drain" if view.standing(lost) is Standing.DRAINING else "repair"


def assign_lost(view: GroupView, move_plan: MovePlan, losses: Losses) -> list[Assignment]:
    """A node for each lost replica that can be made anew; ``move_plan`` says why the others cannot."""
    chooser = _Chooser(view, move_plan, losses)
    chooser.choose_all()
    if not chooser.assignments or chooser.is_even_enough():
        return chooser.assignments
    return _if_it_fits(chooser, _exchanged(chooser))


class _Chooser:
    """Chooses a node for each lost replica, big buckets first: the small ones fit into what room is left."""

    def __init__(self, view: GroupView, move_plan: MovePlan, losses: Losses) -> None:
        self.view = view
        self.move_plan = move_plan
        self.losses = losses
        self.shares = view.shares()
        kept = [
            [node for node in nodes if node not in losses.get(bucket, ())]
            for bucket, nodes in enumerate(move_plan.target)
        ]
        self.holders = [set(nodes) for nodes in kept]
        self.counts = Counter(chain.from_iterable(kept))
        self.assignments: list[Assignment] = []
        failing = view.group.failing_targets.keys()
        self.healthy = [node for node in view.takers if node not in failing]
        self.on_probation = [node for node in view.takers if node in failing]

    def choose_all(self) -> None:
        jobs = [(bucket, lost) for bucket, nodes in self.losses.items() for lost in nodes]
        order = {job: KIND_ORDER.index(kind_of(self.view, job[1])) for job in jobs}
        for bucket, lost in sorted(jobs, key=lambda job: (order[job], -self.view.bytes_of(job[0]), job[0])):
            node = self._fittest(bucket, lost)
            if node is not None:
                self.holders[bucket].add(node)
                self.counts[node] += 1
                self.take_room(bucket, node, 1)
                self.assignments.append((bucket, lost, node))

    def _fittest(self, bucket: int, lost: str | None) -> str | None:
        """The fittest node with room; None, with the cause in the move plan, when there is none."""
        used = self.holders[bucket].union(self.view.map[bucket])
        for nodes in (self.healthy, self.on_probation):
            roomy = [node for node in nodes if node not in used and self.fits(bucket, node)]
            if roomy:
                return self._best_of(bucket, roomy)
        self._say_why_none(bucket, lost, used)
        return None

    def _best_of(self, bucket: int, roomy: list[str]) -> str:
        view = self.view
        if view.pool.zones:
            zones = {view.zone(holder) for holder in self.holders[bucket]}
            roomy = [node for node in roomy if view.zone(node) not in zones] or roomy
        begun = [node for node in roomy if (bucket, node) in view.begun]
        roomy = [node for node in begun if view.begun[bucket, node]] or begun or roomy
        counts, deviation, load = self.counts, self.shares.deviation, view.cluster.loads.of
        return min((deviation(node, counts[node] + 1), load(node)) for node in roomy)[1][-1]

    def _say_why_none(self, bucket: int, lost: str | None, used: set[str]) -> None:
        view, move_plan = self.view, self.move_plan
        if lost is not None and view.standing(lost) not in LOST_FOR_GOOD:
            return  # it is made whole in place, when its node is tried again
        failing = [node for node in sorted(view.failing & view.pool.weights.keys()) if node not in used]
        failing = [node for node in failing if self.fits(bucket, node)]
        candidates = [node for node in view.takers if node not in used]
        if failing:
            move_plan.stall(bucket, Reason.TARGET_FAILING, f"no other node fits: {failing_message(view, failing)}")
        elif not candidates:
            move_plan.hold_back(kind_of(view, lost), bucket, Reason.INSUFFICIENT_NODES, too_few_nodes(view))
        else:
            best = max(candidates, key=view.cluster.room.available_bytes)
            size_bytes, room_bytes = view.bytes_of(bucket), view.cluster.room.available_bytes(best)
            message = (
                f"no node has room for the {size_bytes} bytes of the bucket: node {best} has most, "
                f"{size_bytes - room_bytes:.0f} bytes short"
            )
            message = "; ".join([message, *unschedulable_nodes(view)])
            move_plan.hold_back(kind_of(view, lost), bucket, Reason.INSUFFICIENT_SPACE, message)

    def fits(self, bucket: int, node: str) -> bool:
        """Whether the node's disk has room for the bucket, or for what a clone in flight has not written yet."""
        size_bytes = self.view.bytes_of(bucket)
        if size_bytes <= self.view.cluster.room.available_bytes(node) or (bucket, node) in self.view.clones:
            return True
        return self.view.bytes_to_copy(bucket, node) == 0

    def take_room(self, bucket: int, node: str, sign: int) -> None:
        if (bucket, node) not in self.view.clones:
            self.view.cluster.room.take(node, sign * self.view.bytes_to_copy(bucket, node))

    @property
    def frozen(self) -> frozenset[str]:
        """Nodes that are away and whose replicas stay for now: down within the tolerance, or not to be succeeded."""
        gone = (Standing.WAITING, *LOST_FOR_GOOD)
        return frozenset(node for node in self.counts if self.view.standing(node) in gone)

    def is_even_enough(self) -> bool:
        """Whether balance will find nothing to move, or no other choice would be more even where it does not follow."""
        view, counts, frozen = self.view, self.counts, self.frozen
        if not view.may_balance:
            return len(self.assignments) < 2 or bool(view.pool.zones) or self.is_as_even_as_can_be()
        if not frozen:
            return is_balanced(view.pool, view.spec, +counts, view.failing)
        present = Counter({node: count for node, count in counts.items() if node not in frozen})
        return is_even(self.shares, +present, view.takers, view.keepers)

    def is_as_even_as_can_be(self) -> bool:
        """Whether no other node is further below its share than the chosen ones were."""
        counts, deviation = self.counts, self.shares.deviation
        worst = max(deviation(node, counts[node]) for _, _, node in self.assignments)
        return all(worst <= deviation(node, counts[node] + 1) for node in self.healthy)


def _exchanged(chooser: _Chooser) -> list[Assignment]:
    """The assignments, exchanged where the balance that follows then has less to move."""
    view, failing = chooser.view, chooser.view.group.failing_targets
    fixed = [one for one in chooser.assignments if (one[0], one[2]) in view.begun or one[2] in failing]
    open_ = [one for one in chooser.assignments if one not in fixed]
    holders = [set(nodes) for nodes in chooser.holders]
    zones = {node: view.zone(node) for node in sorted({*chooser.counts, *view.takers})} if view.pool.zones else {}
    places = set()
    for number, (bucket, _, node) in enumerate(open_):
        place = f"lost/{number}"  # no node's name: a holder that must give its replica up
        holders[bucket] = holders[bucket] - {node} | {place}
        places.add((bucket, place))
        if zones:
            zones[place] = zones[node]
    problem = EvennessProblem(
        holders=holders,
        takers=sorted(view.takers, key=view.cluster.loads.of),
        shares=view.shares(by_weight_alone=True),
        zones=zones,
        bucket_bytes=[view.bytes_of(bucket) for bucket in range(len(view.map))],
        spare=[len(row) - len({zones.get(node, "") for node in row}) for row in holders],
        keepers=view.keepers,
        frozen=chooser.frozen,
    )
    chosen = affordable_placement(problem) if view.may_balance else None
    if chosen is None:  # no balance follows, or it is too large a problem: the repairs alone are made even
        if chooser.is_as_even_as_can_be():
            return chooser.assignments
        chosen = solve(replace(problem, movable=places))
    return [*fixed, *_as_assigned(chooser, open_, chosen)]


def _as_assigned(chooser: _Chooser, open_: list[Assignment], chosen: list[set[str]]) -> list[Assignment]:
    """The assignments of a placement: of the nodes that a bucket comes to, first those in zones where it does not lie,
    then those furthest below their share. The first choice stands where none of them may take a lost replica.
    """
    view, healthy = chooser.view, set(chooser.healthy)
    settled = [set(nodes) for nodes in chooser.holders]
    for bucket, _, node in open_:
        settled[bucket].remove(node)
    counts = Counter(chain.from_iterable(settled))
    result = []
    for bucket, lost, first in open_:
        arriving = sorted((chosen[bucket] - settled[bucket]) & healthy - set(view.map[bucket])) or [first]
        zones = {view.zone(node) for node in settled[bucket]}
        node = min(
            arriving,
            key=lambda node: (view.zone(node) in zones, chooser.shares.deviation(node, counts[node] + 1), node),
        )
        settled[bucket].add(node)
        counts[node] += 1
        result.append((bucket, lost, node))
    return result


def _if_it_fits(chooser: _Chooser, assignments: list[Assignment]) -> list[Assignment]:
    """``assignments`` when all nodes have room for them, and no bucket lies in fewer zones; else the first choice."""
    if len({(bucket, node) for bucket, _, node in assignments}) < len(assignments):
        return chooser.assignments
    if chooser.view.pool.zones and not _spread_as_wide(chooser, assignments):
        return chooser.assignments
    for bucket, _, node in chooser.assignments:
        chooser.take_room(bucket, node, -1)
    fits = True
    for bucket, _, node in assignments:
        fits = fits and chooser.fits(bucket, node)
        chooser.take_room(bucket, node, 1)
    if fits:
        return assignments
    for bucket, _, node in assignments:
        chooser.take_room(bucket, node, -1)
    for bucket, _, node in chooser.assignments:
        chooser.take_room(bucket, node, 1)
    return chooser.assignments


def _spread_as_wide(chooser: _Chooser, assignments: list[Assignment]) -> bool:
    """Whether every bucket comes to lie in as many zones as by the first choice."""
    view = chooser.view
    rows = {bucket: set(chooser.holders[bucket]) for bucket, _, _ in assignments}
    for bucket, _, node in chooser.assignments:
        rows[bucket].discard(node)
    for bucket, _, node in assignments:
        rows[bucket].add(node)
    return all(
        len({view.zone(node) for node in row}) >= len({view.zone(node) for node in chooser.holders[bucket]})
        for bucket, row in rows.items()
    )
