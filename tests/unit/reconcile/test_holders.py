"""Which nodes have a holder pod, when one goes, and what its eviction asks for."""

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.manifests.clone_job import clone_job_name
from colocation.model.names import node_label
from colocation.reconcile.actions import CreateHolder, ReleaseHolder
from colocation.reconcile.decide import Decision, decide
from colocation.reconcile.evidence import READERS_LEARN_SECONDS, Evidence
from colocation.reconcile.holders import holders_of
from colocation.state.objects import ObservedHolder
from colocation.state.observation import Observation

from ..state.objects import GROUP_UID, NOW, clone_job, node, seconds
from .scenes import POLICY, SETTLED, actions_of, quiet_observation

NAMES = tuple(f"node-{number}" for number in range(1, 5))
MAPPED = NAMES[:3]


def holder(name: str, age_seconds: float = 3600, **fields: bool) -> ObservedHolder:
    return ObservedHolder(
        "system", f"colocation-holder-{name}", f"uid-{name}", name, NOW - seconds(age_seconds), **fields
    )


def scene(*holders: ObservedHolder, cordoned: tuple[str, ...] = (), gone: tuple[str, ...] = ()) -> Observation:
    """A stable group on node-1 to node-3 of four nodes; ``holders`` in the place of those of their nodes."""
    named = {one.node: one for one in (*map(holder, MAPPED), *holders)}
    nodes = tuple(replace(node(name), schedulable=name not in cordoned) for name in NAMES if name not in gone)
    return replace(quiet_observation("orders"), nodes=nodes, holders=tuple(named.values()))


def decided(observation: Observation, unneeded_since: datetime = SETTLED) -> Decision:
    """By an operator that knows node-4 as unneeded for so long."""
    known = Evidence().after(replace(observation, now=SETTLED), ())
    return decide(observation, replace(known, unneeded_since={"node-4": unneeded_since}), POLICY, collect=True)


def created(decision: Decision) -> list[str]:
    return [action.node for action in actions_of(decision, CreateHolder)]


def released(decision: Decision) -> dict[str, bool]:
    """Node -> whether only if it takes pods."""
    return {action.node: action.only_if_schedulable for action in actions_of(decision, ReleaseHolder)}


def test_each_node_of_a_map_has_a_holder() -> None:
    """Those that lack one get it."""
    observation = replace(scene(), holders=(holder("node-2"),))
    assert created(decided(observation)) == ["node-1", "node-3"]
    assert (created(decided(scene())), released(decided(scene()))) == ([], {})


def test_a_node_that_is_not_ready_waits_for_its_holder() -> None:
    """The pod would be Pending for as long, about which monitoring complains."""
    nodes = (node("node-1", ready=False), replace(node("node-2"), deleting=True), node("node-3"), node("node-4"))
    assert created(decided(replace(scene(), holders=(), nodes=nodes))) == ["node-3"]


def test_a_node_to_which_a_bucket_moves_has_a_holder() -> None:
    """It would be taken with the copy while that is made."""
    job = clone_job()
    identity = replace(job.identity, name=clone_job_name(GROUP_UID, 0, "node-4"))
    moving = replace(scene(), clone_jobs=(replace(job, target="node-4", identity=identity),))
    assert created(decided(moving)) == ["node-4"]


def test_a_group_about_which_nothing_is_decided_keeps_its_holders() -> None:
    """By the labels that its nodes have; its map cannot be read."""
    spoiled = scene(holder("node-4"))
    label = {node_label("shop", "sales"): "true"}
    nodes = tuple(replace(one, group_labels=label if one.name != "node-4" else {}) for one in spoiled.nodes)
    group = replace(spoiled.groups[0], status_error="no map")
    assert released(decided(replace(spoiled, groups=(group,), nodes=nodes))) == {"node-4": False}


@pytest.mark.parametrize(
    ("observation", "expected"),
    [
        pytest.param(scene(holder("node-4")), {"node-4": False}, id="its replicas are elsewhere"),
        pytest.param(scene(holder("node-4", deleting=True), cordoned=("node-4",)), {"node-4": False}, id="drained"),
        pytest.param(scene(holder("node-3"), gone=("node-3",)), {"node-3": False}, id="the node is gone"),
        pytest.param(scene(holder("node-3", has_ended=True)), {"node-3": False}, id="it ended"),
        pytest.param(scene(holder("node-3", 59, has_ended=True)), {}, id="it ended at once"),
        pytest.param(scene(holder("node-3", 60, has_ended=True)), {"node-3": False}, id="it ended after a minute"),
        pytest.param(scene(holder("node-3", deleting=True), gone=("node-3",)), {"node-3": False}, id="both are gone"),
        pytest.param(scene(holder("node-3", deleting=True)), {"node-3": True}, id="no one asks for the node"),
        pytest.param(scene(holder("node-3", deleting=True), cordoned=("node-3",)), {}, id="a node that is asked for"),
        pytest.param(scene(cordoned=("node-3",)), {}, id="a mere cordon"),
    ],
)
def test_holders_go(observation: Observation, expected: dict[str, bool]) -> None:
    """Deleted at once, and made again in the next pass where they are needed."""
    assert released(decided(observation)) == expected


@pytest.mark.parametrize(("too_short_seconds", "goes"), [(1, False), (0, True)])
def test_a_holder_waits_until_readers_know_the_other_nodes(too_short_seconds: float, goes: bool) -> None:
    """As moved replicas do."""
    decision = decided(scene(holder("node-4")), NOW - seconds(READERS_LEARN_SECONDS - too_short_seconds))
    assert bool(released(decision)) is goes
    assert decision.is_waiting


def test_the_wait_begins_when_this_operator_first_sees_that_no_group_needs_the_node() -> None:
    """And begins again when one did meanwhile."""
    fresh = decide(scene(holder("node-4")), Evidence(), POLICY, collect=True)
    assert (released(fresh), fresh.holders.unneeded) == ({}, {"node-4"})
    evidence = Evidence().after(scene(holder("node-4")), (), fresh.holders.unneeded)
    assert evidence.unneeded_since == {"node-4": NOW}
    assert evidence.after(scene(), (), ()).unneeded_since == {}


def test_holders_go_at_once_with_the_last_group() -> None:
    """An uninstallation may follow, and leaves holders Terminating for as long as their grace."""
    actions = holders_of(replace(scene(), groups=()), frozenset(), {}).actions
    assert [action.node for action in actions] == list(MAPPED)


def test_a_map_that_the_api_server_has_not_taken_counts_for_nothing() -> None:
    """This pass would take node-3 out of it."""
    found = holders_of(scene(), frozenset(("node-1", "node-2")), {"node-3": SETTLED})
    assert (found.actions, found.unneeded) == ((), frozenset())


def test_a_holder_of_a_node_that_goes_is_not_taken_back() -> None:
    """Its Node is being deleted, too."""
    seen = scene(holder("node-3", deleting=True))
    nodes = tuple(replace(one, deleting=one.name == "node-3") for one in seen.nodes)
    assert holders_of(replace(seen, nodes=nodes), frozenset(MAPPED), {}).actions == ()


def test_nodes_that_are_gone_or_not_needed_get_no_holder() -> None:
    """What is needed decides, not the map that is there."""
    bare = replace(scene(gone=("node-3",)), holders=())
    found = holders_of(bare, frozenset(("node-1", "node-3")), {})
    assert [one.node for one in found.actions] == ["node-1"]


def test_a_holder_of_a_node_that_is_gone_waits_for_no_reader() -> None:
    """Nor for a group that has no map yet."""
    seen = scene(holder("node-4"), gone=("node-4",))
    [group] = seen.groups
    unplaced = replace(group, status=group.status.model_copy(update={"backends_per_bucket_seq": None}))
    for groups in ((group,), (unplaced,)):
        found = holders_of(replace(seen, groups=groups), frozenset(MAPPED), {"node-4": NOW})
        assert [one.node for one in found.actions] == ["node-4"]


@pytest.mark.parametrize(
    ("observation", "is_waiting"),
    [
        pytest.param(scene(), False, id="all is well"),
        pytest.param(scene(holder("node-4")), True, id="one is not needed"),
        pytest.param(scene(holder("node-3", 0, has_ended=True)), True, id="one has ended"),
    ],
)
def test_when_a_holder_is_waited_for(observation: Observation, is_waiting: bool) -> None:
    """It goes with the clock alone."""
    assert holders_of(observation, frozenset(MAPPED), {"node-4": NOW}).is_waiting is is_waiting


def test_an_evicted_holder_drains_its_node() -> None:
    """As the label does, and the snapshot has the reason."""
    evicted = scene(holder("node-3", deleting=True), cordoned=("node-3",))
    nodes = {one.name: one for one in decided(evicted).snapshot.nodes}
    assert (nodes["node-3"].drain, nodes["node-3"].drain_message) == (True, "its holder pod was evicted")
    assert not any(one.drain for name, one in nodes.items() if name != "node-3")
    assert not any(one.drain for one in decided(scene(holder("node-3", deleting=True))).snapshot.nodes)


STATES = st.tuples(st.booleans(), st.booleans())


@given(
    held=st.dictionaries(st.sampled_from(NAMES), STATES), cordoned=st.frozensets(st.sampled_from(NAMES)),
    needed=st.frozensets(st.sampled_from(NAMES)),
)  # fmt: skip
def test_holders_converge(
    held: dict[str, tuple[bool, bool]], cordoned: frozenset[str], needed: frozenset[str]
) -> None:
    """A needed node that is asked for keeps its holder; two passes later each needed node has one, and no other."""
    pods = tuple(holder(name, deleting=deleting, has_ended=ended) for name, (deleting, ended) in held.items())
    nodes = tuple(replace(node(name), schedulable=name not in cordoned) for name in NAMES)
    seen = Observation(NOW, nodes=nodes, holders=pods)
    since = dict.fromkeys(NAMES, SETTLED)
    for _ in range(2):
        actions = holders_of(seen, needed, since).actions
        gone = {one.node for one in actions if isinstance(one, ReleaseHolder)}
        kept = tuple(one for one in seen.holders if one.node not in gone)
        asked = {one.node for one in seen.holders if one.deleting and not one.has_ended and one.node in cordoned}
        assert not gone & needed & asked
        made = tuple(holder(one.node, 0) for one in actions if isinstance(one, CreateHolder))
        seen = replace(seen, holders=(*kept, *made))
    assert sorted(one.node for one in seen.holders) == sorted(needed)
