"""The demo's story, step by step; each step narrates, uses the product as a user does, and measures."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubernetes import client, config, watch

from devcluster import cluster as devcluster

from . import cluster, disks, placement, workload
from .data import TABLES, Oracle
from .shell import kubectl, kubectl_json
from .waiting import wait_until

DOWN_TOLERANCE_SECONDS = 30
REPAIR_DEADLINE_SECONDS = 600
OPERATORS = {("colocation-operator", "operator"), ("spark-operator", "controller")}
"""Names and components of the operators' pods: agents and clones are ours too, and no operators."""


def say(text: str) -> None:
    """One line of narration."""
    print(f"\n==> {text}", flush=True)


def show(text: str) -> None:
    """Real output of a real command, indented."""
    print("".join(f"    {line}\n" for line in text.rstrip().splitlines()), end="", flush=True)


@dataclass
class StabilityWatch:
    """Every ``status.stable`` of the group that the API server reported while the watch ran."""

    seen: list[bool] = field(default_factory=list)

    @property
    def stayed_stable(self) -> bool:
        """Whether there was something to see, and none of it was unstable."""
        return bool(self.seen) and all(self.seen)


@contextlib.contextmanager
def watching_stability() -> Iterator[StabilityWatch]:
    """Watch the group while the body runs: polling could miss a short instability."""
    config.load_kube_config(os.environ["KUBECONFIG"])
    record, stream = StabilityWatch(), watch.Watch()
    api = client.CustomObjectsApi()
    arguments = ("colocation.dev", "v1alpha1", workload.NAMESPACE, "colocationgroups")

    def follow() -> None:
        while not stopped.is_set():  # the API server ends watches now and then
            for event in stream.stream(api.list_namespaced_custom_object, *arguments,
                                       field_selector=f"metadata.name={workload.GROUP}", timeout_seconds=2):
                record.seen.append(event["object"].get("status", {}).get("stable") is True)

    stopped = threading.Event()
    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        wait_until("the watch's first event", lambda: record.seen, deadline_seconds=30)
        yield record
    finally:
        stopped.set()
        thread.join()


def load_tables(data: Path, oracle: Oracle, executors: int | None) -> dict[str, int]:
    """Load both tables; returns rows per table, which must be the input's. ``executors``: of a load."""
    say("both tables are loaded, at once")
    for table in TABLES:
        show(f"colocation load {table} --select \"{workload.SELECT[table]}\"")
    rows = workload.load_all(data, executors)
    for table in TABLES:
        if rows[table] != oracle.row_count(table):
            raise RuntimeError(f"{table}: loaded {rows[table]} rows of {oracle.row_count(table)}")
    wait_for_stable(REPAIR_DEADLINE_SECONDS)
    show(kubectl("get", "colocatedtables", "-n", workload.NAMESPACE))
    show(workload.kubectl_get_groups())
    return rows


def wait_for_stable(deadline_seconds: float) -> None:
    """``kubectl wait --for=condition=Stable``."""
    kubectl("wait", "--for=condition=Stable", f"colocationgroup/{workload.GROUP}", "-n", workload.NAMESPACE,
            f"--timeout={deadline_seconds:.0f}s")


def join(oracle: Oracle) -> workload.JoinRun:
    """Submit the join and show what came of it."""
    run = workload.submit_join(oracle)
    show_join(run)
    return run


def compare_join(oracle: Oracle) -> workload.ComparedJoin:
    """Submit the join with its warm runs, colocated and shuffled, and show what came of it."""
    run = workload.submit_compared_join(oracle)
    show_join(run.first)
    show(f"warm: {run.seconds:.1f} s")
    say("the same session with spark.colocation.disableColocateJoin=true")
    show(f"exchanges {run.shuffled.exchanges}, {answer(run.shuffled.answer_ok)}\nwarm: {run.shuffled.seconds:.1f} s")
    say(f"warm, the colocated joins are {run.shuffled.seconds / run.seconds:.1f} times as fast as the shuffled ones")
    return run


def show_join(run: workload.JoinRun) -> None:
    """The submitter's decision, and what the driver measured."""
    show(f"{run.decision}\nexchanges {run.exchanges}, remote bytes {run.remote_bytes}, "
         f"{run.first_seconds:.1f} s the first time, {answer(run.answer_ok)}")


def answer(is_right: bool) -> str:
    """The result of the comparison with DuckDB's answer."""
    return f"answer {'right' if is_right else 'WRONG'} (checked by DuckDB)"


def lose_a_node(oracle: Oracle) -> dict[str, object]:
    """Kill a node: unstable with its reason, joined on the live replicas, then cloned elsewhere and stable again."""
    victim = node_without_operators()
    map_before, survivors = workload.bucket_map(), [node for node in disks.nodes() if node != victim]
    bytes_before = disks.data_bytes(survivors)
    started = time.monotonic()
    unstable_after = kill(victim)
    reason = workload.group_status()["reason"]
    show(workload.kubectl_get_groups())
    say("the same join is submitted again: every bucket has a live replica, so it needs no shuffle")
    degraded = join(oracle)
    say(f"after {DOWN_TOLERANCE_SECONDS} s of tolerance the lost replicas are cloned to the nodes that live")
    wait_for_stable(REPAIR_DEADLINE_SECONDS)
    stable_again_after = time.monotonic() - started
    show(workload.kubectl_get_groups())
    return {"unstable_after_seconds": round(unstable_after, 1), "reason": reason,
            "degraded_answer_ok": degraded.answer_ok, "degraded_exchanges": degraded.exchanges,
            "stable_again_after_seconds": round(stable_again_after, 1),
            "buckets_cloned": placement.moved_replicas(map_before, workload.bucket_map()),
            "bytes_cloned": disks.data_bytes(survivors) - bytes_before}


def kill(victim: str) -> float:
    """Kill a node and wait until the group reports that it is not stable; returns the seconds that took."""
    say(f"{victim} dies: kubelet, containerd and all its containers are killed")
    started = time.monotonic()
    devcluster.kill_node(int(victim.removeprefix("node-")))
    wait_until("unstable after the loss of a node", lambda: workload.group_status().get("stable") is False,
               deadline_seconds=120)
    return time.monotonic() - started


def add_a_node() -> dict[str, object]:
    """Add a node: exactly the minimal number of replicas moves, and the group stays stable throughout."""
    before, stable_since = workload.bucket_map(), workload.stable_condition()["lastTransitionTime"]
    with watching_stability() as stability:
        say("a new node joins")
        added = devcluster.add_node().name
        wait_until(f"balance over {added}", lambda: is_balanced_over(added), deadline_seconds=REPAIR_DEADLINE_SECONDS)
    after = workload.bucket_map()
    live = sorted({node for nodes in before for node in nodes} | {added})
    show(workload.kubectl_get_groups())
    return {"moves": placement.moved_replicas(before, after), "minimal_moves": placement.minimal_moves(before, live),
            "stayed_stable": stability.stayed_stable
                             and workload.stable_condition()["lastTransitionTime"] == stable_since}


def is_balanced_over(added: str) -> bool:
    """Whether the new node has its share, and no clone is left to do."""
    status = workload.group_status()
    counts = placement.replicas_per_node(status["backendsPerBucketSeq"])
    clones = status.get("clones", {})
    return (counts[added] >= sum(counts.values()) // len(counts) and max(counts.values()) - min(counts.values()) <= 1
            and not clones.get("running") and not clones.get("pending"))


def node_without_operators() -> str:
    """A node of the group whose loss does not take an operator with it: that would be another story."""
    pods = kubectl_json("get", "pods", "--all-namespaces")["items"]
    holders = {node for nodes in workload.bucket_map() for node in nodes}
    return max(holders - nodes_of_operators(pods))


def nodes_of_operators(pods: list[dict[str, Any]]) -> set[str]:
    """Nodes on which an operator runs, or is about to."""
    return {
        pod["spec"].get("nodeName") for pod in pods
        if pod["status"].get("phase") not in ("Succeeded", "Failed")
        and _role(pod["metadata"].get("labels", {})) in OPERATORS
    }


def _role(labels: dict[str, str]) -> tuple[str | None, str | None]:
    return labels.get("app.kubernetes.io/name"), labels.get("app.kubernetes.io/component")


def install(values: dict[str, str], down_tolerance_seconds: int = DOWN_TOLERANCE_SECONDS) -> None:
    """Both operators by helm, then the group and its tables by kubectl."""
    say("helm install: Kubeflow's Spark operator and the colocation operator")
    cluster.install_operators(workload.NAMESPACE, values)
    show(kubectl("get", "pods", "--all-namespaces"))
    say("kubectl apply -f examples/tpch")
    workload.apply_tables(down_tolerance_seconds)
    wait_for_stable(120)
    show(workload.kubectl_get_groups())
