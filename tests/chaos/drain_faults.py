"""Nodes that Kubernetes' own tools take: an upgraded node pool, an autoscaler. See ``faults``.

Each asks for a node when the fault is made. When it is healed the node has to be empty: its machine goes, and another
one comes under its name. A drain that does not end in time (others are drained, too) is taken back.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from colocation.manifests.holder_pod import holder_name
from demo import cluster
from demo.shell import CommandFailed, kubectl, run
from devcluster import cluster as devcluster
from devcluster import node as nodes

from . import cluster_view, scene
from .history import SEEN, History
from .judge_state import DRAINED
from .targets import CannotNow, Heal, any_node, healed_by, start

WAIT_SECONDS = 420.0
"""So long a drain is waited for: copies, and 150 s in which readers learn of them."""
LOOK_SECONDS = 3.0
MOST_NODES = 4
UPGRADED_NODES = 2
TAINT = "ToBeDeletedByClusterAutoscaler"
DRAIN = ("--ignore-daemonsets", "--delete-emptydir-data", "--force")
STILL_WAITING = ("deadline exceeded", "timeout reached")
"""In the error of a `kubectl drain` whose time is over."""
Ask = Callable[[nodes.Node], None]


@dataclass
class DrainFaults:
    """A method of a fault's name makes it and returns what heals it. ``_asked``: nodes that are not replaced yet."""

    history: History
    _asked: set[nodes.Node] = field(default_factory=set)

    def pool_upgraded(self, random: Random) -> tuple[str, Heal]:
        """A node more, where there is room for one; then one node after another is drained and replaced."""
        first = self._node(random)
        others = [one for one in scene.running() if one not in self._asked]
        members = [first, *random.sample(others, min(len(others), UPGRADED_NODES - 1))]
        self._asked.update(members)
        left = list(members)

        def heal() -> None:
            while left:
                self._replace(left[0], drain)
                left.pop(0)

        with healed_by(heal, ", ".join(one.name for one in members)):
            if len(nodes.known()) < MOST_NODES:
                devcluster.add_node()
                scene.tag_images()
            drain(first)
        return ", ".join(one.name for one in members), heal

    def autoscaler_took(self, random: Random) -> tuple[str, Heal]:
        """Tainted, not cordoned, as Cluster Autoscaler and Karpenter do it."""
        member = self._node(random)
        with healed_by(lambda: self._replace(member, evict), member.name):
            evict(member)
        return member.name, lambda: self._replace(member, evict)

    def _node(self, random: Random) -> nodes.Node:
        member = any_node(random)
        if member in self._asked:
            raise CannotNow(f"{member.name} is being replaced")
        self._asked.add(member)
        return member

    def _replace(self, member: nodes.Node, ask: Ask) -> None:
        """Take the node once it is empty, and put another machine in its place. Goes on where it stopped."""
        if nodes.is_complete(member):
            before = nodes.holder_pid(member)
            ask(member)
            if not self._is_empty(member, ask):
                give_back(member)
                return self._asked.discard(member)
            if nodes.holder_pid(member) == before:  # no fault has started it again, which ends its pods
                named = groups_on(member.name)
                self.history.note("faults", SEEN, DRAINED, 0, node=member.name, groups=named)
            devcluster.kill_node(member.number)
        kubectl("delete", "node", member.name, "--ignore-not-found", "--wait=false", "--request-timeout=20s")
        start(member)
        return self._asked.discard(member)

    def _is_empty(self, member: nodes.Node, ask: Ask) -> bool:
        deadline = time.monotonic() + WAIT_SECONDS
        while has_holder(member):
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_SECONDS)
            ask(member)
        return True


def drain(member: nodes.Node) -> None:
    """`kubectl drain`, which does not wait for the end here."""
    command = ["kubectl", "drain", member.name, *DRAIN, "--timeout=5s"]
    done = run(command, allowed=(0, 1), timeout_seconds=60)
    if done.returncode and not any(words in done.stderr for words in STILL_WAITING):
        raise CommandFailed(f"{' '.join(command)} exited with 1\n{done.stderr[-1000:]}")


def evict(member: nodes.Node) -> None:
    """Taint the node, and evict each pod that is no DaemonSet's."""
    kubectl("taint", "node", member.name, f"{TAINT}=now:NoSchedule", "--overwrite", "--request-timeout=20s")
    for pod in cluster_view.get("pods", "-A", "--field-selector", f"spec.nodeName={member.name}"):
        if not pod["metadata"].get("deletionTimestamp") and not is_of_daemon_set(pod):
            namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
            path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
            run(["kubectl", "create", "--raw", path, "-f", "-"], allowed=(0, 1), stdin=json.dumps(body),
                timeout_seconds=60)  # fmt: skip


def is_of_daemon_set(pod: dict[str, Any]) -> bool:
    return any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences", ()))


def give_back(member: nodes.Node) -> None:
    """End the drain: the node takes pods again."""
    kubectl("uncordon", member.name, "--request-timeout=20s")
    run(["kubectl", "taint", "node", member.name, f"{TAINT}-"], allowed=(0, 1), timeout_seconds=60)


def has_holder(member: nodes.Node) -> bool:
    """Whether the node's holder pod is there."""
    name = f"metadata.name={holder_name(member.name)}"
    return bool(cluster_view.get("pods", "-n", cluster.OPERATOR_NAMESPACE, "--field-selector", name))


def groups_on(node: str) -> list[str]:
    """Groups whose maps name the node."""
    groups, _ = cluster_view.groups_and_tables()
    return [
        group["metadata"]["name"]
        for group in groups
        if any(node in row for row in group.get("status", {}).get("backendsPerBucketSeq") or ())
    ]
