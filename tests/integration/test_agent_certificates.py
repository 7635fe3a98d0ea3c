"""An agent asks, the operator signs, clients insist on the node: real tokens, API server and processes."""

import base64
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack

import pytest
from cryptography import x509

from colocation.agent.node_certificate import CERTIFICATE_FILE, new_request
from colocation.agentclient import AgentError, NotFound, Timeouts, Unreachable
from colocation.model.credentials import USAGES
from colocation.model.names import (
    AGENT_ACCOUNT,
    AGENT_PORT,
    AGENT_SIGNER_NAME,
    AGENT_TLS_SERVER_NAME,
    agent_certificate_name,
)
from tests.support.agent_caller import AgentCaller
from tests.support.certificate_authority import make_authority
from tests.support.waiting import until

from .control_plane import ControlPlane, kubeconfig_of
from .installation import CHART_ACCOUNTS, LOADER, SYSTEM, Installation, add_agent, installed, running_agent_of
from .objects import as_json
from .rights import refused, unused
from .test_node_tokens import thief

FILE = ("shop", "nothing-00000000", "data/part-1_00000.c000.zstd.parquet")


@pytest.fixture(scope="module")
def installation(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Two nodes with agents that have their certificates from the operator."""
    with installed(plane, tmp_path_factory.mktemp("certificates"), nodes=2) as one:
        one.start_operator()
        for node in one.nodes:
            until(lambda node=node: is_own(one, node))
        yield one


def served(installation: Installation, node: str, name: str) -> x509.Certificate:
    """What the node's agent shows to a client that asks for this name."""
    context = ssl.create_default_context(cafile=installation.folder / LOADER / "ca.crt")
    with (
        socket.create_connection((installation.nodes[node], AGENT_PORT), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=name) as connection,
    ):
        content = connection.getpeercert(binary_form=True)
    assert content is not None
    return x509.load_der_x509_certificate(content)


def is_own(installation: Installation, node: str) -> bool:
    """Whether the agent has a certificate of its node that clients trust."""
    try:
        served(installation, node, agent_certificate_name(node))
    except OSError:
        return False
    return True


def client(installation: Installation, address_of: str, node: str, account: str = LOADER) -> AgentCaller:
    """A client that means one node's agent, at the address of another one's; one attempt."""
    url = f"https://{installation.nodes[address_of]}:{AGENT_PORT}"
    return AgentCaller(url, installation.credentials(account), Timeouts(5, 10, 0), node=node)


def requests_of(installation: Installation, node: str) -> list[dict[str, object]]:
    """The node's requests so far."""
    key = "authentication.kubernetes.io/pod-name"
    items = installation.read("csr")["items"]
    return [one for one in items if one["spec"].get("extra", {}).get(key) == [f"agent-{node}"]]


def test_each_agent_has_a_certificate_of_its_node(installation: Installation) -> None:
    """Another key each, signed by the operator's CA; old clients get the shared one."""
    first, second = (served(installation, node, agent_certificate_name(node)) for node in installation.nodes)
    assert first.public_key() != second.public_key()
    authority = x509.load_pem_x509_certificate((installation.folder / "authority" / "tls.crt").read_bytes())
    first.verify_directly_issued_by(authority)
    shared = x509.load_pem_x509_certificate((installation.folder / "tls.crt").read_bytes())
    assert served(installation, "node-1", AGENT_TLS_SERVER_NAME) == shared


@pytest.mark.parametrize("account", [LOADER, "colocation-clone"])
def test_clients_take_no_other_nodes_agent(installation: Installation, account: str) -> None:
    """Loaders and clones dial an address, and send their token to that node's agent only."""
    with client(installation, "node-1", "node-2", account) as wrong, pytest.raises(Unreachable, match="node-2"):
        wrong.head_file(*FILE)
    with client(installation, "node-1", "node-1", account) as right, pytest.raises(AgentError) as caught:
        right.head_file(*FILE)
    assert caught.value.status in (403, 404)


def test_the_operator_talks_with_agents_by_their_own_certificates(installation: Installation) -> None:
    """The nodes' disks are known, so their agents have answered."""
    until(lambda: installation.answered_nodes() == set(installation.nodes))


def test_the_operator_takes_no_other_nodes_agent(installation: Installation) -> None:
    """Root on node-2 has taken over the address of node-1, and answers there with all that its own agent has."""
    stolen, address = installation.data_root("node-2") / CERTIFICATE_FILE, installation.nodes["node-1"]

    def move_to(address: str) -> None:
        status = as_json({"status": {"podIP": address, "podIPs": [{"ip": address}]}})
        command = ("patch", "pod", "agent-node-1", "-n", SYSTEM, "--subresource=status", "--type=merge", "-p", status)
        installation.kubectl(*command)

    elsewhere = address.rpartition(".")[0] + ".99"
    with thief(stolen, stolen, elsewhere) as tokens:
        move_to(elsewhere)
        until(lambda: "node-1" not in installation.answered_nodes(), 90)
        assert tokens == set()
    move_to(address)
    until(lambda: "node-1" in installation.answered_nodes(), 90)


def ask_as(installation: Installation, token: str, asked_node: str, signer: str = AGENT_SIGNER_NAME) -> str:
    """A request with this token for this node's names; its name."""
    asked = new_request(asked_node)
    kubeconfig = installation.folder / "forger.kubeconfig"
    kubeconfig.write_text(kubeconfig_of(installation.plane.url, token))
    labels = {"app.kubernetes.io/name": "colocation-operator", "app.kubernetes.io/component": "agent"}
    body = {
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": asked.name, "labels": labels},
        "spec": {
            "request": base64.b64encode(asked.request).decode(), "signerName": signer, "usages": list(USAGES),
            "expirationSeconds": 3600,
        },
    }  # fmt: skip
    plane = ControlPlane(installation.plane.url, kubeconfig, installation.plane.audit_log)
    done = plane.kubectl("create", "-f", "-", stdin=as_json(body))
    assert done.returncode == 0, done.stderr
    return asked.name


def conditions(installation: Installation, name: str) -> list[tuple[str, str]]:
    found = installation.read("csr", name).get("status", {}).get("conditions", [])
    return [(one["type"], one["reason"]) for one in found]


def test_an_agent_gets_no_other_nodes_certificate(installation: Installation) -> None:
    """Root on node-1 has its agent's token, and asks for node-2 with it: denied, and in the log."""
    create = ("create", "token", AGENT_ACCOUNT, "--namespace", SYSTEM)
    token = installation.kubectl(*create, "--bound-object-kind=Pod", "--bound-object-name=agent-node-1").strip()
    name = ask_as(installation, token, "node-2")
    until(lambda: conditions(installation, name))
    assert conditions(installation, name) == [("Denied", "CertificateRefused")]
    said = f"event=CertificateRefused request={name}"  # after the API server has answered
    until(lambda: said in installation.operator_log.read_text())


def test_no_one_else_gets_an_agents_certificate(installation: Installation) -> None:
    """A token that is bound to no pod, and an administrator."""
    unbound = installation.kubectl("create", "token", AGENT_ACCOUNT, "--namespace", SYSTEM).strip()
    names = [ask_as(installation, unbound, "node-1"), ask_as(installation, "integration-tests-administrator", "node-1")]
    for name in names:
        until(lambda name=name: conditions(installation, name))
        assert conditions(installation, name) == [("Denied", "CertificateRefused")]


def test_an_agent_comes_back_without_the_operator(installation: Installation) -> None:
    """And without asking anybody: the certificate is on its node's disk."""
    with ExitStack() as stack:
        add_third(installation)
        before = stack.enter_context(third(installation))
        until(lambda: is_own(installation, "node-3"))
        certificate = served(installation, "node-3", agent_certificate_name("node-3"))
        until(lambda: (installation.data_root("node-3") / CERTIFICATE_FILE).exists())
        before.kill()
        before.wait()
    installation.stop_operator()
    try:
        with third(installation):
            assert served(installation, "node-3", agent_certificate_name("node-3")) == certificate
            assert len(requests_of(installation, "node-3")) == 1
    finally:
        installation.start_operator()


@pytest.mark.deep
def test_a_renewal_cuts_no_connection(installation: Installation) -> None:
    """The CA is another one from now on: the agent asks again, and takes the answer up while it serves."""
    folder, name = installation.folder, agent_certificate_name("node-3")
    with third(installation) as process:
        first = served(installation, "node-3", name)
        context = ssl.create_default_context(cafile=folder / "ca.crt")
        with (
            socket.create_connection((installation.nodes["node-3"], AGENT_PORT), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname=name) as connection,
        ):
            connection.sendall(b"GET /v1/status HTTP/1.1\r\nHost: agent\r\nContent-Length: 2\r\n\r\n{")
            replace_authority(installation)
            with client(installation, "node-3", "node-3") as agent:
                until(lambda: has_answer(agent) and served(installation, "node-3", name) != first, 60)
            connection.sendall(b"}")
            assert connection.recv(9) == b"HTTP/1.1 "
        assert process.poll() is None
    second = served_from_disk(installation)
    second.verify_directly_issued_by(x509.load_pem_x509_certificate((folder / "authority" / "tls.crt").read_bytes()))


def has_answer(agent: AgentCaller) -> bool:
    """Requests go on all the time: the agent reports each time that there is no such file."""
    with pytest.raises(NotFound):
        agent.head_file(*FILE)
    return True


def replace_authority(installation: Installation) -> None:
    """Clients trust the old and the new CA; agents get the new one only, so that they ask again."""
    folder = installation.folder
    old = (folder / "ca.crt").read_bytes()
    new = make_authority(folder / "authority", "renewed").read_bytes()
    for account in (*CHART_ACCOUNTS, LOADER):
        (folder / account / "ca.crt").write_bytes(old + new)
    (folder / "ca.crt").write_bytes(new + (folder / "tls.crt").read_bytes())


def served_from_disk(installation: Installation) -> x509.Certificate:
    content = (installation.data_root("node-3") / CERTIFICATE_FILE).read_bytes()
    return x509.load_pem_x509_certificate(content)


@pytest.mark.parametrize("account", ["colocation-operator", AGENT_ACCOUNT])
def test_the_rights_for_certificates_were_used(installation: Installation, account: str) -> None:
    """All that the chart grants, and nothing more was asked for."""
    log = installation.plane.audit_log
    assert {right for right in unused(log, account) if right[1] == "certificates.k8s.io"} == set()
    assert refused(log, account) == set()


def add_third(installation: Installation) -> None:
    """One node more, which the tests restart at will."""
    address = installation.nodes["node-1"].rpartition(".")[0] + ".3"
    installation.nodes["node-3"] = address
    add_agent(installation, "node-3", address)


def third(installation: Installation) -> AbstractContextManager["subprocess.Popen[bytes]"]:
    """The agent of that node."""
    folder = installation.folder
    return running_agent_of(installation, "node-3", folder / "tls.crt", folder / "tls.key")
