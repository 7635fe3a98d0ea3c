"""How a pass performs its actions: in order, while it may, each scope by itself, and less of a status that is refused.

Stories of whole passes are in tests/simulation. Here a reader shows one observation and a writer records.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import pytest

from colocation.controller.reconciler import LeaderState, NotLeading, Reconciler
from colocation.controller.settings import Settings
from colocation.kube.errors import ClusterError, StaleDecision
from colocation.manifests.config_map import spark_config_map_data
from colocation.model.conditions import Reason
from colocation.model.reader_rules import read_sign_of_life
from colocation.reconcile.actions import (
    Action,
    MarkGroupUnstable,
    PostEvent,
    StartClone,
    WriteConfigMap,
    WriteGroupStatus,
    WriteTableStatus,
)
from colocation.state.observation import Observation

from ..reconcile.scenes import actions_of, decided, quiet_observation
from ..state.objects import NOW, group, node, seconds, table

SETTINGS = Settings(namespace="colocation", image="operator:1")


@dataclass
class Recorder:
    """Shows one observation, and records what is performed. ``broken``: kind of action -> the error that it raises."""

    observation: Observation
    broken: Mapping[type[Action], Exception] = field(default_factory=dict)
    performed: list[Action] = field(default_factory=list)

    async def observe(self, doubtful: Mapping[str, datetime] | None = None) -> Observation:
        return self.observation

    async def perform(self, action: Action) -> None:
        for kind, error in self.broken.items():
            if isinstance(action, kind):
                raise error
        self.performed.append(action)

    def of(self, kind: type[Action]) -> list[Action]:
        return [action for action in self.performed if isinstance(action, kind)]


def reconciler(cluster: Recorder, may_act: Callable[[], bool] = lambda: True) -> Reconciler:
    return Reconciler(cluster, cluster, SETTINGS, lambda: LeaderState(may_act()))


def a_new_group() -> Observation:
    """With a table, on three nodes: there is much to do."""
    return replace(quiet_observation(), groups=(group(),), tables=(table("orders", files=None),))


def a_lost_node() -> Observation:
    """A stable group whose first node has been away for an hour."""
    observation = quiet_observation("orders")
    lost = replace(node("node-1", ready=False), ready_changed_at=NOW - seconds(3600))
    return replace(observation, nodes=(lost, *observation.nodes[1:]))


@pytest.mark.parametrize("may", [0, 1, 3])
async def test_an_operator_acts_only_while_it_may(may: int) -> None:
    """Its Lease may run out within a pass: it is asked before every action, and every scope ends where it is."""
    cluster, left = Recorder(a_new_group()), iter([True] * (1 + may))  # the pass itself asks, too
    result = await reconciler(cluster, lambda: next(left, False)).reconcile_once()
    assert len(result.decision.scopes) > 1
    assert len(cluster.performed) == may
    assert any(isinstance(error, NotLeading) for error in result.failures.values())


@pytest.mark.parametrize("error", [ClusterError("no answer"), RuntimeError("a mistake of ours")])
async def test_a_scope_that_fails_ends_alone(error: Exception) -> None:
    """The others go on, the result names it, and the next pass comes soon."""
    cluster = Recorder(a_new_group(), {WriteGroupStatus: error, MarkGroupUnstable: error})
    result = await reconciler(cluster).reconcile_once()
    assert list(result.failures) == ["group shop/sales"]
    assert cluster.of(WriteTableStatus)
    assert not result.is_quiet


async def test_an_event_that_cannot_be_posted_stops_nothing() -> None:
    """Events are for people."""
    cluster = Recorder(a_new_group(), {PostEvent: ClusterError("no answer")})
    result = await reconciler(cluster).reconcile_once()
    assert not result.failures
    assert cluster.of(WriteGroupStatus) and cluster.of(WriteConfigMap)


@dataclass
class RefusingWholeStatuses(Recorder):
    """An API server that refuses a group's status, unless it is the verdict alone; ``refused``: how often it did."""

    error: Exception = field(default_factory=lambda: ClusterError("413 too large"))
    refused: int = 0

    async def perform(self, action: Action) -> None:
        if isinstance(action, WriteGroupStatus) and "members" in action.status:
            self.refused += 1
            raise self.error
        await super().perform(action)


@pytest.mark.parametrize("error", [ClusterError("413 too large"), StaleDecision("409 it has been modified")])
async def test_the_verdict_is_written_although_the_status_is_refused(error: Exception) -> None:
    """A group never stays stable because a write failed; clones, which need no status, start all the same."""
    cluster = RefusingWholeStatuses(a_lost_node(), error=error)
    await reconciler(cluster).reconcile_once()
    [write] = [*cluster.of(WriteGroupStatus), *cluster.of(MarkGroupUnstable)]
    assert isinstance(write, WriteGroupStatus | MarkGroupUnstable)
    assert (write.status["stable"], write.status["reason"]) == (False, Reason.NODE_NOT_READY)
    assert cluster.of(StartClone)


async def test_nothing_less_is_written_of_a_status_once_another_operator_may_lead() -> None:
    """The status was refused because the other one has written it."""
    cluster = RefusingWholeStatuses(a_lost_node())
    await reconciler(cluster, lambda: not cluster.refused).reconcile_once()
    assert cluster.refused == 1
    assert not cluster.of(WriteGroupStatus) and not cluster.of(MarkGroupUnstable)


def test_the_short_status_of_a_stable_group_reports_that_it_is_stable() -> None:
    """A write that another one overtook must not make the verdict flap."""
    observation = quiet_observation("orders")
    added = replace(observation, tables=(*observation.tables, table("lines", files=None)))
    [write] = actions_of(decided(added), WriteGroupStatus)
    [fallback] = write.fallbacks
    assert isinstance(fallback, WriteGroupStatus)
    assert fallback.status["stable"] is True


async def test_the_sign_of_life_is_the_last_renewal_of_the_lease() -> None:
    """Not the time of the write: an operator that cannot renew its Lease must not look alive."""
    cluster, renewed_at = Recorder(quiet_observation("orders")), NOW - seconds(7)
    await Reconciler(cluster, cluster, SETTINGS, lambda: LeaderState(renewed_at=renewed_at)).reconcile_once()
    [write] = cluster.of(WriteConfigMap)
    assert isinstance(write, WriteConfigMap)
    sign = read_sign_of_life(spark_config_map_data(write.content, write.sign))
    assert sign is not None
    assert (sign.renew_time, sign.valid_seconds) == ("2026-11-21T11:59:53Z", 120.0)
    assert (sign.lease_namespace, sign.lease_name) == ("colocation", "colocation-operator")


async def test_no_config_map_is_renewed_while_another_operator_may_lead() -> None:
    """Only the leader gives a sign of life."""
    leads = [True]
    cluster = Recorder(quiet_observation("orders"))
    one = reconciler(cluster, lambda: leads[0])
    await one.reconcile_once()
    leads[0] = False
    cluster.performed.clear()
    for minute in range(1, 10):
        cluster.observation = replace(cluster.observation, now=NOW + seconds(60 * minute))
        await one.reconcile_once()
    assert not cluster.performed
    leads[0] = True
    cluster.observation = replace(cluster.observation, now=NOW + seconds(600))
    await one.reconcile_once()
    assert cluster.of(WriteConfigMap)
