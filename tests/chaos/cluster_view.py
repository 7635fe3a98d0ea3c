"""What the API server reports, by requests that end in time; the programs of the nodes, by their processes."""

import datetime
import json
import os
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colocation.model.names import LEASE_NAME
from demo import cluster
from devcluster import cgroups, network, paths
from devcluster import cluster as devcluster
from devcluster import node as nodes

from .scene import NAMESPACE

REQUEST_SECONDS = 10
LEASE_SECONDS = 40.0
"""So long after its renewal readers trust the operator's verdicts."""
AUTHORITY = "colocation-agent-authority"
"""The chart's Secret with the CA of the agents' certificates."""
SKEW_SECONDS = 20.0
"""So far in the future it may be for them: the operator's clock may be wrong by that."""


class ApiAway(Exception):
    """The API server did not answer."""


def get(*words: str) -> list[dict[str, Any]]:
    """``kubectl get … -o json``, as a list.

    Raises:
        ApiAway: it did not answer in time, or with an error.
    """
    command = ["kubectl", "get", *words, "-o", "json", f"--request-timeout={REQUEST_SECONDS}s"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * REQUEST_SECONDS)
        found = json.loads(done.stdout) if done.returncode == 0 else None
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise ApiAway(str(error)) from error
    if found is None:
        raise ApiAway(done.stderr.strip()[-500:])
    items: list[dict[str, Any]] = found.get("items", [found])
    return items


def groups_and_tables() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """All groups and tables of the run's namespace."""
    items = get("colocationgroups,colocatedtables", "-n", NAMESPACE)
    groups = [item for item in items if item["kind"] == "ColocationGroup"]
    return groups, [item for item in items if item["kind"] == "ColocatedTable"]


@dataclass(frozen=True)
class Machinery:
    """What groups depend on. ``fresh``: readers trust the operator's verdicts now; ``clones``: node -> clone Jobs that
    are not over; ``trouble``: nodes that are not Ready, agents that are not, clones that run: one text for each.
    """

    fresh: bool
    clones: dict[str, int]
    trouble: tuple[str, ...]


def machinery() -> Machinery:
    """By one request, so that all of it is of one moment."""
    items = get("leases,nodes,daemonsets,jobs", "-n", cluster.OPERATOR_NAMESPACE)
    of_kind = {kind: [one for one in items if one["kind"] == kind] for kind in ("Lease", "Node", "DaemonSet", "Job")}
    clones = dict(Counter(target_of(job) for job in of_kind["Job"] if not is_over(job)))
    running = [f"{count} clones to {node} run" for node, count in sorted(clones.items())]
    trouble = (*_nodes_away(of_kind["Node"]), *_agents_away(of_kind["DaemonSet"]), *running)
    return Machinery(_is_fresh(of_kind["Lease"]), clones, trouble)


def _is_fresh(leases: list[dict[str, Any]]) -> bool:
    renewed = [one["spec"]["renewTime"] for one in leases if one["metadata"]["name"] == LEASE_NAME]
    return any(-SKEW_SECONDS <= age_seconds(time) < LEASE_SECONDS for time in renewed)


def _nodes_away(objects: list[dict[str, Any]]) -> list[str]:
    """Of all nodes that the cluster ever had."""
    ready = {one["metadata"]["name"] for one in objects if is_true(one, "Ready")}
    return [f"node {member.name} is not Ready" for member in nodes.known() if member.name not in ready]


def _agents_away(daemon_sets: list[dict[str, Any]]) -> list[str]:
    found = []
    for one in daemon_sets:
        status = one.get("status", {})
        wanted = status.get("desiredNumberScheduled", 0)
        ready = min(status.get("numberReady", 0), status.get("updatedNumberScheduled", 0))
        if ready < wanted:
            found.append(f"{ready} of {wanted} pods of {one['metadata']['name']} are ready")
    return found


def is_true(one: dict[str, Any], condition: str) -> bool:
    """Whether an object's condition is."""
    conditions = one.get("status", {}).get("conditions", ())
    return any(found["type"] == condition and found["status"] == "True" for found in conditions)


def out_of_memory() -> list[str]:
    """Containers of pods that the kernel has ended, as far as their pods are there."""
    return [
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}: {container['name']}"
        for pod in get("pods", "-A")
        for container in pod.get("status", {}).get("containerStatuses", ())
        for state in (container.get("state", {}), container.get("lastState", {}))
        if state.get("terminated", {}).get("reason") == "OOMKilled"
    ]


def age_seconds(time: str) -> float:
    """Since a time of an object of Kubernetes, by this machine's clock."""
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(time)
    return age.total_seconds()


def authority_age_seconds() -> float:
    """Since the chart made the CA of the agents' certificates, which is not valid before."""
    [secret] = get("secret", AUTHORITY, "-n", cluster.OPERATOR_NAMESPACE)
    return age_seconds(secret["metadata"]["creationTimestamp"])


def target_of(job: dict[str, Any]) -> str:
    """The node that a clone Job is pinned to."""
    affinity = job["spec"]["template"]["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    named = [one for term in terms for key in ("matchFields", "matchExpressions") for one in term.get(key, ())]
    return str(named[0]["values"][0]) if named else "?"


def is_over(job: dict[str, Any]) -> bool:
    """Whether a Job has succeeded or failed."""
    return is_true(job, "Complete") or is_true(job, "Failed")


def reachable() -> set[str]:
    """Nodes that run and are not cut off."""
    return {nodes.Node(number).name for number in devcluster.running_nodes() if network.link_is_up(number)}


def processes_of(program: str) -> dict[str, list[int]]:
    """Node -> its processes whose command line holds these words."""
    found = {}
    for member in nodes.known():
        pids = [pid for pid in cgroups.processes(member.group) if program in command_line(pid)]
        if pids:
            found[member.name] = sorted(pids)
    return found


def command_line(pid: int) -> str:
    """Empty when it is gone."""
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def memory() -> dict[str, int]:
    """Resident bytes of operator and agents, each under a name with its process id. The driver's limit is its pod's."""
    sizes = {}
    for program in ("colocation.controller", "colocation.agent"):
        for node, pids in processes_of(program).items():
            for pid in pids:
                if size := resident_bytes(pid):
                    sizes[f"{program.rpartition('.')[2]} on {node} ({pid})"] = size
    return sizes


def resident_bytes(pid: int) -> int:
    """0 when it is gone."""
    try:
        return int((Path("/proc") / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def is_up() -> bool:
    """Whether a dev cluster is there at all."""
    return paths.KUBECONFIG.exists()
