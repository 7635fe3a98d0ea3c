"""A plan that breaks a safety rule is not carried out for that group, and names which rule."""

from datetime import timedelta

import pytest

from colocation.model.plan import Drop, GroupPlan, Move, Plan
from colocation.model.snapshot import Clone, FailingTarget, Limits, Node, Snapshot
from colocation.planner import plan, without_violations
from colocation.planner.invariants import violations
from tests.property.worlds import GIB, NOW, make_group, make_node, make_snapshot

from .cases import SIX, nodes_of

OTHERS = SIX[1:]


def snapshot_of(**limits: object) -> Snapshot:
    """A stable group on three nodes, an empty fourth one, and a second group that nothing is wrong with."""
    group = make_group(6, 2, SIX, bucket_bytes=(GIB,) * 6)
    other = make_group(6, 2, SIX, bucket_bytes=(GIB,) * 6, name="other")
    nodes = [*nodes_of(1, 2, 3, 4), make_node("node-6", ready=False)]
    return make_snapshot(nodes, group, other, limits=Limits.model_validate(limits))


def move(bucket: int, to: str, source: str | None = "node-1") -> Move:
    return Move(bucket=bucket, source=source, to=to, kind="balance", reason="Balancing", bytes=GIB)


def drop(node: str, bucket: int = 0) -> Drop:
    return Drop(bucket=bucket, node=node, reason="not needed")


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        pytest.param({"next_map": (("node-1", "node-1"), *OTHERS)}, "two replicas on one node", id="twice-on-a-node"),
        pytest.param({"next_map": (("node-1", "node-4"), *OTHERS)}, "does not hold it complete", id="break-first"),
        pytest.param(
            {"next_map": (("node-1", "node-4"), *OTHERS), "target_map": (("node-1", "node-4"), *OTHERS)},
            "does not hold it complete", id="break-first-on-the-way",
        ),
        pytest.param({"next_map": (("node-1",), *OTHERS)}, "from 2 to 1 live replicas", id="fewer-replicas"),
        pytest.param({"next_map": (*SIX[:5], ("node-3", "node-3"))}, "two replicas on one node", id="last-bucket"),
        pytest.param({"drops": (drop("node-4", 6), drop("node-1"))}, "which is in its map", id="after-no-bucket"),
        pytest.param({"next_map": SIX[:3]}, "has 3 buckets, not 6", id="fewer-buckets"),
        pytest.param({"drops": (drop("node-1"),)}, "which is in its map", id="drop-of-the-map"),
        pytest.param({"moves": (move(0, "node-5"),), "start_now": (0,)}, "which is not live", id="to-no-node"),
        pytest.param({"moves": (move(0, "node-6"),), "start_now": (0,)}, "which is not live", id="to-a-node-away"),
        pytest.param({"moves": (move(0, "node-4"),), "start_now": (0, 0)}, "start twice", id="twice"),
        pytest.param(
            {"moves": tuple(move(bucket, "node-4") for bucket in range(3)), "start_now": (0, 1, 2)},
            "3 clones to node node-4 at one time, 2 allowed",
            id="too-many-for-the-node",
        ),
        pytest.param(
            {"moves": tuple(move(bucket, "node-4") for bucket in range(5)), "start_now": (0, 1, 2, 3, 4)},
            "5 clones at one time, 4 allowed",
            id="too-many-for-the-group",
        ),
    ],
)
def test_an_unsafe_plan_is_not_carried_out(mistake: dict[str, object], message: str) -> None:
    """Each mistake stops its group, with the bucket and the broken rule; the other group goes on."""
    snapshot = snapshot_of()
    right = plan(snapshot)
    wrong = right.groups[0].model_copy(update={"next_map": None, "start_now": (), "drops": (), "moves": (), **mistake})
    checked = without_violations(snapshot, Plan(groups=(wrong, *right.groups[1:])))
    stopped = checked.groups[0]
    assert stopped.stalled is not None
    assert stopped.stalled.reason == "UnsafePlan"
    assert message in stopped.stalled.message
    assert does_nothing(stopped)
    assert checked.groups[1] == right.groups[1]


def test_a_full_disk_stops_all_groups_that_would_write_to_it() -> None:
    """Room is shared: no group may count on it alone."""
    snapshot = snapshot_of(maxConcurrentClonesPerNode=10)
    full = snapshot.nodes[3].model_copy(update={"capacity_bytes": 100 * GIB, "free_bytes": 11 * GIB})
    snapshot = snapshot.model_copy(update={"nodes": (*snapshot.nodes[:3], full)})
    starting = {"moves": (move(0, "node-4"),), "start_now": (0,), "next_map": None, "drops": ()}
    wrong = Plan(groups=tuple(group.model_copy(update=starting) for group in plan(snapshot).groups))
    stopped = without_violations(snapshot, wrong).groups
    assert [group.stalled is not None and "lacks room" in group.stalled.message for group in stopped] == [True, True]


def test_a_clone_under_way_is_not_started_again() -> None:
    """Two Jobs must never write the same files."""
    clone = Clone(namespace="shop", group="sales", bucket=0, source="node-1", to="node-4", since=NOW)
    snapshot = snapshot_of().model_copy(update={"clones": (clone,)})
    starting = {"moves": (move(0, "node-4"),), "start_now": (0,), "next_map": None, "drops": ()}
    right = plan(snapshot)
    wrong = Plan(groups=(right.groups[0].model_copy(update=starting), right.groups[1]))
    stalled = without_violations(snapshot, wrong).groups[0].stalled
    assert stalled is not None
    assert "twice" in stalled.message


def test_every_group_is_checked() -> None:
    """Also after one that does nothing."""
    snapshot = snapshot_of()
    nothing = {"next_map": None, "start_now": (), "drops": (), "moves": ()}
    first, second = (group.model_copy(update=nothing) for group in plan(snapshot).groups)
    wrong = Plan(groups=(first, second.model_copy(update={"drops": (drop("node-1"),)})))
    assert [group.stalled is not None for group in without_violations(snapshot, wrong).groups] == [False, True]


def test_buckets_whose_map_goes_ahead_hide_no_others() -> None:
    """In Doris' order: the first bucket is ahead of its data, and the last one would be wrong in any order."""
    group = make_group(6, 2, SIX, bucket_bytes=(GIB,) * 6, spec={"balancing": {"strict": True}})
    snapshot = make_snapshot(nodes_of(1, 2, 3, 4), group)
    ahead = (("node-1", "node-4"), *OTHERS)
    for following, is_safe in ((ahead, True), ((*ahead[:5], ("node-1", "node-1")), False)):
        maps = {"next_map": following, "target_map": ahead, "start_now": ()}
        planned = plan(snapshot).groups[0].model_copy(update=maps)
        assert (violations(snapshot, Plan(groups=(planned,))) == ()) is is_safe


NINE_PER_NODE = {"max_concurrent_clones_per_node": 9}


@pytest.mark.parametrize(
    ("limits", "of", "running", "moves", "message"),
    [
        pytest.param({}, "other", 2, 1, "3 clones to node node-4 at one time, 2 allowed", id="of the node"),
        pytest.param(NINE_PER_NODE, "sales", 4, 1, "5 clones at one time, 4 allowed", id="of the group"),
        pytest.param({"clone_bandwidth": {"perClusterMiBPerSecond": 1}, **NINE_PER_NODE}, "other", 3, 2,
                     "5 clones in the cluster at one time, 4 allowed", id="of the cluster"),
    ],
)  # fmt: skip
def test_clones_under_way_count(
    limits: dict[str, object], of: str, running: int, moves: int, message: str
) -> None:
    """Together with those that would start."""
    clones = tuple(
        Clone(namespace="shop", group=of, bucket=bucket, source=None, to="node-4", since=NOW)
        for bucket in range(running)
    )
    group = make_group(6, 2, SIX, bucket_bytes=(GIB,) * 6)
    snapshot = make_snapshot(nodes_of(1, 2, 3, 4), group, clones=clones, limits=Limits.model_validate(limits))
    starting = {"moves": tuple(move(5 - one, "node-4") for one in range(moves)), "start_now": tuple(range(moves)),
                "next_map": None, "drops": (), "cancel": ()}  # fmt: skip
    wrong = Plan(groups=(plan(snapshot).groups[0].model_copy(update=starting),))
    stalled = without_violations(snapshot, wrong).groups[0].stalled
    assert stalled is not None
    assert message in stalled.message


def test_a_bucket_is_not_cloned_from_nowhere() -> None:
    """No live node has any of it."""
    group = make_group(6, 2, SIX, bucket_bytes=(GIB,) * 6, held={})
    snapshot = make_snapshot(nodes_of(1, 2, 3, 4), group)
    starting = {"moves": (move(0, "node-4"),), "start_now": (0,), "next_map": None, "drops": ()}
    wrong = Plan(groups=(plan(snapshot).groups[0].model_copy(update=starting),))
    [found] = violations(snapshot, wrong)
    assert found.message == "bucket 0 would be cloned to node node-4 from nowhere"


FAILING = {"node-4": FailingTarget(failures=3, retry_at=NOW + timedelta(seconds=60), cause="the disk is full")}


@pytest.mark.parametrize(
    ("nodes", "group", "message"),
    [
        pytest.param([*nodes_of(1, 2, 3), *nodes_of(4, schedulable=False)], {}, "cordoned or tainted", id="cordoned"),
        pytest.param(nodes_of(1, 2, 3, 4), {"failing_targets": FAILING}, "which fails and is to wait", id="failing"),
        pytest.param(nodes_of(1, 2, 3, 4), {"unconfirmed": {"node-4": (0,)}}, "which may have it", id="unconfirmed"),
    ],
)
def test_a_clone_to_a_node_that_takes_none_is_not_started(
    nodes: list[Node], group: dict[str, object], message: str
) -> None:
    """Whatever the planner thought of."""
    snapshot = make_snapshot(nodes, make_group(6, 2, SIX, bucket_bytes=(GIB,) * 6, **group))
    starting = {"moves": (move(0, "node-4"),), "start_now": (0,), "next_map": None, "drops": ()}
    wrong = Plan(groups=(plan(snapshot).groups[0].model_copy(update=starting),))
    stalled = without_violations(snapshot, wrong).groups[0].stalled
    assert stalled is not None
    assert message in stalled.message


def test_no_replica_leaves_the_map_because_of_unconfirmed_ones() -> None:
    """Three replicas are to become two, and two have not been heard of: none of the three may leave."""
    held = {"node-3": {0: "complete"}}
    fields = {"held": held, "unconfirmed": {"node-1": (0,), "node-2": (0,)}, "bucket_bytes": (GIB,)}
    group = make_group(1, 2, (("node-1", "node-2", "node-3"),), **fields)
    snapshot = make_snapshot(nodes_of(1, 2, 3), group)
    right = plan(snapshot)
    assert right.groups[0].next_map is None
    for row in (("node-1", "node-2"), ("node-2", "node-3")):
        wrong = Plan(groups=(right.groups[0].model_copy(update={"next_map": (row,)}),))
        stalled = without_violations(snapshot, wrong).groups[0].stalled
        assert stalled is not None
        assert stalled.reason == "UnsafePlan"


def test_a_safe_plan_is_left_as_it_is() -> None:
    """The check costs nothing but its time."""
    snapshot = snapshot_of()
    right = plan(snapshot)
    assert without_violations(snapshot, right) is right


def does_nothing(group: GroupPlan) -> bool:
    return group.next_map is None and not (group.start_now or group.drops or group.cancel)
