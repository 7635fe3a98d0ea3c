"""Repairs end: Jobs that do not begin or do not advance are given up, and nodes that fail are left out and named."""

from dataclasses import replace

import pytest

from colocation.controller.metrics import Metrics
from colocation.model.agent import CloneProgress
from colocation.reconcile.actions import PostEvent, RemoveClone, StartClone, WriteGroupStatus

from ..controller.fake_cluster import FakeCluster, minutes
from ..controller.story import Story, two_groups


async def repairing(nodes: int = 3) -> Story:
    """One node is gone; a clone to each of the others that lacks a bucket is under way."""
    story = Story(nodes)
    story.cluster.add_group("sales", buckets=1)
    await story.loaded("orders")
    story.cluster.remove_node(story.cluster.group().status.nodes[0])
    story.cluster.performed.clear()
    await story.operator.reconcile_once()
    return story


async def passes(story: Story, number: int = 3, restarting: bool = False) -> None:
    """Without an end of any clone."""
    for _ in range(number):
        if restarting:
            story.restart()
        await story.operator.reconcile_once()


def started(cluster: FakeCluster) -> list[str]:
    return [one.spec.target for one in cluster.performed if isinstance(one, StartClone)]


def removed(cluster: FakeCluster) -> int:
    return len([one for one in cluster.performed if isinstance(one, RemoveClone)])


def failures(cluster: FakeCluster) -> list[str]:
    return [one.message for one in cluster.performed if isinstance(one, PostEvent) and one.reason == "CloneFailed"]


def set_phase(cluster: FakeCluster, phase: str) -> str:
    [(name, job)] = cluster.jobs.items()
    cluster.jobs[name] = replace(job, phase=phase)  # type: ignore[arg-type]
    return job.target


def advance(cluster: FakeCluster, bytes_done: int) -> None:
    [job] = cluster.jobs.values()
    cluster.progress[job.target] = CloneProgress(
        namespace=job.group_namespace, group=job.group, bucket=job.bucket, bytes_done=bytes_done, bytes_total=100,
        updated_at="2999-01-01T00:00:00Z",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("phase", "minutes_until", "cause"),
    [
        pytest.param("pending", 2, "its pod has not started within 120 s", id="its pod does not start"),
        pytest.param("running", 3, "it has not advanced for 180 s", id="it hangs"),
    ],
)
async def test_clone_that_does_not_get_on_is_given_up(phase: str, minutes_until: float, cause: str) -> None:
    """Not before its time; counted and told with its cause; then the next attempt begins."""
    story = await repairing()
    set_phase(story.cluster, phase)
    await passes(story, 1)
    story.cluster.now += minutes(minutes_until - 0.1)
    await passes(story)
    assert removed(story.cluster) == 0
    story.cluster.now += minutes(0.2)
    await passes(story)
    status = story.cluster.group().status
    assert status.clones is not None
    assert (status.clones.failed, removed(story.cluster), len(started(story.cluster))) == (1, 1, 2)
    [message] = failures(story.cluster)
    assert cause in message
    assert [one.failures for one in status.failing_targets] == [1]


async def test_slow_clone_is_left_to_go_on() -> None:
    """Whatever the clock of its node says: its bytes grow."""
    story = await repairing()
    for minute in range(10):
        advance(story.cluster, minute)
        story.cluster.now += minutes(1)
        await passes(story, 1)
    assert removed(story.cluster) == 0


async def test_progress_of_a_clone_is_written_in_steps_and_measured_exactly() -> None:
    """P8: each write of a status is a new revision of the whole map in etcd."""
    story = await repairing()
    await passes(story, 2)
    story.cluster.performed.clear()
    shown, metrics = set(), Metrics()
    for percent in range(100):
        advance(story.cluster, percent)
        story.cluster.now += minutes(0.05)
        metrics.show(await story.operator.reconcile_once())
        status = story.cluster.group().status
        assert status.clones is not None
        shown.add(status.clones.bytes_done)
        labels = {"namespace": "shop", "group": "sales", "part": "done"}
        assert metrics.registry.get_sample_value("colocation_group_clone_bytes", labels) == percent
    assert shown == set(range(0, 100, 10))
    assert sum(isinstance(one, WriteGroupStatus) for one in story.cluster.performed) <= len(shown)


@pytest.mark.parametrize("restarting", [False, True], ids=["one operator", "operators that restart"])
async def test_node_that_fails_again_and_again_is_left_out(restarting: bool) -> None:
    """After three failures the replica goes elsewhere, and the repair ends; the node and the cause are named."""
    story = await repairing(nodes=4)
    [sick] = started(story.cluster)
    for _ in range(8):
        ends_well = {job.target != sick for job in story.cluster.jobs.values()}
        story.cluster.end_clones(succeed=ends_well == {True})
        await passes(story, 2, restarting)
        story.cluster.now += minutes(0.8)
    assert started(story.cluster).count(sick) == 3
    status = story.cluster.group().status
    assert status.stable and sick not in status.nodes
    [event] = [one for one in story.cluster.performed if isinstance(one, PostEvent) and one.reason == "TargetFailing"]
    assert f"3 clones in a row to node {sick} failed" in event.message
    assert [(one.node, one.failures) for one in status.failing_targets] == [(sick, 3)]


async def test_group_says_that_only_a_failing_node_is_left() -> None:
    """Then nothing else can be done until it is tried again."""
    story = await repairing(nodes=3)
    [sick] = started(story.cluster)
    for _ in range(6):
        story.cluster.end_clones(succeed=False)
        await passes(story, 2)
        story.cluster.now += minutes(0.5)
    conditions = {one.type: one for one in story.cluster.group().status.conditions}
    assert conditions["Stalled"].reason == "TargetFailing"
    assert sick in conditions["Stalled"].message
    attempts = len(started(story.cluster))
    story.cluster.now += minutes(5)
    await passes(story)
    assert len(started(story.cluster)) == attempts + 1, "it is tried again when its time is over"
    story.cluster.end_clones()
    await passes(story, 6)
    assert story.cluster.group().status.stable
    assert story.cluster.group().status.failing_targets == ()


async def test_move_of_a_table_leaves_failing_nodes_out() -> None:
    """Its clones are given up and counted like a group's, and it says why it waits."""
    story = await two_groups()
    story.cluster.edit_table("orders", colocateWith="stock")
    for _ in range(12):
        story.cluster.end_clones(succeed=False)
        await passes(story, 1)
        story.cluster.now += minutes(0.5)
    assert {one.node for one in story.cluster.group("stock").status.failing_targets} <= {"node-3", "node-4"}
    assert any(one.failures >= 3 for one in story.cluster.group("stock").status.failing_targets)
    status, reason, message = story.condition("orders", "Stalled")
    assert (status, reason) == ("True", "TargetFailing")
    assert "it is tried again at" in message
    for _ in range(20):
        story.cluster.now += minutes(10)
        await story.passes(2)
    assert story.cluster.table("orders").status.group == "stock"
