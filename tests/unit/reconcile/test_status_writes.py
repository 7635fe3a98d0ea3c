"""A group's status that cannot be written: the verdict still is, and what does not build on it goes on."""

from dataclasses import dataclass, field

import pytest

from colocation.controller.reconciler import Reconciler
from colocation.kube.errors import ClusterError, StaleDecision
from colocation.model.names import node_label
from colocation.reconcile.actions import Action, StartClone, WriteGroupStatus

from ..controller.fake_cluster import FakeCluster, minutes
from ..controller.story import SETTINGS, Story


@dataclass
class Refusing(FakeCluster):
    """An API server that does not take some writes of group statuses."""

    refuses: set[str] = field(default_factory=set)

    async def perform(self, action: Action) -> None:
        if isinstance(action, WriteGroupStatus):
            is_whole = "members" in action.status
            if "too large" in self.refuses and is_whole:
                raise ClusterError("413 etcdserver: request is too large")
            if "conflict" in self.refuses:
                raise StaleDecision("409 the object has been modified")
        await super().perform(action)


async def lost_node(refuses: str, down_minutes: int) -> Refusing:
    """A loaded group loses a node, and from then on its status is refused."""
    story = Story()
    story.cluster = cluster = Refusing()
    for number in range(1, 5):
        cluster.add_node(f"node-{number}")
    story.restart()
    cluster.add_group("sales")
    await story.loaded("orders")
    assert cluster.group().status.stable
    cluster.refuses.add(refuses)
    cluster.set_ready("node-1", False)
    cluster.now += minutes(down_minutes)
    cluster.performed.clear()
    operator = Reconciler(cluster, cluster, SETTINGS)
    for _ in range(3):
        await operator.reconcile_once()
    return cluster


@pytest.mark.parametrize("refuses", ["too large", "conflict"])
async def test_group_never_stays_stable_because_a_write_failed(refuses: str) -> None:
    """The verdict alone is short, and asks for nobody else's version."""
    status = (await lost_node(refuses, 0)).group().status
    assert (status.stable, status.reason) == (False, "NodeNotReady")
    conditions = {one.type: (one.status, one.reason) for one in status.conditions}
    assert conditions["Stable"] == ("False", "NodeNotReady")
    assert conditions["Stalled"] == ("True", "StatusNotWritten")
    assert status.members, "what is not written stays"


@pytest.mark.parametrize("refuses", ["too large", "conflict"])
async def test_repairs_go_on_without_the_status(refuses: str) -> None:
    """Clones make files, which no status has to precede."""
    cluster = await lost_node(refuses, 60)
    assert [one for one in cluster.performed if isinstance(one, StartClone)]


async def test_map_is_written_although_the_whole_status_is_too_large() -> None:
    """Repairs end in it: what the map wants is complete, so it moves on, and the group is stable again."""
    cluster = await lost_node("too large", 60)
    operator = Reconciler(cluster, cluster, SETTINGS)
    for _ in range(10):
        cluster.end_clones()
        await operator.reconcile_once()
    status = cluster.group().status
    assert not any("node-1" in row for row in status.backends_per_bucket_seq or ())
    assert status.stable
    label = node_label("shop", "sales")
    assert {name for name, node in cluster.nodes.items() if label in node.group_labels} == set(status.nodes)


async def test_good_group_is_not_called_unstable_because_a_write_failed() -> None:
    """A write that was overtaken is made anew in the next pass: no flap."""
    story = Story()
    story.cluster.add_group("sales")
    await story.loaded("orders")
    story.cluster.add_table("lines")
    decision = (await story.operator.reconcile_once()).decision
    [write] = [one for scope in decision.scopes for one in scope.actions if isinstance(one, WriteGroupStatus)]
    [fallback] = write.fallbacks
    assert isinstance(fallback, WriteGroupStatus)
    assert fallback.status["stable"] is True
