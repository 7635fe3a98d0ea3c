"""Balance that waits for approval: what is proposed, what keeps a proposal, and what an approval lets happen."""

from random import Random

import pytest

from colocation.model.conditions import Reason
from colocation.model.group import MAX_PROPOSED_MOVES, BucketSequence, Proposal, ProposedMove, make_proposal
from colocation.model.plan import GroupPlan
from colocation.model.snapshot import Clone, GroupState, Limits, Node
from colocation.planner import plan, preview, without_violations
from colocation.planner.invariants import violations
from tests.property.worlds import GIB, NOW, World, is_active, make_group, make_node, make_snapshot

from .cases import SIX, down_for, nodes_of

MANUAL = {"balancing": {"approval": "manual"}}
FOUR = nodes_of(1, 2, 3, 4)


def six(**fields: object) -> GroupState:
    """6 buckets x 2 replicas, even on node-1 to node-3, whose moves have to be approved."""
    return make_group(6, 2, SIX, **({"spec": MANUAL} | fields))  # type: ignore[arg-type]


def plan_of(nodes: list[Node], group: GroupState, **fields: object) -> GroupPlan:
    snapshot = make_snapshot(nodes, group, **fields)
    planned = plan(snapshot)
    assert violations(snapshot, planned) == ()
    return planned.groups[0]


def proposed(nodes: list[Node] = FOUR) -> Proposal:
    """What is proposed when node-4 joins the three."""
    proposal = plan_of(nodes, six()).proposal
    assert proposal is not None
    return proposal


def approved_world(nodes: list[Node] = FOUR) -> World:
    proposal = proposed(nodes)
    return World(make_snapshot(nodes, six(proposal=proposal, approved_proposal=proposal.id)), Random(1))


def test_balance_is_proposed_and_nothing_is_done() -> None:
    """Three of twelve replicas would go to the fourth node; the plan holds them in the proposal alone."""
    planned = plan_of(FOUR, six())
    proposal = planned.proposal
    assert proposal is not None
    assert (len(proposal.moves), {move.to for move in proposal.moves}, proposal.bytes) == (3, {"node-4"}, 3 * GIB)
    assert (proposal.reason, proposal.approved, proposal.is_of(("shop", "sales"))) == (Reason.BALANCING, False, True)
    assert (planned.moves, planned.target_map, is_active(planned), planned.stable) == ((), SIX, False, True)
    assert planned.evenness is not None
    assert (planned.evenness.before, planned.evenness.after) == (4.0, 0.0)


@pytest.mark.parametrize(
    ("nodes", "fields"),
    [
        pytest.param(nodes_of(1, 2, 3, 5), {"bucket_map": (("node-1", "node-4"), *SIX[1:])}, id="a node is gone"),
        pytest.param([*nodes_of(1, 2, 4), *nodes_of(3, drain=True)], {}, id="a node is drained"),
        pytest.param(FOUR, {"held": {"node-1": {0: "corrupt"}}}, id="a replica is corrupt"),
    ],
)
def test_repairs_do_not_wait(nodes: list[Node], fields: dict[str, object]) -> None:
    """What is lost, drained or damaged is made again without anybody's word."""
    group = make_group(6, 2, fields.pop("bucket_map", SIX), spec=MANUAL)  # type: ignore[arg-type]
    held = {node: dict(states) | fields.get("held", {}).get(node, {}) for node, states in group.held.items()}  # type: ignore[attr-defined]
    planned = plan_of(nodes, group.model_copy(update={"held": held}))
    assert planned.start_now
    assert planned.proposal is None



def test_no_node_gets_two_replicas_of_a_bucket_whatever_was_proposed() -> None:
    """The proposal is in the group's status, which others may write."""
    moves = [ProposedMove(bucket=0, source=source, to="node-4", bytes=GIB) for source in SIX[0]]
    known = make_proposal(("shop", "sales"), "2026-11-21T00:00:00Z", Reason.BALANCING, moves)
    planned = plan_of(FOUR, six(proposal=known, approved_proposal=known.id))
    assert planned.target_map is not None
    assert planned.target_map[0] == ("node-4", "node-2")


@pytest.mark.parametrize(
    ("nodes", "group"),
    [
        pytest.param(FOUR, {}, id="nothing happened"),
        pytest.param([*nodes_of(1, 2, 3), *nodes_of(4, schedulable=False)], {}, id="the target is cordoned"),
        pytest.param([*nodes_of(1, 2, 3), down_for(5, 4)], {}, id="the target is down for a while"),
        pytest.param([*nodes_of(2, 3, 4), *nodes_of(1, schedulable=False)], {}, id="another node is cordoned"),
        pytest.param([*nodes_of(1, 3, 4), down_for(5, 2)], {}, id="another node is down for a while"),
        pytest.param(FOUR, {"bucket_bytes": (9 * GIB, GIB, 3 * GIB, 5 * GIB, GIB, 7 * GIB)}, id="loads were committed"),
        pytest.param(FOUR, {"held": {}}, id="everything is to repair"),
    ],
)
def test_what_does_not_concern_a_proposal_leaves_it(nodes: list[Node], group: dict[str, object]) -> None:
    """The same id, the same moves, however the clock goes on."""
    known = proposed()
    planned = plan_of(nodes, six(proposal=known, **group), now="2026-11-21T00:05:00Z")
    assert planned.proposal == known


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param(nodes_of(1, 2, 3, 4, 5), id="one more node"),
        pytest.param([*nodes_of(1, 2, 3, 5), *nodes_of(4, drain=True)], id="the target is to be emptied"),
        pytest.param([*nodes_of(1, 2, 3), *nodes_of(4, weight=3.0)], id="the target's weight grew"),
    ],
)
def test_what_concerns_a_proposal_replaces_it_and_voids_its_approval(nodes: list[Node]) -> None:
    """Before anything of it is made, and with another id: what was approved is followed only as far as it is good."""
    known = proposed()
    planned = plan_of(nodes, six(proposal=known, approved_proposal="another"))
    assert planned.proposal is not None
    assert planned.proposal.id != known.id
    assert not planned.moves


def test_a_proposal_that_nothing_needs_any_more_goes() -> None:
    """The new node went again before anybody approved it."""
    assert plan_of(nodes_of(1, 2, 3), six(proposal=proposed())).proposal is None


def test_an_approved_proposal_is_made_to_its_end_and_then_forgotten() -> None:
    """Through every step, each seen by a new operator: the moves are those that were approved, and no others."""
    world, target = approved_world(), [set(row) for row in SIX]
    approved = world.snapshot.groups[0].proposal
    assert approved is not None
    for move in approved.moves:
        target[move.bucket] = target[move.bucket] - {move.source} | {move.to}
    world.settle()
    group = world.snapshot.groups[0]
    assert [set(row) for row in group.map or ()] == target
    assert (group.proposal, world.started) == (None, 3)


def test_an_approved_proposal_survives_a_repair_and_a_cordon() -> None:
    """Half made, then the target is cordoned and a replica is damaged: it waits, goes on, and needs no other word."""
    world = approved_world()
    world.step()
    held = {node: dict(states) for node, states in world.snapshot.groups[0].held.items()}
    held["node-1"][0] = "corrupt"
    world.update(
        nodes=(*nodes_of(1, 2, 3), *nodes_of(4, schedulable=False)),
        groups=(world.snapshot.groups[0].model_copy(update={"held": held}),),
    )
    world.settle()
    world.update(nodes=tuple(FOUR))
    world.settle()
    counts = [sum(node in row for row in world.snapshot.groups[0].map or ()) for node in ("node-1", "node-4")]
    assert counts == [3, 3]


def test_an_approved_move_that_would_cost_a_bucket_a_zone_is_left_out() -> None:
    """Zones are known since the approval: the fourth node is in that of the first one, so they share no bucket."""
    nodes = [make_node(f"node-{number}", zone=zone) for number, zone in enumerate("abca", start=1)]
    proposal = proposed()
    planned = plan_of(nodes, six(proposal=proposal, approved_proposal=proposal.id))
    stays = {move.bucket: set(SIX[move.bucket]) - {move.source} for move in proposal.moves}
    assert {"node-1"} in stays.values()
    assert {move.bucket for move in planned.moves} == {bucket for bucket in stays if stays[bucket] != {"node-1"}}


def test_an_approval_is_good_once() -> None:
    """The node leaves and comes back: the same moves wait for approval again, under another id."""
    world = approved_world()
    old = world.snapshot.groups[0].approved_proposal
    world.settle()
    group = six(approved_proposal=old)
    world.update(groups=(group,))
    again = world.step().groups[0]
    assert again.proposal is not None
    assert (again.proposal.id == old, again.proposal.approved, again.moves) == (False, False, ())


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"id": "0" * 16}, id="id"),
        pytest.param({"moves": ()}, id="moves"),
        pytest.param({"made_at": "2020-01-01T00:00:00Z"}, id="time"),
    ],
)
def test_a_status_whose_proposal_does_not_fit_its_id_is_not_believed(changes: dict[str, object]) -> None:
    """An approval of the id lets nothing else happen than what the id was made of."""
    forged = proposed().model_copy(update=changes)
    planned = plan_of(FOUR, six(proposal=forged, approved_proposal=forged.id), now="2026-11-21T00:05:00Z")
    assert planned.moves == ()
    assert planned.proposal is not None
    assert planned.proposal.id != forged.id


@pytest.mark.parametrize(
    ("spec", "limits"),
    [
        pytest.param({"balancing": {"approval": "automatic"}}, {}, id="automatic"),
        pytest.param({"balancing": {"approval": "manual", "enabled": False}}, {}, id="balancing is off"),
        pytest.param(MANUAL, {"disable_colocate_balance": True}, id="balancing is off everywhere"),
    ],
)
def test_where_nothing_waits_there_is_no_proposal(spec: dict[str, object], limits: dict[str, object]) -> None:
    """A proposal that the status still has is forgotten."""
    planned = plan_of(FOUR, six(spec=spec, proposal=proposed()), limits=Limits.model_validate(limits))
    assert planned.proposal is None


def test_moves_for_the_evenness_of_all_groups_wait_too() -> None:
    """Groups too small to need the new node are proposed a move each, and keep that proposal."""
    groups = [make_group(2, 1, (("node-1",), ("node-2",)), name=f"g{number}", spec=MANUAL) for number in range(12)]
    nodes = nodes_of(1, 2, 3)
    first = plan(make_snapshot(nodes, *groups)).groups
    found = [one.proposal for one in first if one.proposal]
    assert found
    assert not any(is_active(one) for one in first)
    known = [group.model_copy(update={"proposal": one.proposal}) for group, one in zip(groups, first, strict=True)]
    again = plan(make_snapshot(nodes, *known, now="2026-11-21T00:05:00Z")).groups
    assert [one.proposal for one in again] == [one.proposal for one in first]


def test_strict_balancing_waits_before_it_changes_the_map() -> None:
    """The map goes ahead of the data only once the moves are approved."""
    strict = {"balancing": {"approval": "manual", "strict": True}}
    planned = plan_of(FOUR, six(spec=strict))
    assert planned.proposal is not None
    assert planned.next_map is None
    approved = six(spec=strict, proposal=planned.proposal, approved_proposal=planned.proposal.id)
    assert plan_of(FOUR, approved).next_map is not None


def test_a_proposal_has_a_largest_size() -> None:
    """It is in the status in full; the rest is proposed when it is made."""
    rows = (("node-1",),) * (3 * MAX_PROPOSED_MOVES)
    group = make_group(len(rows), 1, rows, spec=MANUAL)
    planned = plan_of(nodes_of(1, 2, 3), group)
    assert planned.proposal is not None
    assert planned.proposal.replicas == MAX_PROPOSED_MOVES
    kept = group.model_copy(update={"proposal": planned.proposal})
    assert plan_of(nodes_of(1, 2, 3), kept, now="2026-11-21T00:05:00Z").proposal == planned.proposal


def test_a_preview_shows_what_an_approval_would_lead_to() -> None:
    """Bytes and replicas per node as after the proposal."""
    expected = preview(make_snapshot(FOUR, six())).groups[0].expected
    assert expected is not None
    assert expected.bytes_to_copy == 3 * GIB
    assert [load.replicas_after for load in expected.nodes] == [3, 3, 3, 3]


def test_a_preview_shows_what_each_node_has_and_gets() -> None:
    """By name; also nodes that are gone, and those that only come."""
    rows, sizes = (("node-2", "node-9"), ("node-2", "node-1")), (GIB, 2 * GIB)
    group = make_group(2, 2, rows, bucket_bytes=sizes, spec={"balancing": {"enabled": False}})
    nodes = [make_node("node-3", weight=2), *nodes_of(2, 1)]
    [planned] = preview(make_snapshot(nodes, group)).groups
    assert planned.expected is not None
    assert planned.expected.bytes_to_copy == sum(move.bytes for move in planned.moves) == GIB
    before, after = {"node-1": 1, "node-2": 2, "node-9": 1}, {"node-1": 1, "node-2": 2, "node-3": 1}
    bytes_before = {"node-1": 2 * GIB, "node-2": 3 * GIB, "node-9": GIB}
    bytes_after = {"node-1": 2 * GIB, "node-2": 3 * GIB, "node-3": GIB}
    assert [
        (one.node, one.weight, one.replicas_before, one.replicas_after, one.bytes_before, one.bytes_after)
        for one in planned.expected.nodes
    ] == [
        (name, {"node-3": 2, "node-9": 0}.get(name, 1), before.get(name, 0), after.get(name, 0),
         bytes_before.get(name, 0), bytes_after.get(name, 0))
        for name in ("node-1", "node-2", "node-3", "node-9")
    ]  # fmt: skip
    assert [one.share for one in planned.expected.nodes] == [1, 1, 2, 0]
    [thirds] = preview(make_snapshot(nodes_of(1, 2, 3), make_group(4, 1))).groups
    assert thirds.expected is not None
    assert [one.share for one in thirds.expected.nodes] == [1.333] * 3


def test_a_preview_of_a_group_that_cannot_be_placed() -> None:
    """It has nothing, and gets nothing."""
    [planned] = preview(make_snapshot(nodes_of(1), make_group(2, 2))).groups
    assert planned.expected is not None
    assert [(one.replicas_before, one.replicas_after) for one in planned.expected.nodes] == [(0, 0)]


@pytest.mark.parametrize(
    ("move", "nodes", "rows", "is_made"),
    [
        pytest.param((0, "node-1", "node-4"), FOUR, SIX, True, id="can be made"),
        pytest.param((0, "node-3", "node-4"), FOUR, SIX, False, id="its source has left"),
        pytest.param((0, "node-1", "node-2"), FOUR, SIX, False, id="its target has it already"),
        pytest.param((6, "node-1", "node-4"), FOUR, SIX, False, id="of a bucket that the group does not have"),
        pytest.param((0, "node-1", "node-4"), [*nodes_of(1, 2, 3), *nodes_of(4, drain=True)], SIX, False,
                     id="its target is drained"),
        pytest.param((0, "node-1", "node-4"), [*nodes_of(1, 2, 3), *nodes_of(4, schedulable=False)], SIX, True,
                     id="its target is cordoned: it waits"),
    ],
)  # fmt: skip
def test_which_approved_moves_are_made(
    move: tuple[int, str, str], nodes: list[Node], rows: BucketSequence, is_made: bool
) -> None:
    """Those that can be, or could be once their target takes replicas again."""
    bucket, source, to = move
    one = ProposedMove(bucket=bucket, source=source, to=to, bytes=GIB)
    proposal = make_proposal(("shop", "sales"), "2026-11-21T00:00:00Z", "Balancing", [one])
    group = make_group(6, 2, rows, spec=MANUAL, proposal=proposal, approved_proposal=proposal.id)
    made = [(found.bucket, found.source, found.to) for found in plan_of(nodes, group).moves]
    assert made == ([move] if is_made else [])


def test_an_approved_move_without_room_waits_alone() -> None:
    """As others do."""
    proposal = proposed()
    small = make_node("node-4", capacity_bytes=10 * GIB, free_bytes=2 * GIB)
    planned = plan_of([*nodes_of(1, 2, 3), small], six(proposal=proposal, approved_proposal=proposal.id))
    assert (len(planned.moves), len(planned.start_now)) == (3, 1)
    assert planned.stalled is not None
    assert planned.stalled.reason == Reason.INSUFFICIENT_SPACE


def test_a_plan_that_moves_without_approval_is_not_carried_out() -> None:
    """The check of plans, apart from the planner: the moves of an automatic group are unsafe in a manual one."""
    automatic = plan(make_snapshot(FOUR, six(spec={})))
    checked = without_violations(make_snapshot(FOUR, six()), automatic).groups[0]
    assert (checked.start_now, checked.stalled is not None) == ((), True)
    assert checked.stalled is not None
    assert "has not been approved" in checked.stalled.message


def test_ids_differ_by_group_time_and_moves() -> None:
    """No one can carry an approval from one to another."""
    moves = proposed().moves
    ids = {
        make_proposal(group, made_at, "Balancing", chosen).id
        for group in (("shop", "sales"), ("shop", "stock"))
        for made_at in ("2026-11-21T00:00:00Z", "2026-11-21T00:00:01Z")
        for chosen in (moves, moves[1:])
    }
    assert len(ids) == 8


THREE_OF_FIVE = (("node-1",), ("node-2",), ("node-3",)) * 40
"""Of one replica each: none on the node that joins."""
SMALL = [make_group(2, 1, (("node-1",), ("node-2",)), name=f"small-{number:02}") for number in range(40)]


@pytest.mark.parametrize(
    ("nodes", "others"),
    [
        pytest.param(FOUR, SMALL, id="groups that only all together fill a node"),
        pytest.param(FOUR, [make_group(6, 2, SIX, name="stock")], id="a group that is uneven by itself"),
        pytest.param(
            [*nodes_of(1, 2, 3), *nodes_of(4, capacity_bytes=100 * GIB, free_bytes=42 * GIB)],
            [make_group(6, 2, SIX, name="stock")],
            id="a node with room for few",
        ),
    ],
)
def test_others_are_planned_against_what_is_really_there(nodes: list[Node], others: list[GroupState]) -> None:
    """A group that waits for approval is to them like one that does not move; it counts neither as load nor as room."""

    def plans_of_others(**spec: object) -> list[GroupPlan]:
        waiting = make_group(120, 1, THREE_OF_FIVE, spec={"balancing": spec})
        first, *rest = plan(make_snapshot(nodes, waiting, *others)).groups
        assert not first.moves
        return list(rest)

    assert plans_of_others(approval="manual") == plans_of_others(enabled=False)


def test_an_approved_move_counts_for_the_others() -> None:
    """It is being made: the others need not fill the node in its stead."""
    waiting = make_group(120, 1, THREE_OF_FIVE, spec=MANUAL)
    proposal = plan(make_snapshot(FOUR, waiting, *SMALL)).groups[0].proposal
    assert proposal is not None
    approved = waiting.model_copy(update={"proposal": proposal, "approved_proposal": proposal.id})
    before, after = (plan(make_snapshot(FOUR, group, *SMALL)).groups[1:] for group in (waiting, approved))
    assert sum(len(one.moves) for one in after) < sum(len(one.moves) for one in before)


def test_an_approved_move_to_a_node_that_has_a_replica_by_now_is_left_out() -> None:
    """A repair has put one there meanwhile: the move would never end."""
    proposal = proposed()
    overtaken = proposal.moves[0]
    rows = list(SIX)
    rows[overtaken.bucket] = (overtaken.source, overtaken.to)
    group = make_group(6, 2, tuple(rows), spec=MANUAL, proposal=proposal, approved_proposal=proposal.id)
    planned = plan_of(FOUR, group)
    assert [(move.bucket, move.source, move.to) for move in planned.moves] == [
        (move.bucket, move.source, move.to) for move in proposal.moves[1:]
    ]


def test_a_move_whose_copy_is_on_its_way_needs_no_more_room() -> None:
    """The target's disk has become fuller than it should be since the copy began: only the other moves wait."""
    proposal = proposed()
    first, *others = proposal.moves
    clone = Clone(namespace="shop", group="sales", bucket=first.bucket, source=first.source, to=first.to, since=NOW)
    full = make_node("node-4", capacity_bytes=1000 * GIB, free_bytes=50 * GIB)
    approved = six(proposal=proposal, approved_proposal=proposal.id)
    planned = plan_of([*nodes_of(1, 2, 3), full], approved, clones=(clone,))
    assert [(one.bucket, one.reason) for one in planned.blocked] == [
        (move.bucket, Reason.INSUFFICIENT_SPACE) for move in others
    ]
    assert planned.cancel == ()
