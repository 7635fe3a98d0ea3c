"""The cluster as a whole: up, down, and one node more, less or cut off."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from devcluster import (
    binaries,
    cgroups,
    clocks,
    controlplane,
    disks,
    image_store,
    kept,
    network,
    node,
    oci,
    packages,
    paths,
    processes,
    shell,
    sysctls,
)
from devcluster.errors import DevclusterError
from devcluster.locks import exclusive
from devcluster.node import Node
from devcluster.progress import say, timed

LOCK = Path("/run/lock/colocation-devcluster.lock")


def lock() -> AbstractContextManager[None]:
    """One command at a time changes the cluster."""
    return exclusive(LOCK, "changes the cluster")


def users_kubeconfig() -> str | None:
    """The cluster the user already has, if KUBECONFIG names one that is not ours."""
    given = os.environ.get("KUBECONFIG")
    return given if given and Path(given).resolve() != paths.KUBECONFIG else None


def up(
    node_count: int,
    reuse: bool = False,
    images: Callable[[], Sequence[oci.Image]] = tuple,
    disk_gib: int | None = None,
    clocks_for: str | None = None,
) -> None:
    """Start a fresh cluster with these images; with `reuse`, keep one that is healthy and has as many nodes.

    ``images``: called when the control plane is up; it may wait for images that are built meanwhile.
    ``disk_gib``: each node's data is on a file system of its own of this size; None = all share this machine's disk.
    ``clocks_for``: in pods of this namespace each node has a wall clock of its own (see `clocks`); None = nowhere.

    Raises:
        DevclusterError: another checkout keeps one (see `kept`).
    """
    packages.ensure({**packages.CLUSTER, **(packages.CLOCKS if clocks_for else {})})
    binaries.ensure()
    with lock():
        if reuse and is_healthy(node_count):
            say("the cluster already runs and is healthy")
            return
        kept.require_replaceable(_is_running)
        _down()
        for folder in (paths.STATE, paths.NODES):
            folder.mkdir(mode=0o755)
        if disk_gib:
            paths.DISK_GIB.write_text(str(disk_gib))
        if clocks_for:
            clocks.make(clocks_for)
        binaries.link_programs(paths.BIN)
        sysctls.save()
        network.create_bridge()
        controlplane.start()
        _remember_images(images())
        with timed(f"{node_count} nodes"):
            _start_nodes([Node(number) for number in range(1, node_count + 1)])


def down() -> None:
    """End the cluster, complete or not, also one that another process started."""
    with lock():
        if paths.STATE.exists() or cgroups.processes(cgroups.ROOT):
            with timed("down"):
                _down()
        else:
            _down()
            say("no cluster is there")


def end_run() -> None:
    """At the end of a run that made a cluster: end it. It is another's if it could not be replaced; that one stays."""
    if not kept.is_anothers():
        down()


def _down() -> None:
    cgroups.destroy(cgroups.ROOT)
    network.delete_bridge()
    sysctls.restore()
    disks.detach_all()
    if paths.STATE.exists():
        shell.run("rm", "-rf", "--one-file-system", paths.STATE)
    for mountpoint in node.MOUNTS.values():
        if mountpoint.is_dir() and not any(mountpoint.iterdir()):
            mountpoint.rmdir()


def _start_nodes(nodes: list[Node]) -> None:
    images = loaded_images()
    store = image_store.ensure(images) if images else None
    _for_each(nodes, lambda member: node.start(member, images, store))
    network.route_pods(running_nodes())
    _for_each(nodes, node.wait_ready)


def _for_each(nodes: list[Node], action: Callable[[Node], object]) -> None:
    """Do something to all nodes side by side; the first failure is raised when all have ended."""
    with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as pool:
        for future in [pool.submit(action, member) for member in nodes]:
            future.result()


def running_nodes() -> dict[int, int]:
    """Number -> namespace pid of every running node."""
    pids = {member.number: node.holder_pid(member) for member in node.known()}
    return {number: pid for number, pid in pids.items() if pid is not None}


def require_node(number: int) -> Node:
    """Node N, if the cluster has it."""
    known = node.known()
    if Node(number) not in known:
        names = ", ".join(member.name for member in known) or "none"
        raise DevclusterError(f"there is no node-{number}; the cluster's nodes: {names}")
    return Node(number)


def add_node() -> Node:
    """Start one node more, with every image that was loaded so far."""
    with lock():
        _require_api()
        member = Node(max((member.number for member in node.known()), default=0) + 1)
        with timed(f"adding {member.name}"):
            _start_nodes([member])
        return member


def kill_node(number: int) -> None:
    """Lose a node: its Node object stays, its disks too."""
    with lock():
        member = require_node(number)
        node.require_running(member)
        node.stop(member)
        say(f"{member.name} is dead")


def start_node(number: int) -> None:
    """Bring a lost node back with the disks it had."""
    with lock():
        _require_api()
        member = require_node(number)
        if node.is_complete(member):
            raise DevclusterError(f"{member.name} already runs")
        with timed(f"starting {member.name}"):
            node.stop(member)
            _start_nodes([member])


def restart_node_agents(number: int) -> None:
    """Start a node's kubelet and kube-proxy again; its pods go on."""
    with lock():
        member = require_node(number)
        node.restart_agents(member)
        say(f"{member.name} has a new kubelet")


def set_partitioned(number: int, partitioned: bool) -> None:
    """Cut a node off from all others, or reconnect it; its programs run on."""
    with lock():
        member = require_node(number)
        node.require_running(member)
        network.set_link_up(number, not partitioned)
        say(f"{member.name} is {'cut off' if partitioned else 'connected again'}")


def shape_links(rate: str | None) -> None:
    """Give every node's link a bandwidth, or lift the limit."""
    with lock():
        for number, pid in running_nodes().items():
            network.shape_link(number, pid, rate)
        say(f"links are limited to {rate}" if rate else "links are not limited")


def load_images(images: list[oci.Image]) -> None:
    """Bring images into all running nodes side by side, and remember them for nodes that start later."""
    with lock():
        _require_api()
        members = [Node(number) for number in running_nodes()]
        for image in images:
            with timed(f"loading {image.name} into {len(members)} nodes"):
                _for_each(members, partial(node.load_image, image))
        _remember_images(images)


def _remember_images(images: Iterable[oci.Image]) -> None:
    names = {image.name for image in (*loaded_images(), *images)}
    paths.LOADED_IMAGES.write_text(json.dumps(sorted(names)))


def loaded_images() -> list[oci.Image]:
    """Every image that was loaded into this cluster, as it was exported last."""
    if not paths.LOADED_IMAGES.exists():
        return []
    names = json.loads(paths.LOADED_IMAGES.read_text())
    return [image for image in oci.exported() if image.name in names]


def status() -> dict[str, str]:
    """Every part of the cluster -> how it is: `running`, `dead`, `Ready`, `NotReady`, `stopped` or `cut off`."""
    parts = {
        program: "running" if processes.running(program) else "dead"
        for program in controlplane.PROGRAMS
        if processes.recorded(program)
    }
    conditions = node.ready_conditions() if parts and controlplane.api_is_ready() else {}
    for member in node.known():
        parts[member.name] = _node_status(member, conditions)
    return parts


def _node_status(member: Node, conditions: dict[str, str]) -> str:
    if node.holder_pid(member) is None:
        return "stopped"
    if not network.link_is_up(member.number):
        return "cut off"
    return "Ready" if conditions.get(member.name) == "True" else "NotReady"


def is_healthy(node_count: int) -> bool:
    """Whether all programs run and at least so many nodes are Ready."""
    parts = status()
    nodes = [state for name, state in parts.items() if name.startswith("node-")]
    return len(nodes) >= max(1, node_count) and all(state in ("running", "Ready") for state in parts.values())


def _is_running() -> bool:
    return paths.KUBECONFIG.exists() and controlplane.api_is_ready()


def _require_api() -> None:
    if not _is_running():
        raise DevclusterError("no cluster runs; start one with `python -m devcluster up`")
