"""The cluster's network, real, in a network namespace of its own: what a node's loss may change for all others."""

import os

import pytest

from tests.unit.devcluster.namespaces import NETWORK, shown

NODES_COME_AND_GO = """
import contextlib, json, subprocess
from devcluster import network, shell
def address(device, *inside):
    return json.loads(shell.run(*inside, "ip", "-j", "link", "show", device))[0]["address"]
def node(stack):
    running = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo ready; exec sleep 60"], stdout=subprocess.PIPE)
    stack.callback(running.wait), stack.callback(running.kill)
    running.stdout.readline()
    return running.pid
def join(number):
    network.connect_node(number, pids[number])
    bridge.append(address(network.BRIDGE))
    card[number].add(address("eth0", "nsenter", f"--net=/proc/{pids[number]}/ns/net"))
with contextlib.ExitStack() as stack:
    pids = {number: node(stack) for number in (1, 2, 3)}
    network.create_bridge()
    bridge, card = [], {number: set() for number in pids}
    for number in (1, 2, 3, 1, 2, 3):  # whichever has the lowest address
        join(number)
        network.disconnect_node(number % 3 + 1)
        bridge.append(address(network.BRIDGE))
print(len(set(bridge)), sorted(map(len, card.values())), len(set.union(*card.values(), bridge)))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_a_node_that_comes_or_goes_changes_no_address_of_another() -> None:
    """The bridge's, which all send to, stays; a node has its own, and the same when it is back."""
    assert shown(NETWORK, NODES_COME_AND_GO) == ["1 [1, 1, 1] 4"]


ONE_WAY = """
import subprocess, sys
from devcluster import network
RECEIVE = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('', 9999)); s.settimeout(0.5); "
RECEIVE += "print(flush=True); s.recv(9)"
SEND = "import socket, sys; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', (sys.argv[1], 9999))"
def arrives(sender, receiver, address):
    python, quiet = (sys.executable, "-c"), subprocess.DEVNULL
    there = subprocess.Popen([*receiver, *python, RECEIVE], stdout=subprocess.PIPE, stderr=quiet)
    there.stdout.readline()
    subprocess.run([*sender, *python, SEND, address], stderr=quiet)  # one that is dropped here is refused
    return there.wait(10) == 0
running = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo ready; exec sleep 60"], stdout=subprocess.PIPE)
try:
    running.stdout.readline()
    network.create_bridge()
    network.connect_node(1, running.pid)
    inside = ["nsenter", f"--net=/proc/{running.pid}/ns/net"]
    for way in (None, *network.OneWay, None):
        for _ in range(2):
            network.set_one_way(running.pid, way)
        print(way, arrives([], inside, network.node_address(1)), arrives(inside, [], network.HOST_ADDRESS))
finally:
    running.kill(), running.wait()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_link_that_is_cut_one_way_lets_the_other_through() -> None:
    """To the node, from it; whatever was done before, and undone for good."""
    assert shown(NETWORK, ONE_WAY) == ["None True True", "deaf False True", "mute True False", "None True True"]
