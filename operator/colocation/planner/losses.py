"""What a group is short of: replicas on nodes that are gone, drained, or down too long, and changed numbers.

Within the tolerance a replica counts as present: its node may come back with all that it held.
"""

from colocation.model.conditions import Reason
from colocation.model.plan import MoveKind

from .cluster import Standing
from .course import Course
from .status import check_node_ready
from .view import GroupView
from .wording import timestamp

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


def find_losses(view: GroupView, course: Course) -> Losses:
    """All losses that may be made good; the others stay in the target, and ``course`` says why.

    Lost replicas beyond the wanted number are taken off the target.
    """
    losses: Losses = {}
    for bucket, nodes in enumerate(view.map):
        lost = [node for node in nodes if _is_lost(view, course, bucket, node)]
        short = max(0, view.spec.replicas - len(nodes) + len(lost))
        replaced: list[str | None] = [*lost, *[None] * view.spec.replicas][:short]
        if replaced:
            losses[bucket] = replaced
        surplus = lost[short:]
        course.target[bucket] = tuple(node for node in nodes if node not in surplus)
    return losses


def _is_lost(view: GroupView, course: Course, bucket: int, node: str) -> bool:
    standing = view.standing(node)
    if standing is Standing.WAITING:
        course.block(bucket, Reason.WITHIN_DOWN_TOLERANCE, waiting_message(view, node))
        return False
    if standing not in KINDS:
        return False
    switch = _switch_against_relocation(view)
    if switch:
        course.block(bucket, Reason.RELOCATION_DISABLED, f"the replica on node {node} stays where it is: {switch}")
    return not switch


def waiting_message(view: GroupView, node: str) -> str:
    """Why the replicas of a node that is down stay where they are."""
    since = timestamp(view.cluster.nodes[node].not_ready_since or view.cluster.now)
    seconds = view.spec.relocation.down_tolerance_seconds
    return f"node {node} is down since {since}; its replicas are made anew after {seconds} s"


def _switch_against_relocation(view: GroupView) -> str:
    if view.cluster.limits.disable_colocate_relocate:
        return "disableColocateRelocate is set on the operator"
    return "" if view.spec.relocation.enabled else "spec.relocation.enabled is false"
