"""The way to agents: TLS by their name, the present token, bounded answers, and conversations with real agents."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from colocation.agentclient import AgentError, Credentials, UnknownQuestion, Unreachable
from colocation.agentclient.calls import Call
from colocation.kube import agent_channel as module
from colocation.kube.agent_channel import HttpChannel
from colocation.kube.inventories import Inventories
from colocation.model.names import AGENT_TLS_SERVER_NAME, agent_certificate_name
from colocation.storage.paths import table_path
from tests.support.leaders import FixedLeader

from ...support.certificates import self_signed
from ..agent.harness import ADMIN_TOKEN, AgentThread, FakeAuthorizer, make_pki
from ..state.objects import NOW
from ..storage.tables import data_path, publish
from .agents import asked_about, question, until

QUESTION = Call("POST", "/v1/inventory")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """An HTTPS server in the place of an agent; ``handler`` answers."""

    def __init__(self, folder: Path, name: str = AGENT_TLS_SERVER_NAME) -> None:
        self.certificate, self.key = self_signed(folder, name)
        (folder / "token").write_text("first")
        self.credentials = Credentials(folder / "token", self.certificate)
        self.folder = folder
        self.handler: Handler = self._greet
        self.seen: list[web.Request] = []

    async def start(self) -> str:
        application = web.Application(client_max_size=1 << 30)
        application.router.add_route("*", "/{anything:.*}", self._serve)
        self._runner = web.AppRunner(application, shutdown_timeout=0.01, handler_cancellation=True)
        await self._runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key)
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        self.url = f"https://127.0.0.1:{self._runner.addresses[0][1]}"
        return self.url

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        return await self.handler(request)

    async def _greet(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"hello")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    one = Server(tmp_path)
    await one.start()
    yield one
    await one.stop()


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[HttpChannel]:
    one = HttpChannel(server.credentials)
    yield one
    await one.close()


async def test_token_is_read_again_when_it_changes(server: Server, channel: HttpChannel) -> None:
    """The kubelet renews it; connections stay."""
    await channel.send(server.url, QUESTION, 0)
    (server.folder / "token").write_text("second one")
    await channel.send(server.url, QUESTION, 0)
    assert [one.headers["Authorization"] for one in server.seen] == ["Bearer first", "Bearer second one"]
    assert server.seen[0].transport is server.seen[1].transport


async def test_renewed_authority_is_taken_up(server: Server, channel: HttpChannel, tmp_path: Path) -> None:
    """An agent whose certificate another authority has signed is not believed, until that one is ours."""
    other = tmp_path / "other"
    other.mkdir()
    imposter = Server(other)
    url = await imposter.start()
    try:
        with pytest.raises(Unreachable, match="certificate"):
            await channel.send(url, QUESTION, 0)
        server.certificate.write_bytes(imposter.certificate.read_bytes())
        assert await channel.send(url, QUESTION, 0) == (200, b"hello")
    finally:
        await imposter.stop()


class _Tokens:
    """Of the operator, for one agent whose certificate has to have this name."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def token(self, _url: str) -> str:
        return "token"

    def certificate_name(self, _url: str) -> str:
        return self.name


async def test_certificate_has_to_name_the_agents_node(tmp_path: Path) -> None:
    """Another node's, and the shared one, are refused before anything is sent."""
    names = [agent_certificate_name(node) for node in ("node-1", "node-2")]
    server = Server(tmp_path, names[0])
    url = await server.start()
    try:
        for name, is_taken in ((names[0], True), (names[1], False), (AGENT_TLS_SERVER_NAME, False)):
            channel = HttpChannel(server.credentials, _Tokens(name))  # type: ignore[arg-type]
            if is_taken:
                assert await channel.send(url, QUESTION, 0) == (200, b"hello")
            else:
                with pytest.raises(Unreachable, match=name):
                    await channel.send(url, QUESTION, 0)
            await channel.close()
        assert len(server.seen) == 1
    finally:
        await server.stop()


async def test_certificate_has_to_name_an_agent(tmp_path: Path) -> None:
    """Agents are dialled by pod IP; a certificate for another name is no agent's."""
    server = Server(tmp_path, "another-name")
    channel = HttpChannel(server.credentials)
    try:
        with pytest.raises(Unreachable, match=AGENT_TLS_SERVER_NAME):
            await channel.send(await server.start(), QUESTION, 0)
    finally:
        await channel.close()
        await server.stop()


async def test_missing_token_is_an_error_of_the_request(server: Server, channel: HttpChannel) -> None:
    """It names what to do; nothing else fails."""
    (server.folder / "token").unlink()
    with pytest.raises(AgentError, match="mount them as the chart does"):
        await channel.send(server.url, QUESTION, 0)


async def test_answer_that_is_too_large_is_not_read(
    server: Server, channel: HttpChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator's memory does not depend on what an agent sends."""
    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 1000)

    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 500)

    server.handler = flood
    with pytest.raises(AgentError, match="1000 bytes that are allowed"):
        await channel.send(server.url, QUESTION, 0)


async def test_hung_agent_is_given_up(server: Server, channel: HttpChannel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that took the question and does not answer within the time it may hold it, and some more."""
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.05)

    async def hang(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    server.handler = hang
    with pytest.raises(Unreachable):
        await channel.send(server.url, QUESTION, 0.05)


async def test_refusals_keep_their_meaning(server: Server, channel: HttpChannel) -> None:
    """Errors are those of the agents' client."""

    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": "UnknownQuestion", "message": "ask in full"}, status=409)

    server.handler = refuse
    with pytest.raises(UnknownQuestion):
        await channel.send(server.url, QUESTION, 0)


async def test_no_one_there_is_noticed_at_once(server: Server, channel: HttpChannel) -> None:
    """A refused connection, and one that ends in the middle of a held question."""
    held = asyncio.Event()

    async def hold(request: web.Request) -> web.StreamResponse:
        held.set()
        await asyncio.Event().wait()
        return web.Response()

    server.handler = hold
    question_held = asyncio.create_task(channel.send(server.url, QUESTION, 45))
    await held.wait()
    transport = server.seen[-1].transport
    assert transport is not None
    transport.abort()
    async with asyncio.timeout(5):
        with pytest.raises(Unreachable):
            await question_held
    await server.stop()
    with pytest.raises(Unreachable):
        await channel.send(server.url, QUESTION, 45)
    await server.start()


def test_vanished_peer_ends_its_connections_within_seconds() -> None:
    """A node without power sends no reset: probes find out while a question is held, and so do sent bytes."""
    with module._open_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 0))) as opened:
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, interval, probes = (
            opened.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert idle + interval * probes <= 15
        assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 15_000


async def test_conversation_with_a_real_agent(tmp_path: Path) -> None:
    """What is published on the node is heard of; after its process is replaced the conversation goes on."""
    pki = make_pki(tmp_path / "pki")
    (tmp_path / "token").write_text(ADMIN_TOKEN)
    agent = AgentThread(tmp_path / "data", pki, FakeAuthorizer()).start()
    credentials = Credentials(tmp_path / "token", pki.ca)
    inventories = Inventories(HttpChannel(credentials), lambda: NOW, lambda: None, FixedLeader(3))
    asked = {"node-1": question(asked_about("orders"))}
    try:
        await inventories.ask({"node-1": agent.url}, {"node-1"}, asked)
        view = inventories.views["node-1"]
        assert (view.silent_since, view.asked, [one.manifest_present for one in view.tables.values()]) == (
            None, asked["node-1"], [False],
        )  # fmt: skip
        publish(agent.running.node.root, table_path("shop", "lines-00000001"), data_path(0), b"rows")
        await until(lambda: _unknown(inventories) == ("shop/lines-00000001",))
        asked = {"node-1": question(asked_about("orders"), asked_about("lines"))}
        await inventories.ask({"node-1": agent.url}, {"node-1"}, asked)
        assert inventories.views["node-1"].asked == asked["node-1"]
        assert _unknown(inventories) == ()
        assert inventories.views["node-1"].tables.keys() == asked["node-1"].keys()
    finally:
        await inventories.close()
        await asyncio.to_thread(agent.stop)


def _unknown(inventories: Inventories) -> tuple[str, ...]:
    report = inventories.views["node-1"].report
    return report.unknown_directories if report else ()
