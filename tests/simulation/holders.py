"""Holder pods, and what drains them: `kubectl drain` cordons a node and evicts its pods, kubelets end them."""

from typing import TYPE_CHECKING

from colocation.kube.api import GROUPS, HOLDERS, NODES
from colocation.manifests.holder_pod import holder_name

from .api import Event, JsonObject

if TYPE_CHECKING:
    from .world import World

NAMESPACE = "colocation"


class HolderPods:
    """All of them. ``drains``: node -> uid of the pod that was evicted there, for whose end a drain waits.

    ``drained``: nodes whose drain has ended as it should.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self._by_kubelet = False
        self.drains: dict[str, str] = {}
        self.drained: list[str] = []
        world.api.watchers.append(self._look)

    def of(self, node: str) -> JsonObject | None:
        return self._world.api.find(HOLDERS, NAMESPACE, holder_name(node))

    # What others do

    def drain(self, node: str) -> None:
        """`kubectl drain` begins: it cordons the node, and evicts the holder that it finds."""
        self.cordon(node)
        self.evict(node)

    def evict(self, node: str) -> None:
        pod = self.of(node)
        if pod is not None:
            if self._takes_no_pods(node):
                self.drains[node] = pod["metadata"]["uid"]
            self._world.api.end(HOLDERS, NAMESPACE, pod["metadata"]["name"])

    def cordon(self, node: str, cordoned: bool = True) -> None:
        self._world.api.merge(NODES, "", node, {"spec": {"unschedulable": cordoned or None}})

    def fail(self, node: str) -> None:
        """The kubelet ends the pod's container, and starts none again."""
        pod = self.of(node)
        if pod is not None:
            name = pod["metadata"]["name"]
            self._world.api.merge(HOLDERS, NAMESPACE, name, {"status": {"phase": "Failed"}}, "status")
            self.drains.pop(node, None)

    def run_out(self, node: str) -> None:
        """The grace of an evicted holder is over, or its node restarts: the kubelet removes the pod."""
        pod = self.of(node)
        if pod is not None and pod["metadata"].get("deletionTimestamp"):
            self._remove(pod)

    def tick(self) -> None:
        """Kubelets start pods; Kubernetes collects those of Nodes that are gone."""
        for pod in self._world.api.peek(HOLDERS):
            machine = self._world.machines.get(pod["spec"]["nodeName"])
            if machine is None:
                self._remove(pod)
            elif machine.is_up and "status" not in pod:
                name = pod["metadata"]["name"]
                self._world.api.merge(HOLDERS, NAMESPACE, name, {"status": {"phase": "Running"}}, "status")

    def _remove(self, pod: JsonObject) -> None:
        self._by_kubelet = True
        self._world.api.remove(HOLDERS, NAMESPACE, pod["metadata"]["name"])
        self._by_kubelet = False

    # What must hold

    def _look(self, event: Event) -> None:
        """A drain that was not taken back ends only when no map names the node."""
        if event.resource == NODES and not self._takes_no_pods(event.body["metadata"]["name"]):
            self.drains.pop(event.body["metadata"]["name"], None)
        if event.resource != HOLDERS or not event.deleted:
            return
        node, metadata = event.body["spec"]["nodeName"], event.body["metadata"]
        if self.drains.get(node) != metadata["uid"]:
            return
        del self.drains[node]
        if self._by_kubelet:
            return
        named = [one["metadata"]["name"] for one in self._world.api.peek(GROUPS) if _names(one, node)]
        self._world.checks.require(not named, f"the drain of {node} ended while groups {named} have replicas there")
        self.drained.append(node)

    def _takes_no_pods(self, node: str) -> bool:
        body = self._world.api.find(NODES, "", node) or {}
        return bool(body.get("spec", {}).get("unschedulable") or body.get("spec", {}).get("taints"))

    def problems(self, needed: set[str], allowed: set[str]) -> list[str]:
        """Whether the needed nodes have holders, no others than these and the allowed ones, and none is asked for."""
        pods = {pod["spec"]["nodeName"]: pod for pod in self._world.api.peek(HOLDERS)}
        found = [f"node {node} has no holder" for node in sorted(needed - pods.keys())]
        found += [f"node {node} has a holder and no replicas" for node in sorted(pods.keys() - needed - allowed)]
        ending = [node for node, pod in pods.items() if pod["metadata"].get("deletionTimestamp")]
        return found + [f"the holder of node {node} is Terminating for ever" for node in sorted(ending)]


def _names(group: JsonObject, node: str) -> bool:
    rows = group.get("status", {}).get("backendsPerBucketSeq") or ()
    return any(node in row for row in rows)
