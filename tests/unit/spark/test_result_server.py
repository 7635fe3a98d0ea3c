"""A statement's result between the driver that serves it and the command that fetches it."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import urllib3
from hypothesis import given, settings
from hypothesis import strategies as st

from colocation.cli.jobs.statement_rows import StatementResult, Time
from colocation.cli.port_forward import PodUnreachable
from colocation.model.driver_output import (
    BadResult,
    ResultParser,
    chunk_path,
    columns_line,
    new_token,
    packed,
    row_line,
    summary_line,
    token_digest,
)
from colocation.spark.jobs.statement_result import NoReader, ResultServer

from ..submit.fake_applications import FakeApplications, VirtualTime

CELLS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
TABLES = st.integers(0, 4).flatmap(
    lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=30).map(lambda rows: (width, rows))
)
FAULTS = st.lists(st.sampled_from(["answer", "lose the request", "lose the answer"]), max_size=40)


def lines(columns: list[str], rows: list[list[Any]], summary: dict[str, Any]) -> list[bytes]:
    return [columns_line(columns), *map(row_line, rows), summary_line(summary)]


class UnreliablePort:
    """Asks a server, and loses requests and answers by plan; then it works."""

    def __init__(self, server: ResultServer, faults: list[str]) -> None:
        self._server, self._faults = server, list(faults)

    def get(self, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        fault = self._faults.pop(0) if self._faults else "answer"
        if fault == "lose the request":
            raise PodUnreachable("lost")
        status, body = self._server.fetch(int(path.rpartition("/")[2]))
        if fault == "lose the answer":
            raise PodUnreachable("lost")
        return status, body

    def close(self) -> None:
        """There is nothing to close."""


def sending(server: ResultServer, chunks: list[bytes]) -> Callable[[], None]:
    """Send them in a thread; the returned function waits for the end, and raises what was raised."""
    raised: list[Exception] = []

    def send() -> None:
        try:
            server.send(iter(chunks))
        except NoReader as error:
            raised.append(error)

    thread = threading.Thread(target=send)
    thread.start()

    def ended() -> None:
        thread.join(20)
        assert not thread.is_alive()
        if raised:
            raise raised[0]

    return ended


def reader(server: ResultServer, faults: list[str]) -> StatementResult:
    time, port, applications = VirtualTime(), UnreliablePort(server, faults), FakeApplications(["RUNNING"])
    applications.create({"metadata": {"name": "sql-x7k2p"}})
    return StatementResult(
        applications, "shop", "sql-x7k2p", token="", open_port=lambda pod: port,
        time=Time(time.clock, time.sleep),
    )  # fmt: skip


def quick_server(**seconds: float) -> ResultServer:
    times = {"reader_seconds": 10.0, "farewell_seconds": 0.01, "hold_seconds": 0.02, **seconds}
    return ResultServer(token_digest("a token"), port=0, **times)


@settings(max_examples=60, deadline=None)
@given(table=TABLES, least_bytes=st.integers(1, 200), faults=FAULTS)
def test_any_rows_arrive_unchanged_in_order_and_once(
    table: tuple[int, list[list[Any]]], least_bytes: int, faults: list[str]
) -> None:
    """However they are chunked, and whatever requests and answers are lost on the way."""
    width, rows = table
    columns = [f"c{number}" for number in range(width)]
    with quick_server() as server:
        chunks = list(packed(lines(columns, rows, {"seconds": 1}), least_bytes))
        ended = sending(server, chunks)
        result = reader(server, faults)
        for _ in result.begin(None):
            pass
        arrived = [row for chunk in result.rows() for row in chunk]
        ended()
    assert (result.parser.columns, arrived, result.parser.summary) == (columns, rows, {"seconds": 1})


@given(pieces=st.lists(st.binary(max_size=20)), least_bytes=st.integers(1, 50))
def test_packing_changes_nothing(pieces: list[bytes], least_bytes: int) -> None:
    """All chunks but the last are large enough, and no piece is cut."""
    chunks = list(packed(pieces, least_bytes))
    assert b"".join(chunks) == b"".join(pieces)
    assert all(len(chunk) >= least_bytes for chunk in chunks[:-1])
    assert all(len(chunk) < least_bytes + 20 for chunk in chunks)


def test_the_driver_holds_one_chunk() -> None:
    """The next one is made when the reader has asked for it, not before; one is made ahead."""
    made: list[int] = []

    def chunks() -> Any:
        for number in range(4):
            made.append(number)
            yield b"x"

    with quick_server() as server:
        thread = threading.Thread(target=server.send, args=(chunks(),))
        thread.start()
        for number in range(4):
            while server.fetch(number)[0] != 200:
                """Not yet."""
            assert len(made) <= number + 2
        server.fetch(4)
        thread.join(20)


def test_a_reader_that_does_not_come_ends_the_job() -> None:
    """With a reason, after a bounded time."""
    with quick_server(reader_seconds=0.05) as server, pytest.raises(NoReader, match="the result was not fetched"):
        server.send(iter([b"x\n", b"y\n"]))


def test_a_reader_that_comes_no_more_ends_the_job() -> None:
    """It has the first of two chunks."""
    with quick_server(reader_seconds=0.1) as server:
        ended = sending(server, [b"x\n", b"y\n"])
        while server.fetch(0)[0] != 200:
            """Not yet."""
        with pytest.raises(NoReader):
            ended()


def test_the_last_chunk_needs_no_farewell() -> None:
    """It was fetched; a reader that does not say so is not waited for."""
    with quick_server() as server:
        ended = sending(server, [b"x\n"])
        while server.fetch(0)[0] != 200:
            """Not yet."""
        ended()


def test_over_http() -> None:
    """Who has the token gets the chunks; who has not, or asks for what was fetched before, gets nothing."""
    token = new_token()
    with ResultServer(token_digest(token), port=0, hold_seconds=0.02) as server:
        http, address = urllib3.PoolManager(), f"http://127.0.0.1:{server.port}"

        def ask(path: str, shown: str = token) -> tuple[int, bytes]:
            answer = http.request("GET", address + path, headers={"Authorization": f"Bearer {shown}"}, retries=False)
            return answer.status, answer.data

        assert ask(chunk_path(0)) == (202, b"")
        ended = sending(server, [b"one\n", b"two\n"])
        assert ask(chunk_path(0), new_token())[0] == ask(chunk_path(0), "")[0] == 401
        assert ask("/v1/result/x")[0] == ask("/v1/other/0")[0] == 404
        while (first := ask(chunk_path(0)))[0] == 202:
            """Not yet."""
        assert first == ask(chunk_path(0)) == (200, b"one\n")
        assert ask(chunk_path(2))[0] == 409
        while (second := ask(chunk_path(1)))[0] == 202:
            """Not yet."""
        assert second == (200, b"two\n")
        assert ask(chunk_path(0))[0] == 409
        assert ask(chunk_path(2)) == (204, b"")
        ended()
        http.clear()


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([b"what\n"], id="no JSON"),
        pytest.param([b"[1]\n"], id="a row before the columns"),
        pytest.param([columns_line(["a"]), columns_line(["a"])], id="columns twice"),
        pytest.param([columns_line(["a"]), row_line([1, 2])], id="a row too long"),
        pytest.param([columns_line(["a"]), summary_line({}), row_line([1])], id="a row after the end"),
        pytest.param([columns_line(["a"]), b'{"summary": 3}\n'], id="no summary"),
        pytest.param([b"7\n"], id="a number"),
    ],
)
def test_what_is_no_result_is_refused(chunks: list[bytes]) -> None:
    """From any client."""
    parser = ResultParser()
    with pytest.raises(BadResult):
        for chunk in chunks:
            parser.rows(chunk)
