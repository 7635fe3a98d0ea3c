"""A mistake in the planner stops the groups that bring it out, and no other."""

from itertools import combinations
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colocation.model.conditions import Reason
from colocation.model.snapshot import Snapshot
from colocation.planner import plan, plan_contained, planning, without_violations
from colocation.planner.status import Status
from colocation.planner.transitions import MovePlan
from colocation.planner.view import GroupView

from .test_planner_safety import several_groups
from .worlds import World, examples, make_group, make_node, make_snapshot

right_move_plan = planning._move_plan
right_look = planning.needs_nothing


def break_planner(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Groups of these names cannot be planned."""

    def wrong_move_plan(view: GroupView) -> MovePlan:
        if view.group.name in names:
            raise ZeroDivisionError("no weight at all")
        return right_move_plan(view)

    monkeypatch.setattr(planning, "needs_nothing", lambda cluster, group: False)
    monkeypatch.setattr(planning, "_move_plan", wrong_move_plan)


@given(several_groups(least_nodes=2), st.data(), st.booleans(), st.integers())
@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_groups_that_fail_do_nothing_and_the_others_are_planned_as_without_them(
    monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot, data: st.DataObject, settled: bool, seed: int
) -> None:
    """Any set of groups brings out a mistake: they stand still and say it, and the rest is planned as ever."""
    with monkeypatch.context() as patch:
        if settled:
            world = World(snapshot, Random(seed))
            world.settle()
            snapshot = world.snapshot
        verdicts = {group.name: group.stable for group in plan(snapshot).groups}
        names = data.draw(st.lists(st.sampled_from([group.name for group in snapshot.groups]), unique=True))
        break_planner(patch, *names)
        decided, failures = plan_contained(snapshot)
        rest = snapshot.model_copy(
            update={"groups": tuple(group for group in snapshot.groups if group.name not in names)}
        )
        cluster = planning.Cluster(rest, has_several=len(snapshot.groups) > 1)
        expected = {group.name: group for group in planning._plan(cluster).groups}
    assert sorted(name for _, name in failures) == sorted(names)
    assert all(isinstance(error, ZeroDivisionError) for error in failures.values())
    assert [group.name for group in decided.groups] == [group.name for group in snapshot.groups]
    assert without_violations(snapshot, decided) == decided
    for group in decided.groups:
        if group.name not in names:
            assert group == expected[group.name]
            continue
        assert (group.next_map, group.start_now, group.drops, group.cancel) == (None, (), (), ())
        assert group.stalled is not None
        assert group.stalled.reason == Reason.INTERNAL_ERROR
        assert "no weight at all" in group.stalled.message
        assert (group.is_judged, group.stable) == (True, verdicts[group.name])


def snapshot_of(names: list[str]) -> Snapshot:
    rows = (("node-1", "node-2"), ("node-2", "node-1"))
    groups = [make_group(2, 2, rows, name=name) for name in names]
    return make_snapshot([make_node("node-1"), make_node("node-2")], *groups)


@pytest.mark.parametrize("together", [*combinations("abcde", 2), ("a", "c", "e")], ids="".join)
def test_groups_that_fail_only_together(monkeypatch: pytest.MonkeyPatch, together: tuple[str, ...]) -> None:
    """Each of the groups is planned alone, and all at once are not: they stand still, and the others go on."""
    failing = {("shop", name) for name in together}

    def wrong_stage(cluster: planning.Cluster, candidates: dict[planning.GroupKey, planning.Candidate]) -> None:
        if failing <= cluster.groups.keys():
            raise KeyError("all")

    monkeypatch.setattr(planning, "_balance_in_turn", wrong_stage)
    decided, failures = plan_contained(snapshot_of([*"abcde"]))
    assert failures.keys() == failing
    assert {("shop", group.name) for group in decided.groups if group.stalled} == failing


def test_no_verdict_where_the_verdict_fails_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not known is not said: the caller keeps the last verdict."""

    def no_status(view: GroupView) -> Status:
        raise IndexError("no bucket")

    break_planner(monkeypatch, "a")
    monkeypatch.setattr(planning, "group_status", no_status)
    decided, _ = plan_contained(snapshot_of(["a"]))
    group = decided.groups[0]
    assert (group.is_judged, group.stable, group.reason) == (False, False, Reason.INTERNAL_ERROR)


def test_a_planner_that_fails_without_groups_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is no one's fault: the pass fails."""

    def no_stage(cluster: planning.Cluster, candidates: object) -> None:
        raise KeyError("nodes")

    monkeypatch.setattr(planning, "_balance_in_turn", no_stage)
    with pytest.raises(KeyError, match="nodes"):
        plan_contained(snapshot_of(["a", "b"]))
