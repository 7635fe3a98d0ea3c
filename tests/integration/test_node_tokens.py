"""What one node sees is worth nothing on another: real tokens, a real API server, the real operator and agents.

The agent of a third node is a thief: it keeps the tokens that it is sent, as root on a node could.
"""

import json
import ssl
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from colocation.agentclient import AgentClient, AgentError, Credentials, Timeouts
from colocation.model.agent import DeletionProof, InventoryRequest
from colocation.model.credentials import claims_of
from colocation.model.names import AGENT_PORT, TOKEN_AUDIENCE
from tests.support.waiting import until

from .control_plane import ControlPlane
from .installation import SYSTEM, Installation, add_agent, installed

THIEF = "node-9"
TABLE = ("shop", "orders-0a1b2c3d")
PROOF = DeletionProof(instance="", not_after_seconds=1e9, term=1 << 40, table_uid="")
Call = Callable[[AgentClient], object]

OPERATORS_CALLS: dict[str, Call] = {
    "inventory": lambda agent: agent.inventory(InventoryRequest(term=1 << 40, session="thief", number=1)),
    "status": lambda agent: agent.status(),
    "manifests": lambda agent: agent.manifests(*TABLE),
    "drop": lambda agent: agent.drop_bucket(*TABLE, 0, ("0" * 64,), 0, PROOF),
    "collect": lambda agent: agent.collect(*TABLE, ("0" * 64,), 0, PROOF),
    "recycle": lambda agent: agent.recycle(*TABLE, 0, PROOF),
    "restore": lambda agent: agent.restore(*TABLE, "orders-ffffffff", 1 << 40),
}


@pytest.fixture(scope="module")
def installation(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Two nodes with agents; no operator yet."""
    with installed(plane, tmp_path_factory.mktemp("tokens"), nodes=2) as one:
        yield one


@pytest.fixture(scope="module")
def stolen(installation: Installation) -> Iterator[str]:
    """The token that the operator sends to the thief's agent."""
    address = installation.nodes["node-1"].rpartition(".")[0] + ".99"
    with thief(installation.folder / "tls.crt", installation.folder / "tls.key", address) as tokens:
        add_agent(installation, THIEF, address, shares_certificate=True)
        installation.start_operator()
        until(lambda: bool(tokens), 60)
        yield next(iter(tokens))


@contextmanager
def thief(certificate: Path, key: Path, address: str) -> Iterator[set[str]]:
    """An agent with this certificate that answers nothing of use and keeps the tokens."""
    tokens: set[str] = set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            tokens.add(self.headers["Authorization"].removeprefix("Bearer "))
            self.send_error(500)

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((address, AGENT_PORT), Handler)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield tokens
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def agent_with(installation: Installation, node: str, token: str) -> AgentClient:
    """A client of a node's agent with this token; one attempt."""
    folder = installation.folder / "stolen"
    folder.mkdir(exist_ok=True)
    (folder / "token").write_text(token)
    credentials = Credentials(folder / "token", installation.folder / "colocation-operator" / "ca.crt")
    return AgentClient(f"https://{installation.nodes[node]}:{AGENT_PORT}", credentials, Timeouts(5, 30, 0))


def test_the_operator_sends_each_agent_a_token_for_its_node(stolen: str) -> None:
    """Exactly that audience, for half a day."""
    claims = claims_of(stolen)
    assert claims is not None
    assert claims.audiences == {f"{TOKEN_AUDIENCE}/{THIEF}"}
    assert claims.issued_at is not None
    assert 11 * 3600 <= claims.expires_at - claims.issued_at <= 13 * 3600


@pytest.mark.parametrize("call", OPERATORS_CALLS.values(), ids=OPERATORS_CALLS.keys())
def test_a_stolen_token_is_refused_at_other_nodes(installation: Installation, stolen: str, call: Call) -> None:
    """For questions as for orders."""
    with agent_with(installation, "node-1", stolen) as agent, pytest.raises(AgentError) as caught:
        call(agent)
    assert (caught.value.status, caught.value.reason) == (401, "Unauthorized")


def test_a_stolen_token_is_refused_by_the_api_server(installation: Installation, stolen: str) -> None:
    """It is for an agent."""
    done = installation.plane.kubectl("get", "cg", "-A", "--token", stolen, "--kubeconfig", "/dev/null",
                                      "--server", installation.plane.url, "--insecure-skip-tls-verify")  # fmt: skip
    assert "Unauthorized" in done.stderr or "must be logged in" in done.stderr


@pytest.mark.parametrize("call", OPERATORS_CALLS.values(), ids=OPERATORS_CALLS.keys())
def test_the_operators_general_token_is_good_for_none_of_it(
    installation: Installation, stolen: str, call: Call
) -> None:
    """As the operator of the release before has: it gets the reason."""
    token = installation.credentials("colocation-operator").token()
    with agent_with(installation, "node-1", token) as agent, pytest.raises(AgentError) as caught:
        call(agent)
    assert (caught.value.status, caught.value.reason) == (403, "WrongAudience")
    assert f"{TOKEN_AUDIENCE}/node-1" in caught.value.message


def test_good_agents_go_on(installation: Installation, stolen: str) -> None:
    """The operator has an answer of each of the others, so their tokens are taken."""
    port = installation.operator_environment["COLOCATION_SNAPSHOT_PORT"]

    def known() -> set[str]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/snapshot", timeout=10) as answer:
            return {node["name"] for node in json.load(answer)["nodes"] if node["capacityBytes"]}

    until(lambda: known() == {"node-1", "node-2"})


def test_a_token_for_a_node_is_good_there(installation: Installation) -> None:
    """And of what the operator's account may do, as everywhere."""
    create = ("create", "token", "colocation-operator", "--namespace", SYSTEM)
    token = installation.kubectl(*create, f"--audience={TOKEN_AUDIENCE}/node-2")
    with agent_with(installation, "node-2", token) as agent:
        assert agent.status().node == "node-2"
        with pytest.raises(AgentError) as caught:
            agent.put_file(*TABLE, "data/part-1_00000.c000.zstd.parquet", b"")
    assert (caught.value.status, caught.value.reason) == (403, "Forbidden")
