"""Sends a statement's rows to their one reader, without holding all of them anywhere but on disk.

Few rows are collected. For many, the executors encode the rows into pieces in parallel and keep these on their disks;
the driver then takes one partition after the other. The reader fetches numbered chunks from the driver's pod through a
port-forward. The driver holds one chunk and logs no rows. It ends the job when the reader stays away.
"""

import math
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from pyspark import RDD, StorageLevel
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType, TimestampType

from colocation.model.driver_output import RESULT_PORT, chunk_path, is_token, packed, row_line

FEW_ROWS = 1000
"""A statement that Spark knows to have no more is collected: that is one job, or none."""
SMALL_BYTES = 16 << 20
"""Pieces of a result that is not larger are fetched by one job instead of one for each partition."""


def with_times_as_text(df: DataFrame) -> DataFrame:
    """The same rows with each TIMESTAMP, also within other values, as Spark writes it in the session's time zone.

    Python would write it in the zone of its process, which is another one on each machine.
    """
    fields = df.schema.fields
    types = [as_text(field.dataType) for field in fields]
    if all(field.dataType == text for field, text in zip(fields, types, strict=True)):
        return df
    places = [f"c{place}" for place in range(len(fields))]  # two columns may have one name
    columns = [
        (F.col(place) if field.dataType == text else F.col(place).cast(text)).alias(field.name)
        for place, field, text in zip(places, fields, types, strict=True)
    ]
    return df.toDF(*places).select(*columns)


def as_text(kind: DataType) -> DataType:
    """A type with STRING in place of each TIMESTAMP; TIMESTAMP_NTZ stays, it is the same in every zone."""
    if isinstance(kind, TimestampType):
        return StringType()
    if isinstance(kind, ArrayType):
        return ArrayType(as_text(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(as_text(kind.keyType), as_text(kind.valueType), kind.valueContainsNull)
    if isinstance(kind, StructType):
        return StructType([
            StructField(field.name, as_text(field.dataType), field.nullable, field.metadata) for field in kind.fields
        ])
    return kind


def pieces_of(df: DataFrame) -> Iterable[bytes]:
    """The rows of a query, which is run now: afterwards its plan is the one that was executed."""
    if has_few_rows(df):
        return [encode_row(row) for row in df.collect()]
    pieces = df.rdd.mapPartitions(encode_rows).persist(StorageLevel.DISK_ONLY)
    total_bytes = sum(pieces.map(len).mapPartitions(lambda sizes: [sum(sizes)]).collect())
    return pieces.collect() if total_bytes <= SMALL_BYTES else _one_after_the_other(pieces)


def _one_after_the_other(pieces: "RDD[bytes]") -> Iterator[bytes]:
    yield from pieces.toLocalIterator()


def has_few_rows(df: DataFrame) -> bool:
    """Whether the plan shows that there are few: a LIMIT, an aggregate over everything, a command's answer."""
    plan: Any = df._jdf
    most = plan.queryExecution().optimizedPlan().maxRows()
    return bool(most.isDefined() and most.get() <= FEW_ROWS) or bool(df.isLocal())


def encode_rows(rows: Iterable[Row]) -> Iterator[bytes]:
    """A partition's rows as pieces of about a chunk's size."""
    return packed(map(encode_row, rows))


def encode_row(row: Sequence[Any]) -> bytes:
    """A row as its line."""
    return row_line([to_json(cell) for cell in row])


def to_json(cell: Any) -> Any:
    """A value of Spark's as JSON has it: numbers, booleans, text and NULL as they are, lists and maps too.

    Decimals, dates and times become text, binary becomes hexadecimal digits, a struct the list of its fields, and what
    no number of JSON is, ``NaN`` or ``Infinity``.
    """
    if cell is None or isinstance(cell, bool | int | str):
        return cell
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(cell)]
    if isinstance(cell, bytes | bytearray):
        return bytes(cell).hex()
    if isinstance(cell, list | tuple):
        return [to_json(item) for item in cell]
    if isinstance(cell, dict):
        return {_key(key): to_json(value) for key, value in cell.items()}
    return str(cell)


def _key(key: Any) -> str:
    """A map's key; JSON's are texts."""
    text = to_json(key)
    return text if isinstance(text, str) else row_line([text]).decode().strip()[1:-1]


READER_SECONDS = 600.0
"""How long the driver keeps a chunk that is not fetched: a reader whose output is a pager may be slow."""
FAREWELL_SECONDS = 10.0
"""How long the driver waits until the reader confirms the last chunk."""
HOLD_SECONDS = 1.0
"""How long a request waits for its chunk; then the reader asks again, and sees in between how the job goes on."""
IDLE_SECONDS = 60.0
"""How long a connection may be silent; the reader makes another one."""


class NoReader(Exception):
    """The result is not fetched."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    result: "ResultServer"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader whose connection breaks asks again: in the driver's log a traceback would look like its failure."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class ResultServer:
    """Serves one result to the holder of the token, on this machine's loopback: ``with ResultServer(digest) as …``.

    Raises:
        OSError: the port is taken.
    """

    def __init__(
        self, digest: str, *, port: int = RESULT_PORT, reader_seconds: float = READER_SECONDS,
        farewell_seconds: float = FAREWELL_SECONDS, hold_seconds: float = HOLD_SECONDS,
    ) -> None:  # fmt: skip
        self.digest = digest
        self._reader_seconds, self._farewell_seconds = reader_seconds, farewell_seconds
        self._hold_seconds = hold_seconds
        self._changed = threading.Condition()
        self._number = -1
        self._chunk = b""
        self._asked = 0
        """The number that the reader asked for last: everything before it has arrived."""
        self._served = -1
        self._heard_seconds = time.monotonic()
        self._ended = False
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.result = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def __enter__(self) -> "ResultServer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def send(self, chunks: Iterable[bytes]) -> None:
        """Hand out the chunks in order; returns when the last one has arrived, as far as can be known.

        Raises:
            NoReader: a chunk was not fetched in time.
        """
        waiting: bytes | None = None
        for chunk in chunks:
            if waiting is not None:
                self._offer(waiting)
            waiting = chunk
        if waiting is not None:
            self._offer(waiting, is_last=True)

    def _offer(self, chunk: bytes, *, is_last: bool = False) -> None:
        with self._changed:
            self._number += 1
            self._chunk, number = chunk, self._number
            self._changed.notify_all()
            offered_seconds = time.monotonic()
            while self._asked <= number:
                farewell = is_last and self._served == number
                allowed_seconds = self._farewell_seconds if farewell else self._reader_seconds
                left_seconds = max(self._heard_seconds, offered_seconds) + allowed_seconds - time.monotonic()
                if left_seconds <= 0 and not farewell:
                    raise NoReader(
                        f"the result was not fetched for {self._reader_seconds:g} s: `colocation sql` ended or lost "
                        "its connection; the rows are not printed anywhere"
                    )
                if left_seconds <= 0:
                    break
                self._changed.wait(left_seconds)
            self._ended = is_last
            self._changed.notify_all()

    def fetch(self, number: int) -> tuple[HTTPStatus, bytes]:
        """The answer to a reader that asks for chunk ``number``."""
        with self._changed:
            self._heard_seconds = time.monotonic()
            if number not in (self._asked, self._asked + 1) or number > self._served + 1:
                return HTTPStatus.CONFLICT, b"this chunk was fetched before, or comes later\n"
            self._asked = number
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._number >= number or self._ended, self._hold_seconds)
            self._heard_seconds = time.monotonic()
            if self._number == number:
                self._served = number
                return HTTPStatus.OK, self._chunk
            return (HTTPStatus.NO_CONTENT if self._ended else HTTPStatus.ACCEPTED), b""


class _Handler(BaseHTTPRequestHandler):
    """``GET /v1/result/<number>`` with the token: 200 the chunk, 202 not yet, 204 there is none after it."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        """Answer one request."""
        result = self.server.result
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if not is_token(token, result.digest):
            self._answer(HTTPStatus.UNAUTHORIZED, b"the result is for the one who asked for it\n")
            return
        number = self.path.rpartition("/")[2]
        if not (number.isascii() and number.isdecimal()) or self.path != chunk_path(int(number)):
            self._answer(HTTPStatus.NOT_FOUND, b"")
            return
        self._answer(*result.fetch(int(number)))

    def _answer(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """The log is for what goes wrong."""
