"""A bare control plane for tests: etcd and kube-apiserver on loopback with free ports, ended by process id.

No controllers run: what a test reads is what the API server itself decided.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from devcluster import binaries
from tests.support.ports import free_ports

CRDS = Path(__file__).parents[2] / "crds"
START_DEADLINE_SECONDS = 300.0
KUBECTL_DEADLINE_SECONDS = 120
WATCH_SECONDS = 7200
TOKEN = "integration-tests-administrator"
MERGE_PATCH = "application/merge-patch+json"
AUDIT_LOG = "audit.log"
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Request
    userGroups: ["system:serviceaccounts:colocation-system"]
    resources: [{group: authorization.k8s.io, resources: [subjectaccessreviews]}]
  - {level: Metadata, userGroups: ["system:serviceaccounts:colocation-system"]}
  - level: None
"""


urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # nor do tests' kubeconfigs verify
_AUTHORIZATION = {"Authorization": f"Bearer {TOKEN}"}
_POOL = urllib3.PoolManager(cert_reqs="CERT_NONE", maxsize=4)
_OURS = "/apis/colocation.dev/v1alpha1"
API_PATHS = {
    "pods": ("/api/v1", "pods"),
    "cg": (_OURS, "colocationgroups"), "ct": (_OURS, "colocatedtables"), "jobs": ("/apis/batch/v1", "jobs"),
    "configmaps": ("/api/v1", "configmaps"), "nodes": ("/api/v1", "nodes"), "pv": ("/api/v1", "persistentvolumes"),
    "pvc": ("/api/v1", "persistentvolumeclaims"),
    "csr": ("/apis/certificates.k8s.io/v1", "certificatesigningrequests"),
}  # fmt: skip
"""Kinds that tests read again and again: the API and the name in its paths."""


class ControlPlaneError(Exception):
    """A program of the control plane died or did not get ready; the message holds the end of its log."""


class NoSuchObject(Exception):
    """The API server has nothing at a path."""


class Conflict(Exception):
    """An object was changed since it was read."""


@dataclass(frozen=True)
class ControlPlane:
    """A running API server: its address, a kubeconfig of an administrator, and kubectl.

    ``audit_log``: what ServiceAccounts of our own namespace have asked it for; one JSON event per line.
    ``etcd_url``: for benchmarks that put objects there in bulk.
    """

    url: str
    kubeconfig: Path
    audit_log: Path
    etcd_url: str = ""

    def kubectl(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl; the caller looks at the exit code."""
        command = [str(binaries.KUBERNETES.program("kubectl")), "--kubeconfig", str(self.kubeconfig), *arguments]
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=KUBECTL_DEADLINE_SECONDS
        )

    def get(self, path: str) -> dict[str, Any]:
        """What the API server shows its administrator at a path; for tests that ask often: a kubectl costs far more.

        Raises:
            NoSuchObject: there is none.
        """
        return self._request("GET", path)

    def watch(self, path: str) -> urllib3.BaseHTTPResponse:
        """A stream of events, one a line: first of each object of a list that is there, then of each change.

        Another thread ends it by ``shutdown``.
        """
        url = f"{self.url}{path}?watch=true&timeoutSeconds={WATCH_SECONDS}"
        answer = _POOL.request("GET", url, headers=_AUTHORIZATION, preload_content=False, timeout=WATCH_SECONDS)
        assert answer.status == 200, f"watch {path}: {answer.status} {answer.data.decode()}"
        return answer

    def is_ready(self) -> bool:
        """Whether the API server answers, and is ready."""
        try:
            found = _POOL.request("GET", f"{self.url}/readyz", headers=_AUTHORIZATION, retries=False, timeout=10)
            return found.status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def patch_status(self, path: str, status: dict[str, Any], version: str = "") -> None:
        """Merge it into the status of the object at a path; ``version``: while the object has this resourceVersion.

        Raises:
            NoSuchObject: there is none.
            Conflict: it has another resourceVersion.
        """
        metadata = {"metadata": {"resourceVersion": version}} if version else {}
        self._request("PATCH", f"{path}/status", json.dumps({**metadata, "status": status}).encode())

    def _request(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        headers = {**_AUTHORIZATION, "Accept": "application/json", "Content-Type": MERGE_PATCH}
        url = f"{self.url}{path}"
        answer = _POOL.request(method, url, body=body, headers=headers, timeout=KUBECTL_DEADLINE_SECONDS)
        if answer.status == 404:
            raise NoSuchObject(path)
        if answer.status == 409:
            raise Conflict(path)
        assert answer.status == 200, f"{method} {path}: {answer.status} {answer.data.decode()}"
        found: dict[str, Any] = json.loads(answer.data)
        return found

    def serve_crds(self) -> None:
        """Install our kinds; they are served when this returns."""
        for command in (("apply", "--server-side"), ("wait", "--for=condition=Established", "--timeout=90s")):
            done = self.kubectl(*command, "-f", str(CRDS))
            assert done.returncode == 0, done.stderr


def path_of(kind: str, name: str = "", namespace: str = "") -> str:
    """Of an object, or of a list when it has no name; no namespace: of the cluster."""
    api, plural = API_PATHS[kind]
    return "/".join(filter(None, [f"{api}/namespaces/{namespace}" if namespace else api, plural, name]))


@contextmanager
def running_control_plane(*apiserver_flags: str) -> Iterator[ControlPlane]:
    """Start etcd and kube-apiserver (with more flags), yield them ready, end both and remove their files.

    Raises:
        ControlPlaneError: one of them does not start.
    """
    binaries.ensure((binaries.ETCD, binaries.KUBERNETES))
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="colocation-integration-"))
        stack.callback(shutil.rmtree, folder)
        etcd_port, peer_port, api_port = free_ports(3)
        etcd = [
            str(binaries.ETCD.program("etcd")), f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync",
            f"--listen-client-urls=http://127.0.0.1:{etcd_port}", f"--advertise-client-urls=http://127.0.0.1:{etcd_port}",
            f"--listen-peer-urls=http://127.0.0.1:{peer_port}", "--log-level=warn",
        ]
        stack.enter_context(_process(etcd, folder / "etcd.log"))
        apiserver_log = folder / "kube-apiserver.log"
        command = [*_apiserver_command(folder, etcd_port, api_port), *apiserver_flags]
        apiserver = stack.enter_context(_process(command, apiserver_log))
        url = f"https://127.0.0.1:{api_port}"
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(kubeconfig_of(url, TOKEN))
        plane = ControlPlane(url, kubeconfig, folder / AUDIT_LOG, f"http://127.0.0.1:{etcd_port}")
        _wait_ready(plane, apiserver, apiserver_log)
        yield plane


@contextmanager
def running_plane() -> Iterator[ControlPlane]:
    """A control plane that serves our kinds."""
    with running_control_plane() as plane:
        plane.serve_crds()
        yield plane


def dying_with_us(command: list[str]) -> list[str]:
    """The command, killed by the kernel when the test run is killed: nothing may be left behind."""
    return ["setpriv", "--pdeathsig", "KILL", *command]


@contextmanager
def _process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as stream:
        environment = {**os.environ, "HOME": str(log.parent)}
        process = subprocess.Popen(dying_with_us(command), stdout=stream, stderr=stream, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _apiserver_command(folder: Path, etcd_port: int, port: int) -> list[str]:
    private, public = folder / "service-account.key", folder / "service-account.pub"
    key = ec.generate_private_key(ec.SECP256R1())
    private.write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    policy = folder / "audit-policy.yaml"
    policy.write_text(AUDIT_POLICY)
    tokens = folder / "tokens.csv"
    tokens.write_text(f'{TOKEN},admin,admin,"system:masters"\n')
    return [
        str(binaries.KUBERNETES.program("kube-apiserver")), f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={port}",
        f"--cert-dir={folder / 'certificates'}", f"--token-auth-file={tokens}", "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={private}", f"--service-account-key-file={public}",
        "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none",
        f"--audit-policy-file={policy}", f"--audit-log-path={folder / AUDIT_LOG}", "--audit-log-mode=blocking",
    ]  # fmt: skip


def kubeconfig_of(url: str, token: str) -> str:
    """The text of a kubeconfig for anyone who has this token."""
    return f"""\
apiVersion: v1
kind: Config
current-context: integration
clusters: [{{name: integration, cluster: {{server: "{url}", insecure-skip-tls-verify: true}}}}]
users: [{{name: integration, user: {{token: {token}}}}}]
contexts: [{{name: integration, context: {{cluster: integration, user: integration}}}}]
"""


def _wait_ready(plane: ControlPlane, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_DEADLINE_SECONDS
    while not plane.is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise ControlPlaneError(f"kube-apiserver is not ready:\n{log.read_text()[-2000:]}")
        _wait(process, 0.1)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Give the process time, but return at once when it dies."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return
