"""Stories of groups and tables, told through whole passes over a fake cluster."""

import pytest

from colocation.controller.reconciler import NotLeading, Reconciler
from colocation.controller.settings import Settings
from colocation.model.conditions import Reason
from colocation.model.names import node_label
from colocation.reconcile.actions import (
    CreateDataClaim,
    CreateDataVolume,
    DropBucket,
    PostEvent,
    RemoveClone,
    StartClone,
    WriteConfigMap,
    WriteGroupStatus,
    WriteTableStatus,
)

from .fake_cluster import FakeCluster, minutes

SETTINGS = Settings(namespace="colocation", image="operator:1")


def cluster_of(nodes: int) -> FakeCluster:
    cluster = FakeCluster()
    for number in range(1, nodes + 1):
        cluster.add_node(f"node-{number}")
    return cluster


async def passes(cluster: FakeCluster, number: int = 6) -> None:
    """A new operator makes passes; clones end between them."""
    reconciler = Reconciler(cluster, cluster, SETTINGS)
    for _ in range(number):
        await reconciler.reconcile_once()
        cluster.end_clones()


async def loaded_cluster(nodes: int = 3) -> FakeCluster:
    cluster = cluster_of(nodes)
    cluster.add_group("sales")
    cluster.add_table("orders")
    await passes(cluster)
    cluster.load("orders")
    await passes(cluster)
    return cluster


def conditions(status: object) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status, one.reason) for one in status.conditions}


async def test_new_group_gets_a_map_and_takes_its_table() -> None:
    """A group on three nodes gets an even map at once, its table is accepted, and both say so."""
    cluster = cluster_of(3)
    cluster.add_group("sales")
    cluster.add_table("orders")
    await passes(cluster)

    status = cluster.group().status
    assert status.stable and status.reason == Reason.ALL_REPLICAS_COMPLETE
    assert (status.tables, status.table_count, status.dist_cols) == (("orders",), 1, "bigint")
    assert (status.map_version, status.node_count, status.group_id) == (1, 3, "12345678.1")
    assert [len(set(row)) for row in status.backends_per_bucket_seq or ()] == [2, 2, 2, 2]
    assert conditions(status) == {
        "Ready": ("True", "AllReplicasComplete"),
        "Stable": ("True", "AllReplicasComplete"),
        "Reconciling": ("False", "Reconciled"),
        "Stalled": ("False", "Reconciled"),
    }
    table = cluster.table("orders").status
    assert table.accepted and table.group_id == status.group_id
    assert conditions(table) == {"Ready": ("True", "Reconciled"), "Accepted": ("True", "Accepted")}
    assert set(cluster.events()) >= {"MapCreated", "Stable", "TableAccepted"}


async def test_quiet_pass_writes_nothing() -> None:
    """A pass over a group that is as it should be performs no action, with a new operator only the ConfigMap."""
    cluster = await loaded_cluster()
    cluster.performed.clear()
    reconciler = Reconciler(cluster, cluster, SETTINGS)
    assert [type(action) for action in (await reconciler.reconcile_once()).performed] == [WriteConfigMap]
    second = await reconciler.reconcile_once()
    assert second.performed == ()
    assert second.is_quiet


async def test_lost_node_makes_the_group_unstable_at_once() -> None:
    """The first pass after the Node is not ready says so, with the buckets; nothing is cloned within the tolerance."""
    cluster = await loaded_cluster()
    cluster.set_ready("node-1", False)
    await passes(cluster, 1)

    status = cluster.group().status
    held = [bucket for bucket, row in enumerate(status.backends_per_bucket_seq or ()) if "node-1" in row]
    assert (status.stable, status.reason) == (False, Reason.NODE_NOT_READY)
    assert [one.bucket for one in status.unstable_buckets] == held
    assert conditions(status)["Reconciling"] == ("True", Reason.WITHIN_DOWN_TOLERANCE)
    assert cluster.jobs == {}

    cluster.set_ready("node-1", True)
    await passes(cluster, 1)
    assert cluster.group().status.stable


async def test_replicas_are_cloned_after_the_tolerance() -> None:
    """Beyond the tolerance each lost replica is made on another node, enters the map, and the Jobs are gone."""
    cluster = await loaded_cluster()
    cluster.set_ready("node-1", False)
    await passes(cluster, 1)
    cluster.now += minutes(31)
    await passes(cluster, 8)

    status = cluster.group().status
    assert status.stable
    assert not any("node-1" in row for row in status.backends_per_bucket_seq or ())
    assert cluster.jobs == {}
    assert status.clones is not None
    assert status.clones.succeeded == sum(isinstance(action, StartClone) for action in cluster.performed)
    assert cluster.events().count("CloneSucceeded") == status.clones.succeeded


async def test_clones_are_told_their_budgets() -> None:
    """The Job's own share, and what all that write to its node share; the cluster's says how many start."""
    cluster = cluster_of(4)
    cluster.add_group("sales", buckets=8, balancing={"maxConcurrentClones": 8, "maxBandwidthMiBPerSecond": 80})
    cluster.add_table("orders")
    await passes(cluster)
    cluster.load("orders")
    cluster.remove_node("node-1")
    settings = SETTINGS.model_copy(
        update={"clone_mib_per_second_per_node": 50.0, "clone_mib_per_second_per_cluster": 6.0,
                "max_concurrent_clones_per_node": 8}
    )  # fmt: skip
    await Reconciler(cluster, cluster, settings).reconcile_once()
    specs = [action.spec for action in cluster.performed if isinstance(action, StartClone)]
    assert len(specs) == 4
    assert {(one.max_bandwidth_mib_per_second, one.max_node_bandwidth_mib_per_second) for one in specs} == {(1.5, 50.0)}


async def test_failed_clone_is_tried_again_from_another_replica() -> None:
    """A failure is counted, waits for its back-off, and the next attempt begins with another source."""
    cluster = cluster_of(4)
    cluster.add_group("sales", replicas=3, buckets=1)
    cluster.add_table("orders")
    await passes(cluster)
    cluster.load("orders")
    lost = cluster.group().status.nodes[0]
    cluster.remove_node(lost)
    reconciler = Reconciler(cluster, cluster, SETTINGS)
    await reconciler.reconcile_once()
    [first] = [action for action in cluster.performed if isinstance(action, StartClone)]
    cluster.end_clones(succeed=False)
    cluster.performed.clear()

    await reconciler.reconcile_once()
    assert not any(isinstance(action, StartClone) for action in cluster.performed)
    assert cluster.group().status.clones is not None
    assert cluster.group().status.clones.failed == 1

    cluster.now += minutes(1)
    await reconciler.reconcile_once()
    [second] = [action for action in cluster.performed if isinstance(action, StartClone)]
    assert (second.name, second.failures, second.replaces is not None) == (first.name, 1, True)
    assert second.spec.sources[0] != first.spec.sources[0]
    assert set(second.spec.sources) == set(first.spec.sources)
    await reconciler.reconcile_once()
    assert cluster.group().status.clones.failed == 1, "a failure is counted once"


async def test_added_node_gets_its_share_while_the_group_stays_stable() -> None:
    """Make before break: the map changes only when the new replicas are complete; then the old ones go."""
    cluster = await loaded_cluster(nodes=2)
    cluster.add_node("node-3")
    reconciler = Reconciler(cluster, cluster, SETTINGS)
    for _ in range(10):
        await reconciler.reconcile_once()
        assert cluster.group().status.stable
        cluster.end_clones()

    rows = cluster.group().status.backends_per_bucket_seq or ()
    directory = cluster.table("orders").directory
    assert sum("node-3" in row for row in rows) in (2, 3)
    for node, disk in cluster.disks.items():
        assert disk.get(directory, set()) == {bucket for bucket, row in enumerate(rows) if node in row}
    assert any(isinstance(action, DropBucket) for action in cluster.performed)


async def test_table_makes_the_group_that_it_names() -> None:
    """Two tables that name a missing group make one, from the first of them."""
    cluster = cluster_of(2)
    cluster.add_table("first", buckets=4, replicas=2)
    cluster.add_table("second", buckets=4, replicas=2)
    await passes(cluster)
    spec = cluster.group().spec
    assert spec is not None
    assert (spec.bucket_key, spec.buckets, spec.replicas) == (("bigint",), 4, 2)
    assert cluster.group().status.tables == ("first", "second")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"buckets": 10}, "same bucket num: 10 should be 4", id="buckets"),
        pytest.param({"key_type": "int"}, "same data type: int should be bigint (column k)", id="type"),
        pytest.param({"replicas": 3}, "same replication num: 3 should be 2", id="replicas"),
    ],
)
async def test_table_that_does_not_fit_is_refused_and_harms_nobody(spec: dict[str, object], message: str) -> None:
    """The refusal names both values and the group; the group and its other table stay as they are."""
    cluster = await loaded_cluster()
    before = cluster.group()
    cluster.add_table("bad", **spec)
    await passes(cluster)
    status = cluster.table("bad").status
    assert status.accepted is False
    assert conditions(status)["Accepted"] == ("False", "SchemaMismatch")
    assert all(message in one.message and "group sales" in one.message for one in status.conditions)
    assert cluster.group() == before
    assert "TableRefused" in cluster.events()


async def test_table_of_a_missing_group_says_what_is_needed() -> None:
    """Without buckets and replicas nobody knows what the group should be."""
    cluster = cluster_of(2)
    cluster.add_table("orders")
    await passes(cluster)
    assert conditions(cluster.table("orders").status)["Accepted"] == ("False", "NoGroup")
    assert cluster.groups == {}


async def test_group_made_anew_takes_what_the_nodes_hold() -> None:
    """Deleting a group object loses nothing: it is made from its table, with the replicas where they are."""
    cluster = await loaded_cluster()
    before = cluster.group().status.backends_per_bucket_seq
    cluster.add_table("parent", buckets=4, replicas=2)
    del cluster.groups["shop", "sales"]
    cluster.performed.clear()
    await passes(cluster)
    after = cluster.group().status
    assert [set(row) for row in after.backends_per_bucket_seq or ()] == [set(row) for row in before or ()]
    assert after.stable
    assert not any(isinstance(action, StartClone | DropBucket) for action in cluster.performed)


async def test_group_goes_with_its_last_table_after_the_recycle_time() -> None:
    """Doris, "Delete": the last table gone, the group waits for the recycle bin, then goes; the data goes too."""
    cluster = await loaded_cluster()
    cluster.drop_table("orders")
    await passes(cluster)
    assert cluster.group().status.delete_after == "2026-11-22T00:00:01Z"
    assert all(not disk for disk in cluster.disks.values())
    cluster.now += minutes(24 * 60 - 1)
    await passes(cluster, 1)
    assert ("shop", "sales") in cluster.groups
    cluster.now += minutes(2)
    await passes(cluster, 1)
    assert cluster.groups == {}


@pytest.mark.parametrize("revived", [True, False], ids=["a table comes back", "the policy is Retain"])
async def test_group_stays(revived: bool) -> None:
    """A group that is named again, or whose policy says so, outlives its tables."""
    cluster = cluster_of(3)
    cluster.add_group("sales", deletionPolicy="WithLastTable" if revived else "Retain")
    cluster.add_table("orders")
    await passes(cluster)
    cluster.drop_table("orders")
    await passes(cluster)
    if revived:
        cluster.add_table("customers")
        await passes(cluster, 1)
    cluster.now += minutes(48 * 60)
    await passes(cluster)
    assert cluster.group().status.delete_after is None


async def test_jobs_of_a_group_that_is_gone_are_removed() -> None:
    """A clone Job whose group no longer exists, or exists anew, is nobody's."""
    cluster = await loaded_cluster()
    cluster.remove_node(cluster.group().status.nodes[0])
    await Reconciler(cluster, cluster, SETTINGS).reconcile_once()
    assert cluster.jobs
    del cluster.groups["shop", "sales"]
    cluster.performed.clear()
    await Reconciler(cluster, cluster, SETTINGS).reconcile_once()
    assert cluster.jobs == {}
    assert any(isinstance(action, RemoveClone) for action in cluster.performed)


async def test_config_map_names_ready_agents_and_the_map() -> None:
    """Spark finds agents, CA, pod templates and confs beside the group; a silent agent is left out."""
    cluster = await loaded_cluster()
    cluster.set_ready("node-2", False)
    await passes(cluster, 1)
    content = cluster.config_maps["shop", "sales-spark"]
    assert content.agent_urls == {"node-1": "https://10.0.0.0:8440", "node-3": "https://10.0.0.2:8440"}
    assert content.placement.has_map
    label = node_label("shop", "sales")
    assert {name for name, node in cluster.nodes.items() if node.group_labels == {label: "true"}} == {
        "node-1", "node-2", "node-3",
    }  # fmt: skip
    assert content.ca_certificate == "PEM"


async def test_silent_agent_is_forgiven_for_a_while() -> None:
    """An agent that restarts does not make its group unstable; one that stays silent does."""
    cluster = await loaded_cluster()
    cluster.silent_since["node-1"] = cluster.now
    cluster.now += minutes(0.4)
    await passes(cluster, 1)
    assert cluster.group().status.stable
    cluster.now += minutes(0.2)
    await passes(cluster, 1)
    assert cluster.group().status.reason == Reason.AGENT_NOT_READY


async def test_failing_scope_leaves_the_others_alone() -> None:
    """When statuses of groups cannot be written, tables are still told; the result names the scope."""
    cluster = cluster_of(3)
    cluster.add_group("sales")
    cluster.add_table("orders")
    cluster.broken = WriteGroupStatus
    result = await Reconciler(cluster, cluster, SETTINGS).reconcile_once()
    assert list(result.failures) == ["group shop/sales"]
    assert any(isinstance(action, WriteTableStatus) for action in result.performed)
    assert not result.is_quiet


async def test_event_that_cannot_be_posted_stops_nothing() -> None:
    """Events are for people: clones and drops do not wait for them."""
    cluster = cluster_of(3)
    cluster.add_group("sales")
    cluster.broken = PostEvent
    await passes(cluster)
    assert cluster.group().status.stable


async def test_a_refused_claim_is_said_and_asked_for_again() -> None:
    """Not with every pass, and the group goes on; once it is allowed, nothing is said any more."""
    cluster = cluster_of(3)
    cluster.quota = True
    cluster.add_group("sales")
    cluster.add_table("orders")
    reconciler = Reconciler(cluster, cluster, SETTINGS)
    results = [await reconciler.reconcile_once() for _ in range(6)]
    assert sum(bool(result.failures) for result in results) == 1
    assert results[-1].is_quiet
    assert conditions(cluster.group().status)["Stalled"] == ("True", Reason.DATA_CLAIM_REFUSED)
    assert cluster.group().status.stable

    cluster.now += minutes(1)
    again = await reconciler.reconcile_once()
    assert len(again.failures) == 1
    cluster.quota = False
    cluster.now += minutes(1)
    for _ in range(4):
        await reconciler.reconcile_once()
    made = [type(one) for one in cluster.performed if isinstance(one, CreateDataClaim | CreateDataVolume)]
    assert made == [CreateDataClaim, CreateDataVolume]
    assert conditions(cluster.group().status)["Stalled"][0] == "False"


async def test_refusals_of_a_namespace_end_with_its_groups() -> None:
    """Nothing is asked for again, and passes are quiet."""
    cluster = cluster_of(3)
    cluster.quota = True
    cluster.add_group("sales")
    reconciler = Reconciler(cluster, cluster, SETTINGS)
    for _ in range(4):
        await reconciler.reconcile_once()
    del cluster.groups["shop", "sales"]
    cluster.now += minutes(2)
    for _ in range(2):
        result = await reconciler.reconcile_once()
    assert result.is_quiet_at(cluster.now)


@pytest.mark.parametrize("may", [0, 1, 3])
async def test_operator_acts_only_while_it_may(may: int) -> None:
    """The Lease may run out within a pass: it is asked before every action, and scopes end where they are."""
    cluster = cluster_of(3)
    cluster.add_group("sales")
    cluster.add_table("orders")
    left = iter([True] * may)
    result = await Reconciler(cluster, cluster, SETTINGS, lambda: next(left, False)).reconcile_once()
    assert len(result.decision.scopes) > 1
    assert len(cluster.performed) == may
    assert any(isinstance(error, NotLeading) for error in result.failures.values())


async def test_nothing_less_is_written_of_a_status_once_another_may_lead() -> None:
    """The status was refused because the other has written it."""
    cluster = cluster_of(3)
    cluster.add_group("sales")
    await passes(cluster)
    cluster.set_ready("node-1", False)
    cluster.broken = WriteGroupStatus
    before = cluster.group().status
    left = iter([True])
    await Reconciler(cluster, cluster, SETTINGS, lambda: next(left, False)).reconcile_once()
    assert cluster.group().status == before
