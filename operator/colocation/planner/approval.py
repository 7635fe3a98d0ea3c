"""Balance that waits for approval (``spec.balancing.approval: manual``): moves are proposed, and made once approved.

Safety invariant (checked by `colocation.planner.invariants`): no replica of such a group moves for evenness but by a
proposal that was approved by its id. Repairs, drains and first maps never wait.

A proposal stands while its moves can be made and leave the group even, so that what does not concern it (a cordon, a
repair elsewhere, a load) does not void it. An approved one is followed to its end, move by move; a move that has become
impossible is left out. While something is to repair, a proposal waits as it is.
"""

from collections import Counter, defaultdict
from itertools import chain

from colocation.model.conditions import Reason
from colocation.model.group import MAX_PROPOSED_MOVES, Proposal, ProposedMove, make_proposal
from colocation.model.plan import Move
from colocation.model.snapshot import GroupState

from .balance import is_balanced
from .cluster import Standing
from .status import timestamp
from .transitions import MovePlan, check_room, replaced
from .view import GroupView, Placement

MAY_TAKE_YET = (Standing.FIT, Standing.KEEPING, Standing.WAITING)
"""What a target may be: one that is cordoned or down for a while is waited for."""


def approved_plan(view: GroupView) -> MovePlan | None:
    """The moves of the approved proposal that are still to make; None when there are none."""
    proposal = standing_proposal(view)
    if proposal is None or not proposal.approved:
        return None
    target, moves = _open_moves(view, proposal)
    if not moves:
        return None
    planned = [view.move(move.bucket, move.source, move.to, "balance", Reason.BALANCING) for move in moves]
    move_plan = MovePlan(target, planned, at_once=view.spec.balancing.strict, proposal=proposal)
    check_room(view, move_plan)
    return move_plan


def hold_for_approval(view: GroupView, move_plan: MovePlan) -> None:
    """Put balance moves that were not approved into a proposal, and plan none of them."""
    if not _needs_approval(view) or move_plan.proposal is not None:
        return
    known = standing_proposal(view)
    if move_plan.pending:
        move_plan.proposal = known
        return
    if known is not None and not known.approved and _stands(view, known, move_plan.moves):
        move_plan.proposal = known
    elif move_plan.moves:
        move_plan.proposal = _proposal_of(view, move_plan.moves)
    move_plan.target, move_plan.moves = list(view.map), []


def target_if_approved(view: GroupView, target: Placement, proposal: Proposal | None) -> Placement:
    """``target``, and what a proposal that awaits approval would make of it."""
    if proposal is None or proposal.approved:
        return target
    return _open_moves(view, proposal)[0]


def standing_proposal(view: GroupView) -> Proposal | None:
    """The group's proposal as its status has it, with whether it is approved now."""
    proposal = view.group.proposal
    if proposal is None or not _needs_approval(view) or not proposal.is_of(view.key):
        return None
    return proposal.model_copy(update={"approved": view.group.approved_proposal == proposal.id})


def needs_approval(group: GroupState) -> bool:
    """Whether the group's spec asks for approval of its balance moves."""
    return group.spec.balancing.approval == "manual"


def waits_for_approval(view: GroupView) -> bool:
    """Whether balance moves of the group would be held: it has no approved proposal with moves to make."""
    proposal = standing_proposal(view)
    is_approved = proposal is not None and proposal.approved and bool(_open_moves(view, proposal)[1])
    return _needs_approval(view) and not is_approved


def _needs_approval(view: GroupView) -> bool:
    return needs_approval(view.group) and view.may_balance


def _stands(view: GroupView, proposal: Proposal, fresh: list[Move]) -> bool:
    """Whether the proposal is as good as ``fresh``, what would be proposed now."""
    if proposal.keys == {(move.bucket, move.source, move.to) for move in fresh}:
        return True
    target, moves = _open_moves(view, proposal)
    if len(moves) < len(proposal.moves):
        return False
    if any(move.to in view.pool.waiting for move in moves):
        return True  # until it is back, or lost: within the tolerance
    if not fresh and all(move.to in view.takers for move in moves):
        return False
    counts = Counter(chain.from_iterable(target))
    return len(moves) == MAX_PROPOSED_MOVES or is_balanced(view.pool, view.spec, counts, view.failing)


def _open_moves(view: GroupView, proposal: Proposal) -> tuple[Placement, list[ProposedMove]]:
    """The moves that can be made, or could once their target takes replicas again; and the map that they lead to.

    Neither those that are made, nor those that something has overtaken, nor those by which a bucket would lie in fewer
    zones than it does.
    """
    by_bucket: dict[int, list[ProposedMove]] = defaultdict(list)
    for move in proposal.moves:
        row = view.map[move.bucket] if 0 <= move.bucket < len(view.map) else ()
        if move.source in row and move.to not in row and view.standing(move.to) in MAY_TAKE_YET:
            by_bucket[move.bucket].append(move)
    target, found = list(view.map), []
    for bucket, moves in by_bucket.items():
        row = view.map[bucket]
        for move in moves:
            row = replaced(row, move.source, move.to)
        if len({view.zone(node) for node in row}) >= len({view.zone(node) for node in view.map[bucket]}):
            target[bucket] = row
            found += moves
    return target, found


def _proposal_of(view: GroupView, moves: list[Move]) -> Proposal:
    ordered = sorted(moves, key=lambda move: (move.bucket, move.to))[:MAX_PROPOSED_MOVES]
    proposed = (
        ProposedMove(bucket=move.bucket, source=move.source, to=move.to, bytes=move.bytes) for move in ordered
    )
    return make_proposal(view.key, timestamp(view.cluster.now), ordered[0].reason, proposed)
