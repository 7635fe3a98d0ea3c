"""When a table that moves to another group may arrive there, and when its clones start again."""

from dataclasses import replace

import pytest

from colocation.manifests.clone_job import clone_job_name
from colocation.model.group import ColocationGroupStatus
from colocation.reconcile.actions import StartClone, WriteTableStatus
from colocation.reconcile.decide import Decision
from colocation.state.clone_jobs import transfer_name
from colocation.state.objects import ObservedCloneJob
from colocation.state.placement import member_of

from ..state.objects import NOW, clone_job, group, node, seconds
from ..state.test_membership import placed
from .scenes import MAP, MAP_VERSION, NODES, actions_of, agent_view, decided, held_by, observe

ORDERS = placed("orders", "sales", "stock")
STATUS = {"stable": True, "backends_per_bucket_seq": MAP, "map_version": MAP_VERSION}
SALES = group("sales", ColocationGroupStatus.model_validate({**STATUS, "members": (member_of(ORDERS, leaving=True),)}))
STOCK = group("stock", ColocationGroupStatus.model_validate(STATUS))
STOCK = replace(STOCK, identity=replace(STOCK.identity, uid="cafebabe-group"))


def decision(without: str = "", not_ready: str = "", jobs: tuple[ObservedCloneJob, ...] = ()) -> Decision:
    """The old group has promised to delete nothing; all nodes hold the table but those named."""
    reports = {name: [] if name == without else [held_by(name, ORDERS)] for name in NODES}
    views = {name: agent_view(SALES, (ORDERS,), found) for name, found in reports.items()}
    nodes = tuple(node(name, ready=name != not_ready) for name in NODES)
    return decided(observe(SALES, (ORDERS,), views, groups=(SALES, STOCK), nodes=nodes, clone_jobs=jobs))


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
    written = [one.status.get("group") for one in actions_of(decision(**fields), WriteTableStatus)]
    assert ([*written, "sales"])[0] == group_name


@pytest.mark.parametrize(("seconds_ago", "starts"), [(5, False), (3600, True)])
def test_a_failed_clone_of_a_moving_table_is_tried_again_when_its_time_comes(seconds_ago: int, starts: bool) -> None:
    """Not with each pass: a source or a disk that fails is left alone for a while."""
    name, moving = clone_job_name(ORDERS.identity.uid, 1, "node-3"), transfer_name(ORDERS.identity.uid)
    job = clone_job("failed", failures=3, finished_at=NOW - seconds(seconds_ago))
    job = replace(job, identity=replace(job.identity, name=name), group=moving, bucket=1, source=None)
    started = actions_of(decision(without="node-3", jobs=(job,)), StartClone)
    assert [one.name for one in started if one.spec.group == moving] == [name] * starts
