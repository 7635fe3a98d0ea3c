"""A port that anybody may reach: connections are few, and who has many loses them first."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from colocation.controller.bounded_server import BoundedServer
from tests.support.certificates import self_signed
from tests.support.ports import free_ports

MOST = 4
API_SERVER, TENANT = "127.0.0.1", "127.0.0.2"
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[str, bool], Awaitable[Stream]]


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Connect]:
    """``await connect(from address, by TLS)`` to a server of ``MOST`` connections that answers everything."""
    certificate, key = self_signed(folder, "operator")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(certificate))

    async def answer(_request: web.BaseRequest) -> web.Response:
        return web.Response(text="heard")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    [port] = free_ports(1)
    assert runner.server is not None
    server = BoundedServer(runner.server, port, tls, MOST)

    async def connect(address: str, by_tls: bool) -> Stream:
        kwargs = {"ssl": trusting, "server_hostname": "operator"} if by_tls else {}
        return await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0), **kwargs)  # type: ignore[arg-type]

    try:
        yield connect
    finally:
        await server.stop()
        await runner.cleanup()


async def is_answered(stream: Stream) -> bool:
    """Whether a request gets its answer; False: the connection is closed."""
    reader, writer = stream
    try:
        writer.write(REQUEST)
        async with asyncio.timeout(5):
            return (await reader.readuntil(b"heard")).startswith(b"HTTP/1.1 200")
    except (asyncio.IncompleteReadError, ConnectionError):
        return False


async def is_closed(stream: Stream) -> bool:
    """Whether the server has closed it; it sends nothing by itself."""
    try:
        async with asyncio.timeout(0.3):
            return await stream[0].read(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


@pytest.mark.parametrize("by_tls", [pytest.param(False, id="silent"), pytest.param(True, id="idle")])
async def test_who_has_many_connections_loses_the_oldest(tmp_path: Path, by_tls: bool) -> None:
    """Whatever state they are in: a caller who sends nothing at all takes as much memory as one who does."""
    async with serving(tmp_path) as connect:
        first = await connect(API_SERVER, True)
        assert await is_answered(first)
        held = [await connect(TENANT, by_tls) for _ in range(MOST + 2)]
        later = await connect(API_SERVER, True)
        assert await is_answered(later) and await is_answered(first)
        closed = [await is_closed(one) for one in held]
    assert closed == [True] * 4 + [False] * 2


async def test_connections_that_ended_do_not_count(tmp_path: Path) -> None:
    """Thousands may come one after the other, while one stays."""
    async with serving(tmp_path) as connect:
        stays = await connect(API_SERVER, True)
        for _ in range(3 * MOST):
            other = await connect(API_SERVER, True)
            assert await is_answered(other)
            other[1].close()
            await other[1].wait_closed()
        assert await is_answered(stays)


async def test_what_is_no_tls_is_closed(tmp_path: Path) -> None:
    """And the next one is served."""
    async with serving(tmp_path) as connect:
        plain = await connect(TENANT, False)
        assert not await is_answered(plain)
        assert await is_answered(await connect(TENANT, True))
