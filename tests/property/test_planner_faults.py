"""Faults that stay: nodes that take nothing, targets that always fail, replicas that are not heard of."""

from datetime import timedelta
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from colocation.model.snapshot import Clone, GroupState, Snapshot
from colocation.planner import plan
from colocation.planner.invariants import violations

from .test_planner_safety import several_groups
from .worlds import NOW, World, examples, make_group, make_node, make_snapshot

MOST_STEPS = 400
STEPS_OF_REST = 25


def some_of(data: st.DataObject, names: list[str]) -> frozenset[str]:
    return frozenset(data.draw(st.lists(st.sampled_from(names), unique=True)))


def names_of(snapshot: Snapshot) -> list[str]:
    return [node.name for node in snapshot.nodes]


def mapped(group: GroupState) -> set[tuple[int, str]]:
    return {(bucket, node) for bucket, row in enumerate(group.map or ()) for node in row}


def cordoned(snapshot: Snapshot, names: frozenset[str]) -> Snapshot:
    nodes = tuple(node.model_copy(update={"schedulable": node.name not in names}) for node in snapshot.nodes)
    return snapshot.model_copy(update={"nodes": nodes})


@given(several_groups(least_nodes=3), st.integers(), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_a_cordon_alone_moves_nothing(snapshot: Snapshot, seed: int, data: st.DataObject) -> None:
    """Groups at rest stay stable and as they are, whichever nodes that hold replicas are cordoned, and afterwards."""
    world = World(snapshot, Random(seed))
    world.settle()
    holders = {node for group in world.snapshot.groups for _, node in mapped(group)}
    names = some_of(data, [name for name in names_of(snapshot) if name in holders])
    for now in (cordoned(world.snapshot, names), world.snapshot):
        for group in plan(now).groups:
            assert group.stable
            assert (group.moves, group.next_map, group.drops, group.stalled) == ((), None, (), None)


@given(several_groups(least_nodes=4), st.integers(), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_nothing_new_comes_to_a_cordoned_node(snapshot: Snapshot, seed: int, data: st.DataObject) -> None:
    """Nodes are cordoned, others lost or drained, others come: no bucket comes to a cordoned node, and groups are whole
    again where enough others may take replicas."""
    world = World(snapshot, Random(seed))
    world.settle()
    names = names_of(snapshot)
    kept = some_of(data, names)
    gone = data.draw(st.sampled_from(names))
    world.snapshot = cordoned(world.snapshot, kept)
    if data.draw(st.booleans()):
        world.lose(gone)
    else:
        drained = [node.model_copy(update={"drain": node.name == gone}) for node in world.snapshot.nodes]
        world.update(nodes=tuple(drained))
    if data.draw(st.booleans()):
        world.update(nodes=(*world.snapshot.nodes, make_node("new", schedulable=data.draw(st.booleans()))))
    before = {group.name: mapped(group) for group in world.snapshot.groups}
    shut = {node.name for node in world.snapshot.nodes if not node.schedulable}
    able = {node.name for node in world.snapshot.nodes if node.schedulable and not node.drain}
    last = world.settle()
    for group, planned in zip(world.snapshot.groups, last.groups, strict=True):
        assert {one for one in mapped(group) if one[1] in shut} <= before[group.name]
        if len(able) >= group.spec.replicas >= 2:
            assert planned.stable
            assert planned.stalled is None
            assert gone not in {node for _, node in mapped(group)}


@given(several_groups(least_nodes=4), st.integers(), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_targets_that_fail_for_ever_do_not_keep_a_group_unstable(
    snapshot: Snapshot, seed: int, data: st.DataObject
) -> None:
    """A node is lost and clones to some others always fail: groups are stable again on what is left, and stay so."""
    world = World(snapshot, Random(seed))
    world.settle()
    names = names_of(snapshot)
    lost = data.draw(st.sampled_from(names))
    world.sick = some_of(data, [name for name in names if name != lost])
    world.lose(lost)
    _damage_one(data, world)
    sound = [name for name in names if name != lost and name not in world.sick]
    ends = {group.name for group in world.snapshot.groups if len(sound) >= group.spec.replicas >= 2}
    for _ in range(MOST_STEPS):
        if all(planned.stable for planned in world.step().groups if planned.name in ends):
            break
    for _ in range(STEPS_OF_REST):
        assert all(planned.stable for planned in world.step().groups if planned.name in ends)
    for group in world.snapshot.groups:
        assert group.name not in ends or lost not in {node for _, node in mapped(group)}


def _damage_one(data: st.DataObject, world: World) -> None:
    """A replica on a sick node loses files, where its bucket has another whole one."""
    for number, group in enumerate(world.snapshot.groups):
        held = {(b, node) for node, states in group.held.items() for b in states}
        able = sorted((b, node) for b, node in mapped(group) & held if node in world.sick and _others(group, b, node))
        if able and data.draw(st.booleans()):
            bucket, node = data.draw(st.sampled_from(able))
            states = group.held[node] | {bucket: "partial"}
            damaged = group.model_copy(update={"held": group.held | {node: states}})
            groups = world.snapshot.groups
            world.update(groups=(*groups[:number], damaged, *groups[number + 1 :]))
            return


def _others(group: GroupState, bucket: int, node: str) -> bool:
    return any(states.get(bucket) == "complete" for name, states in group.held.items() if name != node)


def test_five_hundred_failures_change_the_target() -> None:
    """The neediest node always fails: after three failures the replica is made elsewhere, and is not tried for ever."""
    rows = (("node-1", "node-2"), ("node-2", "node-3"), ("node-1", "node-3"), ("node-2", "node-9"))
    nodes = [make_node(f"node-{number}") for number in (1, 2, 3, 4)]
    world = World(make_snapshot(nodes, make_group(4, 2, rows)), Random(1), sick=frozenset({"node-4"}))
    world.lose("node-9")
    for _ in range(500):
        decided = world.step()
    assert decided.groups[0].stable
    assert "node-4" not in {node for _, node in mapped(world.snapshot.groups[0])}
    assert world.failures["shop", "sales", "node-4"] < 15


@st.composite
def unheard(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """Some complete replicas are not heard of since the last commit: their nodes seem to hold part of them, or none."""
    groups = []
    for group in snapshot.groups:
        held = {node: dict(states) for node, states in group.held.items()}
        known = sorted((node, bucket) for node, states in held.items() for bucket in states)
        silent: dict[str, tuple[int, ...]] = {}
        for node, bucket in draw(st.lists(st.sampled_from(known), unique=True)) if known else ():
            silent[node] = (*silent.get(node, ()), bucket)
            if draw(st.booleans()):
                held[node][bucket] = "partial"
            else:
                del held[node][bucket]
        groups.append(group.model_copy(update={"held": held, "unconfirmed": silent}))
    return snapshot.model_copy(update={"groups": tuple(groups)})


@given(several_groups(least_nodes=3), st.integers(), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_unconfirmed_replicas_keep_the_verdict_and_start_nothing(
    snapshot: Snapshot, seed: int, data: st.DataObject
) -> None:
    """A group at rest of which some agents have not spoken since a commit stays stable and untouched."""
    world = World(snapshot, Random(seed))
    world.settle()
    silent = data.draw(unheard(world.snapshot))
    clones = tuple(_waiting_clone(group, node, bucket) for group, node, bucket in _silent_ones(silent))
    for now in (silent, silent.model_copy(update={"clones": clones})):
        for group in plan(now).groups:
            assert group.stable
            assert (group.moves, group.start_now, group.next_map) == ((), (), None)
            assert (group.cancel, group.drops, group.stalled) == ((), (), None)


def _silent_ones(snapshot: Snapshot) -> list[tuple[str, str, int]]:
    return [(g.name, node, b) for g in snapshot.groups for node, buckets in g.unconfirmed.items() for b in buckets]


def _waiting_clone(group: str, node: str, bucket: int) -> Clone:
    """One that failed and waits for its next attempt."""
    retry_at = NOW + timedelta(days=1)
    return Clone(namespace="shop", group=group, bucket=bucket, source=None, to=node, since=NOW, retry_at=retry_at)


@given(several_groups(least_nodes=3), st.integers(), st.integers(0, 12), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_nothing_irreversible_rests_on_unconfirmed_replicas(
    snapshot: Snapshot, seed: int, steps: int, data: st.DataObject
) -> None:
    """In the middle of whatever is done: a replica is deleted only where all of the map are known to be complete, and
    a node enters the map only when it is."""
    world = World(snapshot, Random(seed))
    for _ in range(steps):
        world.step()
    replicas = data.draw(st.integers(1, min(4, len(snapshot.nodes))))
    changed = [
        group.model_copy(update={"spec": group.spec.model_copy(update={"replicas": replicas})})
        for group in world.snapshot.groups
    ]
    now = data.draw(unheard(world.snapshot.model_copy(update={"groups": tuple(changed)})))
    decided = plan(now)
    assert violations(now, decided) == ()
    for group, planned in zip(now.groups, decided.groups, strict=True):
        silent = {(bucket, node) for node, buckets in group.unconfirmed.items() for bucket in buckets}
        for drop in planned.drops:
            assert not silent & {(drop.bucket, node) for node in (group.map or ())[drop.bucket]}
        for index in planned.start_now:
            assert (planned.moves[index].bucket, planned.moves[index].to) not in silent
        if planned.next_map is not None and group.map is not None:
            entered = {(b, node) for b, row in enumerate(planned.next_map) for node in row} - mapped(group)
            assert group.spec.balancing.strict or not entered & silent
