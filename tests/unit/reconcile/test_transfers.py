"""When a table that moves to another group may arrive there, and when its clones start again."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from colocation.manifests.clone_job import clone_job_name
from colocation.model.group import ColocationGroupStatus
from colocation.model.snapshot import Limits
from colocation.reconcile.actions import PostEvent, RemoveClone, StartClone, WriteTableStatus
from colocation.reconcile.decide import decide
from colocation.reconcile.evidence import Evidence
from colocation.state.clone_jobs import transfer_name
from colocation.state.objects import ObservedCloneJob
from colocation.state.observation import Observation
from colocation.state.placement import member_of

from ..state.objects import NOW, clone_job, group, node, seconds, table_report
from ..state.test_membership import placed
from .scenes import MAP, MAP_VERSION, NODES, POLICY, SETTLED, actions_of, agent_view, decided, held_by, observe

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
    written = actions_of(decided(replace(observed(), groups=(SALES, unplaced))), WriteTableStatus)
    assert "stock" not in [one.status.get("group") for one in written]


@pytest.mark.parametrize(("seconds_ago", "starts"), [(5, False), (3600, True)])
def test_a_failed_clone_of_a_moving_table_is_tried_again_when_its_time_comes(seconds_ago: int, starts: bool) -> None:
    """Not with each pass: a source or a disk that fails is left alone for a while."""
    name, moving = clone_job_name(ORDERS.identity.uid, 1, "node-3"), transfer_name(ORDERS.identity.uid)
    job = clone_job("failed", failures=3, finished_at=NOW - seconds(seconds_ago))
    job = replace(job, identity=replace(job.identity, name=name), group=moving, bucket=1, source=None)
    started = actions_of(decided(observed(without="node-3", jobs=(job,))), StartClone)
    assert [one.name for one in started if one.spec.group == moving] == [name] * starts


@pytest.mark.parametrize("limit", [1, 2, 3])
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
        pytest.param({"bucket": 99}, NOW, True, id="the map has no such bucket"),
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
