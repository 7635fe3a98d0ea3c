"""The generated configuration files say what the cluster relies on."""

import json
import tomllib
from pathlib import Path

import pytest
import yaml

from devcluster import configuration, controlplane, network, node, pki
from devcluster.errors import DevclusterError
from devcluster.node import Node
from devcluster.pki import Pair


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """A client of some authority."""
    pki.create_authority(Pair(tmp_path, "ca"))
    client = Pair(tmp_path, "client")
    pki.issue(Pair(tmp_path, "ca"), client, pki.Subject("client"))
    return client


def test_a_kubeconfig_needs_no_other_file(pair: Pair, tmp_path: Path) -> None:
    """It can be copied elsewhere."""
    text = configuration.kubeconfig(tmp_path / "ca.crt", pair)
    assert str(tmp_path) not in text
    loaded = yaml.safe_load(text)
    assert loaded["clusters"][0]["cluster"]["server"] == f"https://{network.HOST_ADDRESS}:6443"
    assert loaded["current-context"] == loaded["contexts"][0]["name"]


def test_the_kubelet_stays_in_its_group_and_runs_on_cgroup_v1(pair: Pair) -> None:
    """`down` finds all pods beneath the node's control group."""
    text = configuration.kubelet(Path("/ca.crt"), pair, "172.30.0.11", "colocation-devcluster/node-1", Path("/r"))
    loaded = yaml.safe_load(text)
    assert loaded["cgroupRoot"] == "/colocation-devcluster/node-1"
    assert loaded["failCgroupV1"] is False
    assert loaded["authentication"]["anonymous"]["enabled"] is False
    assert loaded["clusterDNS"] == [network.HOST_ADDRESS]


def test_containerd_keeps_its_files_in_the_node() -> None:
    """A network namespace that is mounted on the host would outlive the node."""
    loaded = tomllib.loads(configuration.containerd("localhost/pause:v1"))
    runtime = loaded["plugins"]["io.containerd.grpc.v1.cri"]
    assert runtime["netns_mounts_under_state_dir"] is True
    assert runtime["restrict_oom_score_adj"] is True
    assert runtime["sandbox_image"] == "localhost/pause:v1"
    assert runtime["containerd"]["runtimes"]["runc"]["options"]["BinaryName"] == "runc"


def test_containerd_calls_the_runc_that_it_is_given() -> None:
    """By it a node's containers get the node's clock."""
    loaded = tomllib.loads(configuration.containerd("localhost/pause:v1", runc=Path("/nodes/node-1/runc-with-clock")))
    options = loaded["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]["runc"]["options"]
    assert options == {"SystemdCgroup": False, "BinaryName": "/nodes/node-1/runc-with-clock"}


def test_kube_proxy_leaves_the_machines_limits_alone() -> None:
    """Connection tracking limits are the kernel's, not a node's."""
    loaded = yaml.safe_load(configuration.kube_proxy(Path("/k"), "172.30.0.11", "node-1"))
    assert loaded["conntrack"]["maxPerCore"] == 0
    assert loaded["conntrack"]["min"] == 0


def test_pods_get_addresses_of_their_node() -> None:
    """The routes between nodes follow from it."""
    loaded = json.loads(configuration.pod_network(network.pod_range(4)))
    assert loaded["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.244.4.0/24"}]]


def test_dns_asks_no_one() -> None:
    """No question leaves the machine."""
    assert "forward" not in configuration.corefile(Path("/k"))


def test_the_api_server_reaches_webhooks_without_kube_proxy() -> None:
    """The host has none; service accounts' tokens name their issuer."""
    command = controlplane.apiserver_command()
    assert "--enable-aggregator-routing=true" in command
    assert "--authorization-mode=Node,RBAC" in command
    assert any(flag.startswith("--service-account-issuer=") for flag in command)
    assert not any(flag.startswith("--audit") for flag in command)


def test_a_silent_node_is_lost_after_24_seconds() -> None:
    """And not after the usual 40."""
    assert "--node-monitor-grace-period=24s" in controlplane.controller_manager_command()


def test_a_node_follows_from_its_number() -> None:
    """Name and address are the same in every run."""
    assert (Node(4).name, network.node_address(4)) == ("node-4", "172.30.0.14")


def test_a_nodes_disks_are_bound_after_its_mounts_were_cut_from_the_host() -> None:
    """The data root among them, shared so that hostPath volumes see later mounts."""
    lines = node.namespace_script(Node(2)).splitlines()
    assert lines[1] == "mount --make-rshared /"
    assert lines[2].startswith("for disk in /var/lib/colocation-devcluster/nodes/*/disk; do ")
    assert "mount --bind /var/lib/colocation-devcluster/nodes/node-2/disk/data /var/lib/colocation" in lines
    assert "mount --make-shared /var/lib/colocation" in lines


def test_paths_of_sockets_fit() -> None:
    """The kernel takes 107 characters."""
    assert len(str(Node(network.MAX_NODES).socket)) < 107


@pytest.mark.parametrize(
    ("destination", "refused"),
    [
        pytest.param("10.244.7.0/24", True, id="inside the pod range"),
        pytest.param("10.96.0.10", True, id="one host in the service range"),
        pytest.param("10.0.0.0/8", False, id="wider than ours"),
        pytest.param("192.168.1.0/24", False, id="elsewhere"),
        pytest.param("default", False, id="default route"),
    ],
)
def test_a_route_that_would_carry_our_packets_away_is_refused(destination: str, refused: bool) -> None:
    """The narrower route wins: a wider one does no harm."""
    if refused:
        with pytest.raises(DevclusterError, match="the machine has a route"):
            network.refuse_conflicts([{"dst": destination}])
    else:
        network.refuse_conflicts([{"dst": destination}])
