"""The cluster's network, real, in a network namespace of its own: what a node's loss may change for all others."""

import os

import pytest

from tests.unit.devcluster.namespaces import NETWORK, told

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
    assert told(NETWORK, NODES_COME_AND_GO) == ["1 [1, 1, 1] 4"]
