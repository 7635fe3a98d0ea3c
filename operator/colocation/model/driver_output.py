"""What the driver of our Spark programs sends to the command: progress in its log, and a statement's rows over HTTP.

Progress of a load or compaction is a line of the log with ``PROGRESS_MARK``. The driver serves rows on its pod's
loopback in numbered chunks; the command fetches them one after the other through a port-forward. Asking for chunk ``n``
confirms that all chunks before it have arrived: the driver keeps one chunk, and sends it again if the answer was lost.
A chunk is lines of JSON: first an object with the columns, then an array per row, last an object with everything else
about the result.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import ValidationError

from .base import Observed

PROGRESS_MARK = "COLOCATION_PROGRESS "


class WriteProgress(Observed):
    """A write on its way.

    ``reading``: the input is read and shuffled, ``tasks_done`` of ``tasks`` of the running stage; ``bytes`` were read.
    ``writing``: ``rows_done`` of ``rows`` are written; ``bytes`` of one replica.
    """

    phase: Literal["reading", "writing"]
    bytes: int
    tasks_done: int = 0
    tasks: int = 0
    rows_done: int = 0
    rows: int = 0

    @property
    def share(self) -> float:
        """Between 0 and 1, of the phase."""
        done, whole = (self.tasks_done, self.tasks) if self.phase == "reading" else (self.rows_done, self.rows)
        return min(1.0, done / whole) if whole else 0.0

    def line(self) -> str:
        """As it is printed."""
        return PROGRESS_MARK + json.dumps(self.to_json_dict())


def find_progress(log: str) -> WriteProgress | None:
    """The last that a driver's log tells; None when there is none, or a line that this release does not know."""
    for line in reversed(log.splitlines()):
        if PROGRESS_MARK in line:
            try:
                return WriteProgress.model_validate_json(line.split(PROGRESS_MARK, 1)[1])
            except ValidationError:
                return None
    return None


def without_progress(lines: Iterable[str]) -> list[str]:
    """Lines of a log that tell something else."""
    return [line for line in lines if PROGRESS_MARK not in line]


RESULT_PORT = 7080
"""Next to Spark's own 7077 (master), 7078 (driver) and 7079 (block manager)."""
CHUNK_BYTES = 1 << 20
"""A chunk holds at least so much, the last one excepted, and the row that goes beyond it."""
TOKEN_BYTES = 32

COLUMNS, SUMMARY = "columns", "summary"


class BadResult(ValueError):
    """The bytes are no part of a result."""


def chunk_path(number: int) -> str:
    """Where chunk ``number`` is; the first is 0."""
    return f"/v1/result/{number}"


def new_token() -> str:
    """What the one who may fetch a result shows."""
    return secrets.token_hex(TOKEN_BYTES)


def token_digest(token: str) -> str:
    """The token's digest, which the driver has: others may read manifests, and a digest gives no access."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_token(token: str, digest: str) -> bool:
    """Whether this is the token of the digest."""
    return hmac.compare_digest(token_digest(token), digest)


def columns_line(columns: Sequence[str]) -> bytes:
    """The first line of a result."""
    return _line({COLUMNS: list(columns)})


def row_line(cells: Sequence[Any]) -> bytes:
    """A row's line. Cells are what JSON has."""
    return _line(list(cells))


def summary_line(summary: Mapping[str, Any]) -> bytes:
    """The last line of a result: everything but its rows."""
    return _line({SUMMARY: dict(summary)})


def _line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def packed(pieces: Iterable[bytes], least_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The pieces, each of whole lines, put together to chunks of at least this size; the last one may be smaller."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= least_bytes:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


class ResultParser:
    """Takes the chunks of a result in order, and gives its rows.

    Attributes:
        columns: of the result; None before the first line has come.
        summary: everything but the rows; None before the last line has arrived.
    """

    def __init__(self) -> None:
        self.columns: list[str] | None = None
        self.summary: dict[str, Any] | None = None

    def rows(self, chunk: bytes) -> list[list[Any]]:
        """The rows of the next chunk.

        Raises:
            BadResult: it is no chunk, or none that can come now.
        """
        return [row for line in chunk.splitlines() for row in self._take(line)]

    def _take(self, line: bytes) -> list[list[Any]]:
        try:
            value = json.loads(line)
        except ValueError as error:
            raise BadResult(f"a line of the result is not JSON: {line[:80]!r}") from error
        if self.summary is None and self.columns is not None and isinstance(value, list):
            if len(value) != len(self.columns):
                raise BadResult(f"a row has {len(value)} values, and the result has {len(self.columns)} columns")
            return [value]
        content = value if isinstance(value, dict) else {}
        if self.columns is None and isinstance(content.get(COLUMNS), list):
            self.columns = [str(name) for name in content[COLUMNS]]
        elif self.summary is None and self.columns is not None and isinstance(content.get(SUMMARY), dict):
            self.summary = content[SUMMARY]
        else:
            raise BadResult(f"a line of the result is out of place: {line[:80]!r}")
        return []
