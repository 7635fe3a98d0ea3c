"""nginx, the agent's front: certificate, end, restart, and its logs."""

import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from colocation.agent.damage import FrontErrors
from colocation.agentclient import NotFound, Unreachable
from colocation.agentclient.calls import file_target
from colocation.common import tls
from colocation.model.agent import InventoryRequest
from colocation.model.names import AGENT_TLS_SERVER_NAME
from tests.support.waiting import until
from tests.unit.storage.tables import damage, data_path, make_table, on_disk

from .harness import ADMIN_TOKEN, AgentThread, FakeAuthorizer, Pki, make_pki
from .test_server import KUBECONFIG_TO_NOWHERE, get

CONTENT = b"content"
LARGE = bytes(range(256)) * (64 << 10)
TABLE = make_table({data_path(0): CONTENT})
LARGE_TARGET = file_target(*TABLE.path, data_path(1))
EIO_LINE = (
    '2026/11/22 10:00:00 [crit] 42#42: *7 pread() "/data/shop/orders-0a1b2c3d/data/x" failed (5: Input/output error) '
    'while sending response to client, client: 127.0.0.1, server: , request: "GET {target} HTTP/1.1", host: "agent"'
)


def children(process_id: int) -> list[int]:
    """The child processes of a process."""
    lists = Path(f"/proc/{process_id}/task").glob("*/children")
    return [int(child) for one in lists for child in one.read_text().split()]


def nginx_of(agent: AgentThread) -> int:
    """The process id of an agent's nginx."""
    return agent.running.front.process_id


def reading(agent: AgentThread) -> ssl.SSLSocket:
    """A connection whose client has requested a large file and reads little of it."""
    context = ssl.create_default_context(cafile=agent.pki.ca)
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(60)
    plain.connect(("127.0.0.1", agent.running.port))
    connection = context.wrap_socket(plain, server_hostname=AGENT_TLS_SERVER_NAME)
    connection.sendall(
        f"GET {LARGE_TARGET} HTTP/1.1\r\nHost: agent\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n\r\n".encode()
    )
    until(lambda: len(agent.running.node.reads) == 1)
    return connection


def test_new_connections_get_a_renewed_certificate(tmp_path: Path, pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    """The front loads the files once the agent notices the change, and keeps serving."""
    monkeypatch.setattr(tls, "CHECK_SECONDS", 0.05)
    own = Pki(*(Path(shutil.copy(path, tmp_path / path.name)) for path in (pki.ca, pki.certificate, pki.key)))
    agent = AgentThread(tmp_path / "root", own, FakeAuthorizer()).start()
    renewed = make_pki(tmp_path / "renewed")
    try:
        for name in ("tls.key", "tls.crt"):
            (tmp_path / "renewed" / name).rename(tmp_path / name)

        def accepted() -> bool:
            with agent.client(ca=renewed.ca) as client:
                try:
                    return client.status().node == "node-1"
                except Unreachable as error:
                    assert "CERTIFICATE_VERIFY_FAILED" in str(error)
                    return False

        assert until(accepted)
    finally:
        agent.stop()


def test_a_stop_finishes_reads(tmp_path: Path, pki: Pki) -> None:
    """After SIGTERM a file is sent to its end, and new readers are refused."""
    agent = AgentThread(tmp_path / "root", pki, FakeAuthorizer()).start(shutdown_seconds=60.0)
    with agent.client() as client:
        client.put_file(*TABLE.path, data_path(1), LARGE)
        with reading(agent) as connection:
            stop = threading.Thread(target=agent.stop)
            stop.start()
            until(lambda: get(f"{agent.health_url}/readyz") == (503, "stopping\n"))
            away = until(lambda: (answer := agent.raw_request("GET", LARGE_TARGET)).status == 503 and answer)
            assert (away.reason, away.headers["Retry-After"]) == ("Stopping", "2")
            answer = http.client.HTTPResponse(connection, method="GET")
            answer.begin()
            assert hashlib.sha256(answer.read()).digest() == hashlib.sha256(LARGE).digest()
            stop.join(60)
            assert not stop.is_alive()


def test_a_killed_worker_is_replaced(agent: AgentThread) -> None:
    """Its transfers are not counted for ever, and other requests are served."""
    with agent.client() as client:
        client.put_file(*TABLE.path, data_path(0), CONTENT)
        client.put_file(*TABLE.path, data_path(1), LARGE)
        with reading(agent):
            for worker in children(nginx_of(agent)):
                os.kill(worker, signal.SIGKILL)
            until(lambda: not agent.running.node.reads)
        assert client.status().active_transfers == 0
    with agent.client() as client:
        assert client.get_file(*TABLE.path, data_path(0)).read() == CONTENT


def listening_at(port: int) -> str:
    """The socket that listens at a port of 127.0.0.1, as a descriptor's link names it."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    [inode] = [line[9] for line in lines if line[1] == f"0100007F:{port:04X}" and line[3] == "0A"]
    return f"socket:[{inode}]"


def test_no_worker_waits_for_a_connection(agent: AgentThread) -> None:
    """The sockets that the agent passes on do not block: a worker continues if another accepts first.

    Workers share them with the master process.
    """
    expected = {listening_at(port) for port in (agent.running.port, agent.running.health_port)}
    process = Path(f"/proc/{nginx_of(agent)}")
    opened = {one.resolve().name: one.name for one in (process / "fd").iterdir()}
    handed_over = {name: descriptor for name, descriptor in opened.items() if name in expected}
    assert handed_over.keys() == expected
    for descriptor in handed_over.values():
        [flags] = re.findall(r"^flags:\s+(\d+)", (process / "fdinfo" / descriptor).read_text(), re.MULTILINE)
        assert int(flags, 8) & os.O_NONBLOCK


def test_the_agent_ends_with_its_front(tmp_path: Path, pki: Pki) -> None:
    """A restart starts both again, and a killed agent leaves no nginx behind."""
    (tmp_path / "root").mkdir()
    (tmp_path / "kubeconfig").write_text(json.dumps(KUBECONFIG_TO_NOWHERE))
    command = [
        sys.executable, "-m", "colocation.agent", "--host=127.0.0.1", "--port=0", "--health-port=0", "--node-name=n",
        f"--data-root={tmp_path / 'root'}", f"--tls-certificate={pki.certificate}", f"--tls-key={pki.key}",
    ]  # fmt: skip
    for killed in ("nginx", "agent"):
        environment = os.environ | {"KUBECONFIG": str(tmp_path / "kubeconfig")}
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
            next(line for line in process.stderr if "health on" in line)
            (nginx,) = children(process.pid)
            os.kill(nginx if killed == "nginx" else process.pid, signal.SIGKILL)
            errors = process.stderr.read()
        assert process.returncode == (1 if killed == "nginx" else -signal.SIGKILL)
        assert ("nginx ended unexpectedly" in errors) == (killed == "nginx")
        until(lambda nginx=nginx: not Path(f"/proc/{nginx}").exists())


def test_a_failed_read_of_the_front_is_checked(agent: AgentThread) -> None:
    """EIO while nginx reads a file: the agent reads it itself, and no longer serves a damaged one."""
    bad, good = data_path(0, load="7"), data_path(1, load="7")
    table = make_table({bad: b"content", good: b"good"})
    with agent.client() as client:
        for path, content in table.contents.items():
            client.put_file(*table.path, path, content)
        client.put_manifest(*table.path, table.stored, table.manifest)
        client.inventory(InventoryRequest(session="s", number=1, changed=(table.asked,)))
        damage(on_disk(agent.settings.data_root, table.path, bad))
        errors = FrontErrors(agent.running.node.reads, agent.running.damage)
        lines = [EIO_LINE.format(target=file_target(*table.path, path)) for path in (bad, good)]
        lines += ["nonsense", EIO_LINE.format(target="/v1/files/../../x")]
        agent.call_soon(errors.take_lines, lines)

        def is_refused() -> bool:
            try:
                client.get_file(*table.path, bad).read()
            except NotFound:
                return True
            return False

        assert until(is_refused)
        assert client.get_file(*table.path, good).read() == b"good"


@pytest.mark.parametrize(
    ("raw", "status", "reason"),
    [
        pytest.param(b"nonsense\r\n\r\n", 400, "InvalidRequest", id="no HTTP"),
        pytest.param(b"GET /v1/status HTTP/1.1\r\n\r\n", 400, "InvalidRequest", id="no Host"),
        pytest.param(b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: agent\r\n\r\n", 414, "RequestTooLarge", id="line"),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: agent\r\nX: " + b"x" * 40_000 + b"\r\n\r\n", 431, "RequestTooLarge", id="header"
        ),
        pytest.param(b"GET /disk/shop HTTP/1.1\r\nHost: agent\r\n\r\n", 404, "NotFound", id="the front's own names"),
        pytest.param(b"GET /error/400 HTTP/1.1\r\nHost: agent\r\n\r\n", 404, "NotFound", id="its error pages"),
    ],
)
def test_the_fronts_own_errors_have_the_agents_form(
    agent: AgentThread, raw: bytes, status: int, reason: str
) -> None:
    """JSON with a reason and a message, for requests that never reach the agent."""
    context = ssl.create_default_context(cafile=agent.pki.ca)
    with (
        socket.create_connection(("127.0.0.1", agent.running.port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname=AGENT_TLS_SERVER_NAME) as connection,
    ):
        connection.sendall(raw)
        response = http.client.HTTPResponse(connection)
        response.begin()
        assert (response.status, json.loads(response.read())["error"]) == (status, reason)
