"""The next safe step towards a target: which map to write now, which replicas to delete, which clones to end.

Safety invariants (checked by `colocation.planner.invariants`):

- a replica enters the map only when it is complete on a live node, and the one that it succeeds leaves in the same
  step (make before break); only new groups and strict balancing change the map first;
- no bucket has two replicas on one node;
- a replica is deleted only when it is not in the map, not on its way into it, and every replica in the map is complete
  on a live node.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain

from colocation.model.conditions import Reason
from colocation.model.group import Proposal
from colocation.model.plan import BucketProblem, Drop, Move, MoveKind
from colocation.model.wording import counted, listed

from .cluster import Standing
from .status import check_replica_whole, is_balancing
from .view import GroupView, Placement

CORDONED = "cordoned or tainted, or its disk or agent accepts no new data"

LOST_FOR_GOOD = (Standing.GONE, Standing.LOST, Standing.DRAINING)


@dataclass(slots=True)
class MovePlan:
    """Where a group's replicas should go, and by which moves.

    ``blocked``: why buckets cannot be moved now; ``stalls``: those of them that wait until somebody acts, or a failing
    node is tried again. ``pending``: something is lost, damaged or short; balance has to wait. ``without_room``:
    buckets of which no move starts, as they do not fit; the map keeps their nodes. ``at_once``: the map changes before
    the data (new groups, strict balancing). ``proposal``: see `approval`.
    """

    target: Placement
    moves: list[Move] = field(default_factory=list)
    blocked: list[BucketProblem] = field(default_factory=list)
    stalls: list[BucketProblem] = field(default_factory=list)
    pending: bool = False
    without_room: set[int] = field(default_factory=set)
    at_once: bool = False
    proposal: Proposal | None = None

    def block(self, bucket: int, reason: Reason, message: str) -> None:
        problem = BucketProblem(bucket=bucket, reason=reason, message=message)
        if problem not in self.blocked[-1:]:  # a bucket may lack several replicas for the same reason
            self.blocked.append(problem)

    def stall(self, bucket: int, reason: Reason, message: str) -> None:
        """Say why the bucket cannot be moved until somebody acts; the group reports the first cause."""
        self.block(bucket, reason, message)
        self.stalls.append(self.blocked[-1])


def too_few_nodes(view: GroupView) -> str:
    """What to say when a bucket's replicas find no other nodes: how many there are, why not more, and the next step."""
    return _lacking(view, unschedulable_nodes(view))


def nodes_lacked(view: GroupView) -> str:
    """The same without the names of nodes, if fewer nodes than replicas may hold the group's buckets; else empty."""
    return _lacking(view, []) if _able_nodes(view) < view.spec.replicas else ""


def _lacking(view: GroupView, why: list[str]) -> str:
    wanted = counted(view.spec.replicas, "replica")
    message = f"{wanted} need as many nodes that may hold them; there are {_able_nodes(view)}"
    return "; ".join([message, *_nodes_left_out(view), *why, "add nodes, or lower spec.replicas"])


def _able_nodes(view: GroupView) -> int:
    holders = set(chain.from_iterable(view.map))
    return len(view.pool.weights) + len(holders.intersection(view.pool.unschedulable))


def _nodes_left_out(view: GroupView) -> list[str]:
    """A sentence about the nodes that the group's nodeSelector leaves out; none when it leaves out none."""
    wanted = view.spec.node_selector.items()
    left_out = sum(any(node.labels.get(key) != value for key, value in wanted) for node in view.cluster.nodes.values())
    selector = listed(sorted(f"{key}={value}" for key, value in wanted))
    return [f"nodeSelector {selector} leaves out {counted(left_out, 'node')}"] if left_out else []


def unschedulable_nodes(view: GroupView) -> list[str]:
    """A sentence about the nodes that would do but for being cordoned or tainted; none when there are none."""
    nodes = list(view.pool.unschedulable)
    if not nodes:
        return []
    return [f"{'node' if len(nodes) == 1 else 'nodes'} {listed(nodes)} {'is' if len(nodes) == 1 else 'are'} {CORDONED}"]


def in_place_moves(view: GroupView) -> list[Move]:
    """Moves that make damaged or missing files whole on the live nodes of the map."""
    moves = []
    for bucket, nodes in enumerate(view.map):
        for node in nodes if bucket not in view.whole else ():
            if node not in view.cluster.ready or view.cluster.nodes[node].drain or node in view.cluster.sick_disks:
                continue
            finding = check_replica_whole(view, bucket, node)
            if finding is not None:
                kind: MoveKind = "balance" if is_balancing(view, bucket) else "repair"
                moves.append(view.move(bucket, node, node, kind, finding[0]))
    return moves


def replacements(view: GroupView, target: Placement, kind: MoveKind, reason: str) -> list[Move]:
    """Moves from the map to ``target``; within a bucket, a replica is succeeded in its own zone where possible."""
    moves = []
    for bucket, (old, new) in enumerate(zip(view.map, target, strict=True)):
        leaving = [node for node in old if node not in new]
        for node in (node for node in new if node not in old):
            zone = view.zone(node)
            source = next((left for left in leaving if view.zone(left) == zone), leaving[0] if leaving else None)
            if source is not None:
                leaving.remove(source)
            moves.append(view.move(bucket, source, node, kind, reason))
    return moves


def check_room(view: GroupView, move_plan: MovePlan) -> None:
    """Reserve room for the moves; a bucket that does not fit waits by itself, and the small ones take room first.

    Checked before the map changes, as strict balancing changes it before the data is there.
    """
    room = view.cluster.room
    by_bucket: dict[int, list[Move]] = defaultdict(list)
    for move in move_plan.moves:
        if move.source != move.to:
            by_bucket[move.bucket].append(move)
    for bucket, moves in sorted(by_bucket.items(), key=lambda item: (view.bytes_of(item[0]), item[0])):
        wanted = {move.to: view.bytes_to_reserve(bucket, move.to) for move in moves}
        short = [move for move in moves if not room.fits(move.to, wanted[move.to])]
        for move in short:
            missing = move.bytes - room.available_bytes(move.to)
            message = f"node {move.to} is {missing:.0f} bytes short of the {move.bytes} of bucket {bucket}"
            move_plan.stall(bucket, Reason.INSUFFICIENT_SPACE, message)
        if short:
            move_plan.without_room.add(bucket)
        else:
            for node, size_bytes in wanted.items():
                room.take(node, size_bytes)


def replaced(nodes: tuple[str, ...], source: str | None, to: str) -> tuple[str, ...]:
    """The bucket's nodes with ``to`` in the place of ``source`` (at the end when nothing is given up)."""
    if to in nodes:
        return nodes
    if source in nodes:
        return tuple(to if node == source else node for node in nodes)
    return (*nodes, to)


def next_map(view: GroupView, move_plan: MovePlan) -> Placement:
    """The map as it may be written now: all moves that are complete, each with the replica that it succeeds."""
    if move_plan.at_once:
        stuck = move_plan.without_room
        return [view.map[bucket] if bucket in stuck else row for bucket, row in enumerate(move_plan.target)]
    result = list(view.map)
    for move in move_plan.moves:
        if view.is_complete(move.bucket, move.to):
            result[move.bucket] = replaced(result[move.bucket], move.source, move.to)
    arriving = {(move.bucket, move.source) for move in move_plan.moves}
    for bucket, nodes in enumerate(result):
        wanted = move_plan.target[bucket]
        surplus = [node for node in nodes if node not in wanted and (bucket, node) not in arriving]
        if not surplus:
            continue
        kept = tuple(node for node in nodes if node not in surplus)
        safe = len(kept) >= view.spec.replicas and all(view.is_complete(bucket, node) for node in kept)
        if safe or not any(view.is_presumed_complete(bucket, node) for node in surplus):
            result[bucket] = kept
    return result


def drops(view: GroupView, move_plan: MovePlan) -> tuple[Drop, ...]:
    """Replicas that are safe to delete now, against the current map."""
    if view.group.map is None or view.pool.unweighed:
        return ()
    wanted = {(move.bucket, move.to) for move in move_plan.moves}
    wanted |= {key for key in view.clones if not _is_unwanted(view, move_plan, *key)}
    found = []
    for node, states in sorted(view.group.held.items()):
        if node not in view.cluster.ready:
            continue
        for bucket in sorted(states):
            outside = bucket >= len(view.map) or node not in view.map[bucket]
            if outside and (bucket, node) not in wanted and _is_whole(view, move_plan, bucket, node):
                message = "not in the map, and every replica in the map is complete"
                found.append(Drop(bucket=bucket, node=node, reason=message))
    return tuple(found)


def _is_whole(view: GroupView, move_plan: MovePlan, bucket: int, node: str) -> bool:
    """Whether the bucket can do without the node."""
    if bucket >= len(view.map):
        return True
    nodes = view.map[bucket]
    if len(nodes) < view.spec.replicas or node in move_plan.target[bucket]:
        return False
    return all(view.is_complete(bucket, holder) for holder in nodes)


def unwanted_clones(view: GroupView, move_plan: MovePlan) -> tuple[int, ...]:
    """Indexes of the clones that no move needs."""
    return tuple(index for key, (index, _) in view.clones.items() if _is_unwanted(view, move_plan, *key))


def _is_unwanted(view: GroupView, move_plan: MovePlan, bucket: int, to: str) -> bool:
    if bucket >= len(view.map):
        return True
    if any(move.bucket == bucket and move.to == to for move in move_plan.moves):
        return False
    clone = view.clones[bucket, to][1]
    if view.is_unconfirmed(bucket, to):
        return False
    if to in view.map[bucket]:
        # A running one ends by itself; one that waits for another attempt, or for a lost node, would wait for ever.
        return clone.retry_at is not None or view.standing(to) in LOST_FOR_GOOD
    # Balance is not planned while repairs are pending; what it has begun goes on as long as its target may hold it.
    began_to_balance = clone.source in move_plan.target[bucket]
    return not (move_plan.pending and began_to_balance and to in view.takers)
