"""What one object provokes harms that object alone."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from colocation.model.names import node_label
from colocation.model.plan import Plan
from colocation.model.snapshot import Snapshot
from colocation.planner import planning as plans
from colocation.planner.cluster import Cluster
from colocation.planner.status import Status
from colocation.reconcile import decide as passes
from colocation.reconcile import group_scopes, recovery, tables, transfers
from colocation.reconcile.actions import MarkGroupUnstable, WriteGroupStatus, WriteTableStatus
from colocation.reconcile.scopes import Scope
from colocation.state import assemble
from colocation.state import snapshot as snapshots
from colocation.state.observation import Observation

from .scenes import actions_of, decided, quiet_observation
from .test_recoveries import coming_back
from .test_transfers import observed

OTHER_UID = "feedbeef-group"


class Boom(Exception):
    """What no code expects."""


def two_groups() -> Observation:
    """``sales`` with its tables, and ``stock`` without."""
    observation = quiet_observation("orders", "lines")
    [sales] = observation.groups
    stock = replace(
        sales,
        identity=replace(sales.identity, name="stock", uid=OTHER_UID),
        status=sales.status.model_copy(update={"members": ()}),
    )
    labels = {node_label("shop", name): "true" for name in ("sales", "stock")}
    nodes = tuple(replace(node, group_labels=labels) for node in observation.nodes)
    return replace(observation, groups=(sales, stock), nodes=nodes)


def failing(name: str, attribute: str, monkeypatch: pytest.MonkeyPatch, module: object, function: str) -> None:
    """Let a step of the decision raise for the object of this name."""
    original = getattr(module, function)

    def step(*arguments: object) -> object:
        for argument in arguments:
            subject = getattr(argument, attribute, argument)
            identity = getattr(subject, "identity", None)
            if identity is not None and identity.name == name:
                raise Boom(name)
        return original(*arguments)

    monkeypatch.setattr(module, function, step)


def test_what_an_agent_reports_harms_its_node_alone() -> None:
    """Whatever number passed for one: its node counts as one without an agent, and all others go on."""
    observation = two_groups()
    view = observation.agent_views["node-1"]
    assert view.report is not None
    views = {"node-1": replace(view, report=view.report.model_copy(update={"free_bytes": -1}))}
    decision = decided(replace(observation, agent_views={**observation.agent_views, **views}))
    assert list(decision.errors) == ["node node-1"]
    assert [node.name for node in decision.snapshot.nodes if not node.ready] == ["node-1"]


@pytest.mark.parametrize(
    ("module", "function", "attribute"),
    [
        pytest.param(snapshots, "_group_state", "group", id="state of the group"),
        pytest.param(passes, "next_recycled", "group", id="its dropped tables"),
        pytest.param(group_scopes, "next_status", "group", id="its status"),
        pytest.param(group_scopes, "clone_actions", "group", id="its clones"),
        pytest.param(group_scopes, "drop_actions", "group", id="its drops"),
    ],
)
def test_error_of_one_group_is_that_groups(
    monkeypatch: pytest.MonkeyPatch, module: object, function: str, attribute: str
) -> None:
    """It is not stable and has a reason; the other group and its tables are decided about as ever."""
    before = decided(two_groups())
    failing("sales", attribute, monkeypatch, module, function)
    after = decided(two_groups())
    assert [(name, type(error)) for name, error in after.errors.items()] == [("group shop/sales", Boom)]
    [mark] = actions_of(after, MarkGroupUnstable)
    assert (mark.group.name, mark.status["stable"], mark.status["reason"]) == ("sales", False, "InternalError")
    assert not [one for one in actions_of(after, WriteGroupStatus) if one.group.name == "sales"]

    def others(scopes: Iterator[Scope]) -> list[Scope]:
        return [scope for scope in scopes if "shop/sales" not in scope.name]

    assert others(iter(after.scopes)) == others(iter(before.scopes))
    assert before.errors == {}


@pytest.mark.parametrize("judged", [True, False], ids=["with a verdict", "without a verdict"])
def test_group_that_the_planner_cannot_plan(monkeypatch: pytest.MonkeyPatch, judged: bool) -> None:
    """The others are planned without it; without a verdict it is not stable."""
    original = plans._plan

    def plan(cluster: Cluster) -> Plan:
        if any(group.name == "sales" for group in cluster.snapshot.groups):
            raise Boom
        return original(cluster)

    def status(view: object) -> Status:
        raise Boom

    monkeypatch.setattr(plans, "_plan", plan)
    if not judged:
        monkeypatch.setattr(plans, "group_status", status)
    after = decided(two_groups())
    assert list(after.errors) == ["plan of group shop/sales"]
    marks = [(mark.group.name, mark.status["reason"]) for mark in actions_of(after, MarkGroupUnstable)]
    assert marks == ([] if judged else [("sales", "InternalError")])
    written = {one.group.name: one.status for one in actions_of(after, WriteGroupStatus)}
    assert written["stock"]["stable"] is True
    if judged:
        assert written["sales"]["stable"] is True
        assert "InternalError" in str(written["sales"]["conditions"])


def test_plan_that_cannot_be_checked_is_not_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdicts stand."""

    def check(snapshot: Snapshot, plan: Plan) -> Plan:
        raise Boom

    monkeypatch.setattr(passes, "without_violations", check)
    after = decided(two_groups())
    assert list(after.errors) == ["check of plans"]
    assert all(one.stable and not (one.start_now or one.drops or one.next_map) for one in after.plan.groups)


@pytest.mark.parametrize("step", ["table_actions", "_decide"])
def test_error_of_one_table_is_that_tables(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """The agent reports it itself; groups and other tables do not notice."""
    before = decided(two_groups())
    failing("orders", "table", monkeypatch, tables, step)
    after = decided(two_groups())
    assert list(after.errors) == ["table shop/orders"]
    shown = [one for one in actions_of(after, WriteTableStatus) if one.table.name == "orders"]
    [(ready, stalled)] = [one.status["conditions"] for one in shown]  # type: ignore[misc]
    assert (ready["reason"], stalled["reason"], stalled["status"]) == ("InternalError", "InternalError", "True")
    scopes = [[one for one in found.scopes if one.name != "table shop/orders"] for found in (before, after)]
    assert scopes[0] == scopes[1]


@pytest.mark.parametrize(
    ("module", "function", "observation"),
    [
        pytest.param(transfers, "_transfer", observed(), id="it moves to another group"),
        pytest.param(recovery, "_recovery", coming_back(), id="it is brought back"),
    ],
)
def test_error_of_a_table_on_its_way_is_that_tables(
    monkeypatch: pytest.MonkeyPatch, module: object, function: str, observation: Observation
) -> None:
    """It reports it, and waits."""
    assert decided(observation).errors == {}
    failing("orders", "table", monkeypatch, module, function)
    after = decided(observation)
    assert list(after.errors) == ["table shop/orders"]
    [shown] = [one.status for one in actions_of(after, WriteTableStatus)]
    assert "InternalError" in str(shown["conditions"]) and set(shown) == {"conditions"}


def test_table_whose_reports_cannot_be_read_keeps_the_rest_of_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is decided about it from half of what there is to know."""
    failing("orders", "table", monkeypatch, assemble, "fault_of")
    after = decided(two_groups())
    assert list(after.errors) == ["table shop/orders"]
    [shown] = [one.status for one in actions_of(after, WriteTableStatus) if one.table.name == "orders"]
    assert {(one["type"], one["reason"]) for one in shown.pop("conditions")} == {  # type: ignore[attr-defined]
        ("Ready", "InternalError"), ("Stalled", "InternalError"),
    }  # fmt: skip
    assert shown == {}


def test_group_whose_status_cannot_be_read_is_left_alone() -> None:
    """Without its map nothing can be decided: it gets none that is new, and nothing is copied or deleted."""
    observation = two_groups()
    sales, stock = observation.groups
    empty = sales.status.model_copy(update={"backends_per_bucket_seq": None, "map_version": None})
    broken = replace(sales, status=empty, status_error="status.backendsPerBucketSeq: not a list")
    after = decided(replace(observation, groups=(broken, stock)))
    [mark] = actions_of(after, MarkGroupUnstable)
    assert mark.status["reason"] == "InvalidStatus" and "backendsPerBucketSeq" in str(mark.status["conditions"])
    assert {scope.name for scope in after.scopes if "sales" in scope.name} == {"group shop/sales"}
    assert [one.name for one in after.snapshot.groups] == ["stock"]


def test_table_whose_status_cannot_be_read_is_at_fault_alone() -> None:
    """Its group is judged by the others, and what can be read of its status stays."""
    observation = two_groups()
    orders, lines = observation.tables
    status = orders.status.model_copy(update={"snapshot": None})
    broken = replace(orders, status=status, status_error="status.snapshot.id: not a number")
    after = decided(replace(observation, tables=(broken, lines)))
    [group] = [one for one in after.plan.groups if one.name == "sales"]
    assert group.stable
    [write] = [one for one in actions_of(after, WriteTableStatus) if one.table.name == "orders"]
    assert set(write.status) == {"conditions"}
    assert "status.snapshot.id" in str(write.status) and "InvalidStatus" in str(write.status)
