"""Who may reach whom, where the cluster's network plugin carries policies out."""

from typing import Any

import pytest

from .conftest import ChartRefused, Render, one

ON = {"networkPolicies.enabled": "true"}
COMPONENTS = ("agent", "operator", "clone")
EVERY_POD = {"namespaceSelector": {}}


def policy(objects: list[dict[str, Any]], component: str) -> dict[str, Any]:
    """The specification of the policy for a component's pods."""
    spec: dict[str, Any] = one(objects, "NetworkPolicy", f"colocation-{component}")["spec"]
    return spec


def peers(rules: list[dict[str, Any]], way: str, port: int) -> list[dict[str, Any]] | None:
    """Who is let through to a port; None = everybody, or no one where no rule names the port."""
    matching = [rule for rule in rules if port in [one["port"] for one in rule["ports"]]]
    assert matching, f"no rule names port {port}"
    if any(way not in rule for rule in matching):
        return None
    return [peer for rule in matching for peer in rule[way]]


def ports(rules: list[dict[str, Any]]) -> set[int]:
    return {one["port"] for rule in rules for one in rule["ports"]}


def component(name: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "colocation-operator", "app.kubernetes.io/component": name}
    return {"podSelector": {"matchLabels": labels}}


def test_there_are_none_unless_they_are_wanted(render: Render) -> None:
    """One that does not fit the network plugin would cut queries off from their data."""
    assert not [item for item in render() if item["kind"] == "NetworkPolicy"]


def test_each_program_has_one_for_both_directions(render: Render) -> None:
    """And the selectors are those of the pods that the chart and the operator make."""
    objects = render(**ON)
    for name in COMPONENTS:
        spec = policy(objects, name)
        assert spec["podSelector"] == component(name)["podSelector"]
        assert spec["policyTypes"] == ["Ingress", "Egress"]
    for kind, name in (("DaemonSet", "agent"), ("Deployment", "operator")):
        labels = one(objects, kind, f"colocation-{name}")["spec"]["template"]["metadata"]["labels"]
        assert component(name)["podSelector"]["matchLabels"].items() <= labels.items()


def test_clones_dial_agents_only(render: Render) -> None:
    """Not even the API server: they have no token for it. No one calls them."""
    spec = policy(render(**ON), "clone")
    assert spec["ingress"] == []
    assert ports(spec["egress"]) == {8440}


@pytest.mark.parametrize(("port", "dialled"), [("9550", {8440, 9550}), ("null", {8440})])
def test_clones_dial_the_host_port(render: Render, port: str, dialled: set[int]) -> None:
    """At the nodes' addresses, once these are known."""
    spec = policy(render(**ON, **{"agent.hostPort": port, "networkPolicies.nodeCIDRs": "{10.0.0.0/16}"}), "clone")
    assert ports(spec["egress"]) == dialled
    blocks = [peer for rule in spec["egress"] for peer in rule["to"] if "ipBlock" in peer]
    assert blocks == [{"ipBlock": {"cidr": "10.0.0.0/16"}}]


def test_agents_are_reached_by_pods(render: Render) -> None:
    """Spark's pods may be in every namespace; addresses outside of the cluster are in none."""
    spec = policy(render(**ON), "agent")
    assert EVERY_POD in (peers(spec["ingress"], "from", 8440) or [])
    assert peers(spec["ingress"], "from", 8441) == [EVERY_POD]
    assert ports(spec["egress"]) == {443, 6443}


def test_the_readers_can_be_fewer(render: Render) -> None:
    """The operator and clone Jobs are always let in; nodes are, where connections come with their address."""
    chosen = {
        "networkPolicies.readers[0].namespaceSelector.matchLabels.spark": "yes",
        "networkPolicies.nodeCIDRs": "{10.0.0.0/16}",
    }
    ours, nodes, spark = peers(policy(render(**ON, **chosen), "agent")["ingress"], "from", 8440) or []
    values = [rule["values"] for rule in ours["podSelector"]["matchExpressions"]]
    assert values == [["colocation-operator"], ["operator", "clone"]]
    assert nodes == {"ipBlock": {"cidr": "10.0.0.0/16"}}
    assert spark == {"namespaceSelector": {"matchLabels": {"spark": "yes"}}}


def test_the_operator_dials_the_api_server_and_agents(render: Render) -> None:
    """And is called by admins, scrapers, and by the API server where there are webhooks: that one is no pod."""
    spec = policy(render(**ON), "operator")
    assert ports(spec["egress"]) == {443, 6443, 8440}
    assert peers(spec["egress"], "to", 8440) == [component("agent")]
    assert ports(spec["ingress"]) == {8080, 8444}
    with_webhooks = policy(render(**ON, **{"webhooks.enabled": "true"}), "operator")
    assert peers(with_webhooks["ingress"], "from", 9443) is None


@pytest.mark.parametrize(
    "values",
    [
        {"networkPolicies.nodeCIDRs": "{everywhere}"},
        {"networkPolicies.apiServer.ports": "{0}"},
        {"networkPolicies.readers[0].pods": "all"},
    ],
)
def test_what_is_no_peer_is_refused(render: Render, values: dict[str, str]) -> None:
    """Before it cuts anybody off."""
    with pytest.raises(ChartRefused):
        render(**ON, **values)
