"""Repair: every lost replica goes to the fittest node, damaged ones are made whole in place, nothing else moves.

A group is short of the replicas on nodes that are gone, drained, or down too long, and of those that it wants more than
before. Within the tolerance a replica counts as present: its node may come back with all that it held. The replicas of
drained nodes serve until their successors are complete. The fittest node is, in this order: in a zone without a replica
of the bucket; one on which the replica has been begun (so that plans stay the same while they are carried out); the
furthest below its share by weight; the lightest over all groups, by replicas and then bytes for its weight; the first
by name.

Where `spec.replicas` was lowered, one minimum-cost flow over all buckets decides which replicas go: source -> bucket
(what it has too many) -> zone -> node -> sink. In order of weight, the cost of letting replicas go is

1. replicas that serve: those that do not, or whose node may not hold them any more, go first;
2. zones that the bucket leaves for good;
3. the unevenness that remains (`evenness.shares.Shares.deviation`): the fullest nodes are relieved first, so that
   balance has nothing left to do where that is possible.
"""

from collections import Counter
from dataclasses import replace
from itertools import chain

from colocation.model.conditions import Reason
from colocation.model.plan import MoveKind

from .evenness.exchange import even_placement
from .evenness.min_cost_flow import EvennessProblem, Network, solve
from .evenness.shares import Shares
from .placement import too_large
from .status import check_node_ready, waiting_message
from .transitions import MovePlan, in_place_moves, replaced, too_few_nodes
from .view import GroupView, Standing

KINDS: dict[Standing, MoveKind] = {Standing.GONE: "repair", Standing.LOST: "repair", Standing.DRAINING: "drain"}

Losses = dict[int, list[str | None]]
"""Per bucket, the replicas to be made anew: the node of each that was lost, None for one more than before."""


def kind_of(view: GroupView, lost: str | None) -> MoveKind:
    """The kind of the move that succeeds a lost replica."""
    return "place" if lost is None else KINDS[view.standing(lost)]


def reason_of(view: GroupView, lost: str | None) -> Reason:
    """Why the replica has to be made."""
    if lost is None:
        return Reason.REPLICAS_RAISED
    match view.standing(lost):
        case Standing.GONE:
            return Reason.NODE_GONE
        case Standing.DRAINING:
            return Reason.NODE_DRAINING
        case _:
            finding = check_node_ready(view, 0, lost)
            return finding[0] if finding else Reason.NODE_NOT_READY


def find_losses(view: GroupView, move_plan: MovePlan) -> Losses:
    """All losses that may be made good; the others stay in the target, and ``move_plan`` says why.

    Lost replicas beyond the wanted number are taken off the target.
    """
    losses: Losses = {}
    for bucket, nodes in enumerate(view.map):
        lost = [node for node in nodes if _is_lost(view, move_plan, bucket, node)]
        short = max(0, view.spec.replicas - len(nodes) + len(lost))
        replaced: list[str | None] = [*lost, *[None] * view.spec.replicas][:short]
        if replaced:
            losses[bucket] = replaced
        surplus = lost[short:]
        move_plan.target[bucket] = tuple(node for node in nodes if node not in surplus)
    return losses


def _is_lost(view: GroupView, move_plan: MovePlan, bucket: int, node: str) -> bool:
    standing = view.standing(node)
    if standing is Standing.WAITING:
        move_plan.block(bucket, Reason.WITHIN_DOWN_TOLERANCE, waiting_message(view, node))
        return False
    if standing not in KINDS:
        return False
    switch = _switch_against_relocation(view)
    if switch:
        move_plan.block(bucket, Reason.RELOCATION_DISABLED, f"the replica on node {node} stays where it is: {switch}")
    return not switch


def _switch_against_relocation(view: GroupView) -> str:
    if view.cluster.limits.disable_colocate_relocate:
        return "disableColocateRelocate is set on the operator"
    return "" if view.spec.relocation.enabled else "spec.relocation.enabled is false"


KIND_ORDER = ("repair", "drain", "place")

Assignment = tuple[int, str | None, str]
"""Bucket, the node of the lost replica, the node that takes its place."""


def repair(view: GroupView) -> MovePlan:
    """The map after all repairs, by the moves that lead to it; the map as it is when there is nothing to repair."""
    move_plan = MovePlan(list(view.map))
    move_plan.moves = in_place_moves(view)
    losses = _within_size(view, move_plan, find_losses(view, move_plan))
    give_up_surplus(view, move_plan)
    if losses:
        chooser = _Chooser(view, move_plan, losses)
        chooser.choose_all()
        for bucket, lost, node in chooser.evened_out():
            move_plan.target[bucket] = replaced(move_plan.target[bucket], lost, node)
            move_plan.moves.append(view.move(bucket, lost, node, kind_of(view, lost), reason_of(view, lost)))
            view.cluster.loads.add(node, 1, view.bytes_of(bucket))
    move_plan.pending = bool(move_plan.moves or move_plan.blocked or losses) or move_plan.target != view.map
    return move_plan


def _within_size(view: GroupView, move_plan: MovePlan, losses: Losses) -> Losses:
    """The losses, without replicas that were not there before when the map would be too large with them."""
    oversize = too_large(view) if any(None in lost for lost in losses.values()) else None
    if oversize is None:
        return losses
    move_plan.hold_back("place", 0, Reason.INVALID_SPEC, oversize)
    known: Losses = {bucket: [node for node in lost if node is not None] for bucket, lost in losses.items()}
    return {bucket: lost for bucket, lost in known.items() if lost}


class _Chooser:
    """Chooses a node for each lost replica, big buckets first: the small ones fit into what room is left."""

    def __init__(self, view: GroupView, move_plan: MovePlan, losses: Losses) -> None:
        self.view = view
        self.move_plan = move_plan
        self.losses = losses
        self.shares = view.pool.shares(len(view.map), view.spec.replicas)
        kept = [
            [node for node in nodes if node not in losses.get(bucket, ())]
            for bucket, nodes in enumerate(move_plan.target)
        ]
        self.holders = [set(nodes) for nodes in kept]
        self.counts = Counter(chain.from_iterable(kept))
        self.assignments: list[Assignment] = []

    def choose_all(self) -> None:
        jobs = [(bucket, lost) for bucket, nodes in self.losses.items() for lost in nodes]
        order = {job: KIND_ORDER.index(kind_of(self.view, job[1])) for job in jobs}
        for bucket, lost in sorted(jobs, key=lambda job: (order[job], -self.view.bytes_of(job[0]), job[0])):
            node = self._fittest(bucket, lost)
            if node is not None:
                self.holders[bucket].add(node)
                self.counts[node] += 1
                self._take_room(bucket, node, 1)
                self.assignments.append((bucket, lost, node))

    def _fittest(self, bucket: int, lost: str | None) -> str | None:
        """The fittest node with room; None, with the cause in the move_plan, when there is none."""
        view, kind = self.view, kind_of(self.view, lost)
        used = self.holders[bucket].union(view.map[bucket])
        candidates = [node for node in view.pool.weights if node not in used]
        if not candidates:
            self.move_plan.hold_back(kind, bucket, Reason.INSUFFICIENT_NODES, too_few_nodes(view))
            return None
        roomy = [node for node in candidates if self._fits(bucket, node)]
        if not roomy:
            best = max(candidates, key=view.cluster.room.available_bytes)
            size_bytes, room_bytes = view.bytes_of(bucket), view.cluster.room.available_bytes(best)
            message = (
                f"no node has room for the {size_bytes} bytes of the bucket: node {best} has most, "
                f"{size_bytes - room_bytes:.0f} bytes short"
            )
            self.move_plan.hold_back(kind, bucket, Reason.INSUFFICIENT_SPACE, message)
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

    def evened_out(self) -> list[Assignment]:
        """The choices, exchanged where that is more even: each was made without knowing the later ones."""
        view = self.view
        if len(self.assignments) < 2 or view.pool.zones or self._is_even_enough():
            return self.assignments
        fixed = [one for one in self.assignments if (one[0], one[2]) in view.begun]
        open_ = [one for one in self.assignments if (one[0], one[2]) not in view.begun]
        holders = [set(nodes) for nodes in self.holders]
        places = set()
        for number, (bucket, _, node) in enumerate(open_):
            place = f"lost/{number}"  # no node's name: a holder that must give its replica up
            holders[bucket] = holders[bucket] - {node} | {place}
            places.add((bucket, place))
        problem = EvennessProblem(
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
        worst = max(deviation(node, counts[node]) for _, _, node in self.assignments)
        return all(worst <= deviation(node, counts[node] + 1) for node in self.view.pool.weights)

    def _as_made(self, made: list[Assignment], chosen: list[set[str]]) -> list[Assignment]:
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

    def _if_it_fits(self, made: list[Assignment]) -> list[Assignment]:
        """``made`` when all nodes have room for it, else what was chosen first."""
        for bucket, _, node in self.assignments:
            self._take_room(bucket, node, -1)
        fits = True
        for bucket, _, node in made:
            fits = fits and self._fits(bucket, node)
            self._take_room(bucket, node, 1)
        if fits:
            return made
        for bucket, _, node in made:
            self._take_room(bucket, node, -1)
        for bucket, _, node in self.assignments:
            self._take_room(bucket, node, 1)
        return self.assignments


SOURCE, SINK, FIRST = 0, 1, 2


def give_up_surplus(view: GroupView, move_plan: MovePlan) -> None:
    """Take from the target what it has beyond the wanted replicas; the map follows when the others are complete."""
    wanted = view.spec.replicas
    surplus = {bucket: len(row) - wanted for bucket, row in enumerate(move_plan.target) if len(row) > wanted}
    if not surplus:
        return
    for bucket, leaving in _Surplus(view, move_plan, surplus).choose().items():
        move_plan.target[bucket] = tuple(node for node in move_plan.target[bucket] if node not in leaving)


class _Surplus:
    def __init__(self, view: GroupView, move_plan: MovePlan, surplus: dict[int, int]) -> None:
        self.view = view
        self.rows = {bucket: move_plan.target[bucket] for bucket in surplus}
        self.surplus = surplus
        self.counts = Counter(chain.from_iterable(move_plan.target))
        self.shares: Shares = view.pool.shares(len(view.map), view.spec.replicas)
        names = sorted(set(chain.from_iterable(self.rows.values())))
        self.vertex = {node: FIRST + index for index, node in enumerate(names)}
        slots = sum(1 + len(row) for row in self.rows.values())
        self.network = Network(FIRST + len(names) + slots)
        # Each cost outweighs the sum of all that come after it.
        self.one_zone = 1 + self._largest_deviation() * 2 * sum(surplus.values())
        self.one_serving = self.one_zone * (1 + sum(surplus.values()))
        self.edges: list[tuple[int, str, int]] = []

    def _largest_deviation(self) -> int:
        deviation, rows = self.shares.deviation, len(self.view.map)
        return 1 + max((abs(deviation(node, n)) for node in self.shares.by_node for n in (1, rows + 1)), default=0)

    def choose(self) -> dict[int, set[str]]:
        """The nodes that each bucket leaves."""
        self._add_buckets()
        self._add_nodes()
        limit = 2 * self.one_serving * (1 + sum(self.surplus.values()))
        while self.network.augment(SOURCE, SINK, limit):
            pass
        leaving: dict[int, set[str]] = {bucket: set() for bucket in self.surplus}
        for bucket, node, edge in self.edges:
            if self.network.flow(edge):
                leaving[bucket].add(node)
        return leaving

    def _add_buckets(self) -> None:
        vertex = FIRST + len(self.vertex)
        for bucket, row in self.rows.items():
            self.network.add_edge(SOURCE, vertex, self.surplus[bucket], 0)
            top, vertex = vertex, vertex + 1
            zones = Counter(self.view.zone(node) for node in row)
            for zone, number in zones.items():
                # All but the last replica of a zone go without leaving it.
                self.network.add_edge(top, vertex, number - 1, 0)
                self.network.add_edge(top, vertex, 1, self.one_zone)
                for node in (node for node in row if self.view.zone(node) == zone):
                    cost = self.one_serving if self._serves(bucket, node) else 0
                    self.edges.append((bucket, node, self.network.add_edge(vertex, self.vertex[node], 1, cost)))
                vertex += 1

    def _serves(self, bucket: int, node: str) -> bool:
        return self.view.standing(node) is Standing.FIT and self.view.is_complete(bucket, node)

    def _add_nodes(self) -> None:
        """The fuller a node, the cheaper it is relieved; each further replica costs more than the one before."""
        most, offset = Counter(chain.from_iterable(self.rows.values())), self._largest_deviation()
        for node, vertex in self.vertex.items():
            for number in range(self.counts[node], self.counts[node] - most[node], -1):
                known = node in self.shares.by_node
                cost = offset - self.shares.deviation(node, number) if known else 0
                self.network.add_edge(vertex, SINK, 1, cost)
