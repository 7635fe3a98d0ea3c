"""The marks by which autoscalers leave a node of a group alone: on exactly the agents of the nodes of all groups."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.manifests.clone_job import clone_job_name
from colocation.model.names import ANNOTATION_DO_NOT_DISRUPT, LABEL_HOLDS_REPLICAS, node_label
from colocation.reconcile.actions import MarkAgent
from colocation.reconcile.spark_access import Marked, mark_actions
from colocation.state.objects import ObservedAgent
from colocation.state.observation import Observation
from colocation.state.parse import parse_agent

from ..state.objects import GROUP_UID, agent, clone_job, node
from .scenes import actions_of, decided, quiet_observation

MARKED = {"is_marked": True, "is_kept": True}


def pod(name: str, **fields: bool) -> ObservedAgent:
    return replace(agent(name, f"10.0.0.{name[-1]}"), **fields)  # type: ignore[arg-type]


def scene(*agents: ObservedAgent) -> Observation:
    """A stable group on node-1 to node-3 of four nodes; ``agents`` in place of the usual pods of their nodes."""
    usual = {f"node-{number}": pod(f"node-{number}", **({} if number == 4 else MARKED)) for number in range(1, 5)}
    named = {one.node: one for one in agents}
    nodes = tuple(node(name) for name in usual)
    return replace(quiet_observation("orders"), nodes=nodes, agents=tuple({**usual, **named}.values()))


def marks(observation: Observation) -> dict[str, bool]:
    return {action.node: action.holds_replicas for action in actions_of(decided(observation), MarkAgent)}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param((), {}, id="as it should be"),
        pytest.param((pod("node-1"), pod("node-2"), pod("node-3")), dict.fromkeys(("node-1", "node-2", "node-3"), True),
                     id="three nodes that an autoscaler could take at once"),
        pytest.param((pod("node-1", is_marked=True),), {"node-1": True}, id="a kubelet took the annotation away"),
        pytest.param((pod("node-4", **MARKED),), {"node-4": False}, id="a node that was drained"),
        pytest.param((pod("node-4", is_marked=True),), {"node-4": False}, id="half a mark goes, too"),
        pytest.param((pod("node-4", is_kept=True),), {}, id="a user's annotation stays"),
        pytest.param((pod("node-1", is_kept=True),), {}, id="a user's annotation is enough"),
        pytest.param((pod("node-1", deleting=True),), {}, id="a pod on its way out"),
    ],
)  # fmt: skip
def test_marks_follow_the_maps(changed: tuple[ObservedAgent, ...], expected: dict[str, bool]) -> None:
    """Only differences are written."""
    assert marks(scene(*changed)) == expected


def test_a_node_to_which_a_bucket_moves_is_marked() -> None:
    """An autoscaler would take the copy while it is made."""
    job = clone_job()
    identity = replace(job.identity, name=clone_job_name(GROUP_UID, 0, "node-4"))
    assert marks(replace(scene(), clone_jobs=(replace(job, target="node-4", identity=identity),))) == {"node-4": True}


def test_a_group_about_which_nothing_is_decided_keeps_its_nodes() -> None:
    """By the labels that its nodes have; its map cannot be read."""
    spoiled = scene(pod("node-4", **MARKED))
    label = {node_label("shop", "sales"): "true"}
    nodes = tuple(replace(one, group_labels=label if one.name != "node-4" else {}) for one in spoiled.nodes)
    group = replace(spoiled.groups[0], status_error="no map")
    assert marks(replace(spoiled, groups=(group,), nodes=nodes)) == {"node-4": False}


def test_a_pod_is_read_as_it_was_written() -> None:
    """Label and annotation of the pod."""
    metadata = {"labels": {LABEL_HOLDS_REPLICAS: "true"}, "annotations": {ANNOTATION_DO_NOT_DISRUPT: "true"}}
    read = parse_agent({"metadata": metadata, "spec": {"nodeName": "node-1"}})
    assert read is not None and (read.is_marked, read.is_kept) == (True, True)
    bare = parse_agent({"metadata": {}, "spec": {"nodeName": "node-1"}})
    assert bare is not None and (bare.is_marked, bare.is_kept) == (False, False)


NAMES = tuple(f"node-{number}" for number in range(1, 5))
AGENTS = st.tuples(*(st.builds(pod, st.just(name), is_marked=st.booleans(), is_kept=st.booleans()) for name in NAMES))


@given(agents=AGENTS, maps=st.lists(st.frozensets(st.sampled_from(NAMES))))
def test_marks_converge_in_one_pass(agents: tuple[ObservedAgent, ...], maps: list[frozenset[str]]) -> None:
    """Then each node of a map is kept, no other one has our mark, and nothing is left to do."""
    holding: frozenset[str] = frozenset().union(*maps)
    wanted = {f"label-{number}": nodes for number, nodes in enumerate(maps)}
    first = mark_actions(Marked((), agents, wanted, frozenset()))
    written = {action.node: action.holds_replicas for action in first}
    after = tuple(
        replace(one, is_marked=written[one.node], is_kept=written[one.node]) if one.node in written else one
        for one in agents
    )
    assert mark_actions(Marked((), after, wanted, frozenset())) == ()
    assert all(one.is_kept for one in after if one.node in holding)
    assert not any(one.is_marked for one in after if one.node not in holding)
