"""How long an operator waits: one object that always fails must not slow the others."""

import pytest

from colocation.controller.pace import MAX_FAILURE_SECONDS, WRITTEN_SECONDS, Pace
from colocation.kube.errors import ClusterError
from colocation.reconcile.actions import WriteConfigMap

from .story import SETTINGS, Story

QUIET_SECONDS = SETTINGS.inventory_seconds


async def broken(monkeypatch: pytest.MonkeyPatch) -> Story:
    """A quiet cluster, then one whose ConfigMaps somebody made immutable."""
    story = Story()
    story.cluster.add_group("sales")
    await story.loaded("orders")
    perform = story.cluster.perform

    async def refuse(action: object) -> None:
        if isinstance(action, WriteConfigMap):
            raise ClusterError("ConfigMap sales-spark is immutable")
        await perform(action)  # type: ignore[arg-type]

    monkeypatch.setattr(story.cluster, "perform", refuse)
    story.restart()  # it writes each ConfigMap once
    return story


async def test_other_groups_go_on_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their steps follow each other within a second (before: every 30 s for everybody)."""
    story, pace = await broken(monkeypatch), Pace(QUIET_SECONDS)
    for _ in range(5):
        result = await story.operator.reconcile_once()
        assert list(result.failures)
        assert pace.interval(result) <= QUIET_SECONDS
    story.cluster.add_group("stock")
    result = await story.operator.reconcile_once()
    assert list(result.failures)
    assert pace.interval(result) == WRITTEN_SECONDS


async def test_a_scope_that_fails_again_and_again_after_a_part_of_it_is_no_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else one tenant keeps the operator busy for ever."""
    story = await broken(monkeypatch)
    result = await story.operator.reconcile_once()
    assert not result.has_advanced


def test_a_cluster_that_cannot_be_observed_is_asked_less_and_less() -> None:
    """Up to a limit; the first pass that happens ends it."""
    pace = Pace(QUIET_SECONDS)
    assert [pace.interval(None) for _ in range(6)] == [2, 4, 8, 16, MAX_FAILURE_SECONDS, MAX_FAILURE_SECONDS]


async def test_failing_for_weeks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 1,024 passes the interval was too large for a number, and the operator ended."""
    story, pace = await broken(monkeypatch), Pace(QUIET_SECONDS)
    result = await story.operator.reconcile_once()
    assert {pace.interval(result) for _ in range(2000)} == {2, 4, QUIET_SECONDS}
    assert {pace.interval(None) for _ in range(2000)} == {MAX_FAILURE_SECONDS}
