"""What one stage of planning (new map, repair, balance, hand-set map) hands to the next."""

from dataclasses import dataclass, field

from colocation.model.conditions import Reason
from colocation.model.plan import BucketProblem, Move, MoveKind

from .status import check_replica_whole, is_balancing
from .view import GroupView, Placement
from .wording import count_of


@dataclass(slots=True)
class Course:
    """Where a group's replicas should go, and by which moves.

    ``pending``: something is lost, damaged or short; balance has to wait. ``held_back``: kinds of moves that are not
    started because not all of them can be carried out. ``at_once``: the map changes before the data (new groups,
    strict balancing).
    """

    target: Placement
    moves: list[Move] = field(default_factory=list)
    blocked: list[BucketProblem] = field(default_factory=list)
    stalled: BucketProblem | None = None
    pending: bool = False
    held_back: set[MoveKind] = field(default_factory=set)
    at_once: bool = False

    def block(self, bucket: int, reason: Reason, message: str) -> None:
        problem = BucketProblem(bucket=bucket, reason=reason, message=message)
        if problem not in self.blocked[-1:]:  # a bucket may lack several replicas for the same reason
            self.blocked.append(problem)

    def hold_back(self, kind: MoveKind, bucket: int, reason: Reason, message: str) -> None:
        """Start no move of this kind, and say why; the first cause is the one that the group reports."""
        self.held_back.add(kind)
        self.block(bucket, reason, message)
        self.stalled = self.stalled or self.blocked[-1]


def too_few_nodes(view: GroupView) -> str:
    """What to say when a bucket's replicas find no other nodes."""
    wanted, able = count_of(view.spec.replicas, "replica"), len(view.pool.weights)
    return f"{wanted} need as many nodes that may hold them; there are {able}"


def in_place_moves(view: GroupView) -> list[Move]:
    """Moves that make damaged or missing files whole on the live nodes of the map."""
    moves = []
    for bucket, nodes in enumerate(view.map):
        for node in nodes:
            if node not in view.cluster.ready or view.cluster.nodes[node].drain:
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


def replaced(nodes: tuple[str, ...], source: str | None, to: str) -> tuple[str, ...]:
    """The bucket's nodes with ``to`` in the place of ``source`` (at the end when nothing is given up)."""
    if to in nodes:
        return nodes
    if source in nodes:
        return tuple(to if node == source else node for node in nodes)
    return (*nodes, to)
