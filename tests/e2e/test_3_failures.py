"""Files rot, nodes die, the operator is killed in the middle: nothing is lost, and the group heals by itself."""

import json
from typing import Any

import pytest

from demo import cluster, disks, placement, story, workload
from demo.shell import kubectl, kubectl_json
from demo.waiting import wait_until

from . import installation
from .conftest import Loaded

pytestmark = pytest.mark.e2e


def test_a_corrupted_replica_is_found_and_replaced(loaded: Loaded) -> None:
    """Bytes changed on a disk make the group unstable with the reason; the file is whole again by itself."""
    node = workload.bucket_map()[0][0]
    victim = next(file for file in disks.data_files(node) if "_00000." in file.name)
    good, events_before = victim.read_bytes(), event_reasons()
    with victim.open("r+b") as file:
        file.seek(len(good) // 2)
        file.write(bytes(byte ^ 0xFF for byte in good[len(good) // 2:len(good) // 2 + 64]))
    # It is set aside first, and comes back by a clone.
    wait_until(
        "the file is whole again", lambda: victim.exists() and victim.read_bytes() == good, deadline_seconds=180
    )
    story.wait_for_stable(120)
    assert "Unstable" in {reason for reason, _ in event_reasons() - events_before}


@pytest.mark.deep
def test_the_replaced_file_is_joined(loaded: Loaded) -> None:
    """The answer is DuckDB's."""
    assert story.join(loaded.oracle).answer_ok


def test_a_lost_node_is_replaced_although_the_operator_dies_in_the_middle(loaded: Loaded) -> None:
    """Unstable at once, naming the node; joined on the live replicas without a shuffle, and right; cloned, though the
    operator is killed on the way.
    """
    throttle(mib_per_second=0.05)
    victim, before = story.node_without_operators(), workload.bucket_map()
    story.kill(victim)
    condition = workload.stable_condition()
    assert condition["reason"] == "NodeNotReady" and victim in condition["message"]
    degraded = story.join(loaded.oracle)
    assert (degraded.answer_ok, degraded.exchanges) == (True, 0)
    assert "colocate: true, note: group is not stable" in degraded.decision
    wait_until("a clone runs", lambda: workload.group_status().get("clones", {}).get("running"), deadline_seconds=180)
    kill_operator()
    throttle(mib_per_second=None)
    story.wait_for_stable(story.REPAIR_DEADLINE_SECONDS)
    after = workload.bucket_map()
    assert placement.moved_replicas(before, after) == sum(victim in nodes for nodes in before)
    assert victim not in placement.replicas_per_node(after)


def test_a_rollout_passes_over_the_lost_node(loaded: Loaded) -> None:
    """The agents of all other nodes are replaced, under holders that stay; what still fires is about the node."""
    lost = {node["metadata"]["name"] for node in kubectl_json("get", "nodes")["items"] if not is_ready(node)}
    before, holders = installation.ready_agents(), installation.holders()
    assert lost and lost.isdisjoint(before)
    kubectl("rollout", "restart", "daemonset/colocation-agent", "-n", cluster.OPERATOR_NAMESPACE)
    wait_until("the other agents are new", lambda: are_new(before, installation.ready_agents()), deadline_seconds=120)
    assert installation.holders() == holders and holders.keys() == before.keys()
    assert installation.alerts() <= {"KubeDaemonSetRolloutStuck"}
    story.wait_for_stable(60)


def is_ready(item: dict[str, Any]) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in item["status"]["conditions"])


def are_new(before: dict[str, str], after: dict[str, str]) -> bool:
    """Node -> uid of its agent's pod: the same nodes, other pods."""
    return before.keys() == after.keys() and not set(before.values()) & set(after.values())


@pytest.mark.deep
def test_the_healed_group_joins_without_a_shuffle(loaded: Loaded) -> None:
    """Before a node is added; all replicas are on the nodes that live."""
    healed = story.join(loaded.oracle)
    assert (healed.exchanges, healed.remote_bytes, healed.answer_ok) == (0, 0, True)


def test_an_added_node_gets_its_share_by_the_fewest_moves(loaded: Loaded) -> None:
    """The group stays stable throughout, and the map changes by exactly the minimum."""
    added = story.add_a_node()
    assert added["moves"] == added["minimal_moves"] and added["stayed_stable"]
    run = story.join(loaded.oracle)
    assert "colocate: true" in run.decision
    assert (run.exchanges, run.remote_bytes, run.answer_ok) == (0, 0, True)


def throttle(mib_per_second: float | None) -> None:
    """Bandwidth of the group's clones."""
    patch = {"spec": {"balancing": {"maxBandwidthMiBPerSecond": mib_per_second}}}
    kubectl("patch", "cg", workload.GROUP, "-n", workload.NAMESPACE, "--type=merge", "-p", json.dumps(patch))


def kill_operator() -> None:
    """Kill the operator's pod without grace; its Deployment starts another."""
    kubectl("delete", "pod", "-l", "app.kubernetes.io/component=operator", "-n", cluster.OPERATOR_NAMESPACE,
            "--force", "--grace-period=0")


def event_reasons() -> set[tuple[str, str]]:
    """(reason, time) of the namespace's events."""
    events = kubectl_json("get", "events", "-n", workload.NAMESPACE)["items"]
    return {(event["reason"], event["metadata"]["name"]) for event in events}
