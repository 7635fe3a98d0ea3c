"""Whatever is in the snapshot, the plan is safe: half-broken clusters, maps of another shape, clones of all kinds."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from colocation.model.clone import CloneBandwidth
from colocation.model.snapshot import Clone, FailingTarget, GroupState, Limits, Node, Snapshot
from colocation.planner import plan
from colocation.planner.invariants import violations

from .worlds import GIB, NOW, examples, make_group, make_node, make_snapshot

NAMES = [f"node-{number}" for number in range(7)]
AGES = st.sampled_from([0, 60, 599, 601, 1799, 1800, 90_000]).map(lambda seconds: NOW - timedelta(seconds=seconds))
TIMES = st.one_of(st.none(), AGES, st.just(NOW + timedelta(seconds=30)))
ROWS = st.lists(st.sampled_from(NAMES), max_size=4).map(tuple)


@st.composite
def any_nodes(draw: st.DrawFn) -> list[Node]:
    """Some of the nodes that maps name, in any state."""
    nodes = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        ready = draw(st.booleans())
        nodes.append(
            make_node(
                name,
                ready=ready,
                not_ready_since=None if ready else draw(st.one_of(st.none(), AGES)),
                drain=draw(st.sampled_from([False, False, True])),
                weight=draw(st.sampled_from([1, 1, 2, 0])),
                zone=draw(st.sampled_from([None, "a", "b"])),
                free_bytes=draw(st.sampled_from([0, 104 * GIB, 900 * GIB])),
                labels=draw(st.sampled_from([{}, {"disk": "fast"}])),
                schedulable=draw(st.sampled_from([True, True, False])),
            )
        )
    return nodes


@st.composite
def any_groups(draw: st.DrawFn, name: str) -> GroupState:
    """A group whose map, files and spec need not fit together."""
    buckets, replicas = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    spec = {
        "relocation": {"enabled": draw(st.booleans())},
        "balancing": {"enabled": draw(st.booleans()), "strict": draw(st.booleans())},
        "nodeSelector": draw(st.sampled_from([{}, {"disk": "fast"}])),
        "bucketSequence": draw(st.one_of(st.none(), st.none(), st.lists(ROWS, max_size=5))),
    }
    unheard = st.dictionaries(st.sampled_from(NAMES), st.lists(st.integers(0, 6), max_size=3).map(tuple), max_size=3)
    failing = TIMES.filter(bool).map(
        lambda moment: FailingTarget(failures=3, retry_at=moment, cause="the disk is full")
    )
    states = st.dictionaries(st.integers(0, 6), st.sampled_from(["complete", "complete", "partial", "corrupt"]))
    return make_group(
        buckets,
        replicas,
        name=name,
        spec=spec,
        map=draw(st.one_of(st.none(), st.lists(ROWS, max_size=6).map(tuple))),
        held=draw(st.dictionaries(st.sampled_from(NAMES), states)),
        unconfirmed=draw(unheard),
        failing_targets=draw(st.dictionaries(st.sampled_from(NAMES), failing, max_size=3)),
        bucket_bytes=tuple(draw(st.lists(st.sampled_from([0, 1, GIB]), max_size=6))),
        marked_unstable=draw(st.sampled_from([None, None, "by ann"])),
    )


@st.composite
def any_snapshots(draw: st.DrawFn) -> Snapshot:
    groups = [draw(any_groups(f"group-{number}")) for number in range(draw(st.integers(0, 2)))]
    clones = [
        Clone(
            namespace="shop",
            group=draw(st.sampled_from(["group-0", "group-1", "gone"])),
            bucket=draw(st.integers(0, 6)),
            source=draw(st.one_of(st.none(), st.sampled_from(NAMES))),
            to=to,
            since=draw(AGES),
            retry_at=draw(TIMES),
        )
        for to in draw(st.lists(st.sampled_from(NAMES), max_size=4, unique=True))
    ]
    limits = Limits(
        disable_colocate_balance=draw(st.booleans()),
        disable_colocate_relocate=draw(st.booleans()),
        clone_bandwidth=CloneBandwidth(per_cluster_mib_per_second=draw(st.sampled_from([None, 1.0, 300.0]))),
    )
    return make_snapshot(draw(any_nodes()), *groups, clones=tuple(clones), limits=limits)


@given(any_snapshots())
@settings(max_examples=examples(300), deadline=None)
def test_any_snapshot_gives_a_safe_plan(snapshot: Snapshot) -> None:
    """No exception, and no invariant broken."""
    assert violations(snapshot, plan(snapshot)) == ()


@given(any_snapshots())
@settings(max_examples=examples(300), deadline=None)
def test_plans_survive_json(snapshot: Snapshot) -> None:
    """A plan is made from a file as from the cluster, and written so that it can be read again."""
    planned = plan(snapshot)
    assert plan(Snapshot.model_validate_json(snapshot.model_dump_json(by_alias=True))) == planned
    assert type(planned).model_validate_json(planned.model_dump_json(by_alias=True)) == planned


@given(any_snapshots())
@settings(max_examples=examples(300), deadline=None)
def test_moves_lead_from_the_map_to_the_target(snapshot: Snapshot) -> None:
    """Every node that the target adds has a move, unless the map is there at once; no move goes where the map is."""
    for group, planned in zip(snapshot.groups, plan(snapshot).groups, strict=True):
        if group.map is None or planned.target_map is None:
            continue
        rows = [set(row) for row in group.map[: group.spec.buckets]]
        rows += [set() for _ in range(group.spec.buckets - len(rows))]
        added = {(b, node) for b, row in enumerate(planned.target_map) for node in row if node not in rows[b]}
        moved = {(move.bucket, move.to) for move in planned.moves if move.source != move.to}
        assert added == moved
