"""An agent's last word is not trusted beyond what may have happened since."""

from dataclasses import replace

import pytest

from colocation.model.agent import CloneProgress, DeletionProof
from colocation.model.group import ColocationGroupStatus, GroupMember
from colocation.reconcile.actions import DropBucket, RecycleTable, RestoreTable, TableDrop
from colocation.reconcile.evidence import BRAKE_WINDOW, READERS_LEARN_SECONDS, Evidence
from colocation.state.agent_view import AgentView
from colocation.state.observation import Observation

from ..state.objects import GROUP_UID, NOW, clone_job, group, node, seconds, table, table_report, view

MAP = ColocationGroupStatus(backends_per_bucket_seq=(("node-1", "node-2"),), map_version=3)
GROUP = group(status=MAP, buckets=1)
LONG_AGO = NOW - seconds(READERS_LEARN_SECONDS)
HOLDERS = (("node-1", "node-2"),), {"node-1": LONG_AGO, "node-2": LONG_AGO}
SEEN = Evidence({GROUP_UID: ((3, ()), NOW)}, holders_seen={GROUP_UID: HOLDERS})
NEWER_MAP = replace(SEEN, maps_seen={GROUP_UID: ((2, ()), NOW)})
LATER = NOW + seconds(1)


def asked_at(moment_seconds: float, silent: bool = False) -> AgentView:
    """A report that was asked for so long after NOW."""
    asked_at = NOW + seconds(moment_seconds)
    return replace(view(), answered_at=asked_at, silent_since=asked_at if silent else None, asked_at=asked_at)


@pytest.mark.parametrize(
    ("evidence", "first", "second", "allowed"),
    [
        pytest.param(SEEN, asked_at(1), asked_at(2), True, id="both were asked since the map is in place"),
        pytest.param(SEEN, asked_at(1), asked_at(0), False, id="one was asked in the same moment"),
        pytest.param(SEEN, asked_at(1), asked_at(-1), False, id="one was asked before"),
        pytest.param(SEEN, asked_at(1), asked_at(1, silent=True), False, id="one is silent now"),
        pytest.param(SEEN, asked_at(1), AgentView(), False, id="one never answered"),
        pytest.param(SEEN, asked_at(1), None, False, id="one was never asked"),
        pytest.param(Evidence(), asked_at(1), asked_at(1), False, id="an operator that has just started"),
        pytest.param(NEWER_MAP, asked_at(1), asked_at(1), False, id="the map is newer"),
        pytest.param(
            replace(SEEN, maps_seen={GROUP_UID: ((3, (("u", False),)), NOW)}),
            asked_at(1),
            asked_at(1),
            False,
            id="the members changed",
        ),
    ],
)
def test_replica_is_dropped_only_on_new_evidence(
    evidence: Evidence, first: AgentView, second: AgentView | None, allowed: bool
) -> None:
    """A report from before the map may tell of a replica that another drop took away since."""
    seen = Observation(NOW, agent_views={"node-1": first} | ({"node-2": second} if second else {}))
    assert evidence.allows_drop(GROUP, (), 0, seen) is allowed


@pytest.mark.parametrize("bucket", [1, 2, 7])
@pytest.mark.parametrize(
    ("evidence", "allowed"),
    [pytest.param(SEEN, True, id="the map was seen"), pytest.param(NEWER_MAP, False, id="the map is newer")],
)
def test_buckets_of_a_predecessor_need_no_report(evidence: Evidence, allowed: bool, bucket: int) -> None:
    """A group of this name had more buckets than the one of now: no node of its map succeeds one that had these."""
    assert evidence.allows_drop(GROUP, (), bucket, Observation(NOW)) is allowed


def test_replica_is_dropped_only_once_readers_know_the_nodes_of_its_successors() -> None:
    """A query asks the nodes that the group had when it was planned, and those that the kubelet has brought since. Here
    bucket 0 comes to node 3, which the group has not had before, and bucket 1 between nodes that all readers know.
    """
    before = replace(GROUP, status=MAP.model_copy(update={"backends_per_bucket_seq": (("node-1",), ("node-2",))}))
    moved = (("node-1", "node-3"), ("node-1",))
    after = replace(GROUP, status=MAP.model_copy(update={"backends_per_bucket_seq": moved, "map_version": 4}))
    evidence = Evidence().after(Observation(LONG_AGO, groups=(before,)), ())
    evidence = evidence.after(Observation(NOW, groups=(after,)), ())

    def allowed(after_seconds: float) -> list[bool]:
        views = dict.fromkeys(("node-1", "node-2", "node-3"), asked_at(after_seconds))
        seen = Observation(NOW + seconds(after_seconds), groups=(after,), agent_views=views)
        return [evidence.after(seen, ()).allows_drop(after, (), bucket, seen) for bucket in (0, 1)]

    assert allowed(READERS_LEARN_SECONDS - 1) == [False, True]
    assert allowed(READERS_LEARN_SECONDS) == [True, True]


def test_node_that_comes_back_into_a_map_is_new_to_readers() -> None:
    """Pods that were made in between have never heard of it."""
    without = replace(GROUP, status=MAP.model_copy(update={"backends_per_bucket_seq": ((),), "map_version": 4}))
    again = replace(GROUP, status=MAP.model_copy(update={"map_version": 5}))
    evidence = SEEN.after(Observation(NOW, groups=(without,)), ())
    seen = Observation(LATER, groups=(again,), agent_views={"node-1": asked_at(2), "node-2": asked_at(2)})
    assert not evidence.after(seen, ()).allows_drop(again, (), 0, seen)


def test_map_is_seen_once() -> None:
    """The time stands as long as the version does."""
    evidence = Evidence().after(Observation(NOW, groups=(GROUP,)), ())
    assert evidence.after(Observation(LATER, groups=(GROUP,)), ()) == evidence
    changed = replace(GROUP, status=MAP.model_copy(update={"map_version": 4}))
    assert evidence.after(Observation(LATER, groups=(changed,)), ()).maps_seen == {GROUP_UID: ((4, ()), LATER)}


def test_group_without_a_map_is_seen_but_drops_nothing() -> None:
    """A table may leave it once agents were asked since."""
    unplaced = replace(GROUP, status=ColocationGroupStatus())
    evidence = Evidence().after(Observation(NOW, groups=(unplaced,)), ())
    views = {"node-1": asked_at(1)}
    assert evidence.is_newer(unplaced, views, views)
    assert not evidence.allows_drop(unplaced, (), 0, Observation(NOW, agent_views=views))


def test_nothing_is_dropped_before_the_group_knows_its_tables() -> None:
    """One that came from another group is known to be whole only by reports since this group's status names it."""
    shown = Observation(NOW, agent_views={"node-1": asked_at(1), "node-2": asked_at(1)})
    orders = table("orders")
    assert not SEEN.allows_drop(GROUP, (orders,), 0, shown)
    known = GroupMember(namespace="shop", name="orders", uid=orders.identity.uid)
    known_group = replace(GROUP, status=MAP.model_copy(update={"members": (known,)}))
    assert not SEEN.allows_drop(known_group, (orders,), 0, shown), "it was not seen before"
    seen = replace(SEEN, maps_seen={GROUP_UID: ((3, ((orders.identity.uid, False),)), NOW)})
    assert seen.allows_drop(known_group, (orders,), 0, shown)


PROGRESS = CloneProgress(
    namespace="shop", group="sales", bucket=0, bytes_done=7, bytes_total=10, updated_at="1970-01-01T00:00:00Z"
)
PROOF = DeletionProof(instance="a", not_after_seconds=30, term=1, table_uid="u")
ORDERS = table("orders")
KEY = ("shop", ORDERS.directory)
ORDERED = {
    "a bucket": DropBucket(GROUP.identity, 3, "node-3", "https://3:8440", 0, (TableDrop(*KEY, ("m",), PROOF),), 60),
    "a folder": RecycleTable("node-3", "https://3:8440", *KEY, 60, PROOF),
}
LEFT = {"a bucket": {1}, "a folder": None}


def holding(moment_seconds: float) -> dict[str, AgentView]:
    """A report that still shows all of the table, asked for so long after NOW."""
    report = view(table_report(ORDERS, {0: "complete", 1: "complete"}), unknown=("shop/other-1", "/".join(KEY)))
    asked_at = NOW + seconds(moment_seconds)
    return {"node-3": replace(report, answered_at=asked_at, asked_at=asked_at)}


@pytest.mark.parametrize("what", ORDERED)
@pytest.mark.parametrize(
    ("asked_at", "gone"),
    [
        pytest.param(-1, True, id="asked before the order"),
        pytest.param(29, True, id="asked while the order may still run"),
        pytest.param(32, False, id="asked when the order was void"),
    ],
)
def test_what_was_ordered_away_counts_as_gone_until_the_order_is_void(what: str, asked_at: float, gone: bool) -> None:
    """An order may wait in a queue while newer reports come: they may tell of files that it deletes afterwards."""
    evidence = Evidence().after(Observation(NOW), (ORDERED[what],))
    shown = Observation(NOW + seconds(40), agent_views=holding(asked_at))
    trusted = evidence.trusted(shown)
    if not gone:
        assert trusted is shown
        assert evidence.after(shown, ()).ordered == {}
        return
    found = trusted.agent_views["node-3"].tables.get(KEY)
    assert (set(found.buckets) if found else None) == LEFT[what]
    assert evidence.after(shown, ()).ordered == evidence.ordered
    report = trusted.agent_views["node-3"].report
    assert report is not None
    left = ("shop/other-1",) if what == "a folder" else ("shop/other-1", "/".join(KEY))
    assert report.unknown_directories == left, "it is not ordered twice"


@pytest.mark.parametrize("what", ORDERED)
@pytest.mark.parametrize("shown", [view(), AgentView()], ids=["reports nothing of it", "never answered"])
def test_what_was_ordered_away_may_be_gone_already(what: str, shown: AgentView) -> None:
    """Nothing is left to be taken off."""
    seen = Observation(NOW, agent_views={"node-3": replace(shown, answered_at=NOW)})
    assert Evidence().after(seen, (ORDERED[what],)).trusted(seen) == seen


def test_files_that_cannot_be_named_count_as_gone_too() -> None:
    """A bucket that was ordered away, of which the node has such files only."""
    shown = holding(-1)["node-3"]
    report = replace(shown.tables[KEY], buckets={}, unnamed_buckets=(0, 1))
    seen = Observation(NOW, agent_views={"node-3": replace(shown, tables={KEY: report})})
    trusted = Evidence().after(Observation(NOW), (ORDERED["a bucket"],)).trusted(seen)
    assert trusted.agent_views["node-3"].tables[KEY].unnamed_buckets == (1,)


def test_order_that_ended_needs_one_newer_report_only() -> None:
    """The agent has answered: what it reports from then on is true."""
    action = ORDERED["a bucket"]
    evidence = Evidence().after(Observation(NOW), (action,)).ended((action,), NOW + seconds(1))
    still = Observation(NOW + seconds(3), agent_views=holding(1))
    assert set(evidence.trusted(still).agent_views["node-3"].tables[KEY].buckets) == {1}
    spoken = Observation(NOW + seconds(3), agent_views=holding(2))
    assert evidence.trusted(spoken) is spoken
    assert Evidence().ended((action,), NOW) == Evidence(), "of an order that was not its own"


def test_agents_are_doubted_until_the_last_order_to_them_has_ended() -> None:
    """They are asked again then."""
    first, second = ORDERED["a bucket"], ORDERED["a folder"]
    until = NOW + seconds(31)
    for orders in ((first, second), (second, first)):
        evidence = Evidence().after(Observation(NOW - seconds(5)), orders[:1]).after(Observation(NOW), orders[1:])
        assert evidence.doubtful == {"node-3": until}
    assert evidence.ended((first,), NOW).ended((second,), NOW + seconds(1)).doubtful == {"node-3": NOW + seconds(1)}


def test_orders_to_a_node_that_is_gone_are_forgotten_when_they_are_void() -> None:
    """No one is left who could say more; what is remembered does not grow."""
    evidence = Evidence().after(Observation(NOW), (ORDERED["a bucket"],))
    assert evidence.after(Observation(NOW + seconds(20)), ()).ordered == evidence.ordered
    assert evidence.after(Observation(NOW + seconds(31)), ()).ordered == {}


@pytest.mark.parametrize("is_explained", [True, False])
def test_folders_that_go_unexplained_are_counted_for_an_hour(is_explained: bool) -> None:
    """Those of tables that somebody dropped are not."""
    order = RecycleTable("node-3", "https://3:8440", *KEY, 60, PROOF, is_explained, 7)
    evidence = Evidence().after(Observation(NOW), (order, ORDERED["a bucket"], RESTORE))
    expected = {} if is_explained else {("node-3", "/".join(KEY)): (NOW, 7)}
    assert evidence.unexplained == expected
    hour = NOW + BRAKE_WINDOW
    assert evidence.after(Observation(hour - seconds(1)), ()).unexplained == expected
    assert evidence.after(Observation(hour), ()).unexplained == {}
    assert evidence.unexplained_in_window(Observation(NOW)) == (() if is_explained else (7,))
    lying = Observation(NOW, agent_views={"node-3": view(unknown=("/".join(KEY),))})
    assert evidence.unexplained_in_window(lying) == (), "it is there still"


RESTORE = RestoreTable("node-3", "https://3:8440", *KEY, "orders-99999999", 7)


@pytest.mark.parametrize(
    ("after_seconds", "other", "asked"),
    [(119, False, False), (120, False, True), (0, True, True)],
    ids=["a moment ago", "two minutes ago", "another one"],
)
def test_an_order_that_may_have_been_in_vain_is_given_now_and_then(
    after_seconds: float, other: bool, asked: bool
) -> None:
    """And what is remembered of it does not grow."""
    evidence = Evidence().after(Observation(NOW), (RESTORE, ORDERED["a bucket"]))
    order = replace(RESTORE, node="node-4") if other else RESTORE
    now = NOW + seconds(after_seconds)
    assert list(evidence.not_asked_lately([order], now)) == [order] * asked
    assert evidence.after(Observation(now), ()).restored == ({} if after_seconds == 120 else {RESTORE: NOW})


def test_time_of_a_clock_that_is_ahead_counts_from_when_it_was_first_seen() -> None:
    """A node that is down, and a Job that failed, an hour in the future: tolerance and back-off begin now, and end."""
    hour = NOW + seconds(3600)
    down = replace(node("node-1", ready=False), ready_changed_at=hour)
    failed = clone_job("failed", 1, hour)
    first = Observation(NOW, nodes=(down,), clone_jobs=(failed,))
    evidence = Evidence().after(first, ())
    for moment in (NOW, NOW + seconds(60), NOW + seconds(1800)):
        later = replace(first, now=moment)
        trusted, evidence = evidence.trusted(later), evidence.after(later, ())
        assert trusted.nodes[0].ready_changed_at == NOW
        assert trusted.clone_jobs[0].finished_at == NOW
    over = replace(first, now=hour + seconds(1), nodes=(), clone_jobs=())
    assert evidence.after(over, ()).future_seen == {}, "what is remembered does not grow"


def test_only_times_in_the_future_are_replaced() -> None:
    """Each by when it was first seen itself; a node whose Ready condition has no time has none."""
    hour, past = NOW + seconds(3600), NOW - seconds(60)
    times = {"ahead": hour, "past": past, "none": None}
    nodes = tuple(replace(node(name, ready=False), ready_changed_at=time) for name, time in times.items())
    jobs = tuple(
        replace(job, identity=replace(job.identity, uid=name))
        for name, time in times.items()
        for job in [clone_job("failed", 1, time)]
    )
    first = Observation(NOW, nodes=nodes, clone_jobs=jobs)
    evidence = Evidence().after(first, ())
    assert set(evidence.future_seen.values()) == {NOW} and len(evidence.future_seen) == 2
    late = replace(node("late", ready=False), ready_changed_at=hour)
    late_job = replace(jobs[0], identity=replace(jobs[0].identity, uid="late"))
    second = Observation(NOW + seconds(60), nodes=(*nodes, late), clone_jobs=(*jobs, late_job))
    trusted = evidence.after(second, ()).trusted(replace(second, now=NOW + seconds(70)))
    assert [one.ready_changed_at for one in trusted.nodes] == [NOW, past, None, second.now]
    assert [one.finished_at for one in trusted.clone_jobs] == [NOW, past, None, second.now]
    alone = evidence.trusted(replace(second, nodes=nodes, clone_jobs=()))
    assert [one.ready_changed_at for one in alone.nodes] == [NOW, past, None]


def test_clone_has_not_advanced_since_its_bytes_were_first_seen() -> None:
    """By the operator's own clock, whatever the agent's reports."""
    reported = view(clones=(PROGRESS,))
    seen = Observation(NOW, clone_jobs=(clone_job(),), agent_views={"node-3": reported})
    evidence = Evidence().after(seen, ())
    later = replace(seen, now=NOW + seconds(50))
    assert evidence.trusted(later).clone_jobs[0].advanced_at == NOW
    more = replace(later, agent_views={"node-3": view(clones=(PROGRESS.model_copy(update={"bytes_done": 8}),))})
    assert evidence.trusted(more).clone_jobs[0].advanced_at == later.now
    looking = replace(later, agent_views={"node-3": view(clones=(PROGRESS.model_copy(update={"steps": 1}),))})
    assert evidence.trusted(looking).clone_jobs[0].advanced_at == later.now, "it has looked at a file"
    pending = replace(later, clone_jobs=(clone_job("pending"),))
    assert evidence.trusted(pending).clone_jobs[0].advanced_at == later.now
