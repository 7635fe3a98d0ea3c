"""Groups whose moves have to be approved: nothing moves before, and approvals lead where automatic balance leads."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from colocation.model.group import ColocationGroupSpec
from colocation.model.snapshot import GroupState, Snapshot
from colocation.planner import plan

from .worlds import World, examples, make_node, make_snapshot, node_lists, placed_groups

MOST_ROUNDS = 30


@st.composite
def manual_groups(draw: st.DrawFn) -> Snapshot:
    """Up to three groups with any maps, all complete, over the same nodes."""
    nodes = draw(node_lists(least=2, zones=draw(st.booleans())))
    names = [node.name for node in nodes]
    groups = [
        draw(placed_groups(names, most_buckets=6, name=f"group-{number}", spec={"balancing": {"approval": "manual"}}))
        for number in range(draw(st.integers(1, 3)))
    ]
    return make_snapshot(nodes, *groups)


def approve_all(world: World) -> bool:
    """Approve what waits; whether anything did."""
    waiting = [group for group in world.snapshot.groups if group.proposal and not group.proposal.approved]
    groups = (
        group.model_copy(update={"approved_proposal": group.proposal.id if group.proposal else None})
        for group in world.snapshot.groups
    )
    world.update(groups=tuple(groups))
    return bool(waiting)


def automatic(group: GroupState) -> GroupState:
    spec = group.spec.to_json_dict() | {"balancing": {"approval": "automatic"}}
    return group.model_copy(update={"spec": ColocationGroupSpec.model_validate(spec), "proposal": None})


@given(manual_groups(), st.integers())
@settings(max_examples=examples(60), deadline=None)
def test_nothing_moves_for_evenness_before_it_is_approved(snapshot: Snapshot, seed: int) -> None:
    """Whatever the maps: all is at rest, and proposals keep their ids."""
    world = World(snapshot, Random(seed))
    first = world.step().groups
    world.settle()
    assert (world.started, [group.map for group in world.snapshot.groups]) == (0, [one.map for one in snapshot.groups])
    assert [group.proposal for group in world.snapshot.groups] == [one.proposal for one in first]


@given(manual_groups(), st.integers(), st.integers(0, 6), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_approvals_lead_where_automatic_balance_leads(
    snapshot: Snapshot, seed: int, steps: int, data: st.DataObject
) -> None:
    """Also when a node comes amid an approved plan: groups stay stable, and in the end automatic moves nothing more."""
    world = World(snapshot, Random(seed))
    world.settle()
    approve_all(world)
    for _ in range(steps):
        assert all(group.stable for group in world.step().groups)
    if data.draw(st.booleans(), label="a node comes"):
        world.update(nodes=(*world.snapshot.nodes, make_node("new")))
    for _ in range(MOST_ROUNDS):
        last = world.settle()
        assert all(group.stable for group in last.groups)
        if not approve_all(world):
            break
    else:
        raise AssertionError(f"still proposing after {MOST_ROUNDS} rounds: {last}")
    groups = tuple(automatic(group) for group in world.snapshot.groups)
    assert not any(one.moves for one in plan(world.snapshot.model_copy(update={"groups": groups})).groups)
