"""Whom a clone may ask, and what is reported of it."""

from dataclasses import replace
from typing import Any

import pytest

from colocation.manifests.clone_job import clone_job_name
from colocation.model.agent import DiskReport, TableReport
from colocation.model.clone import CloneBandwidth
from colocation.model.group import CloneCounts
from colocation.model.snapshot import Limits
from colocation.reconcile.actions import PostEvent, RemoveClone, StartClone
from colocation.reconcile.decide import decide
from colocation.reconcile.evidence import Evidence
from colocation.state.agent_view import AgentView
from colocation.state.observation import Observation

from ..state.objects import GROUP_UID, MANIFEST, NOW, agent, clone_job, node, seconds, table_report
from ..state.objects import group as made_group
from .scenes import (
    NODES,
    OWN,
    POLICY,
    SETTLED,
    actions_of,
    agent_view,
    decided,
    held_by,
    observe,
    settled_group,
    settled_table,
)

ORDERS, LINES = settled_table("orders"), settled_table("lines")


def test_manifests_that_no_holder_has_come_from_other_nodes() -> None:
    """The holder was away at a load of another table that touched none of its buckets; the target is new."""
    rows = (("node-1", "node-2"), ("node-3", "node-3b"))
    group = settled_group((ORDERS, LINES), rows=rows)
    lacking = replace(table_report(LINES, {}), manifest_present=False)
    reports = {
        "node-1": [held_by("node-1", ORDERS, rows), lacking],
        "node-3": [held_by("node-3", ORDERS, rows), table_report(LINES, {1: "complete"})],
        "node-3b": [held_by("node-3b", ORDERS, rows), table_report(LINES, {1: "complete"})],
        "node-4": [],
    }
    views = {name: agent_view(group, (ORDERS, LINES), shown) for name, shown in reports.items()}
    sizes = {("shop", ORDERS.directory, MANIFEST): {0: 50, 1: 50}, ("shop", LINES.directory, MANIFEST): {1: 50}}
    observation = observe(
        group, (ORDERS, LINES), views, bucket_bytes=sizes,
        nodes=tuple(map(node, reports)), agents=tuple(map(agent, reports)),
    )  # fmt: skip
    [clone] = actions_of(decided(observation), StartClone)
    assert (clone.spec.bucket, clone.spec.target) == (0, "node-4")
    assert [source.node for source in clone.spec.sources] == ["node-1", "node-3"]


OLDER = table_report(LINES, {1: "complete"}, "b" * 64)


@pytest.mark.parametrize(
    ("changes", "giver"),
    [
        pytest.param({}, ["node-3"], id="the first one that has it"),
        pytest.param({"not_ready": "node-3"}, ["node-3b"], id="it is down"),
        pytest.param({"node-3": OLDER}, ["node-3b"], id="it has an older one"),
        pytest.param({"node-1": table_report(LINES, {})}, [], id="a holder has it"),
        pytest.param({"node-2": table_report(LINES, {})}, [], id="the other holder has it"),
        pytest.param({"node-3": OLDER, "node-3b": OLDER}, [], id="no one has it"),
        pytest.param({"no_pod": ("node-3",)}, [], id="its agent is not there at the moment"),
    ],
)
def test_one_node_gives_each_manifest_that_no_holder_has(changes: dict[str, Any], giver: list[str]) -> None:
    """Not the target, which has the manifest and none of the files."""
    rows = (("node-0", "node-1", "node-2"), ("node-3", "node-3b", "node-4"))
    group = replace(settled_group((ORDERS, LINES), rows=rows), spec=made_group(replicas=3).spec)
    lacking = replace(table_report(LINES, {}), manifest_present=False)
    of_lines = {"node-0": table_report(LINES, {}), "node-1": lacking, "node-2": lacking}
    of_lines |= {name: table_report(LINES, {1: "complete"}) for name in rows[1]}
    of_lines["node-4"] = replace(OLDER, manifest_present=False)
    of_lines |= {name: shown for name, shown in changes.items() if name.startswith("node-")}
    reports = {name: [held_by(name, ORDERS, rows), shown] for name, shown in of_lines.items()}
    reports["node-0"] = [table_report(ORDERS, {}), of_lines["node-0"]]
    views = {name: agent_view(group, (ORDERS, LINES), shown) for name, shown in reports.items()}
    sizes = {("shop", ORDERS.directory, MANIFEST): {0: 50, 1: 50}, ("shop", LINES.directory, MANIFEST): {1: 50}}
    nodes = tuple(node(name, ready=name != changes.get("not_ready")) for name in reports)
    agents = tuple(agent(name, None if name in changes.get("no_pod", ()) else "10.0.0.1") for name in reports)
    decision = decided(observe(group, (ORDERS, LINES), views, bucket_bytes=sizes, nodes=nodes, agents=agents))
    [clone] = [one for one in actions_of(decision, StartClone) if one.spec.target == "node-0"]
    assert [source.node for source in clone.spec.sources] == ["node-1", "node-2", *giver]


def busy(view: AgentView, transfers: int) -> AgentView:
    assert view.report is not None
    return replace(view, report=view.report.model_copy(update={"active_transfers": transfers}))


def lacking_a_bucket(
    failures: int = 0, not_ready: str = "", no_pod: tuple[str, ...] = (), target_state: str | None = None
) -> Observation:
    """Node 3 lacks bucket 0, which nodes 1 and 2 have; node 1 is busy, and node 4 has a part of it."""
    rows, names = (("node-1", "node-2", "node-3"),) * 2, (*NODES, "node-4")
    group = replace(settled_group((ORDERS,), rows=rows), spec=made_group(replicas=3).spec)
    reports = {name: held_by(name, ORDERS, rows) for name in NODES}
    reports |= {"node-3": table_report(ORDERS, {0: target_state, 1: "complete"})}
    reports["node-4"] = table_report(ORDERS, {0: "partial"})
    views = {name: agent_view(group, (ORDERS,), [shown]) for name, shown in reports.items()}
    views["node-1"] = busy(views["node-1"], 5)
    assert views["node-3"].report is not None
    disk = views["node-3"].report.model_copy(update={"disk": DiskReport(id=OWN)})
    views["node-3"] = replace(views["node-3"], report=disk)
    job = clone_job("failed", failures, SETTLED)
    agents = [agent(name, None if name in no_pod else "10.0.0.1") for name in names]
    return observe(
        group, (ORDERS,), views, clone_jobs=(job,) if failures else (),
        nodes=tuple(node(name, ready=name != not_ready) for name in names),
        agents=tuple(replace(one, shares_certificate=one.node == "node-1") for one in agents),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("observation", "sources"),
    [
        pytest.param(lacking_a_bucket(), ["node-2", "node-1", "node-4"], id="complete ones, the least busy first"),
        pytest.param(lacking_a_bucket(1), ["node-1", "node-4", "node-2"], id="after a failure"),
        pytest.param(lacking_a_bucket(3), ["node-2", "node-1", "node-4"], id="after as many as there are"),
        pytest.param(lacking_a_bucket(not_ready="node-2"), ["node-1", "node-4"], id="one is down"),
        pytest.param(lacking_a_bucket(no_pod=("node-2",)), ["node-1", "node-4"], id="one has no agent's pod"),
        pytest.param(lacking_a_bucket(no_pod=(*NODES, "node-4")), None, id="no one has"),
        pytest.param(lacking_a_bucket(target_state="corrupt"), ["node-2", "node-1", "node-4"], id="it is damaged"),
    ],
)
def test_which_nodes_a_clone_asks_first(observation: Observation, sources: list[str] | None) -> None:
    """Where none can be reached, it waits. It writes to the disk that the node reported."""
    decision = decided(observation)
    found = [one.spec for one in actions_of(decision, StartClone)]
    assert [[source.node for source in spec.sources] for spec in found] == ([] if sources is None else [sources])
    assert {spec.disk_id for spec in found} <= {OWN} and decision.errors == {}
    assert all(one.shares_certificate is (one.node == "node-1") for spec in found for one in spec.sources)


@pytest.mark.parametrize(
    ("failures", "limit", "ends"),
    [(0, None, "50 bytes)"), (2, None, "50 bytes), attempt 3"), (1, 10, "50 bytes, at most 10 MiB/s), attempt 2")],
)
def test_a_user_reads_what_a_clone_copies(failures: int, limit: float | None, ends: str) -> None:
    """Why, how fast, and which attempt it is."""
    seen = lacking_a_bucket(failures)
    bandwidth = CloneBandwidth(perNodeMiBPerSecond=limit)
    policy = replace(POLICY, limits=Limits(clone_bandwidth=bandwidth))
    decision = decide(seen, Evidence(), policy, collect=False)
    [started] = actions_of(decision, StartClone)
    assert started.failures == failures
    assert started.replaces == (seen.clone_jobs[0].identity if failures else None)
    [event] = [one for one in actions_of(decision, PostEvent) if one.reason == "CloneStarted"]
    assert event.message.startswith("bucket 0 to node node-3 (repair: ") and event.message.endswith(ends)


@pytest.mark.parametrize(
    ("phase", "failures", "counted", "event"),
    [
        ("succeeded", 0, False, ("CloneSucceeded", "bucket 0 to node node-3")),
        ("failed", 2, False, ("CloneFailed", "bucket 0 to node node-3: attempt 2 failed: the Job failed")),
        ("failed", 2, True, None),
        ("running", 2, False, ("CloneFailed", "bucket 0 to node node-3: attempt 3 failed: it has not advanced for")),
        ("pending", 0, False, ("CloneFailed", "bucket 0 to node node-3: attempt 1 failed: its pod has not started")),
    ],
)
def test_one_event_for_each_end_of_a_clone(
    phase: str, failures: int, counted: bool, event: tuple[str, str] | None
) -> None:
    """By the same count that the status keeps."""
    seen = lacking_a_bucket()
    job = clone_job(phase, failures, NOW if phase in ("succeeded", "failed") else None)
    [made] = seen.groups
    counts = CloneCounts(counted=(job.identity.uid,) if counted else ())
    made = replace(made, status=made.status.model_copy(update={"clones": counts}))
    seen = replace(seen, groups=(made,), clone_jobs=(job,))
    evidence = Evidence().after(replace(seen, now=SETTLED - seconds(36000)), ())
    decision = decide(seen, evidence, POLICY, collect=False)
    ends = [one for one in actions_of(decision, PostEvent) if one.reason in ("CloneSucceeded", "CloneFailed")]
    assert [(one.reason, one.message[: len(event[1])]) for one in ends if event] == ([event] if event else [])
    assert len(ends) == (event is not None)


def test_a_clone_that_is_not_wanted_is_ended() -> None:
    """And one that is wanted goes on, as it is."""
    job, unwanted = clone_job(), replace(clone_job(), target="node-4", source=None)
    unwanted = replace(unwanted, identity=replace(job.identity, name=clone_job_name(GROUP_UID, 0, "node-4")))
    seen = replace(lacking_a_bucket(), clone_jobs=(job, unwanted))
    decision = decide(seen, Evidence(), POLICY, collect=False)
    assert [one.job for one in actions_of(decision, RemoveClone)] == [unwanted.identity]


def test_a_node_is_no_source_of_its_own_replica() -> None:
    """It has a part of the bucket, which is mended in place."""
    group = settled_group((ORDERS,))
    reports = {name: [held_by(name, ORDERS)] for name in NODES}
    reports["node-1"] = [table_report(ORDERS, {0: "corrupt"})]
    views = {name: agent_view(group, (ORDERS,), shown) for name, shown in reports.items()}
    [clone] = actions_of(decided(observe(group, (ORDERS,), views)), StartClone)
    assert (clone.spec.bucket, clone.spec.target) == (0, "node-1")
    assert [source.node for source in clone.spec.sources] == ["node-2"]


@pytest.mark.parametrize(
    "of_orders",
    [
        table_report(ORDERS, {}),
        table_report(ORDERS, {0: "partial"}),
        table_report(ORDERS, {0: "complete"}, "b" * 64),
        None,
    ],
    ids=["no file", "a part", "all of an older snapshot", "nothing"],
)
def test_a_clone_copies_first_what_its_target_lacks(of_orders: TableReport | None) -> None:
    """A Job may get only a part of a bucket's tables."""
    group = settled_group((LINES, ORDERS))
    reports = {name: [held_by(name, LINES), held_by(name, ORDERS)] for name in NODES}
    reports["node-1"] = [held_by("node-1", LINES), *([of_orders] if of_orders else [])]
    views = {name: agent_view(group, (LINES, ORDERS), shown) for name, shown in reports.items()}
    [clone] = actions_of(decided(observe(group, (LINES, ORDERS), views)), StartClone)
    assert [table.directory for table in clone.spec.tables] == [ORDERS.directory, LINES.directory]


def test_a_job_that_has_ended_is_removed_before_the_next_one_starts() -> None:
    """It succeeded, and its node has nothing of the bucket: both have one name."""
    group = settled_group((ORDERS,))
    reports = {name: [held_by(name, ORDERS)] for name in NODES} | {"node-3": []}
    views = {name: agent_view(group, (ORDERS,), shown) for name, shown in reports.items()}
    name = clone_job_name(GROUP_UID, 1, "node-3")
    job = replace(clone_job("succeeded", finished_at=SETTLED), bucket=1)
    job = replace(job, identity=replace(job.identity, name=name))
    decision = decided(observe(group, (ORDERS,), views, clone_jobs=(job,)))
    assert [removed.job.name for removed in actions_of(decision, RemoveClone)] == [name]
    assert actions_of(decision, StartClone) == []
