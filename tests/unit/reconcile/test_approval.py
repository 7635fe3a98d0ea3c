"""What a group's status, conditions and events say of balance that waits for approval."""

from dataclasses import replace

from colocation.model.conditions import Condition
from colocation.model.group import ColocationGroupSpec, ColocationGroupStatus, awaiting_message
from colocation.reconcile.actions import PostEvent, StartClone, WriteGroupStatus
from colocation.reconcile.decide import Decision
from colocation.state.observation import Observation

from ..state.objects import agent, node
from .scenes import NODES, actions_of, agent_view, decided, held_by, observe, settled_group, settled_table

ROWS = (("node-1", "node-2"), ("node-1", "node-2"))


def uneven(approved: str | None = None, status: ColocationGroupStatus | None = None) -> Observation:
    """Two buckets on node-1 and node-2, while node-3 has none; moves have to be approved."""
    table = settled_table("orders")
    made = settled_group([table], rows=ROWS)
    spec = made.spec.to_json_dict() | {"balancing": {"approval": "manual"}} if made.spec else {}
    made = replace(
        made,
        spec=ColocationGroupSpec.model_validate(spec),
        approved_proposal=approved,
        status=status or made.status,
    )
    views = {name: agent_view(made, [table], [held_by(name, table, ROWS)]) for name in NODES}
    more = {"nodes": tuple(node(name) for name in NODES), "agents": tuple(agent(name) for name in NODES)}
    return observe(made, [table], views, **more)


def written(decision: Decision) -> ColocationGroupStatus:
    """The status as the next pass reads it."""
    (write,) = actions_of(decision, WriteGroupStatus)
    return ColocationGroupStatus.model_validate(write.status)


def reconciling(status: ColocationGroupStatus) -> Condition:
    return next(one for one in status.conditions if one.type == "Reconciling")


def events(decision: Decision) -> dict[str, str]:
    found = actions_of(decision, PostEvent)
    return {event.reason: event.message for event in found if event.kind == "ColocationGroup"}


def test_a_proposal_stands_in_status_condition_and_event_in_the_same_words() -> None:
    """Stable, nothing under way, and what would move is there to be looked at."""
    first = decided(uneven())
    status = written(first)
    assert status.proposal is not None
    message = awaiting_message(("shop", "sales"), status.proposal)
    assert f"colocation approve sales -n shop --proposal {status.proposal.id}" in message
    said = reconciling(status)
    assert (said.status, said.reason, said.message) == ("False", "AwaitingApproval", message)
    assert events(first)["AwaitingApproval"] == message
    assert actions_of(first, StartClone) == []
    assert status.stable


def test_a_proposal_that_waits_is_reported_once() -> None:
    """The next pass writes nothing."""
    status = written(decided(uneven()))
    again = decided(uneven(status=status))
    assert (actions_of(again, WriteGroupStatus), events(again)) == ([], {})


def test_the_annotation_lets_the_moves_be_made() -> None:
    """A clone Job starts, also by an operator that has just begun; the status keeps the proposal as approved."""
    status = written(decided(uneven()))
    assert status.proposal is not None
    decision = decided(uneven(approved=status.proposal.id, status=status))
    (clone,) = actions_of(decision, StartClone)
    (move,) = status.proposal.moves
    assert (clone.spec.bucket, clone.spec.target, clone.source) == (move.bucket, "node-3", move.source)
    after = written(decision)
    assert after.proposal == status.proposal.model_copy(update={"approved": True})
    assert events(decision)["ProposalApproved"] == f"proposal {status.proposal.id}: 1 replica moves"


def test_an_approval_of_something_else_lets_nothing_happen() -> None:
    """An annotation that names another id is as none."""
    status = written(decided(uneven()))
    decision = decided(uneven(approved="0" * 16, status=status))
    assert decision.scopes == decided(uneven(status=status)).scopes
