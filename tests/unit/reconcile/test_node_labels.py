"""The labels by which Spark's executors find a group's nodes: on exactly those of its map, whatever was before."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.manifests.clone_job import clone_job_name
from colocation.model.names import NODE_LABEL_PREFIX, node_label
from colocation.reconcile import group_scopes
from colocation.reconcile.actions import LabelNode
from colocation.reconcile.spark_access import Labelled, label_actions
from colocation.state.objects import ObservedNode
from colocation.state.observation import Observation
from colocation.state.parse import parse_node

from ..state.objects import GROUP_UID, clone_job, node
from .scenes import NODES, actions_of, decided, quiet_observation

SALES = node_label("shop", "sales")
GONE = node_label("shop", "gone")
LABELS = tuple(node_label("shop", name) for name in ("a", "b", "c"))


def labelled(name: str, **labels: str) -> ObservedNode:
    return replace(node(name), uid=f"uid-of-{name}", group_labels={_named(key): value for key, value in labels.items()})


def _named(key: str) -> str:
    return {"sales": SALES, "gone": GONE}[key]


def performed(nodes: tuple[ObservedNode, ...], actions: list[LabelNode]) -> tuple[ObservedNode, ...]:
    """The nodes after the writes, as the API server merges them."""
    changes = {action.node: action.labels for action in actions}
    merged = ({**one.group_labels, **changes.get(one.name, {})} for one in nodes)
    kept: list[Mapping[str, str]] = [{key: text for key, text in all_.items() if text} for all_ in merged]
    return tuple(replace(one, group_labels=labels) for one, labels in zip(nodes, kept, strict=True))


def scene(*nodes: ObservedNode) -> Observation:
    """A stable group on node-1 to node-3; ``nodes`` instead of those of their names, and next to them."""
    named = {one.name: one for one in nodes}
    usual = {name: labelled(name, sales="true") for name in NODES}
    return replace(quiet_observation("orders"), nodes=tuple({**usual, **named}.values()))


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param((), {}, id="as it should be"),
        pytest.param((labelled("node-1"),), {"node-1": {SALES: "true"}}, id="not there yet, or taken away"),
        pytest.param((labelled("node-1", sales="no"),), {"node-1": {SALES: "true"}}, id="made another"),
        pytest.param((labelled("node-9", sales="true"),), {"node-9": {SALES: None}}, id="put on a foreign node"),
        pytest.param((labelled("node-2", sales="true", gone="true"),), {"node-2": {GONE: None}}, id="of a lost group"),
        pytest.param(
            (labelled("node-1", gone="true"), labelled("node-3")),
            {"node-1": {SALES: "true", GONE: None}, "node-3": {SALES: "true"}}, id="one write for each node",
        ),
        pytest.param((replace(labelled("node-1"), deleting=True),), {}, id="a node on its way out"),
    ],
)  # fmt: skip
def test_labels_follow_the_map(nodes: tuple[ObservedNode, ...], expected: dict[str, dict[str, str | None]]) -> None:
    """Only differences are written."""
    actions = actions_of(decided(scene(*nodes)), LabelNode)
    assert {action.node: dict(action.labels) for action in actions} == expected
    assert all(action.uid == f"uid-of-{action.node}" for action in actions)


def test_a_node_to_which_a_bucket_moves_has_the_label() -> None:
    """Executors that start now will find the bucket there."""
    job = clone_job()
    identity = replace(job.identity, name=clone_job_name(GROUP_UID, 0, "node-4"))
    arriving = replace(job, target="node-4", identity=identity)
    observation = replace(scene(labelled("node-4")), clone_jobs=(arriving,))
    [action] = actions_of(decided(observation), LabelNode)
    assert (action.node, dict(action.labels)) == ("node-4", {SALES: "true"})


@pytest.mark.parametrize("nodes", [(labelled("node-1"), labelled("node-9", sales="true"))])
def test_a_group_about_which_nothing_is_decided_keeps_its_labels(
    nodes: tuple[ObservedNode, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own fault, or the operator's, takes no node away from running applications."""
    spoiled = scene(*nodes)
    spoiled = replace(spoiled, groups=(replace(spoiled.groups[0], status_error="no map"),))
    assert actions_of(decided(spoiled), LabelNode) == []

    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(group_scopes, "next_status", fail)
    assert actions_of(decided(scene(*nodes)), LabelNode) == []


def test_one_nodes_failure_is_its_own() -> None:
    """Each node is a scope: the reconciler goes on with the others."""
    decision = decided(scene(*(labelled(name) for name in NODES)))
    scopes = [one for one in decision.scopes if any(isinstance(action, LabelNode) for action in one.actions)]
    assert [(one.name, len(one.actions)) for one in scopes] == [(f"labels of node {name}", 1) for name in NODES]


LABEL_SETS = st.dictionaries(st.sampled_from(LABELS), st.sampled_from(["true", "no"]))
NODE_SETS = st.frozensets(st.sampled_from(NODES))


@given(
    there=st.tuples(*[LABEL_SETS] * len(NODES)), wanted=st.dictionaries(st.sampled_from(LABELS), NODE_SETS),
    undecided=st.frozensets(st.sampled_from(LABELS)),
)  # fmt: skip
def test_labels_converge_in_one_pass(
    there: tuple[dict[str, str], ...], wanted: dict[str, frozenset[str]], undecided: frozenset[str]
) -> None:
    """Then every label of a decided group is where it should be, others are as they were, and nothing is left to do."""
    undecided -= wanted.keys()
    nodes = tuple(replace(node(name), group_labels=labels) for name, labels in zip(NODES, there, strict=True))
    after = performed(nodes, label_actions(Labelled(nodes, wanted, undecided)))
    for before, one in zip(nodes, after, strict=True):
        due = {label: "true" for label, names in wanted.items() if one.name in names}
        kept = {label: value for label, value in before.group_labels.items() if label in undecided}
        assert one.group_labels == {**kept, **due}
    assert label_actions(Labelled(after, wanted, undecided)) == ()


@given(namespace=st.from_regex(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True),
       group=st.from_regex(r"[a-z]([-a-z0-9.]{0,61}[a-z0-9])?", fullmatch=True))  # fmt: skip
def test_the_label_is_one_that_kubernetes_allows(namespace: str, group: str) -> None:
    """At most 63 characters after the slash, alphanumeric at both ends."""
    prefix, _, name = node_label(namespace, group).partition("/")
    assert f"{prefix}/" == NODE_LABEL_PREFIX
    assert len(name) <= 63
    assert name[0].isalnum() and name[-1].isalnum() and name.replace("-", "").replace(".", "").isalnum()


def test_groups_of_two_namespaces_have_two_labels() -> None:
    """Also where the names run together."""
    pairs = [("shop", "sales"), ("bank", "sales"), ("sho", "p.sales"), ("shop", "s" * 63), ("shop", "s" * 62)]
    assert len({node_label(*pair) for pair in pairs}) == len(pairs)


def test_these_labels_are_none_of_those_that_the_planner_sees() -> None:
    """A write of ours makes no other Node of it."""
    body = {"metadata": {"name": "node-1", "labels": {SALES: "true", "disk": "ssd"}}}
    parsed = parse_node(body)
    assert (parsed.labels, parsed.group_labels) == ({"disk": "ssd"}, {SALES: "true"})
