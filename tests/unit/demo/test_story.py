"""Which nodes the demo may kill."""

from typing import Any

import pytest

from demo.story import nodes_of_operators


def pod(name: str, component: str, phase: str = "Running") -> dict[str, Any]:
    """A pod on node-1 with these labels."""
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/component": component}
    return {"metadata": {"labels": labels}, "spec": {"nodeName": "node-1"}, "status": {"phase": phase}}


@pytest.mark.parametrize(("one", "nodes"), [
    (pod("colocation-operator", "operator"), {"node-1"}),
    (pod("spark-operator", "controller"), {"node-1"}),
    (pod("colocation-operator", "operator", "Failed"), set()),
    (pod("colocation-operator", "agent"), set()),
    (pod("colocation-operator", "clone"), set()),  # one that has done its work runs for a moment more
    ({"metadata": {}, "spec": {}, "status": {"phase": "Pending"}}, set()),
])
def test_nodes_of_operators(one: dict[str, Any], nodes: set[str]) -> None:
    """Only what an operator's own pod is on."""
    assert nodes_of_operators([one]) == nodes
