"""Repair: every lost replica goes to the fittest node, damaged ones are made whole in place, nothing else moves.

A group is short of the replicas on nodes that are gone, drained, or down too long, and of those that it wants more than
before. Within the tolerance a replica counts as present: its node may come back with all that it held. A whole zone, or
most nodes, are waited for longer, but for buckets with too few live replicas (`Cluster.wide_outage`). The replicas of
drained nodes serve until their successors are complete. A damaged replica on a node where the group's clones fail is
lost too, while another node fits. `choice` and `assignment` say which node takes what. What cannot be made, because no
node fits or has room, holds up nothing else.

Where `spec.replicas` was lowered, one minimum-cost flow over all buckets decides which replicas go: source -> bucket
(what it has too many) -> zone -> node -> sink. In order of weight, the cost of letting replicas go is

1. replicas that serve: those that do not, or whose node may not hold them any more, go first;
2. zones that the bucket leaves for good;
3. the unevenness that remains (`evenness.shares.Shares.deviation`): the fullest nodes are relieved first, so that
   balance has nothing left to do where that is possible.
"""

from collections import Counter
from itertools import chain

from colocation.model.conditions import Reason
from colocation.model.plan import Move

from .assignment import assign_lost
from .choice import Losses, kind_of
from .cluster import LIVE_REPLICAS_TO_WAIT, Standing
from .evenness.min_cost_flow import Network
from .evenness.shares import Shares
from .placement import too_large
from .status import check_node_ready, check_replica_whole, waiting_message
from .transitions import LOST_FOR_GOOD, MovePlan, in_place_moves, replaced
from .view import GroupView


def repair(view: GroupView) -> MovePlan:
    """The map after all repairs, by the moves that lead to it; the map as it is when there is nothing to repair."""
    move_plan = MovePlan(list(view.map))
    losses = _within_size(view, move_plan, find_losses(view, move_plan))
    give_up_surplus(view, move_plan)
    assigned = assign_lost(view, move_plan, losses) if losses else []
    elsewhere = {(bucket, lost) for bucket, lost, _ in assigned}
    mending = (move for move in in_place_moves(view) if not _is_given_up(view, move_plan, move))
    move_plan.moves = [move for move in mending if (move.bucket, move.to) not in elsewhere]
    for bucket, lost, node in assigned:
        move_plan.target[bucket] = replaced(move_plan.target[bucket], lost, node)
        reason = _reason_of(view, bucket, lost)
        move_plan.moves.append(view.move(bucket, lost, node, kind_of(view, lost), reason))
        if view.has_source(bucket):  # what cannot be made is no load, and moves nothing of other groups
            view.cluster.loads.add(node, 1, view.bytes_of(bucket))
    move_plan.pending = bool(move_plan.moves or move_plan.blocked or losses) or move_plan.target != view.map
    return move_plan


def _is_given_up(view: GroupView, move_plan: MovePlan, move: Move) -> bool:
    """Whether the bucket has all that it wants without the replica: its node may never take it."""
    return all(view.is_complete(move.bucket, node) for node in move_plan.target[move.bucket])


def _reason_of(view: GroupView, bucket: int, lost: str | None) -> Reason:
    """Why the replica has to be made."""
    if lost is None:
        return Reason.REPLICAS_RAISED
    match view.standing(lost):
        case Standing.GONE:
            return Reason.NODE_GONE
        case Standing.DRAINING:
            node = view.cluster.nodes[lost]
            return Reason.NODE_DRAINING if node.drain or node.disk_reason is None else Reason(node.disk_reason)
        case _:
            finding = check_node_ready(view, bucket, lost) or check_replica_whole(view, bucket, lost)
            return finding[0] if finding else Reason.NODE_NOT_READY


def find_losses(view: GroupView, move_plan: MovePlan) -> Losses:
    """All losses that may be made good; the others stay in the target, and ``move_plan`` has the reasons.

    Lost replicas beyond the wanted number are taken off the target.
    """
    losses: Losses = {}
    away = (Standing.WAITING, *LOST_FOR_GOOD)
    suspects = {node for node in chain.from_iterable(view.map) if view.standing(node) in away}
    suspects |= view.group.failing_targets.keys()
    for bucket, nodes in enumerate(view.map):
        lost = [node for node in nodes if node in suspects and _is_lost(view, move_plan, bucket, node)]
        short = max(0, view.spec.replicas - len(nodes) + len(lost))
        replaced: list[str | None] = [*lost, *[None] * view.spec.replicas][:short]
        if replaced:
            losses[bucket] = replaced
        surplus = lost[short:]
        move_plan.target[bucket] = tuple(node for node in nodes if node not in surplus)
    return losses


def _is_lost(view: GroupView, move_plan: MovePlan, bucket: int, node: str) -> bool:
    standing = view.standing(node)
    if standing is Standing.WAITING and not _is_at_risk(view, bucket, node):
        move_plan.block(bucket, Reason.WITHIN_DOWN_TOLERANCE, waiting_message(view, node))
        return False
    switch = _switch_against_relocation(view)
    if standing not in (Standing.WAITING, *LOST_FOR_GOOD):
        # Damaged, and not to be mended in place. Without leave to go elsewhere it is tried there again.
        return check_replica_whole(view, bucket, node) is not None and not switch
    if switch:
        move_plan.block(bucket, Reason.RELOCATION_DISABLED, f"the replica on node {node} stays where it is: {switch}")
    return not switch


def _is_at_risk(view: GroupView, bucket: int, node: str) -> bool:
    """Whether the bucket does not wait for the node as long as others do in a wide outage: it has too few replicas."""
    is_over = view.cluster.is_down_for(view.cluster.nodes[node], view.spec.relocation.down_tolerance_seconds)
    return is_over and view.live_replicas(bucket) < LIVE_REPLICAS_TO_WAIT


def _switch_against_relocation(view: GroupView) -> str:
    if view.cluster.limits.disable_colocate_relocate:
        return "disableColocateRelocate is set on the operator"
    return "" if view.spec.relocation.enabled else "spec.relocation.enabled is false"


def _within_size(view: GroupView, move_plan: MovePlan, losses: Losses) -> Losses:
    """The losses, without replicas that were not there before when the map would be too large with them."""
    oversize = too_large(view) if any(None in lost for lost in losses.values()) else None
    if oversize is None:
        return losses
    move_plan.stall(0, Reason.INVALID_SPEC, oversize)
    known: Losses = {bucket: [node for node in lost if node is not None] for bucket, lost in losses.items()}
    return {bucket: lost for bucket, lost in known.items() if lost}


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
        self.shares: Shares = view.shares()
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
        may_stay = self.view.standing(node) in (Standing.FIT, Standing.KEEPING)
        return may_stay and self.view.is_complete(bucket, node)

    def _add_nodes(self) -> None:
        """The fuller a node, the cheaper it is relieved; each further replica costs more than the one before."""
        most, offset = Counter(chain.from_iterable(self.rows.values())), self._largest_deviation()
        for node, vertex in self.vertex.items():
            for number in range(self.counts[node], self.counts[node] - most[node], -1):
                known = node in self.shares.by_node
                cost = offset - self.shares.deviation(node, number) if known else 0
                self.network.add_edge(vertex, SINK, 1, cost)
