"""Plans are carried out step by step, interrupted anywhere by further losses, and lead to a stable group again."""

from datetime import timedelta
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from colocation.model.clone import CloneBandwidth
from colocation.model.snapshot import Snapshot
from colocation.planner import plan

from .worlds import World, examples, make_group, make_snapshot, node_lists, placed_groups


@st.composite
def several_groups(draw: st.DrawFn, least_nodes: int = 2) -> Snapshot:
    """Up to three groups with any maps over the same nodes, some of them new."""
    nodes = draw(node_lists(least=least_nodes, zones=draw(st.booleans())))
    names = [node.name for node in nodes]
    groups = []
    for number in range(draw(st.integers(1, 3))):
        group = draw(placed_groups(names, most_buckets=6, name=f"group-{number}"))
        if draw(st.booleans()):
            group = group.model_copy(update={"map": None, "held": {}, "bucket_bytes": ()})
        groups.append(group)
    return make_snapshot(nodes, *groups)


@given(several_groups(), st.integers())
@settings(max_examples=examples(60), deadline=None)
def test_every_group_settles_stable_and_even(snapshot: Snapshot, seed: int) -> None:
    """From any maps, with clones that end in any order, all groups become stable, and then nothing more happens."""
    world = World(snapshot, Random(seed))
    last = world.settle()
    assert all(group.stable and not group.moves and group.stalled is None for group in last.groups)


@given(several_groups(least_nodes=3), st.integers(), st.integers(0, 12), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_any_prefix_and_any_further_loss_lead_to_stable_again(
    snapshot: Snapshot, seed: int, steps: int, data: st.DataObject
) -> None:
    """A node lost after any number of steps: a group of two replicas and more is stable again, on the other nodes."""
    world = World(snapshot, Random(seed))
    for _ in range(steps):
        world.step()
    lost = data.draw(st.sampled_from([node.name for node in snapshot.nodes]))
    world.lose(lost)
    last = world.settle()
    for group, planned in zip(world.snapshot.groups, last.groups, strict=True):
        enough = len(world.snapshot.nodes) >= group.spec.replicas
        safe = group.spec.replicas >= 2 or lost not in {node for nodes in group.map or () for node in nodes}
        if enough and safe:
            assert planned.stable
            assert lost not in {node for nodes in group.map or () for node in nodes}


@given(several_groups(least_nodes=4), st.integers(), st.data())
@settings(max_examples=examples(40), deadline=None)
def test_a_drained_node_is_emptied_while_groups_stay_stable(snapshot: Snapshot, seed: int, data: st.DataObject) -> None:
    """Make before break: at no step of a drain is a settled group unstable, and in the end the node holds nothing."""
    world = World(snapshot, Random(seed))
    world.settle()
    drained = data.draw(st.sampled_from([node.name for node in snapshot.nodes]))
    nodes = tuple(node.model_copy(update={"drain": node.name == drained}) for node in world.snapshot.nodes)
    world.update(nodes=nodes)
    for _ in range(60):
        assert all(group.stable for group in world.step().groups)
    for group in world.snapshot.groups:
        if group.spec.replicas < len(nodes):
            assert drained not in {node for nodes_ in group.map or () for node in nodes_}
            assert not group.held.get(drained)


@given(several_groups(least_nodes=3), st.integers(), st.data())
@settings(max_examples=examples(40), deadline=None)
def test_a_node_that_returns_within_tolerance_moves_nothing(snapshot: Snapshot, seed: int, data: st.DataObject) -> None:
    """Down for less than the tolerance: unstable at once, nothing is moved, stable again on return."""
    world = World(snapshot, Random(seed))
    world.settle()
    maps = [group.map for group in world.snapshot.groups]
    down = data.draw(st.sampled_from([node.name for node in snapshot.nodes]))
    before = world.snapshot
    nodes = tuple(
        node.model_copy(update={"ready": False, "not_ready_since": before.now}) if node.name == down else node
        for node in before.nodes
    )
    world.update(nodes=nodes)
    for _ in range(5):
        decided = world.step()
        for group, planned in zip(world.snapshot.groups, decided.groups, strict=True):
            assert planned.stable == all(down not in nodes_ for nodes_ in group.map or ())
            assert not planned.moves
    world.update(nodes=before.nodes)
    assert all(group.stable for group in world.step().groups)
    assert [group.map for group in world.snapshot.groups] == maps


@given(several_groups(least_nodes=3), st.integers(), st.integers(0, 12), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_groups_stay_stable_while_their_replicas_change(
    snapshot: Snapshot, seed: int, steps: int, data: st.DataObject
) -> None:
    """Raised or lowered at any time, even again before the last change is through: stable at every step, then done."""
    world = World(snapshot, Random(seed))
    world.settle()
    for _ in range(2):
        groups = []
        for group in world.snapshot.groups:
            replicas = data.draw(st.integers(1, min(4, len(snapshot.nodes))))
            spec = group.spec.model_copy(update={"replicas": replicas})
            groups.append(group.model_copy(update={"spec": spec}))
        world.update(groups=tuple(groups))
        for _ in range(steps):
            assert all(group.stable for group in world.step().groups)
    last = world.settle()
    for group, planned in zip(world.snapshot.groups, last.groups, strict=True):
        assert planned.stable
        assert {len(row) for row in group.map or ()} == {group.spec.replicas}


@given(several_groups(least_nodes=2))
@settings(max_examples=examples(100), deadline=None)
def test_equal_snapshots_give_equal_plans(snapshot: Snapshot) -> None:
    """The plan is a function of the snapshot: not of the order of nodes, nor of its JSON form."""
    turned = snapshot.model_copy(update={"nodes": snapshot.nodes[::-1]})
    read_again = Snapshot.model_validate_json(snapshot.model_dump_json(by_alias=True))
    assert plan(snapshot) == plan(turned) == plan(read_again)


@given(several_groups(least_nodes=2), st.integers())
@settings(max_examples=examples(60), deadline=None)
def test_limits_of_one_hold(snapshot: Snapshot, seed: int) -> None:
    """With one clone per node allowed, no step has two to one node; the world settles all the same."""
    limits = snapshot.limits.model_copy(update={"max_concurrent_clones_per_node": 1})
    world = World(snapshot.model_copy(update={"limits": limits}), Random(seed))
    for _ in range(20):
        world.step()
        targets = [clone.to for clone in world.snapshot.clones]
        assert len(targets) == len(set(targets))
    world.update(now=world.snapshot.now + timedelta(seconds=30))
    assert all(group.stable for group in world.settle().groups)


@given(several_groups(least_nodes=2), st.integers())
@settings(max_examples=examples(60), deadline=None)
def test_the_clusters_bandwidth_holds(snapshot: Snapshot, seed: int) -> None:
    """With a budget of four shares no step has more clones in the cluster; the world settles all the same."""
    bandwidth = CloneBandwidth(per_cluster_mib_per_second=4)
    limits = snapshot.limits.model_copy(update={"clone_bandwidth": bandwidth, "max_concurrent_clones_per_node": 9})
    world = World(snapshot.model_copy(update={"limits": limits}), Random(seed))
    for _ in range(20):
        world.step()
        assert len(world.snapshot.clones) <= (bandwidth.max_clones or 0)
    world.update(now=world.snapshot.now + timedelta(seconds=30))
    assert all(group.stable for group in world.settle().groups)


def test_the_seeds_example_moves_six_and_repairs_six() -> None:
    """8 buckets x 3 replicas: 3 -> 4 nodes moves exactly 6 replicas; one of the 4 lost repairs exactly 6."""
    names = [f"node-{index}" for index in range(4)]
    nodes = node_objects(names)
    bucket_map = tuple((names[0], names[1], names[2]) for _ in range(8))
    world = World(make_snapshot(nodes, make_group(8, 3, bucket_map)), Random(0))
    planned = plan(world.snapshot).groups[0]
    assert [move.kind for move in planned.moves] == ["balance"] * 6
    assert planned.stable
    world.settle()
    for lost in names:
        after = World(world.snapshot, Random(1))
        after.lose(lost)
        planned = plan(after.snapshot).groups[0]
        assert [(move.kind, move.source) for move in planned.moves] == [("repair", lost)] * 6
        assert after.settle().groups[0].stable


def node_objects(names: list[str]) -> list:
    from .worlds import make_node

    return [make_node(name) for name in names]
