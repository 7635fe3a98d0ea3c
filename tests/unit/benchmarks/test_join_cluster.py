"""Which pods keep a node from being lost in the benchmark of joins."""

import pytest

from benchmarks.joins import cluster


@pytest.mark.parametrize(
    ("application", "component", "expected"),
    [
        ("colocation-operator", "operator", True),
        ("spark-operator", "controller", True),
        ("colocation-operator", "agent", False),
        ("colocation-operator", "holder", False),
        ("coredns", "", False),
    ],
)
def test_operators_are_not_lost(application: str, component: str, expected: bool) -> None:
    """Agents and holder pods are on each node, and go with it."""
    labels = {"app.kubernetes.io/name": application, "app.kubernetes.io/component": component}
    assert cluster._is_of_an_operator(labels) == expected
