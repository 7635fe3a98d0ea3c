"""A port of a pod through a port-forward: the connection is kept, made anew, and its failures are told apart."""

import socket
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from colocation.cli import pod_port
from colocation.cli.pod_port import PodPort, PodUnreachable
from colocation.model.result_stream import chunk_path, new_token, token_digest
from colocation.spark.jobs.result_server import ResultServer

TOKEN = new_token()
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


class Forwards:
    """Stands in for the client's port-forward: connects to a server of this machine, and counts."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.made: list[socket.socket] = []

    def __call__(self, connect: object, pod: str, namespace: str, ports: str) -> Any:
        self.made.append(socket.create_connection(("127.0.0.1", self._port)))
        return SimpleNamespace(socket=lambda number: self.made[-1])


def pod() -> PodPort:
    return PodPort(client.ApiClient(client.Configuration()), "shop", "sql-driver", 7080)


def test_the_connection_is_kept_and_made_anew_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose connection broke fails; the next one has another."""
    with ResultServer(token_digest(TOKEN), port=0, hold_seconds=0.01) as server:
        forwards, port = Forwards(server.port), pod()
        monkeypatch.setattr(pod_port, "portforward", forwards)
        assert [port.get(chunk_path(0), HEADERS) for _ in range(3)] == [(202, b"")] * 3
        assert len(forwards.made) == 1
        forwards.made[0].shutdown(socket.SHUT_RDWR)
        with pytest.raises(PodUnreachable):
            port.get(chunk_path(0), HEADERS)
        assert port.get(chunk_path(0), HEADERS) == (202, b"")
        assert port.get(chunk_path(0))[0] == 401
        assert len(forwards.made) == 2
        port.close()


class HandshakeRefused(Exception):
    """As the client's websocket raises it."""

    def __init__(self, status_code: int) -> None:
        super().__init__(f"Handshake status {status_code}")
        self.status_code = status_code


def failing(monkeypatch: pytest.MonkeyPatch, cause: BaseException, reason: str = "") -> None:
    """Every port-forward fails; the client hides the cause in an ApiException without a status."""

    def portforward(*arguments: object, **options: object) -> None:
        try:
            raise cause
        except BaseException:  # noqa: BLE001 - as the client does
            raise ApiException(status=0, reason=reason or str(cause))  # noqa: B904 - as the client does

    monkeypatch.setattr(pod_port, "portforward", portforward)


@pytest.mark.parametrize(("status", "forbidden"), [(403, True), (500, False), (404, False)])
def test_who_may_not_forward_is_told_so(monkeypatch: pytest.MonkeyPatch, status: int, forbidden: bool) -> None:
    """In the API server's words; waiting helps against everything else."""
    said = f'Handshake status {status} -+-+- {{}} -+-+- {{"message": "pods/portforward: no"}}'
    failing(monkeypatch, HandshakeRefused(status), said)
    with pytest.raises(PodUnreachable, match=r"^pods/portforward: no$") as refused:
        pod().get("/")
    assert refused.value.forbidden == forbidden


def test_ctrl_c_is_no_failure_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client would hide it, and the command would go on."""
    failing(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        pod().get("/")
