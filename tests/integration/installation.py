"""The real operator and real agents as processes against a bare control plane.

The test plays kubelets and the Job controller. Each "node" is a data root in a temporary folder and an agent on a
loopback address of its own.
"""

import datetime
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from colocation.agentclient import Credentials, NotFound, Timeouts
from colocation.model.names import (
    AGENT_ACCOUNT,
    AGENT_PORT,
    AGENT_SIGNER_NAME,
    AGENT_TLS_SERVER_NAME,
    LABEL_NODE_CERTIFICATES,
    LABEL_NODE_TOKENS,
    TOKEN_AUDIENCE,
    group_key,
)
from colocation.model.table_manifest import DataFile, TableManifest
from devcluster.binaries import KUBERNETES
from tests.support.agent_caller import AgentCaller
from tests.support.certificate_authority import make_authority
from tests.support.certificates import self_signed
from tests.support.manifests import encode_manifest
from tests.support.ports import free_ports

from .charts import rendered
from .control_plane import ControlPlane, dying_with_us, kubeconfig_of, path_of
from .objects import JsonObject, as_json
from .rights import chart_rights

SYSTEM = "colocation-system"
NO_HEADROOM = {"COLOCATION_DISK_HEADROOM_FRACTION": "0"}
"""All "nodes" share the disk of this machine, which may be nearly full: that is not what these tests are about."""
CHART_ACCOUNTS = ("colocation-operator", "colocation-agent", "colocation-clone")
"""They have the rights that the chart gives them, and no others."""
SUCCEED_IN_TWO_STEPS = not KUBERNETES.version.startswith("v1.30.")
"""Kubernetes 1.30 knows one condition of a Job that has succeeded, and refuses others."""
LOADER = "loader"
AUTHORITY = "authority"
"""The folder with the CA that the operator signs with."""


@dataclass
class Installation:
    """A running installation. ``nodes``: name -> loopback address of its agent.

    ``agent_health_addresses``: address and port of each node's agent.
    """

    plane: ControlPlane
    folder: Path
    nodes: dict[str, str]
    operator_environment: dict[str, str]
    health_port: int
    operator: subprocess.Popen[bytes] | None = None
    has_begun: bool = False
    agent_health_addresses: dict[str, str] = field(default_factory=dict)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """kubectl's output; a failure is an error."""
        result = self.plane.kubectl(*arguments, stdin=stdin)
        assert result.returncode == 0, f"kubectl {' '.join(arguments)}: {result.stderr}"
        return result.stdout

    def get(self, *arguments: str) -> JsonObject:
        """An object, or a list of them."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def read(self, kind: str, name: str = "", namespace: str = "") -> JsonObject:
        """An object, or a list of them, without a kubectl: for what is asked again and again."""
        return self.plane.get(path_of(kind, name, namespace))

    def wait(self, kind: str, name: str, namespace: str, condition: str, seconds: int = 90) -> None:
        """Until the condition (``jsonpath=…`` or ``condition=…``) holds."""
        self.kubectl(
            "wait", kind, name, "--namespace", namespace, f"--for={condition}", f"--timeout={seconds}s"
        )

    def _mount_token(self, pod: str, node: str) -> None:
        """Make the clone's pod and its token, which is bound to it, as Job controller and kubelet would."""
        account = "colocation-clone"
        spec = {"nodeName": node, "serviceAccountName": account, "containers": [{"name": "clone", "image": "clone"}]}
        metadata = {"name": pod, "namespace": SYSTEM}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self.kubectl("apply", "-f", "-", stdin=as_json(body))
        create = ("create", "token", account, "--namespace", SYSTEM, f"--audience={TOKEN_AUDIENCE}")
        token = self.kubectl(*create, "--bound-object-kind=Pod", f"--bound-object-name={pod}")
        (self.folder / account / "token").write_text(token)

    def data_root(self, node: str) -> Path:
        """The node's disk."""
        return self.folder / node

    @property
    def operator_log(self) -> Path:
        """What it printed, over all of its starts."""
        return self.folder / "operator.log"

    def credentials(self, account: str) -> Credentials:
        """A ServiceAccount's token, and the agents' CA."""
        return Credentials(self.folder / account / "token", self.folder / account / "ca.crt")

    def agent(self, node: str, account: str = LOADER) -> AgentCaller:
        """A client of the node's agent."""
        return AgentCaller(f"https://{self.nodes[node]}:{AGENT_PORT}", self.credentials(account))

    def agent_kubeconfig(self, node: str) -> Path:
        """A kubeconfig with the token that the kubelet puts into the agent's pod: it is bound to that pod."""
        create = ("create", "token", AGENT_ACCOUNT, "--namespace", SYSTEM)
        token = self.kubectl(*create, "--bound-object-kind=Pod", f"--bound-object-name=agent-{node}")
        path = self.folder / f"agent-{node}.kubeconfig"
        path.write_text(kubeconfig_of(self.plane.url, token))
        return path

    def start_operator(self) -> None:
        """Start the operator's process."""
        log = self.operator_log.open("ab")
        command = [sys.executable, "-m", "colocation.controller"]
        self.operator = subprocess.Popen(dying_with_us(command), env=self.operator_environment, stdout=log, stderr=log)
        log.close()
        if not self.has_begun:
            self.has_begun = True
            self._wait_for_agents()

    def _wait_for_agents(self) -> None:
        """Until all agents have their certificates and have answered: a group's map is made of nodes that did."""
        deadline = time.monotonic() + 90
        while self.answered_nodes() != set(self.nodes):
            assert self.operator is not None and self.operator.poll() is None, self.operator_log.read_text()[-4000:]
            assert time.monotonic() < deadline, f"only {self.answered_nodes()} have answered"
            time.sleep(0.1)

    def answered_nodes(self) -> set[str]:
        """Nodes that are ready and whose agent has answered, as the operator's last pass has it."""
        url = f"http://127.0.0.1:{self.operator_environment['COLOCATION_SNAPSHOT_PORT']}/v1/snapshot"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return {one["name"] for one in json.load(answer)["nodes"] if one["ready"] and one["capacityBytes"]}
        except urllib.error.URLError:
            return set()  # it does not listen, or has made no pass yet

    def stop_operator(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End the operator; its exit code."""
        assert self.operator is not None
        self.operator.send_signal(how)
        code = self.operator.wait(60)
        self.operator = None
        return code

    def set_ready(self, node: str, ready: bool) -> None:
        """What the node controller writes when a kubelet falls silent."""
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": "Ready", "status": "True" if ready else "Unknown", "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.", "lastTransitionTime": now, "lastHeartbeatTime": now,
        }  # fmt: skip
        patch = as_json({"status": {"conditions": [condition]}})
        self.kubectl("patch", "node", node, "--subresource=status", "-p", patch)

    def load(self, namespace: str, table: str, snapshot_id: int = 1, **shown: object) -> None:
        """What a loader does: files to every replica's agent, the manifest to all, then the commit.

        ``shown``: what else the commit writes into the status.
        """
        body = self.read("ct", table, namespace)
        group_namespace, group_name = group_key(namespace, body["status"]["group"])
        group = self.read("cg", group_name, group_namespace)
        rows, uid = group["status"]["backendsPerBucketSeq"], body["metadata"]["uid"]
        directory = f"{table}-{uid[:8]}"
        contents = {bucket: f"bucket {bucket} of {table}".encode() for bucket in range(len(rows))}
        files = tuple(_data_file(bucket, content) for bucket, content in contents.items())
        manifest = TableManifest(
            namespace=namespace, table=table, uid=uid, snapshot_id=snapshot_id, columns=body["spec"]["columns"],
            bucketed_by=body["spec"]["bucketedBy"], buckets=len(rows), files=files,
        )  # fmt: skip
        sha256, stored = encode_manifest(manifest)
        for node in self.nodes:
            with self.agent(node) as agent:
                for file in files:
                    if node in rows[file.bucket]:
                        agent.put_file(namespace, directory, file.path, contents[file.bucket])
                agent.put_manifest(namespace, directory, stored, sha256)
        snapshot = {
            "id": snapshot_id, "manifest": f"sha256:{sha256}", "committedAt": "2026-11-21T00:00:00Z", "partitions": 1,
            "files": len(files), "rows": len(files), "bytes": sum(file.bytes for file in files),
        }  # fmt: skip
        self.kubectl(
            "patch", "ct", table, "--namespace", namespace, "--subresource=status", "--type=merge",
            "-p", as_json({"status": {"snapshot": snapshot, **shown}}),
        )  # fmt: skip

    def run_clone(self, name: str) -> None:
        """Run a clone Job's container to its end, and write the Job's status, as kubelet and Job controller would."""
        job = self.read("jobs", name, SYSTEM)
        [container] = job["spec"]["template"]["spec"]["containers"]
        environment = {entry["name"]: entry["value"] for entry in container["env"]}
        node = json.loads(environment["CLONE_SPEC"])["target"]
        environment |= {
            "COLOCATION_DATA_ROOT": str(self.data_root(node)),
            "COLOCATION_TOKEN_DIRECTORY": str(self.folder / "colocation-clone"),
        }
        self._mount_token(f"{name}-x7k2p", node)
        command = [sys.executable, *container["command"][1:]]
        result = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        kinds = ("SuccessCriteriaMet", "Complete") if SUCCEED_IN_TWO_STEPS else ("Complete",)
        ended = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds]
        status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": ended}
        patch = as_json({"status": status})
        command = ("patch", "job", name, "--namespace", SYSTEM, "--subresource=status", "--type=merge", "-p", patch)
        done = self.plane.kubectl(*command)
        is_removed = "not found" in done.stderr  # the agent was given the files first
        assert done.returncode == 0 or is_removed, done.stderr


@contextmanager
def installed(plane: ControlPlane, folder: Path, nodes: int) -> Iterator[Installation]:
    """Nodes, agents, rights; no operator yet. Every process is ended by its id."""
    network = f"127.{random.randint(1, 250)}.{random.randint(1, 250)}"
    health_port, snapshot_port, admin_port = free_ports(3)
    installation = Installation(
        plane,
        folder,
        {f"node-{number}": f"{network}.{number}" for number in range(1, nodes + 1)},
        {
            **os.environ,
            "KUBECONFIG": str(folder / "colocation-operator" / "kubeconfig"),
            "COLOCATION_NAMESPACE": SYSTEM,
            "COLOCATION_IMAGE": "colocation-operator:test",
            **NO_HEADROOM,
            "COLOCATION_TOKEN_DIRECTORY": str(folder / "colocation-operator"),
            "COLOCATION_HEALTH_PORT": str(health_port),
            "COLOCATION_SNAPSHOT_PORT": str(snapshot_port),
            "COLOCATION_ADMIN_PORT": str(admin_port),
            "COLOCATION_SIGNER_NAME": AGENT_SIGNER_NAME,
            "COLOCATION_AUTHORITY_DIRECTORY": str(folder / AUTHORITY),
        },
        health_port,
    )
    installation.kubectl("create", "namespace", SYSTEM)
    certificate, key = self_signed(folder, AGENT_TLS_SERVER_NAME, list(installation.nodes.values()))
    authority = make_authority(folder / AUTHORITY)
    bundle = folder / "ca.crt"
    bundle.write_bytes(authority.read_bytes() + certificate.read_bytes())
    rights = {"apiVersion": "v1", "kind": "List", "items": chart_rights()}
    installation.kubectl("apply", "-f", "-", stdin=as_json(rights))
    [deployment] = rendered("Deployment")
    installation.kubectl("apply", "-f", "-", stdin=as_json(deployment))
    _grant_loader(installation)
    for account in (*CHART_ACCOUNTS, LOADER):
        _equip(installation, account, bundle)
    with ExitStack() as stack:
        for node, address in installation.nodes.items():
            add_agent(installation, node, address)
            stack.enter_context(_started_agent_of(installation, node, certificate, key))
        for node in installation.nodes:
            _until_listens(installation, node)
        try:
            yield installation
        finally:
            if installation.operator is not None:
                installation.stop_operator(signal.SIGKILL)


@contextmanager
def running_agent_of(
    installation: Installation, node: str, certificate: Path, key: Path, *options: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """A node's agent, which listens."""
    with _started_agent_of(installation, node, certificate, key, *options) as process:
        _until_listens(installation, node)
        yield process


@contextmanager
def _started_agent_of(
    installation: Installation, node: str, certificate: Path, key: Path, *options: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """A node's agent, which need not listen yet.

    It asks for a certificate of its own, and has the shared one for clients that know no other.
    """
    root = installation.data_root(node)
    root.mkdir(exist_ok=True)
    [health_port] = free_ports(1)
    installation.agent_health_addresses[node] = f"{installation.nodes[node]}:{health_port}"
    command = [
        sys.executable, "-m", "colocation.agent", "--node-name", node, "--data-root", str(root),
        "--host", installation.nodes[node],
        "--health-port", str(health_port), "--tls-certificate", str(certificate), "--tls-key", str(key),
        "--clone-account", f"system:serviceaccount:{SYSTEM}:colocation-clone",
        "--signer-name", AGENT_SIGNER_NAME, "--authority", str(installation.folder / "ca.crt"), *options,
    ]  # fmt: skip
    environment = {**os.environ, **NO_HEADROOM, "KUBECONFIG": str(installation.agent_kubeconfig(node))}
    with (installation.folder / f"agent-{node}.log").open("wb") as log:
        process = subprocess.Popen(dying_with_us(command), env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _until_listens(installation: Installation, node: str) -> None:
    """Until the agent reports that it has no such file."""
    timeouts = Timeouts(retry_deadline_seconds=90.0)
    url = f"https://{installation.nodes[node]}:{AGENT_PORT}"
    with AgentCaller(url, installation.credentials(LOADER), timeouts) as agent, pytest.raises(NotFound):
        agent.head_file("shop", "nothing-00000000", _data_file(0, b"").path)


def add_agent(installation: Installation, node: str, address: str, shares_certificate: bool = False) -> None:
    """The Node, and the agent's pod on it; ``shares_certificate``: it is of the release before."""
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
    installation.kubectl("create", "-f", "-", stdin=as_json(body))
    installation.set_ready(node, True)
    labels = {"app.kubernetes.io/name": "colocation-operator", "app.kubernetes.io/component": "agent"}
    labels |= {LABEL_NODE_TOKENS: "true"} | ({} if shares_certificate else {LABEL_NODE_CERTIFICATES: "true"})
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"agent-{node}", "namespace": SYSTEM, "labels": labels},
        "spec": {
            "nodeName": node, "serviceAccountName": AGENT_ACCOUNT, "containers": [{"name": "agent", "image": "agent"}],
        },
    }  # fmt: skip
    installation.kubectl("create", "-f", "-", stdin=as_json(pod))
    status = as_json({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}})
    patch = ["--subresource=status", "--type=merge", "-p", status]
    installation.kubectl("patch", "pod", f"agent-{node}", "--namespace", SYSTEM, *patch)


def _grant_loader(installation: Installation) -> None:
    """The account of a Spark driver, as far as agents are concerned."""
    resource = "--resource=colocatedtables.colocation.dev/data"
    installation.kubectl("create", "serviceaccount", LOADER, "--namespace", SYSTEM)
    installation.kubectl("create", "clusterrole", LOADER, "--verb=create,get", resource)
    subject = f"--serviceaccount={SYSTEM}:{LOADER}"
    installation.kubectl("create", "clusterrolebinding", LOADER, f"--clusterrole={LOADER}", subject)


def _equip(installation: Installation, account: str, certificate: Path) -> None:
    """A folder with the account's token for agents, their CA, and a kubeconfig."""
    create = ("create", "token", account, "--namespace", SYSTEM)
    folder = installation.folder / account
    folder.mkdir()
    (folder / "token").write_text(installation.kubectl(*create, f"--audience={TOKEN_AUDIENCE}"))
    (folder / "ca.crt").write_bytes(certificate.read_bytes())
    (folder / "kubeconfig").write_text(kubeconfig_of(installation.plane.url, installation.kubectl(*create)))


def _data_file(bucket: int, content: bytes) -> DataFile:
    path = f"data/part-1_{bucket:05d}.c000.zstd.parquet"
    digest = hashlib.sha256(content).hexdigest()
    return DataFile(path=path, bucket=bucket, rows=1, bytes=len(content), sha256=digest)
