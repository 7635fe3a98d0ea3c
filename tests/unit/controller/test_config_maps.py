"""When the ConfigMaps for Spark are written: at once when they change, and all of them again, a few a minute."""

from datetime import datetime, timedelta

import pytest

from colocation.controller.config_map_writes import RENEWALS_PER_MINUTE, ConfigMapWrites
from colocation.controller.reconciler import PassResult, Reconciler
from colocation.controller.settings import Settings
from colocation.manifests.config_map import SparkConfigMap, spark_config_map_data
from colocation.manifests.spark_pods import SparkPlacement
from colocation.model.freshness import read_sign_of_life
from colocation.model.names import node_label
from colocation.reconcile.actions import Action, Owner, WriteConfigMap

from ..state.objects import NOW, identity, seconds
from .fake_cluster import FakeCluster

SETTINGS = Settings(namespace="colocation", image="operator:1")
GROUPS = 5


class Recording(FakeCluster):
    """Remembers every ConfigMap that was written, with the virtual time."""

    async def perform(self, action: Action) -> None:
        await super().perform(action)
        if isinstance(action, WriteConfigMap):
            self.written.append((self.now, action))

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[datetime, WriteConfigMap]] = []

    def names(self) -> list[str]:
        """Of the groups whose ConfigMaps were written since the last call."""
        names = [action.group.name for _, action in self.written]
        self.written.clear()
        return names


def in_pass(result: PassResult) -> int:
    """How many ConfigMaps a pass wrote because they differed."""
    return sum(isinstance(action, WriteConfigMap) for action in result.performed)


@pytest.fixture
def cluster() -> Recording:
    one = Recording()
    for number in (1, 2, 3, 4):
        one.add_node(f"node-{number}")
    for number in range(GROUPS):
        one.add_group(f"group-{number}", bucketSequence=[["node-1", "node-2"]] * 4)
    one.add_group("other", bucketSequence=[["node-3", "node-4"]] * 4)
    return one


@pytest.fixture
async def reconciler(cluster: Recording) -> Reconciler:
    """An operator that has made its first passes over some groups."""
    one = Reconciler(cluster, cluster, SETTINGS)
    for _ in range(4):
        await one.reconcile_once()
    assert in_pass(await one.reconcile_once()) == 0
    cluster.names()
    return one


async def test_restart_of_an_agent_rewrites_those_of_its_groups_only(
    cluster: Recording, reconciler: Reconciler
) -> None:
    """A thousand groups' must not be written because one node's agent is away for a moment."""
    cluster.set_ready("node-3", False)
    await reconciler.reconcile_once()
    assert cluster.names() == ["other"]
    content = cluster.config_maps["shop", "other-spark"]
    assert (set(content.agent_urls), set(content.other_agent_urls)) == ({"node-4"}, {"node-3"})


async def test_agents_stay_named_while_none_seems_to_be_ready(cluster: Recording, reconciler: Reconciler) -> None:
    """After the API server was away every node is down for it; a reader who knows no agent fails at once."""
    cluster.set_ready("node-3", False)
    cluster.set_ready("node-4", False)
    await reconciler.reconcile_once()
    content = cluster.config_maps["shop", "other-spark"]
    assert (set(content.agent_urls), set(content.other_agent_urls)) == ({"node-3", "node-4"}, set())


async def test_nodes_that_still_hold_replicas_are_named(cluster: Recording, reconciler: Reconciler) -> None:
    """Spark may read where a replica is, also beside the map."""
    cluster.add_table("orders", "other")
    for _ in range(3):
        await reconciler.reconcile_once()
    cluster.load("orders")
    cluster.disks["node-1"][cluster.table("orders").directory] = {0}
    await reconciler.reconcile_once()
    content = cluster.config_maps["shop", "other-spark"]
    assert set(content.agent_urls) == {"node-1", "node-3", "node-4"}
    label = node_label("shop", "other")
    assert {name for name, node in cluster.nodes.items() if label in node.group_labels} == {"node-3", "node-4"}


async def test_all_are_renewed_in_turn_while_nothing_happens(cluster: Recording, reconciler: Reconciler) -> None:
    """Not more often than once a minute; no pass is busier for it, and nothing is decided anew."""
    for _ in range(12):
        cluster.now += seconds(5)
        assert in_pass(await reconciler.reconcile_once()) == 0
    cluster.names()
    for _ in range(24):
        cluster.now += seconds(5)
        assert in_pass(await reconciler.reconcile_once()) == 0
    names = cluster.names()
    assert sorted(set(names)) == sorted({group.identity.name for group in cluster.groups.values()})
    assert max(map(names.count, names)) <= 3


async def test_nothing_is_renewed_while_another_operator_may_lead(cluster: Recording) -> None:
    """A sign of life is the leader's alone."""
    leads = [True]
    reconciler = Reconciler(cluster, cluster, SETTINGS, lambda: leads[0])
    for _ in range(4):
        await reconciler.reconcile_once()
    leads[0] = False
    cluster.names()
    for _ in range(12):
        cluster.now += seconds(30)
        await reconciler.reconcile_once()
    assert cluster.names() == []


async def test_sign_of_life_is_of_the_last_renewal_of_the_lease(cluster: Recording) -> None:
    """By the wall clock, as readers judge it, and not by the operator's own."""
    renewed_at = NOW - seconds(7)
    reconciler = Reconciler(cluster, cluster, SETTINGS, signed_at=lambda: renewed_at)
    for _ in range(3):
        await reconciler.reconcile_once()
    action = cluster.written[-1][1]
    sign = read_sign_of_life(spark_config_map_data(action.content, action.sign))
    assert sign is not None
    assert (sign.renew_time, sign.valid_seconds) == ("2026-11-21T11:59:53Z", 120.0)
    assert (sign.lease_namespace, sign.lease_name) == ("colocation", "colocation-operator")


async def test_those_of_groups_that_are_gone_are_forgotten(cluster: Recording, reconciler: Reconciler) -> None:
    """They are not written again: that would bring them back."""
    del cluster.groups["shop", "group-0"]
    for _ in range(40):
        cluster.now += seconds(5)
        await reconciler.reconcile_once()
    assert "group-0" not in cluster.names()


def written(number: int) -> WriteConfigMap:
    placement = SparkPlacement(
        namespace="shop", group=f"g{number}", group_namespace=None, data_root="/data", spark_image=None
    )
    content = SparkConfigMap(placement=placement, agent_urls={}, ca_certificate="")
    return WriteConfigMap(identity(f"g{number}", uid=f"uid-{number}"), content, (Owner("Group", "g", "uid"),))


@pytest.mark.parametrize("groups", [1, 20, 100, 1000])
@pytest.mark.parametrize("pass_seconds", [5, 17])
def test_signs_hold_until_they_are_renewed(groups: int, pass_seconds: int) -> None:
    """However many groups there are, made at once or one after another, and never above the rate."""
    one, now, actions = ConfigMapWrites("colocation"), NOW, [written(number) for number in range(groups)]
    ends: dict[str, datetime] = {}
    renewals: list[datetime] = []

    def write(action: WriteConfigMap) -> None:
        sign = one.signed(action, now).sign
        assert sign is not None
        one.wrote(action, now)
        ends[action.group.uid] = now + timedelta(seconds=sign.valid_seconds)

    for step in range(900):
        wanted = actions[: 10 + 5 * step]
        one.begin(wanted)
        for action in wanted:
            if not one.is_written(action):
                write(action)
        for action in one.due(now):
            write(action)
            renewals.append(now)
        assert all(end >= now for end in ends.values())
        now += seconds(pass_seconds)
    for start in renewals[:: max(1, len(renewals) // 50)]:
        assert sum(start <= at < start + seconds(60) for at in renewals) <= RENEWALS_PER_MINUTE + pass_seconds // 3 + 1


def test_content_decides_whether_it_is_written_and_not_the_sign() -> None:
    """Else every pass would write all of them."""
    one, action = ConfigMapWrites("colocation"), written(1)
    one.begin([action])
    one.wrote(one.signed(action, NOW), NOW)
    assert one.is_written(one.signed(action, NOW + seconds(100)))
    other = WriteConfigMap(action.group, action.content, ())
    assert not one.is_written(other)


def test_one_that_cannot_be_renewed_holds_up_no_other() -> None:
    """Its namespace is full, or it is owned by somebody else: the others take their turns."""
    one, actions = ConfigMapWrites("colocation"), [written(number) for number in range(3)]
    one.begin(actions)
    for action in actions:
        one.wrote(action, NOW)
    turns: list[str] = []
    for step in range(100):
        now = NOW + seconds(60 + 3 * step)
        for action in one.due(now):
            turns.append(action.group.name)
            (one.failed if action.group.name == "g0" else one.wrote)(action, now)
    assert min(turns.count("g1"), turns.count("g2")) >= 4
