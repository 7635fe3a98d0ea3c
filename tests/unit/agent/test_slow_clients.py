"""Slow and hostile clients are bounded, and delay no other client."""

import contextlib
import hashlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from colocation.agent import file_requests, http_messages
from colocation.agent import front_configuration as front
from colocation.agent.front_configuration import FrontConfiguration, ServedCertificate
from colocation.agent.quotas import Turns, UploadRoom
from colocation.agentclient import AgentError
from colocation.agentclient.calls import file_target
from colocation.model.file_transfer import content_digest
from colocation.model.names import AGENT_TLS_SERVER_NAME
from colocation.storage.root import Disk
from colocation.storage.table_inventory import TableInventory
from tests.support.waiting import until
from tests.unit.storage.tables import data_path, make_table, on_disk

from .harness import SHOP_LOADER_TOKEN, AgentThread, FakeAuthorizer, Pki

SLOW_CLIENTS = 200
CONTENT = b"content"
LARGE = bytes(16 << 20)
TABLE = make_table({data_path(0): CONTENT})
TARGET = file_target(*TABLE.path, data_path(0))
LARGE_TARGET = file_target(*TABLE.path, data_path(1))
UPLOAD_TARGET = file_target(*TABLE.path, data_path(2))
VERIFY_TARGET = "/v1/tables/shop/orders-0a1b2c3d/verify"
AUTHORIZATION = f"Authorization: Bearer {SHOP_LOADER_TOKEN}\r\n"
UPLOAD_HEAD = (
    f"PUT {UPLOAD_TARGET} HTTP/1.1\r\nHost: agent\r\n{AUTHORIZATION}Content-Digest: {content_digest('0' * 64)}\r\n"
)


@contextlib.contextmanager
def connected(
    agent: AgentThread, count: int, sent: str, receive_bytes: int | None = None
) -> Iterator[list[ssl.SSLSocket]]:
    """Open so many connections, each with the begin of a request, that send nothing more and do not read."""
    context = ssl.create_default_context(cafile=agent.pki.ca)
    assert agent.running is not None
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(count):
            plain = socket.socket()
            if receive_bytes is not None:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            plain.settimeout(60)
            plain.connect(("127.0.0.1", agent.running.port))
            connection = stack.enter_context(context.wrap_socket(plain, server_hostname=AGENT_TLS_SERVER_NAME))
            connection.sendall(sent.encode())
            connections.append(connection)
        yield connections


def status_and_reason(connection: ssl.SSLSocket) -> tuple[int, str]:
    """Status and reason of the answer."""
    answer = b""
    while b"\r\n\r\n" not in answer or not answer.rstrip().endswith(b"}"):
        piece = connection.recv(65536)
        if not piece:
            break
        answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]


SLOW = [
    pytest.param(f"GET {TARGET} HTTP/1.1\r\nHost: agent\r\n", id="headers"),
    pytest.param(f"{UPLOAD_HEAD}Content-Length: 1000000\r\n\r\nabc", id="uploads"),
    pytest.param(
        f"POST {VERIFY_TARGET} HTTP/1.1\r\nHost: agent\r\n{AUTHORIZATION}Content-Length: 1000\r\n\r\n{{",
        id="JSON bodies",
    ),
    pytest.param(f"GET {LARGE_TARGET} HTTP/1.1\r\nHost: agent\r\n{AUTHORIZATION}\r\n", id="readers"),
    pytest.param("", id="no byte"),
]


@pytest.mark.parametrize("sent", SLOW)
def test_others_are_served_while_slow_ones_hang(agent: AgentThread, sent: str) -> None:
    """200 clients of one account stop in the middle; others' reads, uploads and questions are answered."""
    with agent.client() as client:
        client.put_file(*TABLE.path, data_path(0), CONTENT)
        client.put_file(*TABLE.path, data_path(1), LARGE)
        with connected(agent, SLOW_CLIENTS, sent, receive_bytes=4096):
            for number in range(20):
                assert client.get_file(*TABLE.path, data_path(0)).read() == CONTENT
                assert client.put_file(*TABLE.path, data_path(0, load=f"again{number}"), CONTENT).bytes == len(CONTENT)
                assert client.status().node == "node-1"


def test_uploads_are_limited_per_namespace(agent: AgentThread) -> None:
    """Many accounts of a tenant use up their namespace's turns; uploads to others continue."""
    running = agent.running
    assert running is not None
    running.node.uploads_to_namespace = Turns("uploads", 2, 0, 20.0)
    sent = f"{UPLOAD_HEAD}Content-Length: 1000000\r\n\r\nabc"
    with connected(agent, 2, sent), agent.client() as client:
        until(lambda: running.node.active_transfers == 2)
        with pytest.raises(AgentError, match="429 Busy: namespace shop has 2 uploads under way here"):
            client.put_file(*TABLE.path, data_path(0), CONTENT)
        client.put_file("lake", "orders-0a1b2c3d", data_path(0), CONTENT)


def test_a_refused_upload_leaves_its_connection_usable(agent: AgentThread) -> None:
    """The agent refuses a wrong digest by the headers, before the body is there; the next upload is answered."""
    length = f"Content-Length: {len(CONTENT)}\r\n\r\n"
    wrong = UPLOAD_HEAD.replace("sha-256", "md5") + length
    with connected(agent, 1, wrong) as (connection,):
        threading.Event().wait(0.3)
        connection.sendall(CONTENT)
        assert status_and_reason(connection) == (400, "InvalidDigest")
        connection.sendall(wrong.encode() + CONTENT)
        assert status_and_reason(connection) == (400, "InvalidDigest")


def test_slow_headers_are_cut_off(tmp_path: Path, pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends its headers byte by byte is disconnected."""
    monkeypatch.setattr(front, "HEADER_SECONDS", 1)
    agent = AgentThread(tmp_path / "root", pki, FakeAuthorizer()).start()
    try:
        with (
            connected(agent, 1, f"GET {TARGET} HTTP/1.1\r\nHost: agent\r\n") as (connection,),
            contextlib.suppress(ConnectionResetError),
        ):
            while connection.recv(1000):
                pass
    finally:
        agent.stop()


@pytest.mark.parametrize("pause_seconds", [pytest.param(None, id="silent"), pytest.param(0.02, id="a byte at a time")])
def test_silent_and_slow_uploads_lose_their_room(
    agent: AgentThread, monkeypatch: pytest.MonkeyPatch, pause_seconds: float | None
) -> None:
    """A client that announces much and sends little or nothing is refused, and the room is free again."""
    monkeypatch.setattr(file_requests, "UPLOAD_IDLE_SECONDS", 0.5)
    sent = f"{UPLOAD_HEAD}Content-Length: 1000000\r\n\r\n"
    kept = agent.running.node.room.kept
    with connected(agent, 1, sent) as (connection,):
        until(lambda: kept.total() == 1_000_000)
        if pause_seconds is not None:
            ends = time.monotonic() + 1.0
            while time.monotonic() < ends:
                connection.sendall(b"x")
                threading.Event().wait(pause_seconds)
        expected = "UploadIdle" if pause_seconds is None else "UploadSlow"
        assert status_and_reason(connection) == (408, expected)
    until(lambda: kept.total() == 0)


def test_a_namespace_reserves_no_more_than_its_share(agent: AgentThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """Announced uploads to one namespace leave room for the others; bytes that have arrived count only on the disk."""
    reserve = UploadRoom("node-1", agent.running.node.root, 0.0)
    monkeypatch.setattr(agent.running.node.root, "disk", lambda: Disk(1000, 100))
    with reserve.keep("hostile", 40) as first:
        with pytest.raises(Exception, match="send them one after the other"), reserve.keep("hostile", 11):
            pass
        with reserve.keep("hostile", 10), reserve.keep("other", 50):
            assert reserve.kept.total() == 100
        first.arrived(30)
        assert reserve.kept == {"hostile": 10}
    assert not reserve.kept


def test_one_deep_verification_at_a_time(agent: AgentThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some wait, more are refused; loads' verifications and reads continue."""
    running, most, ends = 0, 0, threading.Event()
    original = TableInventory.verify

    def slow(self: TableInventory, manifest: str, deep: bool) -> object:
        nonlocal running, most
        if deep:
            running += 1
            most = max(most, running)
            assert ends.wait(60)
            running -= 1
        return original(self, manifest, deep)

    monkeypatch.setattr(TableInventory, "verify", slow)
    with agent.client() as client, ThreadPoolExecutor(20) as callers:
        client.put_file(*TABLE.path, data_path(0), CONTENT)
        client.put_manifest(*TABLE.path, TABLE.stored, TABLE.manifest)
        deep = [callers.submit(client.verify, *TABLE.path, TABLE.manifest, True) for _ in range(20)]
        try:
            until(lambda: sum(one.done() for one in deep) == 15)
            assert client.verify(*TABLE.path, TABLE.manifest).buckets[0].state == "complete"
        finally:
            ends.set()
        errors = [one.exception(60) for one in deep]
    assert [error.status for error in errors if isinstance(error, AgentError)] == [429] * 15
    assert most == 1


@pytest.mark.parametrize(
    ("target", "limit"),
    [
        pytest.param("/v1/inventory", front.MAX_BODY_BYTES, id="inventory"),
        pytest.param(VERIFY_TARGET, http_messages.MAX_BODY_BYTES, id="verify"),
    ],
)
def test_json_bodies_are_bounded(agent: AgentThread, target: str, limit: int) -> None:
    """A body that is too large, by its header or actually, is refused: 413."""
    response = agent.raw_request("POST", target, {"Content-Length": str(limit + 1)}, b"x" * min(limit + 1, 2 << 20))
    assert (response.status, response.reason) == (413, "BodyTooLarge")


def test_an_unknown_token_is_refused_before_the_body(agent: AgentThread) -> None:
    """No byte of the body is stored or waited for."""
    sent = f"POST /v1/inventory HTTP/1.1\r\nHost: agent\r\nContent-Length: {60 << 20}\r\n\r\n"
    with connected(agent, 1, sent) as (one,):
        assert status_and_reason(one) == (401, "Unauthorized")


def test_an_account_reads_no_more_than_its_share(agent: AgentThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """An account that does not read its answers gets no more; another one is served."""
    monkeypatch.setattr("colocation.agent.quotas.MAX_READS_OF_ACCOUNT", 3)
    with agent.client(SHOP_LOADER_TOKEN) as client, agent.client() as other:
        client.put_file(*TABLE.path, data_path(0), CONTENT)
        client.put_file(*TABLE.path, data_path(1), LARGE)
        with connected(agent, 3, f"GET {LARGE_TARGET} HTTP/1.1\r\nHost: agent\r\n{AUTHORIZATION}\r\n", 4096):
            until(lambda: len(agent.running.node.reads) == 3)
            with pytest.raises(AgentError, match="429 Busy"):
                client.get_file(*TABLE.path, data_path(0))
            assert other.get_file(*TABLE.path, data_path(0)).read() == CONTENT
        until(lambda: not agent.running.node.reads)
        assert client.get_file(*TABLE.path, data_path(0)).read() == CONTENT


def test_reads_with_a_body_are_refused(agent: AgentThread) -> None:
    """Another server might take the body for a second request."""
    hidden = f"GET {TARGET} HTTP/1.1\r\nHost: agent\r\n\r\n"
    response = agent.raw_request("GET", TARGET, {"Content-Length": str(len(hidden))}, hidden.encode())
    assert (response.status, response.reason) == (400, "InvalidRequest")
    response = agent.raw_request("GET", TARGET, {"Transfer-Encoding": "chunked"}, b"0\r\n\r\n")
    assert (response.status, response.reason) == (400, "InvalidRequest")


def front_configuration(folder: Path, data_root: Path, total: int, per_address: int) -> FrontConfiguration:
    """The configuration of a front that never starts."""
    certificates = [ServedCertificate(folder / "certificate", folder / "key")]
    ports = (["127.0.0.1:1"], ["127.0.0.1:2"])
    return FrontConfiguration(folder, data_root, certificates, *ports, 1, 1024, total, per_address)


def test_the_front_limits_requests(tmp_path: Path) -> None:
    """In total, and per address, which behind masquerading is a whole node."""
    text = front_configuration(tmp_path, tmp_path, 4000, 1000).text()
    assert "limit_conn addresses 1000;" in text and "limit_conn servers 4000;" in text


def test_paths_that_the_front_would_misread_are_refused(tmp_path: Path) -> None:
    """A data root with a variable or a quote in its name is refused at the start."""
    with pytest.raises(ValueError, match="not allowed"):
        front_configuration(tmp_path, Path("/data/$host"), 10, 10).text()


def test_the_front_follows_no_links(agent: AgentThread) -> None:
    """Not even a link planted in place of a file that was just read."""
    with agent.client() as client:
        client.put_file(*TABLE.path, data_path(0), CONTENT)
        assert client.get_file(*TABLE.path, data_path(0)).read() == CONTENT
        folder = on_disk(agent.settings.data_root, TABLE.path, data_path(0)).parent
        moved = agent.settings.data_root.parent / "moved"
        folder.rename(moved)
        folder.symlink_to(moved)
        with pytest.raises(AgentError) as caught:
            client.get_file(*TABLE.path, data_path(0)).read()
    assert caught.value.status in (400, 404)
    assert hashlib.sha256(CONTENT).hexdigest() not in str(caught.value)
