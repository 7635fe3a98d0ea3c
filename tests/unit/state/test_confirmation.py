"""The last verdict stands for a moment for what no agent has spoken of yet; a false status harms its table alone."""

from dataclasses import replace
from datetime import timedelta

import pytest

from colocation.model.group import UnstableBucket
from colocation.model.schema_check import Refusal
from colocation.model.snapshot import GroupState, Limits, Node, Snapshot
from colocation.state.assemble import assemble
from colocation.state.confirmation import CONFIRMATION_GRACE
from colocation.state.objects import ObservedTable
from colocation.state.observation import Observation
from colocation.state.snapshot import snapshot_of

from ..reconcile.scenes import NODES, agent_view, held_by, observe, quiet_observation, settled_group, settled_table
from .objects import NOW, seconds, table_report

ORDERS, LINES = settled_table("orders"), settled_table("lines")
FORMER = "b" * 64
WHOLE = {0: "complete", 1: "complete"}
JUST_NOW, LONG_AGO = NOW - seconds(1), NOW - CONFIRMATION_GRACE


def snapshot(observation: Observation) -> Snapshot:
    return snapshot_of(assemble(observation), Limits(), 30)


def faults(observation: Observation) -> list[Refusal]:
    return [view.fault for view in assemble(observation).tables.values() if view.fault]


def state(observation: Observation) -> GroupState:
    [found] = snapshot(observation).groups
    return found


def with_manifest(table: ObservedTable, manifest: str) -> ObservedTable:
    assert table.status.snapshot
    committed = table.status.snapshot.model_copy(update={"manifest": f"sha256:{manifest}"})
    return replace(table, status=table.status.model_copy(update={"snapshot": committed}))


def after_commit(
    seen_at: object = JUST_NOW, others: tuple[ObservedTable, ...] = (LINES,), **former: object
) -> Observation:
    """Node 1 has answered about the commit of ``orders``; nodes 2 and 3 have not: their word is of the former one."""
    tables = (ORDERS, *others)
    group = settled_group(tables)
    before = with_manifest(ORDERS, FORMER)
    views = {"node-1": agent_view(group, tables, [held_by("node-1", one) for one in tables])}
    for name in ("node-2", "node-3"):
        shown = [former.get(name, held_by(name, ORDERS, manifest=FORMER)), *(held_by(name, one) for one in others)]
        views[name] = agent_view(group, (before, *others), shown)  # type: ignore[arg-type]
    return observe(group, tables, views, snapshots_seen_at={ORDERS.identity.uid: seen_at} if seen_at else {})


def test_commit_does_not_make_whole_replicas_incomplete() -> None:
    """Those of which the agents have not spoken yet are unconfirmed, not complete: nothing may rest on them."""
    found = state(after_commit())
    assert found.held["node-1"] == {0: "complete"}
    assert found.unconfirmed == {"node-2": (0, 1), "node-3": (1,)}
    assert "complete" not in {*found.held["node-2"].values(), *found.held["node-3"].values()}


def test_no_part_is_held_of_what_no_agent_has_spoken_of() -> None:
    """Of a group's only table. Node 3, outside of bucket 0's row, would count as one that has begun to take it over."""
    found = state(after_commit(others=()))
    assert found.held == {"node-1": {0: "complete"}}
    assert found.unconfirmed == {"node-2": (0, 1), "node-3": (1,)}


@pytest.mark.parametrize("seen_at", [None, LONG_AGO], ids=["not recent", "when the grace is over"])
def test_grace_after_a_commit_ends(seen_at: object) -> None:
    """An agent that does not answer about a commit for so long may not have its files."""
    found = state(after_commit(seen_at))
    assert found.unconfirmed == {}
    assert found.held["node-2"] == {0: "partial", 1: "partial"}


def test_damage_that_was_known_before_the_commit_is_not_forgotten() -> None:
    """A replica that was not whole of the former snapshot is not taken for whole of the next."""
    shown = table_report(ORDERS, {0: "corrupt", 1: "complete"}, FORMER)
    assert state(after_commit(**{"node-2": shown})).unconfirmed == {"node-2": (1,), "node-3": (1,)}


def test_silent_agent_confirms_nothing() -> None:
    """It is not the commit that it has not heard of."""
    observation = after_commit()
    views = {**observation.agent_views, "node-3": replace(observation.agent_views["node-3"], silent_since=JUST_NOW)}
    assert state(replace(observation, agent_views=views)).unconfirmed == {"node-2": (0, 1)}


@pytest.mark.parametrize(
    ("status", "buckets"),
    [
        pytest.param({"stable": False, "unstable_buckets": (1,), "unstable_bucket_count": 1}, (0,), id="one listed"),
        pytest.param({"stable": False, "unstable_buckets": (1,), "unstable_bucket_count": 2}, (), id="not all listed"),
        pytest.param({"stable": None}, (), id="no verdict yet"),
    ],
)
def test_only_what_the_last_verdict_called_stable_stands(status: dict[str, object], buckets: tuple[int, ...]) -> None:
    """A bucket that was not stable before does not become so for lack of news."""
    observation = after_commit()
    listed = tuple(UnstableBucket(bucket=one, reason="NodeGone") for one in status.pop("unstable_buckets", ()))  # type: ignore[attr-defined]
    [group] = observation.groups
    shown = replace(group, status=group.status.model_copy(update={**status, "unstable_buckets": listed}))
    assert state(replace(observation, groups=(shown,))).unconfirmed.get("node-2", ()) == buckets


def nodes_with(ready_changed_at: object) -> list[Node]:
    observation = quiet_observation("orders")
    down = replace(observation.nodes[0], ready=False, ready_changed_at=ready_changed_at)
    return list(snapshot(replace(observation, nodes=(down, *observation.nodes[1:]))).nodes)


def test_times_of_others_are_never_in_the_future() -> None:
    """A node whose clock is ahead has been down since now at the latest."""
    assert nodes_with(NOW + timedelta(hours=1))[0].not_ready_since == NOW
    assert nodes_with(LONG_AGO)[0].not_ready_since == LONG_AGO


def claiming(manifest: str, heard: tuple[str, ...], seen_at: object = JUST_NOW) -> Observation:
    """A tenant wrote a manifest that no one has; ``heard``: the nodes that were asked about it."""
    bogus = with_manifest(ORDERS, manifest)
    group = settled_group((bogus, LINES))
    views = {}
    for name in NODES:
        asked, shown = (bogus, table_report(ORDERS, {}, manifest)) if name in heard else (ORDERS, held_by(name, ORDERS))
        shown = replace(shown, manifest_present=name not in heard)
        views[name] = agent_view(group, (asked, LINES), [shown, held_by(name, LINES)])
    seen = {ORDERS.identity.uid: seen_at} if seen_at else {}
    observation = observe(group, (bogus, LINES), views, snapshots_seen_at=seen)
    sizes = {key: value for key, value in observation.bucket_bytes.items() if key[1] == LINES.directory}
    return replace(observation, bucket_bytes=sizes)


@pytest.mark.parametrize("heard", [NODES[:0], NODES[:1], NODES[:2]], ids=["no node", "one node", "all but one"])
def test_manifest_that_no_one_has_yet_changes_no_verdict(heard: tuple[str, ...]) -> None:
    """Until all nodes have answered about it, the other tables' replicas stay as good as they were."""
    found = state(claiming(FORMER, heard))
    assert found.unconfirmed == {"node-1": (0,), "node-2": (0, 1), "node-3": (1,)}


def test_manifest_that_no_node_has_is_its_tables_fault_alone() -> None:
    """The group is judged by its other tables, at once and for as long as it lasts."""
    observation = claiming(FORMER, NODES, None)
    [fault] = faults(observation)
    assert fault.reason == "ManifestMissing" and FORMER in fault.message
    found = state(observation)
    assert (found.bucket_bytes, found.unconfirmed) == ((50, 50), {})
    assert found.held == {"node-1": {0: "complete"}, "node-2": WHOLE, "node-3": {1: "complete"}}


def test_table_that_was_never_loaded_lacks_no_manifest() -> None:
    """All agents have answered that they hold nothing of it."""
    empty = settled_table("empty")
    empty = replace(empty, status=empty.status.model_copy(update={"snapshot": None}))
    made = settled_group((empty,))
    views = {name: agent_view(made, (empty,), []) for name in NODES}
    assert faults(observe(made, (empty,), views)) == []


def test_manifest_that_a_silent_node_was_seen_with_is_not_missing() -> None:
    """It may come back with it."""
    observation = claiming(FORMER, NODES, None)
    [bogus, lines] = observation.tables
    view = agent_view(observation.groups[0], (bogus, lines), [table_report(bogus, WHOLE, FORMER)])
    views = {**observation.agent_views, "node-3": replace(view, silent_since=JUST_NOW)}
    away = replace(observation, agent_views=views)
    assert faults(away) == []
