"""`kubectl drain` of a node with replicas returns when they are complete elsewhere, and not before."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from demo import story, workload
from demo.shell import COLOCATION, kubectl, run
from demo.waiting import wait_until
from devcluster import cluster as devcluster

from . import installation
from .conftest import Loaded
from .test_3_failures import throttle

pytestmark = pytest.mark.e2e

DRAIN_SECONDS = 420


@pytest.mark.deep
def test_an_uncordoned_node_keeps_its_replicas(loaded: Loaded) -> None:
    """The drain is seen with its reason, and taken back; the node has a new holder, and joins go on."""
    victim, before = story.node_without_operators(), installation.holders()
    throttle(mib_per_second=0.01)
    with draining(victim) as drain:
        wait_until("it is drained", lambda: "its holder pod was evicted" in nodes_shown(), deadline_seconds=60)
        assert drain.poll() is None
        kubectl("uncordon", victim)
        assert drain.wait(60) == 0
    wait_until(
        "a new holder", lambda: installation.holders().get(victim) not in (None, before[victim]), deadline_seconds=60
    )
    throttle(mib_per_second=None)
    assert "its holder pod was evicted" not in nodes_shown()
    story.wait_for_stable(60)
    assert victim in mapped_nodes()


@pytest.mark.deep
def test_kubectl_drain_returns_when_the_replicas_are_elsewhere(loaded: Loaded) -> None:
    """The group is stable all the time, and a join that begins under the drain is right and shuffles nothing."""
    victim = story.node_without_operators()
    with story.watching_stability() as stability, draining(victim) as drain:
        joined = story.join(loaded.oracle)
        assert drain.wait(DRAIN_SECONDS) == 0
    assert victim not in mapped_nodes() and victim not in installation.holders()
    assert (joined.exchanges, joined.answer_ok, stability.stayed_stable) == (0, True, True)
    devcluster.kill_node(int(victim.removeprefix("node-")))
    kubectl("delete", "node", victim)
    story.wait_for_stable(60)
    assert story.join(loaded.oracle).answer_ok
    devcluster.start_node(int(victim.removeprefix("node-")))
    wait_until("its share", lambda: story.is_balanced_over(victim), deadline_seconds=story.REPAIR_DEADLINE_SECONDS)
    story.wait_for_stable(60)


@contextmanager
def draining(node: str) -> Iterator["subprocess.Popen[bytes]"]:
    """`kubectl drain`, which is ended when the body is over."""
    options = ("--ignore-daemonsets", "--delete-emptydir-data", "--force")
    process = subprocess.Popen(["kubectl", "drain", node, *options])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def nodes_shown() -> str:
    return run([COLOCATION, "nodes"]).stdout


def mapped_nodes() -> set[str]:
    return {node for nodes in workload.bucket_map() for node in nodes}
