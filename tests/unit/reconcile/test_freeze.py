"""Nothing is deleted, and nothing is forgotten, while etcd is restored and no administrator has accepted that."""

from dataclasses import replace
from datetime import timedelta

import pytest

from colocation.model.conditions import ConditionType
from colocation.reconcile.actions import (
    CollectGarbage,
    CreateTable,
    DeleteGroup,
    DropBucket,
    PostEvent,
    RecycleTable,
    WriteGroupStatus,
)
from colocation.reconcile.decide import Decision
from colocation.state.observation import Observation

from ..state.objects import NOW
from .scenes import actions_of, decided, quiet_observation, settled_group
from .test_deletions import surplus, surplus_replica
from .test_recover_requests import UID, with_dropped

DELETIONS = (DropBucket, RecycleTable, CollectGarbage, DeleteGroup)


def frozen(observation: Observation) -> Observation:
    return replace(observation, etcd_restored=True)


def deletions(observation: Observation) -> list[object]:
    decision = decided(observation)
    return [one for scope in decision.scopes for one in scope.actions if isinstance(one, DELETIONS)]


def with_garbage() -> Observation:
    seen = quiet_observation("orders")
    [table] = seen.tables
    view = seen.agent_views["node-1"]
    report = surplus(table, "node-1")
    tables = {**view.tables, (report.namespace, report.directory): report}
    return replace(seen, agent_views={**seen.agent_views, "node-1": replace(view, tables=tables)})


def with_an_empty_group() -> Observation:
    group = settled_group(())
    past = (NOW - timedelta(seconds=1)).isoformat()
    status = group.status.model_copy(update={"tables": ("orders",), "delete_after": past})
    return replace(quiet_observation(), groups=(replace(group, status=status),))


@pytest.mark.parametrize(
    "observation",
    [
        pytest.param(surplus_replica(), id="a replica outside of the map"),
        pytest.param(with_garbage(), id="garbage"),
        pytest.param(with_dropped("shop", [], "none"), id="an empty group, and what it remembers"),
        pytest.param(with_an_empty_group(), id="a group without tables"),
    ],
)
def test_nothing_is_deleted_while_etcd_is_restored(observation: Observation) -> None:
    """What would go otherwise stays."""
    assert not deletions(frozen(observation))


@pytest.mark.parametrize("observation", [surplus_replica(), with_garbage(), with_an_empty_group()])
def test_it_goes_once_that_is_accepted(observation: Observation) -> None:
    """The same observations, so that the test above proves something."""
    assert deletions(observation)


def stalled(decision: Decision) -> tuple[str, str]:
    for one in actions_of(decision, WriteGroupStatus):
        for condition in one.status["conditions"]:  # type: ignore[attr-defined]
            if condition["type"] == ConditionType.STALLED and condition["status"] == "True":
                return condition["reason"], condition["message"]
    return "", ""


def test_every_group_reports_it_and_stays_stable() -> None:
    """Joins go on; the message names the command."""
    decision = decided(frozen(quiet_observation("orders")))
    reason, message = stalled(decision)
    assert reason == "EtcdRestored" and "colocation adopt -A" in message
    [written] = actions_of(decision, WriteGroupStatus)
    assert written.status["stable"] is True


def later(observation: Observation) -> Observation:
    """Two days: the time of dropped tables is over."""
    return replace(observation, now=observation.now + timedelta(days=2))


@pytest.mark.parametrize("is_frozen", [True, False])
def test_dropped_tables_are_remembered_for_as_long(is_frozen: bool) -> None:
    """And can be brought back: agents empty no bins meanwhile."""
    observation = replace(later(with_dropped("shop", [], UID[:8])), etcd_restored=is_frozen)
    decision = decided(observation)
    assert bool(actions_of(decision, CreateTable)) is is_frozen
    refused = [one for one in actions_of(decision, PostEvent) if one.reason == "RecoverRefused"]
    assert bool(refused) is not is_frozen
    written = [one.status["recycled"] for one in actions_of(decision, WriteGroupStatus) if "recycled" in one.status]
    assert [bool(one) for one in written] == [is_frozen]
