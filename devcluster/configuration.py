"""The text of every generated configuration file: pure functions, so that tests read them without a cluster."""

import base64
import json
from pathlib import Path
from typing import Any

import yaml

from devcluster import network, paths
from devcluster.pki import Pair

API_SERVER = f"https://{network.HOST_ADDRESS}:6443"
CNI_PLUGINS = "/usr/lib/cni"
NODE_LOST_AFTER_SECONDS = 24


def kubeconfig(authority: Path, pair: Pair) -> str:
    """Credentials for the API server, all in one file so that it can be copied elsewhere."""
    cluster = {"server": API_SERVER, "certificate-authority-data": _base64(authority)}
    user = {"client-certificate-data": _base64(pair.certificate), "client-key-data": _base64(pair.key)}
    context = {"cluster": "devcluster", "user": pair.name}
    return yaml.safe_dump({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "devcluster", "cluster": cluster}],
        "users": [{"name": pair.name, "user": user}],
        "contexts": [{"name": "devcluster", "context": context}],
        "current-context": "devcluster",
    })  # fmt: skip


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def kubelet(authority: Path, pair: Pair, address: str, group: str, resolver: Path) -> str:
    """Quick to notice and report change, and never short of disk by its own rules: the disk is the whole machine's."""
    return yaml.safe_dump({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pair.certificate),
        "tlsPrivateKeyFile": str(pair.key),
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{group}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDomain": "cluster.local",
        "clusterDNS": [network.HOST_ADDRESS],
        "resolvConf": str(resolver),
        "nodeStatusUpdateFrequency": "4s",
        "nodeLeaseDurationSeconds": 12,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%"},
        "serializeImagePulls": False,
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    })  # fmt: skip


def kube_proxy(kubeconfig_file: Path, address: str, node: str) -> str:
    """Leaves the kernel's connection tracking limits alone: they are the machine's, not a node's."""
    return yaml.safe_dump({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(kubeconfig_file)},
        "clusterCIDR": network.POD_RANGE,
        "bindAddress": address,
        "hostnameOverride": node,
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    })  # fmt: skip


CONTAINERD_ROOT = Path("/var/lib/containerd")
CONTAINERD_STATE = Path("/run/containerd")


def containerd(
    sandbox_image: str, root: Path = CONTAINERD_ROOT, state: Path = CONTAINERD_STATE, runc: str | Path = "runc"
) -> str:
    """Everything, the pods' network namespaces included, stays in the node's own folders: none shows up on the host.

    ``runc``: the program that makes containers.
    """
    return f"""\
version = 2
root = "{root}"
state = "{state}"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]

[plugins."io.containerd.internal.v1.opt"]
  path = "{root}/opt"

[grpc]
  address = "{state}/containerd.sock"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{sandbox_image}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"

[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "{paths.REGISTRIES}"

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
  BinaryName = "{runc}"

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{CNI_PLUGINS}"
  conf_dir = "/etc/cni/net.d"
"""


def pod_network(pod_range: str) -> str:
    """Every pod gets its own routed link (`ptp`): with a bridge, two pods of one node would answer each other past the
    node's address rewriting wherever the kernel does not filter bridged packets."""
    address_management: dict[str, Any] = {
        "type": "host-local",
        "ranges": [[{"subnet": pod_range}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    plugins: list[dict[str, Any]] = [
        {"type": "ptp", "ipMasq": False, "ipam": address_management},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "0.4.0", "name": "devcluster", "plugins": plugins}, indent=2)


def corefile(kubeconfig_file: Path) -> str:
    """Answers every other name itself (it does not exist): no question is passed on to the machine's resolvers.

    Two blocks, because `template` comes before `kubernetes` inside of one.
    """
    return f"""\
cluster.local:53 in-addr.arpa:53 ip6.arpa:53 {{
    bind {network.HOST_ADDRESS}
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig_file} devcluster
        ttl 5
    }}
}}
.:53 {{
    bind {network.HOST_ADDRESS}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def resolver() -> str:
    """What pods with the node's DNS policy get: the cluster's DNS too, as nothing else can be reached."""
    return f"nameserver {network.HOST_ADDRESS}\n"


DNS_ACCESS = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:coredns"}
rules:
  - {apiGroups: [""], resources: [services, pods, namespaces], verbs: [list, watch]}
  - {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:coredns"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:coredns"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:coredns"}]
"""
