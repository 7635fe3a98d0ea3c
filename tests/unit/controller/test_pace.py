"""How long an operator waits between passes: an object that always fails does not slow the others."""

from colocation.controller.pace import MAX_FAILURE_SECONDS, WRITTEN_SECONDS, Pace
from colocation.controller.reconciler import PassResult
from colocation.kube.errors import ClusterError
from colocation.reconcile.actions import Action, WriteGroupStatus

from ..reconcile.scenes import decided, quiet_observation
from .test_reconciler import SETTINGS, Recorder, a_new_group, reconciler

QUIET_SECONDS = SETTINGS.inventory_seconds
IMMUTABLE = ClusterError("ConfigMap sales-spark is immutable")


def failed(has_advanced: bool = False) -> PassResult:
    """A pass in which a group failed; ``has_advanced``: another scope was completed."""
    observation = quiet_observation()
    return PassResult(
        observation, decided(observation), failures={"shop/sales": IMMUTABLE}, has_advanced=has_advanced
    )


def test_a_failing_group_delays_no_other() -> None:
    """While other scopes advance, their steps follow each other within a second."""
    pace = Pace(QUIET_SECONDS)
    for _ in range(5):
        assert pace.interval(failed()) <= QUIET_SECONDS
    assert pace.interval(failed(has_advanced=True)) == WRITTEN_SECONDS


class TakingGroupStatuses(Recorder):
    """A cluster that refuses every action but the status of a group."""

    async def perform(self, action: Action) -> None:
        if not isinstance(action, WriteGroupStatus):
            raise IMMUTABLE
        self.performed.append(action)


async def test_a_partly_performed_scope_is_no_progress() -> None:
    """Otherwise one tenant's broken object would keep the operator busy for ever."""
    cluster = TakingGroupStatuses(a_new_group())
    result = await reconciler(cluster).reconcile_once()
    assert cluster.performed
    assert (result.has_failed, result.has_advanced) == (True, False)


def test_a_cluster_that_cannot_be_observed_is_asked_less_and_less() -> None:
    """Up to a limit; a pass that succeeds resets it."""
    pace = Pace(QUIET_SECONDS)
    assert [pace.interval(None) for _ in range(6)] == [2, 4, 8, 16, MAX_FAILURE_SECONDS, MAX_FAILURE_SECONDS]


def test_failing_for_weeks_changes_nothing() -> None:
    """After 1,024 passes the interval was too large for a number, and the operator ended."""
    pace = Pace(QUIET_SECONDS)
    assert {pace.interval(failed()) for _ in range(2000)} == {2, 4, QUIET_SECONDS}
    assert {pace.interval(None) for _ in range(2000)} == {MAX_FAILURE_SECONDS}
