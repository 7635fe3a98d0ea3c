"""Agents are restarted, as an upgrade does it, under a session of joins and a load: no error, right answers."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

from demo import cluster, story, workload
from demo.shell import COLOCATION, kubectl, kubectl_json, run
from demo.waiting import wait_until

from . import agents, installation
from .applications import application
from .conftest import Loaded

pytestmark = pytest.mark.e2e

JOINS_SECONDS = 60
DAEMON_SET = ("daemonset/colocation-agent", "-n", cluster.OPERATOR_NAMESPACE)


def test_agents_are_reached_at_their_nodes(loaded: Loaded) -> None:
    """The ConfigMap names each node's own address and port, and an agent answers there."""
    addresses = {
        node["metadata"]["name"]: one["address"]
        for node in kubectl_json("get", "nodes")["items"]
        for one in node["status"]["addresses"] if one["type"] == "InternalIP"
    }  # fmt: skip
    urls = agents.urls()
    assert urls == {node: f"https://{addresses[node]}:8440" for node in urls}
    assert urls.keys() >= {node for row in workload.bucket_map() for node in row}
    assert {agents.request(url, "GET", "/v1/status").status for url in urls.values()} == {401}


def test_an_installation_that_is_well_is_silent(loaded: Loaded) -> None:
    """No alert of kube-prometheus fires if it stays so, GitOps tools call everything healthy; also with two operators,
    of which the one that leads is asked.
    """
    assert installation.alerts() == set() and installation.troubles() == {}
    scale = ("scale", "deployment/colocation-operator", "-n", cluster.OPERATOR_NAMESPACE)
    kubectl(*scale, "--replicas=2")
    try:
        wait_until("a second operator stands by", lambda: installation.troubles() == {}, deadline_seconds=60)
        assert installation.alerts() == set()
        assert len(installation.pods("operator")) == 2 and len(installation.leaders()) == 1
    finally:
        kubectl(*scale, "--replicas=1")
    wait_until("one operator is left, and leads", lambda: installation.pods("operator") == installation.leaders(),
               deadline_seconds=60)  # fmt: skip


@pytest.mark.deep
def test_joins_and_a_load_go_on_while_all_agents_restart(loaded: Loaded) -> None:
    """Every byte of the joins is read from agents; they restart one by one until joins and load have ended."""
    rows = loaded.oracle.row_count("lineitem")
    rollouts = 0
    with ThreadPoolExecutor(2) as pool:
        joins = pool.submit(run, [COLOCATION, "submit", "-f", "-"], stdin=yaml.safe_dump(restarts()))
        load = pool.submit(workload.load, "orders", loaded.folder)
        while rollouts == 0 or not (joins.done() and load.done()):
            kubectl("rollout", "restart", *DAEMON_SET)
            kubectl("rollout", "status", *DAEMON_SET, "--timeout=300s")
            rollouts += 1
        assert load.result()["rows"] == loaded.oracle.row_count("orders")
        result = workload.result_of(joins.result().stdout)
    assert result["answers"] == [[rows, 0]]
    assert result["joins"] > 0 and result["remoteBytes"] > 0
    # How long an agent is away depends on the machine; beyond the grace the group reports it, and is stable again.
    story.wait_for_stable(120)


def restarts() -> dict[str, Any]:
    """Joins for some time, in a session that finds no replica on its own disks."""
    base = application("tpch-restarts", "join_while_agents_restart.py")
    base["spec"]["arguments"] = [str(JOINS_SECONDS), "/nowhere"]
    return base
