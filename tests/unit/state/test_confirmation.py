"""The last verdict stands for a moment for what no agent has spoken of yet; a false status harms its table alone."""

from dataclasses import replace
from datetime import timedelta

import pytest

from colocation.model.group import UnstableBucket
from colocation.model.schema_check import Refusal
from colocation.model.snapshot import GroupState, Limits, Node, Snapshot
from colocation.state.agent_view import AgentView
from colocation.state.assemble import assemble
from colocation.state.confirmation import CONFIRMATION_GRACE, unheard
from colocation.state.objects import ObservedTable
from colocation.state.observation import Observation
from colocation.state.snapshot import snapshot_of

from ..reconcile.scenes import NODES, agent_view, held_by, observe, quiet_observation, settled_group, settled_table
from .objects import NOW, agent, seconds, table_report, view

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


@pytest.mark.parametrize("of_node_2", [{0: "partial", 1: "complete"}, {1: "complete"}], ids=["a part", "nothing"])
def test_what_another_table_lacks_is_not_confirmed(of_node_2: dict[int, str | None]) -> None:
    """Its files are missing whatever the agent will report of the commit."""
    observation = after_commit()
    view = observation.agent_views["node-2"]
    tables = {**view.tables, ("shop", LINES.directory): table_report(LINES, of_node_2)}
    views = {**observation.agent_views, "node-2": replace(view, tables=tables)}
    assert state(replace(observation, agent_views=views)).unconfirmed == {"node-2": (1,), "node-3": (1,)}


def test_a_bucket_without_files_before_the_commit_was_whole() -> None:
    """What is there is of retained snapshots, and nothing was missing."""
    shown = table_report(ORDERS, {0: "complete", 1: None}, FORMER)
    old = replace(shown.buckets[1], files_wanted=0, files_held=1)
    shown = replace(shown, buckets={**shown.buckets, 1: old})
    assert state(after_commit(**{"node-2": shown})).unconfirmed == {"node-2": (0, 1), "node-3": (1,)}


def test_an_agent_that_was_asked_about_the_commit_and_lacks_it_confirms_nothing() -> None:
    """It does not need the grace: it has denied."""
    observation = after_commit()
    shown = [replace(held_by("node-2", ORDERS), manifest_present=False), held_by("node-2", LINES)]
    views = {**observation.agent_views, "node-2": agent_view(observation.groups[0], observation.tables, shown)}
    assert state(replace(observation, agent_views=views)).unconfirmed == {"node-3": (1,)}


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
    assert fault.reason == "ManifestMissing" and f"{FORMER} that" in fault.message
    assert "asked: node-1, node-2, node-3." in fault.message
    found = state(observation)
    assert (found.bucket_bytes, found.unconfirmed) == ((50, 50), {})
    assert found.held == {"node-1": {0: "complete"}, "node-2": WHOLE, "node-3": {1: "complete"}}


@pytest.mark.parametrize(
    ("node_3", "is_missing"),
    [
        pytest.param(None, True, id="no agent is there"),
        pytest.param(AgentView(), True, id="it never answered"),
        pytest.param(view(silent_since=JUST_NOW), True, id="it is silent"),
        pytest.param(view(), False, id="it answers, and was not asked about the table yet"),
    ],
)
def test_only_agents_that_answer_are_asked_for_a_manifest(node_3: AgentView | None, is_missing: bool) -> None:
    """A node that is away may be so for ever."""
    observation = claiming(FORMER, NODES, None)
    views = {name: shown for name, shown in observation.agent_views.items() if name != "node-3"}
    views |= {"node-3": node_3} if node_3 else {}
    assert bool(faults(replace(observation, agent_views=views))) is is_missing


def test_no_manifest_is_missing_while_no_agent_answers() -> None:
    """It may be on any of them."""
    observation = claiming(FORMER, NODES, None)
    views = {name: replace(shown, silent_since=JUST_NOW) for name, shown in observation.agent_views.items()}
    assert faults(replace(observation, agent_views=views)) == []


@pytest.mark.parametrize("is_spec_valid", [True, False])
def test_a_status_that_cannot_be_read_is_a_fault(is_spec_valid: bool) -> None:
    """Its message has what the group remembers, unless the table is refused for another reason."""
    spoilt = replace(ORDERS, status_error="status.history: not a list")
    spoilt = spoilt if is_spec_valid else replace(spoilt, spec=None, spec_error="spec.columns: not a list")
    [fault] = faults(replace(quiet_observation("orders"), tables=(spoilt,)))
    assert fault.reason == "InvalidStatus" and fault.message.startswith("status.history: not a list")
    assert ("its group remembers snapshot 1" in fault.message) is is_spec_valid


def test_a_group_without_a_map_waits_for_no_report() -> None:
    """A table of it was committed just now, and no agent has answered."""
    observation = after_commit()
    [group] = observation.groups
    unplaced = replace(group, status=group.status.model_copy(update={"backends_per_bucket_seq": None}))
    found = state(replace(observation, groups=(unplaced,), agent_views={}))
    assert (found.map, found.unconfirmed) == (None, {})


PATH = f"shop/{ORDERS.directory}"


@pytest.mark.parametrize(
    ("shown", "fields", "nodes"),
    [
        pytest.param(view(table_report(ORDERS, WHOLE)), {}, [], id="it was asked about the table"),
        pytest.param(view(table_report(ORDERS, WHOLE, FORMER)), {}, ["node-1"], id="about another snapshot of it"),
        pytest.param(view(), {}, [], id="about others, since the operator leads"),
        pytest.param(view(), {"tables_seen_at": {ORDERS.identity.uid: NOW}}, ["node-1"], id="before it was seen"),
        pytest.param(view(), {"started_at": None}, ["node-1"], id="when the operator did not lead"),
        pytest.param(view(unknown=(PATH,)), {}, ["node-1"], id="its folder is there"),
        pytest.param(view(unknown=(f"{PATH}-2",)), {}, [], id="another folder is there"),
        pytest.param(AgentView(), {}, ["node-1"], id="it never answered"),
        pytest.param(view(unknown=(PATH,), silent_since=JUST_NOW), {}, [], id="it is silent: no one waits for it"),
        pytest.param(view(unknown=(PATH,)), {"agents": (agent("node-1", address=None),)}, [], id="it has no address"),
        pytest.param(None, {}, [], id="no question was put yet"),
    ],
)
def test_agents_that_have_yet_to_tell_what_they_have_of_a_table(
    shown: AgentView | None, fields: dict[str, object], nodes: list[str]
) -> None:
    """One that was asked since the table is known, and has no folder of it, has nothing."""
    known: dict[str, object] = {"agents": (agent("node-1"),), "started_at": LONG_AGO, **fields}
    views = {"node-1": shown} if shown else {}
    assert list(unheard(Observation(NOW, agent_views=views, **known), ORDERS)) == nodes  # type: ignore[arg-type]


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
