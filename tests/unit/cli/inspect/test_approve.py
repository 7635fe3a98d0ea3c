"""`approve`, and what `groups`, `show` and `plan` say of a proposal."""

import json

import pytest

from colocation.cli.inspect.moves import render_plan
from colocation.model.group import ProposedMove, awaiting_message, make_proposal
from colocation.model.names import ANNOTATION_APPROVED_PROPOSAL
from colocation.planner import preview
from tests.property.worlds import make_group, make_snapshot
from tests.unit.planner.cases import SIX, nodes_of

from ..conftest import FakeCluster, Run, group_object

MOVE = ProposedMove(bucket=1, source="node-1", to="node-3", bytes=2048)
PROPOSAL = make_proposal(("shop", "sales"), "2026-11-21T00:00:00Z", "Balancing", [MOVE])


@pytest.fixture
def waiting(cluster: FakeCluster) -> FakeCluster:
    """A cluster whose group has a proposal."""
    cluster.groups()[0] = group_object(proposal=PROPOSAL.to_json_dict())
    return cluster


@pytest.mark.parametrize("arguments", [(), ("--proposal", PROPOSAL.id)])
def test_approve_names_the_proposal_on_the_group(run: Run, waiting: FakeCluster, arguments: tuple[str, ...]) -> None:
    """And prints what moves now."""
    result = run("approve", "sales", *arguments)
    assert waiting.group("sales")["metadata"]["annotations"] == {ANNOTATION_APPROVED_PROPOSAL: PROPOSAL.id}
    assert result.stdout.splitlines()[1].split() == ["1", "node-1", "node-3", "2.0", "KiB"]
    assert result.exit_code == 0


def test_approve_for_programs(run: Run, waiting: FakeCluster) -> None:
    """The proposal, as approved."""
    expected = PROPOSAL.to_json_dict() | {"approved": True}
    assert json.loads(run("approve", "sales", "-o", "json").stdout) == expected


def test_a_proposal_that_was_replaced_is_not_approved(run: Run, waiting: FakeCluster) -> None:
    """What was looked at is no more; the error names the present one."""
    result = run("approve", "sales", "--proposal", "0123456789abcdef")
    assert result.exit_code == 1
    assert f"group shop/sales has no proposal 0123456789abcdef; its current proposal is {PROPOSAL.id}" in (
        result.stderr
    )
    assert "annotations" not in waiting.group("sales")["metadata"]


def test_without_a_proposal_there_is_nothing_to_approve(run: Run, cluster: FakeCluster) -> None:
    """Exit code 1, whether there will be one, and where to look."""
    result = run("approve", "sales")
    assert result.exit_code == 1
    assert "group shop/sales has no proposal to approve: its moves need none, as its spec.balancing" in result.stderr
    cluster.group("sales")["spec"]["balancing"] = {"approval": "manual"}
    assert "group shop/sales has no proposal to approve; `colocation plan sales" in run("approve", "sales").stderr


def test_groups_and_show_say_what_waits(run: Run, waiting: FakeCluster) -> None:
    """In the words of condition and event; `show` with the moves."""
    awaiting = awaiting_message(("shop", "sales"), PROPOSAL)
    assert run("groups").stdout.splitlines()[-1] == f"sales: AwaitingApproval: {awaiting}"
    shown = run("show", "sales").stdout
    assert f"proposal {PROPOSAL.id} of 2026-11-21T00:00:00Z, awaits approval:" in shown
    assert shown.splitlines()[-1].split() == ["1", "node-1", "node-3", "2.0", "KiB"]


def test_plan_shows_what_an_approval_would_move() -> None:
    """The same words, and the moves."""
    group = make_group(6, 2, SIX, spec={"balancing": {"approval": "manual"}})
    planned = preview(make_snapshot(nodes_of(1, 2, 3, 4), group))
    proposal = planned.groups[0].proposal
    assert proposal is not None
    text = render_plan(planned)
    assert f"AwaitingApproval: {awaiting_message(('shop', 'sales'), proposal)}" in text
    assert "nothing would move" not in text
