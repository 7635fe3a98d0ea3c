"""Whom a clone may ask."""

from dataclasses import replace

from colocation.manifests.clone_job import clone_job_name
from colocation.reconcile.actions import RemoveClone, StartClone

from ..state.objects import GROUP_UID, MANIFEST, agent, clone_job, node, table_report
from .scenes import NODES, SETTLED, actions_of, agent_view, decided, held_by, observe, settled_group, settled_table

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


def test_a_node_is_no_source_of_its_own_replica() -> None:
    """It has a part of the bucket, which is mended in place."""
    group = settled_group((ORDERS,))
    reports = {name: [held_by(name, ORDERS)] for name in NODES}
    reports["node-1"] = [table_report(ORDERS, {0: "corrupt"})]
    views = {name: agent_view(group, (ORDERS,), shown) for name, shown in reports.items()}
    [clone] = actions_of(decided(observe(group, (ORDERS,), views)), StartClone)
    assert (clone.spec.bucket, clone.spec.target) == (0, "node-1")
    assert [source.node for source in clone.spec.sources] == ["node-2"]


def test_a_clone_copies_first_what_its_target_lacks() -> None:
    """A Job may get only a part of a bucket's tables."""
    group = settled_group((LINES, ORDERS))
    reports = {name: [held_by(name, LINES), held_by(name, ORDERS)] for name in NODES}
    reports["node-1"] = [held_by("node-1", LINES), table_report(ORDERS, {})]
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
