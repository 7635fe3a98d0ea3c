"""The cluster's network: one bridge, one link per node, and no way out.

No packet may leave the machine: the service and pod ranges end in blackhole routes on the host, where no kube-proxy
would turn a service's address into a pod's, and nodes have no default route at all.
"""

import ipaddress
import json
from enum import StrEnum

from devcluster import shell
from devcluster.errors import DevclusterError

BRIDGE = "coloc0"
HOST_ADDRESS = "172.30.0.1"
NODE_RANGE = "172.30.0.0/24"
POD_RANGE = "10.244.0.0/16"
SERVICE_RANGE = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"
FIRST_NODE_HOST_NUMBER = 10
MAX_NODES = 200
CNI_LOOPBACK = "/usr/lib/cni/loopback"


def node_address(number: int) -> str:
    """The address of node N on the bridge."""
    return str(ipaddress.IPv4Network(NODE_RANGE)[FIRST_NODE_HOST_NUMBER + number])


def pod_range(number: int) -> str:
    """The range that node N gives its pods addresses from."""
    return f"10.244.{number}.0/24"


def link(number: int) -> str:
    """The host's end of node N's link."""
    return f"coloc-n{number}"


def hardware_address(number: int) -> str:
    """The MAC address of node N's end of its link (0: of the bridge), as a machine's card has one for its life."""
    return f"02:c0:10:c0:00:{number:02x}"


def create_bridge() -> None:
    """Make the bridge and the host's routes.

    A bridge without an address of its own takes the lowest of its links', and another when that link goes: all nodes
    would then send to an address that is gone, for up to a minute, because one node died.
    """
    refuse_conflicts(json.loads(shell.run("ip", "-j", "-4", "route")))
    shell.run("ip", "link", "add", BRIDGE, "address", hardware_address(0), "type", "bridge")
    shell.run("ip", "address", "add", f"{HOST_ADDRESS}/24", "dev", BRIDGE)
    shell.run("ip", "link", "set", BRIDGE, "up")
    for destination in (SERVICE_RANGE, POD_RANGE):
        shell.run("ip", "route", "add", "blackhole", destination)


def refuse_conflicts(routes: list[dict[str, str]]) -> None:
    """A route that is narrower than ours would carry the cluster's packets elsewhere: refuse to start then."""
    ours = [ipaddress.IPv4Network(text) for text in (NODE_RANGE, POD_RANGE, SERVICE_RANGE)]
    for route in routes:
        if route["dst"] == "default":
            continue
        theirs = ipaddress.IPv4Network(route["dst"])
        for network in ours:
            if theirs.subnet_of(network):
                raise DevclusterError(f"the machine has a route for {theirs}, but the cluster needs all of {network}")


def delete_bridge() -> None:
    """Remove what `create_bridge` made, complete or not, and any link that is left."""
    for device in json.loads(shell.run("ip", "-j", "link", "show")):
        if device["ifname"].startswith("coloc-n") or device["ifname"] == BRIDGE:
            shell.succeeds("ip", "link", "delete", device["ifname"])
    for destination in (SERVICE_RANGE, POD_RANGE):
        shell.succeeds("ip", "route", "delete", "blackhole", destination)


def connect_node(number: int, pid: int) -> None:
    """Give the network namespace of process `pid` a link to the bridge, an address and its routes."""
    disconnect_node(number)
    inside = ("nsenter", f"--net=/proc/{pid}/ns/net")
    inner_end = ("name", "eth0", "address", hardware_address(number), "netns", str(pid))
    shell.run("ip", "link", "add", link(number), "type", "veth", "peer", *inner_end)
    shell.run("ip", "link", "set", link(number), "master", BRIDGE, "up")
    shell.run(*inside, "ip", "link", "set", "lo", "up")
    shell.run(*inside, "ip", "address", "add", f"{node_address(number)}/24", "dev", "eth0")
    shell.run(*inside, "ip", "link", "set", "eth0", "up")
    shell.run(*inside, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
    # A connection from the node itself needs a route before its address is rewritten; the host ends what is not.
    shell.run(*inside, "ip", "route", "add", SERVICE_RANGE, "via", HOST_ADDRESS)
    shell.run("ip", "route", "replace", pod_range(number), "via", node_address(number))


def disconnect_node(number: int) -> None:
    """Remove node N's link, if there is one."""
    shell.succeeds("ip", "link", "delete", link(number))
    shell.succeeds("ip", "route", "delete", pod_range(number))


def set_link_up(number: int, up: bool) -> None:
    """Cut or restore node N's link."""
    shell.run("ip", "link", "set", link(number), "up" if up else "down")


def link_is_up(number: int) -> bool:
    """Whether node N's link is there and was not cut."""
    try:
        (device,) = json.loads(shell.run("ip", "-j", "link", "show", link(number)))
    except DevclusterError:
        return False  # there is none
    return "UP" in device["flags"]


class OneWay(StrEnum):
    """What a node's link drops: all that comes to the node, or all that the node and its pods send."""

    DEAF = "deaf"
    MUTE = "mute"


_DROPPED = {
    OneWay.DEAF: ("raw", ("PREROUTING", "-i", "eth0", "-j", "DROP")),
    OneWay.MUTE: ("mangle", ("POSTROUTING", "-o", "eth0", "-j", "DROP")),
}


def set_one_way(pid: int, way: OneWay | None) -> None:
    """Drop what goes one way over the link of a node (a process in its namespace is given); None: nothing any more."""
    iptables = ("nsenter", f"--net=/proc/{pid}/ns/net", "iptables", "-w", "-t")
    for table, rule in _DROPPED.values():
        while shell.succeeds(*iptables, table, "-D", *rule):
            pass
    if way:
        table, rule = _DROPPED[way]
        shell.run(*iptables, table, "-I", *rule)


def route_pods(pids: dict[int, int]) -> None:
    """Teach every running node (number -> pid in its namespace) the way to the others' pods."""
    for number, pid in pids.items():
        for other in pids:
            if other != number:
                shell.run(
                    "nsenter", f"--net=/proc/{pid}/ns/net",
                    "ip", "route", "replace", pod_range(other), "via", node_address(other),
                )  # fmt: skip


def shape_link(number: int, pid: int, rate: str | None) -> None:
    """Limit what node N sends and receives to `rate` (as `tc` writes it), or lift the limit."""
    for prefix, device in (((), link(number)), (("nsenter", f"--net=/proc/{pid}/ns/net"), "eth0")):
        shell.succeeds(*prefix, "tc", "qdisc", "delete", "dev", device, "root")
        if rate:
            shape = ("tbf", "rate", rate, "burst", "256kb", "latency", "50ms")
            shell.run(*prefix, "tc", "qdisc", "add", "dev", device, "root", *shape)
