"""When a table that moves to another group may arrive there, and when its clones start again."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from colocation.manifests.clone_job import clone_job_name
from colocation.model.agent import CloneProgress, DiskReport
from colocation.model.clone import RESERVED_FOR_REPAIRS, CloneBandwidth
from colocation.model.group import ColocationGroupStatus
from colocation.model.snapshot import Limits
from colocation.model.table import TableSnapshot
from colocation.reconcile.actions import PostEvent, RemoveClone, StartClone, WriteTableStatus
from colocation.reconcile.decide import decide
from colocation.reconcile.evidence import Evidence
from colocation.reconcile.scopes import Containment
from colocation.reconcile.transfers import Transfer, transfers_of
from colocation.state.assemble import assemble
from colocation.state.clone_jobs import transfer_name
from colocation.state.objects import ObservedCloneJob
from colocation.state.observation import Observation
from colocation.state.placement import member_of

from ..state.objects import NOW, agent, clone_job, group, node, seconds, table_report
from ..state.test_membership import placed
from .scenes import (
    MAP,
    MAP_VERSION,
    NODES,
    OWN,
    POLICY,
    SETTLED,
    actions_of,
    agent_view,
    decided,
    held_by,
    observe,
)

ORDERS = placed("orders", "sales", "stock")
STATUS = {"stable": True, "backends_per_bucket_seq": MAP, "map_version": MAP_VERSION}
SALES = group("sales", ColocationGroupStatus.model_validate({**STATUS, "members": (member_of(ORDERS, leaving=True),)}))
STOCK = group("stock", ColocationGroupStatus.model_validate(STATUS))
STOCK = replace(STOCK, identity=replace(STOCK.identity, uid="cafebabe-group"))


def observed(without: str = "", not_ready: str = "", jobs: tuple[ObservedCloneJob, ...] = ()) -> Observation:
    """The old group has promised to delete nothing; all nodes hold the table but those named."""
    reports = {name: [] if name == without else [held_by(name, ORDERS)] for name in NODES}
    views = {name: agent_view(SALES, (ORDERS,), found) for name, found in reports.items()}
    nodes = tuple(node(name, ready=name != not_ready) for name in NODES)
    return observe(SALES, (ORDERS,), views, groups=(SALES, STOCK), nodes=nodes, clone_jobs=jobs)


@pytest.mark.parametrize(
    ("fields", "group_name"),
    [
        pytest.param({}, "stock", id="every replica is complete"),
        pytest.param({"without": "node-3"}, "sales", id="a replica is missing"),
        pytest.param({"not_ready": "node-3"}, "sales", id="a replica's node is down"),
    ],
)
def test_a_table_arrives_once_every_replica_is_complete_on_a_live_node(fields: dict[str, str], group_name: str) -> None:
    """A replica on a node that is down serves no query, and may never come back."""
    decision = decided(observed(**fields))
    written = [one.status.get("group") for one in actions_of(decision, WriteTableStatus)]
    assert ([*written, "sales"])[0] == group_name
    moved = [one.message for one in actions_of(decision, PostEvent) if one.reason == "TableMoved"]
    assert moved == ["from group sales to group stock"] * (group_name == "stock")


@pytest.mark.parametrize(
    ("failures", "sources"),
    [(0, ["node-2", "node-1"]), (1, ["node-1", "node-2"]), (2, ["node-2", "node-1"])],
)
def test_a_moving_tables_clone_reads_a_complete_replica_first(failures: int, sources: list[str]) -> None:
    """Then the next one after each failure."""
    seen = observed(without="node-3")
    partial = table_report(ORDERS, {0: "complete", 1: "partial"})
    views = {**seen.agent_views, "node-1": agent_view(SALES, (ORDERS,), [partial])}
    name = clone_job_name(ORDERS.identity.uid, 1, "node-3")
    job = clone_job("failed", failures=failures, finished_at=NOW - seconds(3600))
    job = replace(job, identity=replace(job.identity, name=name), bucket=1, source=None)
    job = replace(job, group=transfer_name(ORDERS.identity.uid))
    seen = replace(seen, agent_views=views, clone_jobs=(job,) * (failures > 0))
    [started] = [one for one in actions_of(decided(seen), StartClone) if one.name == name]
    assert [one.node for one in started.spec.sources] == sources


def test_a_table_does_not_arrive_on_reports_from_before_the_promise() -> None:
    """This operator has yet to ask agents since it saw that the old group deletes nothing of the table any more."""
    written = actions_of(decide(observed(), Evidence(), POLICY, collect=False), WriteTableStatus)
    assert "stock" not in [one.status.get("group") for one in written]


def test_a_table_does_not_arrive_in_a_group_without_a_map() -> None:
    """No node is named for any of its replicas, so none is missing."""
    unplaced = replace(STOCK, status=ColocationGroupStatus())
    decision = decided(replace(observed(), groups=(SALES, unplaced)))
    assert "stock" not in [one.status.get("group") for one in actions_of(decision, WriteTableStatus)]
    assert decision.errors == {}


@pytest.mark.parametrize(
    ("orders", "lines", "arrives"),
    [(True, False, True), (True, True, True), (False, False, False), (False, True, False)],
)
def test_a_table_arrives_once_the_old_group_promises_to_delete_nothing_of_it(
    orders: bool, lines: bool, arrives: bool
) -> None:
    """Of this very table: by its status, whether another one leaves or not."""
    other = placed("lines", "sales", "sales")
    members = (member_of(ORDERS, leaving=orders), member_of(other, leaving=lines))
    sales = replace(SALES, status=SALES.status.model_copy(update={"members": members}))
    written = actions_of(decided(replace(observed(), groups=(sales, STOCK))), WriteTableStatus)
    assert ("stock" in [one.status.get("group") for one in written]) is arrives


def test_a_bucket_without_files_is_not_waited_for() -> None:
    """Node 3 is to have that one only."""
    seen = observed(without="node-3")
    [key] = seen.bucket_bytes
    written = actions_of(decided(replace(seen, bucket_bytes={key: {0: 50}})), WriteTableStatus)
    assert [one.status["group"] for one in written] == ["stock"]


@pytest.mark.parametrize(("bucket", "lacking"), [(0, "node-1"), (1, "node-2")])
def test_a_table_arrives_with_its_retained_snapshots(bucket: int, lacking: str) -> None:
    """A node of the new group's map lacks files of them, which another one has: the old replicas go afterwards."""
    older = TableSnapshot(id=0, manifest=f"sha256:{'b' * 64}", committed_at="2026-11-20T00:00:00Z")
    orders = replace(ORDERS, status=ORDERS.status.model_copy(update={"history": (older,)}))
    seen = replace(observed(), tables=(orders,))
    whole = {name: held_by(name, orders) for name in NODES}
    some = {**whole, lacking: replace(whole[lacking], retained_missing=(bucket,))}
    for shown, arrives in ((whole, True), (some, False)):
        views = {name: agent_view(SALES, (orders,), [one]) for name, one in shown.items()}
        decision = decided(replace(seen, agent_views=views))
        assert ("stock" in [one.status.get("group") for one in actions_of(decision, WriteTableStatus)]) is arrives
        assert decision.errors == {}


def moving(observation: Observation) -> Transfer:
    """What is found of the only table that moves."""
    found, evidence = decided(observation), Evidence().after(replace(observation, now=SETTLED), ())
    [transfer] = transfers_of(assemble(observation), found.snapshot, found.plan, evidence, Containment())
    return transfer


SPARE = replace(moving(observed(without="node-3")), shortage=None)
TO_STOCK = "from group sales, which places it until then, to group stock"


@pytest.mark.parametrize(
    ("changes", "reason", "is_stalled", "message"),
    [
        pytest.param({}, "Moving", False, f"{TO_STOCK}: 3 of 4 replicas", id="on its way"),
        pytest.param({"shortage": "no room"}, "InsufficientSpace", True, f"{TO_STOCK}: 3 of 4 replicas; no room",
                     id="no room"),
        pytest.param({"failing": "boom"}, "TargetFailing", True, f"{TO_STOCK}: 3 of 4 replicas; boom", id="failing"),
        pytest.param({"shortage": "no room", "failing": "boom"}, "InsufficientSpace", True,
                     f"{TO_STOCK}: 3 of 4 replicas; no room; boom", id="both"),
        pytest.param({"target": replace(STOCK, status=ColocationGroupStatus())}, "Moving", False,
                     f"{TO_STOCK}, which has no map yet", id="nowhere to go"),
    ],
)  # fmt: skip
def test_a_user_reads_how_far_a_table_is(
    changes: dict[str, Any], reason: str, is_stalled: bool, message: str
) -> None:
    """And what is in its way."""
    found = replace(SPARE, **changes)
    assert (found.reason, found.is_stalled, found.message) == (reason, is_stalled, message)


@pytest.mark.parametrize(("retry_at", "is_left_out"), [("2026-11-21T12:00:01Z", True), ("2026-11-21T12:00:00Z", False)])
def test_nodes_on_which_clones_fail_get_none_until_their_time_comes(retry_at: str, is_left_out: bool) -> None:
    """Those that lack a replica are named; here nodes 1 and 3."""
    failing = [{"node": name, "failures": 3, "retryAt": retry_at, "message": "disk"} for name in NODES]
    stock = replace(STOCK, status=ColocationGroupStatus.model_validate({**STATUS, "failingTargets": failing}))
    bare = {name: agent_view(SALES, (ORDERS,), []) for name in ("node-1", "node-3")}
    seen = replace(observed(), groups=(SALES, stock))
    seen = replace(seen, agent_views={**seen.agent_views, **bare})
    words = f"3 clones to node {{}} failed: disk; it is tried again at {retry_at}"
    found = moving(seen)
    assert found.failing == ("; ".join(map(words.format, ("node-1", "node-3"))) if is_left_out else None)
    started = [one.spec for one in actions_of(decided(seen), StartClone)]
    assert {one.target for one in started if one.group == MOVING} == (set() if is_left_out else {"node-1", "node-3"})


MOVING = transfer_name(ORDERS.identity.uid)


def job_of(bucket: int = 1, target: str = "node-3", phase: str = "running", **fields: Any) -> ObservedCloneJob:
    """A clone of the table that moves."""
    made = replace(clone_job(phase), group=MOVING, bucket=bucket, target=target, source=None)
    name = clone_job_name(ORDERS.identity.uid, bucket, target)
    return replace(made, identity=replace(made.identity, name=name), **fields)


def copied(bytes_done: int, group_name: str) -> CloneProgress:
    updated_at = "1970-01-01T00:00:00Z"
    return CloneProgress(
        namespace="shop", group=group_name, bucket=1, bytes_done=bytes_done, bytes_total=50, updated_at=updated_at
    )


FAILED = job_of(phase="failed", failures=1, finished_at=NOW)


@pytest.mark.parametrize(
    ("job", "bytes_done", "not_ready", "short"),
    [
        pytest.param(None, 0, "", 50, id="nothing was copied"),
        pytest.param(None, 0, "node-3", None, id="its node is down: what it had may be there still"),
        pytest.param(FAILED, 20, "", 30, id="an attempt failed on the way"),
        pytest.param(FAILED, 70, "", None, id="an attempt failed at the end"),
        pytest.param(job_of(), 20, "", None, id="a clone runs: its bytes are counted already"),
        pytest.param(replace(FAILED, group="sales"), 20, "", 50, id="a clone of another table"),
    ],
)
def test_what_a_moving_table_has_yet_to_take_of_a_disk(
    job: ObservedCloneJob | None, bytes_done: int, not_ready: str, short: int | None
) -> None:
    """The disk has no room at all."""
    seen = observed(without="node-3", not_ready=not_ready, jobs=(job,) if job else ())
    view = seen.agent_views["node-3"]
    assert view.report is not None
    progress = copied(bytes_done, job.group if job else MOVING)
    shown = {"capacity_bytes": 1000, "free_bytes": 0, "clones": (progress,)}
    full = replace(view, report=view.report.model_copy(update=shown))
    found = moving(replace(seen, agent_views={**seen.agent_views, "node-3": full}))
    expected = f"node node-3 is to take {short} bytes and has room for 0 (" if short else None
    assert (found.shortage or "").startswith(expected) if expected else found.shortage is None


@pytest.mark.parametrize(
    ("job", "is_removed"),
    [
        pytest.param(job_of(phase="pending"), False, id="its pod waits"),
        pytest.param(job_of(phase="succeeded", finished_at=NOW - seconds(29)), False, id="its files are looked for"),
        pytest.param(job_of(phase="succeeded", finished_at=NOW - seconds(30)), True, id="its files were not found"),
        pytest.param(job_of(phase="succeeded"), True, id="it is not known when it ended"),
        pytest.param(job_of(phase="running"), False, id="it runs"),
    ],
)
@pytest.mark.parametrize("deleting", [False, True])
def test_a_job_of_a_missing_replica_stays_until_it_is_over(
    job: ObservedCloneJob, is_removed: bool, deleting: bool
) -> None:
    """Nothing is started in its place before."""
    job = replace(job, identity=replace(job.identity, deleting=deleting))
    seen = observed(without="node-3", jobs=(job,))
    evidence = Evidence().after(replace(seen, now=SETTLED, clone_jobs=()), ())
    decision = decide(seen, evidence, POLICY, collect=False)
    assert [one.job for one in actions_of(decision, RemoveClone)] == [job.identity] * (is_removed and not deleting)
    assert job.identity.name not in [one.name for one in actions_of(decision, StartClone)]


@pytest.mark.parametrize("jobs", [(), (job_of(0, "node-2"),), (job_of(0, "node-2", "pending"),)])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_group_starts_no_more_clones_of_a_moving_table_than_it_may(
    jobs: tuple[ObservedCloneJob, ...], most: int
) -> None:
    """Those that run are counted; the table lacks four replicas."""
    stock = replace(STOCK, spec=group(balancing={"maxConcurrentClones": most}).spec)
    nothing = {name: agent_view(SALES, (ORDERS,), []) for name in NODES}
    giver = {"node-4": agent_view(SALES, (ORDERS,), [table_report(ORDERS, {0: "complete", 1: "complete"})])}
    seen = observe(
        SALES, (ORDERS,), {**nothing, **giver}, groups=(SALES, stock), clone_jobs=jobs,
        nodes=tuple(map(node, (*NODES, "node-4"))), agents=tuple(map(agent, (*NODES, "node-4"))),
    )  # fmt: skip
    policy = replace(POLICY, limits=Limits(max_concurrent_clones_per_node=99))
    started = actions_of(decide(seen, Evidence(), policy, collect=False), StartClone)
    assert len([one for one in started if one.spec.group == MOVING]) == most - len(jobs)


@pytest.mark.parametrize("limit", [10, 1000])
def test_clones_of_moving_tables_leave_bandwidth_to_repairs(limit: int) -> None:
    """Of few clones in the whole cluster at one time."""
    bandwidth = CloneBandwidth(perClusterMiBPerSecond=limit, perNodeMiBPerSecond=10)
    policy = replace(POLICY, limits=Limits(clone_bandwidth=bandwidth, max_concurrent_clones_per_node=99))
    decision = decide(observed(without="node-2"), Evidence(), policy, collect=False)
    started = [one.spec.group for one in actions_of(decision, StartClone)]
    assert bandwidth.max_clones is not None
    reserved = RESERVED_FOR_REPAIRS if limit == 10 else 0
    assert started.count("sales") == 2
    assert started.count(MOVING) == min(2, bandwidth.max_clones - reserved - 2)


@pytest.mark.parametrize(
    ("gone", "sources"),
    [
        pytest.param({}, ["node-1", "node-2"], id="all are there"),
        pytest.param({"not_ready": "node-1"}, ["node-2"], id="one is down"),
        pytest.param({"no_pod": ("node-2",)}, ["node-1"], id="one has no agent's pod"),
        pytest.param({"no_pod": ("node-1", "node-2")}, None, id="no one has a pod"),
    ],
)
def test_a_moving_tables_clone_reads_from_nodes_that_can_be_reached(
    gone: dict[str, Any], sources: list[str] | None
) -> None:
    """At their nodes' ports, which outlive the pods; on the disk that the target reported. Else it waits."""
    seen = observed(without="node-3", not_ready=gone.get("not_ready", ""))
    target = agent_view(SALES, (ORDERS,), [table_report(ORDERS, {1: "partial"})])
    assert target.report is not None
    target = replace(target, report=target.report.model_copy(update={"disk": DiskReport(id=OWN)}))
    whole = agent_view(SALES, (ORDERS,), [table_report(ORDERS, {0: "complete", 1: "complete"})])
    addresses = {name: None if name in gone.get("no_pod", ()) else "10.0.0.1" for name in NODES}
    served: dict[str, Any] = {"node_address": "192.168.0.1", "node_port": 7070}
    agents = [replace(agent(*one), shares_certificate=one[0] == "node-1", **served) for one in addresses.items()]
    agents = [one for one in agents if one.address]
    views = {"node-1": whole, "node-2": whole, "node-3": target}
    decision = decided(replace(seen, agents=tuple(agents), agent_views=views))
    specs = [one.spec for one in actions_of(decision, StartClone) if one.spec.group == MOVING and one.spec.bucket == 1]
    assert [[one.node for one in spec.sources] for spec in specs] == ([] if sources is None else [sources])
    assert all(one.shares_certificate is (one.node == "node-1") for spec in specs for one in spec.sources)
    assert {one.url for spec in specs for one in spec.sources} <= {"https://192.168.0.1:7070"}
    assert {spec.disk_id for spec in specs} <= {OWN}
    assert decision.errors == {}


@pytest.mark.parametrize("is_gone", [False, True], ids=["its node is down", "its node is gone"])
def test_no_clone_goes_to_a_node_that_is_not_there(is_gone: bool) -> None:
    """The table waits for the map."""
    seen = observed(without="node-3", not_ready="node-3")
    nodes = tuple(one for one in seen.nodes if not is_gone or one.name != "node-3")
    decision = decided(replace(seen, nodes=nodes))
    assert [one.spec.target for one in actions_of(decision, StartClone) if one.spec.group == MOVING] == []
    assert decision.errors == {}


def test_jobs_of_a_table_that_is_gone_are_removed() -> None:
    """They copy what no one wants; one that is being deleted is left alone."""
    running, going = job_of(), job_of(bucket=0, target="node-2")
    going = replace(going, identity=replace(going.identity, deleting=True))
    seen = replace(observed(jobs=(running, going)), tables=())
    assert {one.job for one in actions_of(decided(seen), RemoveClone)} == {running.identity}
    arrived = replace(observed(jobs=(going,)), tables=(placed("orders", "stock", "stock"),))
    assert actions_of(decided(arrived), RemoveClone) == []


@pytest.mark.parametrize(("seconds_ago", "starts"), [(39, False), (40, True)])
def test_a_failed_clone_of_a_moving_table_is_tried_again_when_its_time_comes(seconds_ago: int, starts: bool) -> None:
    """Not with each pass: a source or a disk that fails is left alone for a while."""
    name, moving = clone_job_name(ORDERS.identity.uid, 1, "node-3"), transfer_name(ORDERS.identity.uid)
    job = clone_job("failed", failures=3, finished_at=NOW - seconds(seconds_ago))
    job = replace(job, identity=replace(job.identity, name=name), group=moving, bucket=1, source=None, message="boom")
    decision = decided(observed(without="node-3", jobs=(job,)))
    started = [one for one in actions_of(decision, StartClone) if one.spec.group == moving]
    assert [(one.name, one.replaces) for one in started] == [(name, job.identity)] * starts
    failed = [one.message for one in actions_of(decision, PostEvent) if one.reason == "CloneFailed"]
    assert failed == ["bucket 1 to node node-3: attempt 3 failed: boom"] * starts


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_a_node_receives_no_more_clones_than_allowed(limit: int) -> None:
    """Those of its own group's repair are counted, too: the node lacks two buckets in both groups."""
    policy = replace(POLICY, limits=Limits(max_concurrent_clones_per_node=limit))
    decision = decide(observed(without="node-2"), Evidence(), policy, collect=False)
    assert [one.spec.target for one in actions_of(decision, StartClone)] == ["node-2"] * limit


@pytest.mark.parametrize(("free_bytes", "targets"), [(1000, {"node-1", "node-3"}), (0, set())], ids=["room", "none"])
def test_nothing_of_a_moving_table_is_copied_while_one_node_lacks_room(free_bytes: int, targets: set[str]) -> None:
    """The table could not arrive, and the copies on the other nodes would take the room of repairs."""
    seen = observed()
    lacking = {name: agent_view(SALES, (ORDERS,), []) for name in ("node-1", "node-3")}
    report = lacking["node-3"].report
    assert report is not None
    short = report.model_copy(update={"capacity_bytes": 1000, "free_bytes": free_bytes})
    lacking["node-3"] = replace(lacking["node-3"], report=short)
    started = actions_of(decided(replace(seen, agent_views={**seen.agent_views, **lacking})), StartClone)
    moving = transfer_name(ORDERS.identity.uid)
    assert {one.spec.target for one in started if one.spec.group == moving} == targets


@pytest.mark.parametrize("placed_by", ["sales", "stock"], ids=["others are still copied", "the table has arrived"])
@pytest.mark.parametrize(
    ("fields", "since", "is_removed"),
    [
        pytest.param({}, NOW, False, id="its agent has just found the files, and it checks them once more"),
        pytest.param({}, SETTLED, True, id="it hangs"),
        pytest.param({"target": "node-9"}, NOW, True, id="the map wants nothing there"),
        pytest.param({"bucket": 2}, NOW, True, id="the map has no such bucket"),
        pytest.param({"phase": "failed", "finished_at": NOW}, NOW, True, id="it waits for another attempt"),
    ],
)
def test_a_clone_job_that_is_about_to_end_is_not_removed(
    placed_by: str, fields: dict[str, Any], since: datetime, is_removed: bool
) -> None:
    """One that is removed while it runs leaves its folder on the node for a day."""
    job = replace(clone_job("running", failures=1), group=transfer_name(ORDERS.identity.uid), bucket=1, target="node-2")
    job = replace(job, source=None, **fields)
    name = clone_job_name(ORDERS.identity.uid, job.bucket, job.target)
    job = replace(job, identity=replace(job.identity, name=name))
    moved = placed("orders", "stock", "stock")
    stays = {"members": (member_of(moved, leaving=False),)}
    arrived = replace(STOCK, status=STOCK.status.model_copy(update=stays))
    seen = observed(without="node-3", jobs=(job,))
    if placed_by == "stock":
        seen = replace(seen, tables=(moved,), groups=(arrived,))
    known = Evidence().after(replace(seen, now=SETTLED, clone_jobs=()), ())
    if since < NOW:
        known = known.after(replace(seen, now=since), ())
    removed = actions_of(decide(seen, known, POLICY, collect=False), RemoveClone)
    assert [one.job.name for one in removed] == [name] * is_removed
