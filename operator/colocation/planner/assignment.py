"""Which node takes each lost replica: chosen one by one (`choice`), then exchanged with the later balance in mind.

Each replica is given away without knowing the later ones. When the map would not be even after all of them, one
minimum-cost flow decides repair and balance together: lost replicas have to go somewhere, all others may move. Of the
nodes that a bucket comes to in its optimum, the repair takes as many as the bucket lost; what is left of the optimum is
left for balance. So repair and balance together make no more replicas than the optimum of both; for the limits
of this see docs/decisions/0006-zones-then-evenness.md.
"""

from collections import Counter
from dataclasses import replace
from itertools import chain

from colocation.model.conditions import Reason

from .balance import is_balanced
from .choice import Assignment, Chooser, Losses
from .cluster import Standing
from .evenness.exchange import affordable_placement
from .evenness.min_cost_flow import EvennessProblem, solve
from .evenness.shares import is_even
from .status import failing_message
from .transitions import LOST_FOR_GOOD, MovePlan, too_few_nodes, unschedulable_nodes
from .view import GroupView


def assign_lost(view: GroupView, move_plan: MovePlan, losses: Losses) -> list[Assignment]:
    """A node for each lost replica that can be made again; ``move_plan`` has the reasons for the others."""
    chooser = Chooser(view, move_plan.target, losses)
    chooser.choose_all()
    for bucket, lost in chooser.left_over:
        _say_why_none(chooser, move_plan, bucket, lost)
    if not chooser.assignments or _is_even_enough(chooser):
        return chooser.assignments
    return _if_it_fits(chooser, _exchanged(chooser))


def _say_why_none(chooser: Chooser, move_plan: MovePlan, bucket: int, lost: str | None) -> None:
    view = chooser.view
    if lost is not None and view.standing(lost) not in (Standing.WAITING, *LOST_FOR_GOOD):
        return  # it is made whole in place, when its node is tried again
    used = chooser.holders[bucket].union(view.map[bucket])
    failing = [node for node in sorted(view.failing & view.pool.weights.keys()) if node not in used]
    failing = [node for node in failing if chooser.fits(bucket, node)]
    candidates = chooser.candidates(bucket)
    if failing:
        move_plan.stall(bucket, Reason.TARGET_FAILING, f"no other node fits: {failing_message(view, failing)}")
    elif not candidates:
        move_plan.stall(bucket, Reason.INSUFFICIENT_NODES, too_few_nodes(view))
    else:
        best = max(candidates, key=view.cluster.room.available_bytes)
        size_bytes, room_bytes = view.bytes_of(bucket), view.cluster.room.available_bytes(best)
        message = (
            f"no node has room for the {size_bytes} bytes of bucket {bucket}: node {best} has most, "
            f"{size_bytes - room_bytes:.0f} bytes short"
        )
        move_plan.stall(bucket, Reason.INSUFFICIENT_SPACE, "; ".join([message, *unschedulable_nodes(view)]))


def _is_even_enough(chooser: Chooser) -> bool:
    """Whether balance will find nothing to move; where it does not follow, whether other choices are not looked for."""
    view, counts, frozen = chooser.view, chooser.counts, chooser.frozen
    if not view.may_balance:
        return len(chooser.assignments) < 2 or bool(view.pool.zones)
    if not frozen:
        return is_balanced(view.pool, view.spec, +counts, view.failing)
    present = Counter({node: count for node, count in counts.items() if node not in frozen})
    return is_even(chooser.shares, +present, view.takers, view.keepers)


def _is_as_even_as_can_be(chooser: Chooser) -> bool:
    """Whether no other node is further below its share than the chosen ones were."""
    counts, deviation = chooser.counts, chooser.shares.deviation
    worst = max(deviation(node, counts[node]) for _, _, node in chooser.assignments)
    return all(worst <= deviation(node, counts[node] + 1) for node in chooser.healthy)


def _exchanged(chooser: Chooser) -> list[Assignment]:
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
        if _is_as_even_as_can_be(chooser):
            return chooser.assignments
        chosen = solve(replace(problem, movable=places))
    return [*fixed, *_as_assigned(chooser, open_, chosen)]


def _as_assigned(chooser: Chooser, open_: list[Assignment], chosen: list[set[str]]) -> list[Assignment]:
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


def _if_it_fits(chooser: Chooser, assignments: list[Assignment]) -> list[Assignment]:
    """``assignments`` when all nodes have room for them, and no bucket is in fewer zones; else the first choice."""
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


def _spread_as_wide(chooser: Chooser, assignments: list[Assignment]) -> bool:
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
