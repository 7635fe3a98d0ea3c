"""A port of a pod through a port-forward: the connection is kept, made again, and its failures are distinguished."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kubernetes import client
from kubernetes.stream import ws_client

from colocation.cli import port_forward
from colocation.cli.port_forward import PodPort, PodUnreachable
from colocation.model.driver_output import chunk_path, new_token, token_digest
from colocation.spark.jobs.statement_result import ResultServer
from tests.support.certificates import self_signed

TOKEN = new_token()
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


class Forwards:
    """Stands in for the client's port-forward: connects to a server of this machine, and counts."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.made: list[socket.socket] = []

    def __call__(self, connection: object, namespace: str, pod: str, port: int) -> socket.socket:
        self.made.append(socket.create_connection(("127.0.0.1", self._port)))
        return self.made[-1]


def pod() -> PodPort:
    return PodPort(client.ApiClient(client.Configuration()), "shop", "sql-driver", 7080)


def test_the_connection_is_kept_and_made_again_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose connection broke fails; the next one has another."""
    with ResultServer(token_digest(TOKEN), port=0, hold_seconds=0.01) as server:
        forwards, port = Forwards(server.port), pod()
        monkeypatch.setattr(port_forward, "open_forward", forwards)
        assert [port.get(chunk_path(0), HEADERS) for _ in range(3)] == [(202, b"")] * 3
        assert len(forwards.made) == 1
        forwards.made[0].shutdown(socket.SHUT_RDWR)
        with pytest.raises(PodUnreachable):
            port.get(chunk_path(0), HEADERS)
        assert port.get(chunk_path(0), HEADERS) == (202, b"")
        assert port.get(chunk_path(0))[0] == 401
        assert len(forwards.made) == 2
        port.close()


@contextmanager
def api_server(folder: Path, answer: bytes) -> Iterator[PodPort]:
    """A pod's port behind an API server that gives one answer to every request."""
    certificate, key = self_signed(folder, "localhost", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        accepted, _ = listener.accept()
        with context.wrap_socket(accepted, server_side=True) as connection:
            connection.recv(65536)
            connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    configuration = client.Configuration(host=f"https://127.0.0.1:{listener.getsockname()[1]}")
    configuration.ssl_ca_cert = str(certificate)
    try:
        yield PodPort(client.ApiClient(configuration), "shop", "sql-driver", 7080)
    finally:
        thread.join()
        listener.close()


class Broken:
    """A websocket over TLS whose other end is gone without a farewell."""

    connected = True

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._theirs.close()

    def fileno(self) -> int:
        return self._ours.fileno()

    def recv_data_frame(self, control_frame: bool) -> None:
        raise ssl.SSLEOFError(8, "EOF occurred in violation of protocol")


def test_a_connection_that_ends_abruptly_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader sees its end at once; the client's own thread would print a traceback."""
    crashed: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: crashed.append(str(arguments.exc_value)))
    monkeypatch.setattr(ws_client, "create_websocket", lambda *arguments: Broken())
    with pytest.raises(PodUnreachable):
        pod().get("/")
    for thread in threading.enumerate():
        if thread.name.startswith("Kubernetes port forward"):
            thread.join(10)
    assert crashed == []


@pytest.mark.parametrize(("status", "forbidden"), [(403, True), (500, False), (404, False)])
def test_users_who_may_not_forward_learn_why(tmp_path: Path, status: int, forbidden: bool) -> None:
    """In the API server's words; waiting helps against everything else."""
    body = json.dumps({"kind": "Status", "message": "pods/portforward: no"})
    refusal = f"HTTP/1.1 {status} No\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    with (
        api_server(tmp_path, refusal.encode()) as port,
        pytest.raises(PodUnreachable, match=r"^pods/portforward: no$") as refused,
    ):
        port.get("/")
    assert refused.value.forbidden == forbidden


def test_ctrl_c_is_no_failure_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends."""

    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ws_client, "create_websocket", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pod().get("/")
