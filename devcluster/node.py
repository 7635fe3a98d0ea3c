"""A node: a network and a mount namespace with containerd, kubelet and kube-proxy in it.

The namespaces live exactly as long as the node's processes (a `sleep` holds them open): nothing is pinned anywhere, so
a node whose processes are dead has left no mount, namespace or link behind.
"""

import json
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from devcluster import (
    cgroups,
    clocks,
    configuration,
    controlplane,
    disks,
    image_store,
    network,
    oci,
    paths,
    pki,
    processes,
    shell,
)
from devcluster.binaries import KUBERNETES, PAUSE
from devcluster.errors import DevclusterError

START_DEADLINE_SECONDS = 60.0
READY_DEADLINE_SECONDS = 90.0

AGENTS = ("kubelet", "kube-proxy")
PROGRAMS = ("namespaces", "containerd", *AGENTS)

# Folder in the node's own folder -> where the node's programs see it.
MOUNTS = {
    "containerd": configuration.CONTAINERD_ROOT,
    "run-containerd": configuration.CONTAINERD_STATE,
    "kubelet": Path("/var/lib/kubelet"),
    "cni-configuration": Path("/etc/cni/net.d"),
    "cni-state": Path("/var/lib/cni"),
    "pod-logs": Path("/var/log/pods"),
    "container-logs": Path("/var/log/containers"),
    disks.DATA: paths.DATA_ROOT,
}


@dataclass(frozen=True)
class Node:
    """Node N of the cluster; everything about it follows from its number."""

    number: int

    @property
    def name(self) -> str:
        """The name of its Node object."""
        return f"node-{self.number}"

    @property
    def folder(self) -> Path:
        """Its disks."""
        return paths.NODES / self.name

    @property
    def group(self) -> str:
        """Its control group."""
        return cgroups.node_group(self.name)

    @property
    def images(self) -> Path:
        """containerd's folder as the host sees it."""
        return self.folder / "containerd"

    @property
    def socket(self) -> Path:
        """containerd's socket as the host sees it."""
        return self.folder / "run-containerd" / "containerd.sock"

    def program(self, program: str) -> str:
        """The name under which one of its programs is recorded."""
        return f"{self.name}-{program}"


def known() -> list[Node]:
    """Every node that was ever started in this cluster, running or not."""
    if not paths.NODES.exists():
        return []
    numbers = sorted(int(folder.name.removeprefix("node-")) for folder in paths.NODES.iterdir())
    return [Node(number) for number in numbers]


def holder_pid(node: Node) -> int | None:
    """The process that holds the node's namespaces, if the node runs."""
    identity = processes.running(node.program("namespaces"))
    return identity.pid if identity else None


def is_complete(node: Node) -> bool:
    """Whether all of a node's programs run: a killed `add-node` may have left a part of them."""
    return all(processes.running(node.program(program)) for program in PROGRAMS)


def require_running(node: Node) -> int:
    """The process that holds the namespaces of a node that must run."""
    pid = holder_pid(node)
    if pid is None:
        raise DevclusterError(f"{node.name} does not run; `status` shows which nodes do")
    return pid


def start(node: Node, images: list[oci.Image], store: Path | None) -> None:
    """Start a node, new or stopped, and put images into it before the kubelet can ask for them.

    ``store``: where a new node's come from; None = each is imported.
    """
    if paths.DISK_GIB.exists():
        disks.attach(node.folder, int(paths.DISK_GIB.read_text()))
    if clocks.are_there():
        clocks.attach(node.folder)
    _write_configuration(node)
    if store is not None and not any(node.images.iterdir()):
        image_store.copy_to(store, node.images)
    pid = _start_namespaces(node)
    network.connect_node(node.number, pid)
    _start_containerd(node, pid)
    oci.import_archive(node.socket, oci.pause_archive(PAUSE.program("pause"), image_store.PAUSE_IMAGE))
    for image in images:
        load_image(image, node)
    _start_agents(node, pid)


def restart_agents(node: Node) -> None:
    """End kubelet and kube-proxy of a running node, and start them again. containerd and all containers go on."""
    pid = require_running(node)
    for program in AGENTS:
        processes.end(node.program(program))
    _start_agents(node, pid)


def load_image(image: oci.Image, node: Node) -> None:
    """Bring an image into a running node, unless it holds it."""
    oci.import_image(node.socket, node.images, image)


def stop(node: Node) -> None:
    """End a node as a power cut would: the link first, so that no connection is closed by its dying programs."""
    network.disconnect_node(node.number)
    cgroups.destroy(node.group)
    for program in PROGRAMS:
        processes.forget(node.program(program))


def wait_ready(node: Node) -> None:
    """Wait for the Node's Ready condition; a kubelet that died fails at once."""
    kubelet = node.program("kubelet")
    shell.wait_until(
        f"{node.name} is Ready",
        lambda: bool(processes.require_running(kubelet)) and is_ready(node),
        READY_DEADLINE_SECONDS,
        processes.log_path(kubelet),
    )


def is_ready(node: Node) -> bool:
    """Whether the node is Ready and its kubelet answers: the condition alone may still speak of before a loss."""
    answers = controlplane.succeeds("get", "--raw", f"/api/v1/nodes/{node.name}/proxy/healthz", "--request-timeout=2s")
    return answers and ready_conditions().get(node.name) == "True"


def ready_conditions() -> dict[str, str]:
    """Node name -> status of its Ready condition: True, False or Unknown."""
    items = json.loads(controlplane.kubectl("get", "nodes", "-o", "json"))["items"]
    return {
        item["metadata"]["name"]: condition["status"]
        for item in items
        for condition in item["status"].get("conditions", [])
        if condition["type"] == "Ready"
    }


def _write_configuration(node: Node) -> None:
    for name, mountpoint in MOUNTS.items():
        if name == "run-containerd":  # stands for memory: empty after a power cut
            shutil.rmtree(node.folder / name, ignore_errors=True)
        (node.folder / name).mkdir(parents=True, exist_ok=True)
        mountpoint.mkdir(parents=True, exist_ok=True)
    address, authority = network.node_address(node.number), paths.PKI / "ca.crt"
    pair = pki.issue_node(paths.PKI, node.name, address)
    resolver = paths.CONFIG / "resolv.conf"
    files = {
        "kubelet.kubeconfig": configuration.kubeconfig(authority, pair),
        "kubelet.yaml": configuration.kubelet(authority, pair, address, node.group, resolver),
        "kube-proxy.yaml": configuration.kube_proxy(paths.CONFIG / "kube-proxy.kubeconfig", address, node.name),
        "containerd.toml": configuration.containerd(image_store.PAUSE_IMAGE, runc=clocks.runc_of(node.folder)),
        "cni-configuration/10-devcluster.conflist": configuration.pod_network(network.pod_range(node.number)),
    }
    for name, text in files.items():
        (node.folder / name).write_text(text)


def namespace_script(node: Node) -> str:
    """Binds the node's disks over the paths its programs use, and gives up what it has of other nodes' disks.

    Each bind becomes its own shared tree: shared so that a pod's mount is seen by its host and the other way round, its
    own so that the same mount does not show up a second time under the folder it was bound from.
    """
    lines = ["set -e", "mount --make-rshared /", disks.unmount_others(node.folder)]
    for name, mountpoint in MOUNTS.items():
        target = shlex.quote(str(mountpoint))
        lines.append(f"mount --bind {shlex.quote(str(node.folder / name))} {target}")
        lines.append(f"mount --make-private {target}")
        lines.append(f"mount --make-shared {target}")
    return "\n".join([*lines, "exec sleep infinity"])


def _start_namespaces(node: Node) -> int:
    name = node.program("namespaces")
    command = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", namespace_script(node)]
    identity = processes.start(name, f"{node.group}/system", command)
    comm = Path("/proc") / str(identity.pid) / "comm"
    shell.wait_until(
        f"the namespaces of {node.name} are there",
        lambda: bool(processes.require_running(name)) and comm.read_text().strip() == "sleep",
        START_DEADLINE_SECONDS,
        processes.log_path(name),
    )
    return identity.pid


def _start_in(node: Node, pid: int, program: str, command: list[str]) -> None:
    enter = ["nsenter", f"--net=/proc/{pid}/ns/net", f"--mount=/proc/{pid}/ns/mnt", "--"]
    processes.start(node.program(program), f"{node.group}/system", [*enter, *command])


def _start_agents(node: Node, pid: int) -> None:
    _start_in(node, pid, "kubelet", kubelet_command(node))
    _start_in(node, pid, "kube-proxy", kube_proxy_command(node))


def _start_containerd(node: Node, pid: int) -> None:
    name = node.program("containerd")
    _start_in(node, pid, "containerd", ["containerd", "--config", str(node.folder / "containerd.toml")])
    shell.wait_until(
        f"containerd of {node.name} answers",
        lambda: bool(processes.require_running(name)) and shell.succeeds("ctr", "-a", node.socket, "version"),
        START_DEADLINE_SECONDS,
        processes.log_path(name),
    )


def kubelet_command(node: Node) -> list[str]:
    """What is not in the configuration file because the kubelet takes it by flag only."""
    return [
        str(KUBERNETES.program("kubelet")),
        f"--config={node.folder / 'kubelet.yaml'}",
        f"--kubeconfig={node.folder / 'kubelet.kubeconfig'}",
        f"--hostname-override={node.name}",
        f"--node-ip={network.node_address(node.number)}",
    ]


def kube_proxy_command(node: Node) -> list[str]:
    """Everything is in the configuration file."""
    return [str(KUBERNETES.program("kube-proxy")), f"--config={node.folder / 'kube-proxy.yaml'}"]
