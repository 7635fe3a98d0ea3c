"""What anybody may send to the webhooks' port: bounded, and the API server's own questions are answered meanwhile."""

import asyncio
import gzip
import json
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from colocation.admission import admission_application, server, turns
from colocation.admission.review import MAX_VALUES, Review
from colocation.admission.server import LARGE_OF_ONE_CALLER, MAX_BODY_BYTES, SERVER_OPTIONS, VALIDATE_PATH
from colocation.admission.turns import Busy, Turns
from tests.support.ports import free_ports

from .reviews import creation, known, table
from .test_server import question

GOOD = json.dumps(question(creation(table("new")))).encode()
SLOW = 5
API_SERVER, TENANT = "127.0.0.1", "127.0.0.2"


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    """The port of the webhooks, as the operator serves them but for TLS."""
    runner = web.AppRunner(admission_application(known), **SERVER_OPTIONS)
    await runner.setup()
    [port] = free_ports(1)
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield port
    finally:
        await runner.cleanup()


async def status_of(port: int, body: bytes, **headers: str) -> int:
    url = f"http://127.0.0.1:{port}{VALIDATE_PATH}"
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as answer:
        return answer.status


async def begun(port: int, length: int, sent: int = 1000) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A tenant's question of which the rest does not come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(TENANT, 0))
    head = f"POST {VALIDATE_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
    writer.write(head.encode() + b"[" * sent)
    return reader, writer


@pytest.mark.parametrize("length", [pytest.param(10_000, id="small"), pytest.param(MAX_BODY_BYTES, id="large")])
async def test_slow_callers_hold_up_no_one(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    """Whatever they send: small questions are read next to them, large ones have turns of their own."""
    large = GOOD.ljust(server.SMALL_BODY_BYTES + 1)
    monkeypatch.setattr(server, "READ_SECONDS", SLOW)
    async with serving() as port:
        held = [await begun(port, length) for _ in range(3 * server.LARGE_AT_ONCE)]
        await asyncio.sleep(0.1)
        async with asyncio.timeout(SLOW - 1):
            assert [await status_of(port, body) for body in (GOOD, large)] == [200, 200]
        for _, writer in held:
            writer.close()


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """408, and the connection is closed: its turn is another's."""
    monkeypatch.setattr(server, "READ_SECONDS", 0.1)
    async with serving() as port:
        reader, writer = await begun(port, MAX_BODY_BYTES)
        async with asyncio.timeout(5):
            answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 408") and b"did not arrive within 0.1 s" in answer


async def test_a_caller_sends_few_large_questions_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """130 of 8 MiB, each but for its last byte, were 1 GiB of an operator that may have so much."""
    reading = []

    async def read(request: web.Request) -> bytes:
        reading.append(request)
        await asyncio.Event().wait()
        return b""

    monkeypatch.setattr(web.Request, "read", read)
    async with serving() as port:
        held = [await begun(port, MAX_BODY_BYTES) for _ in range(10)]
        await asyncio.sleep(0.2)
        assert len(reading) == LARGE_OF_ONE_CALLER
        for _, writer in held:
            writer.close()


async def test_questions_are_parsed_next_to_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator's Lease is on it."""
    threads = []

    def parse(_body: bytes) -> Review:
        threads.append(threading.current_thread())
        raise ValueError("no question")

    monkeypatch.setattr(server, "parse_body", parse)
    async with serving() as port:
        assert await status_of(port, b"{}") == 400
    assert threading.current_thread() not in threads


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        pytest.param(b"[" + b"[]," * MAX_VALUES, {}, 400, id="values"),
        pytest.param(b"x" * (MAX_BODY_BYTES + 1), {}, 413, id="bytes"),
        pytest.param(gzip.compress(GOOD), {"Content-Encoding": "gzip"}, 400, id="compressed"),
        pytest.param(GOOD.ljust(MAX_BODY_BYTES), {}, 200, id="as large as may be"),
    ],
)
async def test_a_question_has_bounds(body: bytes, headers: dict[str, str], status: int) -> None:
    """What the API server may ask is within them."""
    async with serving() as port:
        assert await status_of(port, body, **headers) == status


async def test_turns_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks much waits behind itself; when all turns are taken, others wait, too, but not for ever."""
    monkeypatch.setattr(turns, "WAIT_SECONDS", 0.05)
    shared = Turns(at_once=3, of_one=2)
    async with AsyncExitStack() as held:
        for _ in range(2):
            await held.enter_async_context(shared.taken_by(TENANT))
        with pytest.raises(Busy, match="try again"):
            await held.enter_async_context(shared.taken_by(TENANT))
        async with shared.taken_by(API_SERVER):
            with pytest.raises(Busy):
                await held.enter_async_context(shared.taken_by("127.0.0.3"))
        await held.enter_async_context(shared.taken_by("127.0.0.3"))
    assert not shared._callers


async def test_who_hangs_up_takes_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else questions of callers who are gone would wait, with their bytes, in any number."""
    judged, go_on = [], threading.Event()

    def parse(body: bytes) -> Review:
        judged.append(body)
        assert go_on.wait(30)
        raise ValueError("no question")

    monkeypatch.setattr(server, "parse_body", parse)
    async with serving() as port:
        first = asyncio.create_task(status_of(port, b"first"))
        await asyncio.sleep(0.1)
        _, writer = await begun(port, 4, sent=4)
        await asyncio.sleep(0.1)
        writer.close()
        await asyncio.sleep(0.1)
        go_on.set()
        assert await first == 400
        assert await status_of(port, b"last") == 400
    assert judged == [b"first", b"last"]
