"""Which agents and ConfigMaps Spark gets, and which nodes are a group's."""

from dataclasses import replace
from typing import Any

import pytest

from colocation.reconcile.actions import Owner
from colocation.reconcile.spark_access import (
    Agents,
    Labelled,
    SparkAccess,
    agents_of,
    config_maps,
    group_nodes,
    needed_nodes,
)
from colocation.state.memo import Memo
from colocation.state.objects import ObservedTable

from ..state.objects import GROUP_UID, clone_job, group, node, table
from .scenes import NODES, POLICY
from .test_group_status import facts, move

ALL = (*NODES, "node-4")
URLS = {name: f"https://{name}" for name in ALL}
HELD = facts().state.model_copy(update={"held": {"node-3": {0: "partial", 1: "complete"}, "node-4": {0: "partial"}}})


@pytest.mark.parametrize(
    ("changes", "ready", "others"),
    [
        pytest.param({}, {"node-1", "node-2", "node-3"}, set(), id="the map's, and one with a whole bucket"),
        pytest.param({"ready": {"node-1"}}, {"node-1"}, {"node-2", "node-3"}, id="some are not ready"),
        pytest.param({"ready": {"node-4"}}, {"node-1", "node-2", "node-3"}, set(), id="none of them is ready"),
        pytest.param({"ready": (), "missing": {"node-2"}}, {"node-1", "node-3"}, {"node-2"}, id="one lacks its disk"),
        pytest.param({"urls": {"node-2": "https://node-2"}}, {"node-2"}, set(), id="one has an address"),
        pytest.param({"urls": {}}, set(), set(), id="none has"),
    ],
)
def test_which_agents_spark_asks(changes: dict[str, Any], ready: set[str], others: set[str]) -> None:
    """Ready ones, and the others last; while none seems ready, all: after an outage writers need some."""
    known: dict[str, Any] = {"nodes": ("node-2", "node-1"), "urls": URLS, "ready": ALL, "missing": (), **changes}
    found = agents_of(state=HELD, **known)
    assert (list(found.ready), list(found.others)) == (sorted(ready), sorted(others))
    assert all(url == URLS[name] for agents in found for name, url in agents.items())


def of_namespace(name: str, namespace: str) -> ObservedTable:
    made = table(name)
    return replace(made, identity=replace(made.identity, namespace=namespace))


@pytest.mark.parametrize("has_map", [True, False])
def test_a_config_map_in_each_namespace_of_a_groups_tables(has_map: bool) -> None:
    """It goes with the group, and elsewhere with the last of the tables there."""
    places = {"orders": "shop", "b": "lake", "c": "bank", "d": "bank"}
    tables = tuple(of_namespace(*one) for one in places.items())
    agents = Agents({"node-1": "https://1"}, {"node-2": "https://2"})
    found = config_maps(SparkAccess(group(), tables, has_map, "Preferred", agents, "PEM", POLICY))
    assert [(one.content.placement.namespace, one.content.placement.group_namespace) for one in found] == [
        ("shop", None), ("bank", "shop"), ("lake", "shop"),
    ]  # fmt: skip
    owner = {one.identity.name: Owner("ColocatedTable", one.identity.name, one.identity.uid) for one in tables}
    assert [one.owners for one in found] == [
        (Owner("ColocationGroup", "sales", GROUP_UID),), (owner["c"], owner["d"]), (owner["b"],),
    ]  # fmt: skip
    for one in found:
        placement, content = one.content.placement, one.content
        assert (placement.group, placement.has_map, placement.executor_affinity) == ("sales", has_map, "Preferred")
        assert (content.agent_urls, content.other_agent_urls) == (agents.ready, agents.others)
        assert content.ca_certificate == "PEM"


TARGET = (("node-1", "node-4"), ("node-2", "node-3"))


def holding(state: str) -> dict[str, Any]:
    return {"held": {"node-4": {0: state}}}


@pytest.mark.parametrize(
    ("changes", "nodes"),
    [
        pytest.param({}, set(NODES), id="those of its map"),
        pytest.param({"plan": {"next_map": TARGET}}, set(ALL), id="of the map that is written now"),
        pytest.param({"plan": {"target_map": TARGET}}, set(NODES), id="one has nothing yet"),
        pytest.param({"plan": {"target_map": TARGET}, "state": holding("partial")}, set(NODES), id="one has a part"),
        pytest.param({"plan": {"target_map": TARGET}, "state": holding("complete")}, set(ALL), id="one is complete"),
        pytest.param({"plan": {"moves": (move(0, "node-1"), move(0, "node-4")), "start_now": (1,)}}, set(ALL),
                     id="a clone begins"),
        pytest.param({"plan": {"moves": (move(0, "node-4"),)}}, set(NODES), id="a clone waits for its turn"),
        pytest.param({"jobs": (replace(clone_job(), target="node-4"),)}, set(ALL), id="a clone runs"),
        pytest.param({"state": {"map": None}, "plan": {"target_map": None}}, set(), id="it has no map"),
    ],
)  # fmt: skip
def test_the_nodes_of_a_group(changes: dict[str, Any], nodes: set[str]) -> None:
    """On which executors find, or will find, its buckets."""
    assert group_nodes(facts(**changes), Memo()) == nodes


def test_nodes_that_groups_need() -> None:
    """Of a group that is not decided about, the labels tell which."""
    labels = {"node-1": "a", "node-2": "b", "node-3": "c"}
    nodes = tuple(replace(node(name), group_labels={label: "true"}) for name, label in labels.items())
    assert needed_nodes(Labelled(nodes, {"c": frozenset({"node-9"})}, frozenset({"a"}))) == {"node-1", "node-9"}
