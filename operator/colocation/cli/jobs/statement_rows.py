"""Fetches the rows of a statement from its driver, each chunk once and in order, and prints them as they come.

After a lost connection the command connects again and asks for the same chunk, so that no row is lost or repeated. When
the application ends before its result has come, the command fails with the driver's own error. At most a few chunks are
in memory.
"""

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal, NoReturn, Protocol

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from ...common.control_characters import in_one_line
from ...model.driver_output import BadResult, ResultParser, chunk_path
from ...submit.clients import Applications
from ...submit.run import Progress, outcome, watch
from ...submit.status import ApplicationStatus
from ..errors import CommandFailed, may_pass
from ..port_forward import PodUnreachable
from .launch import report_failure

RECONNECT_SECONDS = 60.0
PAUSE_SECONDS = 1.0


class Port(Protocol):
    """The port of the driver's pod at which it serves the result."""

    def get(self, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        """Status and body; raises ``PodUnreachable``."""

    def close(self) -> None:
        """End the connection."""


@dataclass(frozen=True)
class Time:
    """A monotonic clock, and a way to wait by it."""

    clock: Callable[[], float]
    sleep: Callable[[float], None]


class StatementResult:
    """The result of one application. ``parser`` has the columns after ``begin``, the summary after ``rows``."""

    def __init__(
        self, applications: Applications, namespace: str, name: str, *, token: str, open_port: Callable[[str], Port],
        time: Time,
    ) -> None:  # fmt: skip
        self._applications, self._namespace, self._name = applications, namespace, name
        self._headers = {"Authorization": f"Bearer {token}"}
        self._open_port = open_port
        self._time = time
        self._port: Port | None = None
        self._first: bytes | None = None
        self._end: ApplicationStatus | None = None
        self._trouble = ""
        self.parser = ResultParser()

    def begin(self, timeout_seconds: float | None) -> Iterator[Progress]:
        """The application's progress until its result begins or it has ended.

        Raises:
            RunError: it was deleted, or did not come to a result in time.
            CommandFailed: one may not reach the driver, or it does not let this command in.
        """
        steps = watch(
            self._applications, self._namespace, self._name, timeout_seconds=timeout_seconds, clock=self._time.clock,
            sleep=self._time.sleep,
        )  # fmt: skip
        for step in steps:
            self._end = step.end
            yield step
            if step.driver_pod and self._try_to_begin(step.driver_pod):
                return

    def _try_to_begin(self, pod: str) -> bool:
        self._port = self._port or self._open_port(pod)
        try:
            self._first = self._ask(self._port, 0)
        except PodUnreachable as error:
            # Not yet: its pod or its program has still to start. Another driver's pod may take its place.
            self._trouble = str(error)
            self._port = None
        return self._first is not None

    def rows(self) -> Iterator[list[list[object]]]:
        """The rows, a chunk at a time.

        Raises:
            CommandFailed: the application failed, or ended without a result; the connection is lost; what the driver
                sends is no result.
        """
        chunk, number = self._first, 0
        if chunk is None:
            self._fail("it ended before its result was fetched")
        while chunk is not None:
            self._first = None
            try:
                yield self.parser.rows(chunk)
            except BadResult as error:
                raise CommandFailed(f"{error}: is the driver's image of another version?") from error
            number += 1
            chunk = None if self.parser.summary is not None else self._next(number)
        self._confirm_last_chunk(number)

    def _next(self, number: int) -> bytes:
        """The next chunk, however often the connection breaks."""
        lost_since: float | None = None
        while True:
            try:
                chunk = self._ask(self._port, number) if self._port else None
                lost_since = None
            except PodUnreachable as error:
                chunk, now = None, self._time.clock()
                lost_since = now if lost_since is None else lost_since
                self._trouble = str(error)
                if now - lost_since > RECONNECT_SECONDS:
                    raise CommandFailed(
                        f"the connection to the driver of {self._name} is lost since {now - lost_since:.0f} s, in the "
                        f"middle of its rows: {error}"
                    ) from error
                if self._has_ended():
                    self._fail("it ended in the middle of its rows")
                self._time.sleep(PAUSE_SECONDS)
            if chunk is not None:
                return chunk

    def _has_ended(self) -> bool:
        """Whether the application is known to have ended: what breaks the connection may also keep the API server from
        answering, so only an answer counts.
        """
        try:
            status = self._applications.look(self._namespace, self._name)
        except (ApiException, HTTPError, CommandFailed) as error:
            if not may_pass(error):
                raise
            return False
        self._end = status if status.ended else None
        return status.ended

    def _ask(self, port: Port, number: int) -> bytes | None:
        """A chunk; None when the driver does not have it yet.

        Raises:
            PodUnreachable: there is no connection.
            CommandFailed: asking again will not help.
        """
        try:
            status, body = port.get(chunk_path(number), self._headers)
        except PodUnreachable as error:
            if error.forbidden:
                raise CommandFailed(
                    f"you may not fetch the rows from the driver: {error}; needed in namespace {self._namespace!r}: "
                    "create pods/portforward, which is part of the ClusterRole edit"
                ) from error
            raise
        if status == HTTPStatus.OK:
            return body
        if status == HTTPStatus.ACCEPTED:
            return None
        said = body[:200].decode(errors="replace").strip()
        raise CommandFailed(f"the driver of {self._name} answered {status} to chunk {number} of its rows: {said}")

    def _confirm_last_chunk(self, number: int) -> None:
        """Confirm to the driver that the last chunk has arrived; without that it ends by itself."""
        try:
            if self._port:
                self._port.get(chunk_path(number), self._headers)
        except PodUnreachable:
            return
        finally:
            self.close()

    def close(self) -> None:
        """End the connection."""
        if self._port:
            self._port.close()
        self._port = None

    def _fail(self, what: str) -> NoReturn:
        """Raise the driver's error, else that there is no result."""
        if self._end and self._end.phase == "failed":
            report_failure(outcome(self._applications, self._namespace, self._name, self._end, sleep=self._time.sleep))
        trouble = f"; the last thing that went wrong on the way to it: {self._trouble}" if self._trouble else ""
        if self._end and self._end.phase == "succeeded":
            trouble += "; the statement was run all the same: before you repeat one that writes, look at the table"
        raise CommandFailed(f"{self._applications.what} {self._name} has given no result: {what}{trouble}")


RowsFormat = Literal["table", "json", "csv"]
Rows = Sequence[Sequence[Any]]

MEASURED_ROWS = 1000
"""The first rows, up to this many, set the widths of a table's columns; a longer cell sticks out."""


def render(parser: ResultParser, chunks: Iterable[Rows], output: RowsFormat) -> Iterator[str]:
    """The text of a result, piece by piece. ``parser`` has read as far as ``chunks`` have come."""
    return RENDERERS[output](parser, chunks)


def _table(parser: ResultParser, chunks: Iterable[Rows]) -> Iterator[str]:
    rows = ([_cell(value) for value in row] for chunk in chunks for row in chunk)
    measured = list(itertools.islice(rows, MEASURED_ROWS))
    header = [_cell(name) for name in parser.columns or ()]
    if not header:
        return
    lines = [header, *measured]
    widths = [max(len(line[number]) for line in lines) for number in range(len(header))]
    for line in itertools.chain(lines, rows):
        yield "   ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() + "\n"


def _cell(value: Any) -> str:
    """NULL and the empty text are shown as ``-``."""
    return in_one_line(text_of(value)) or "-"


def _csv(parser: ResultParser, chunks: Iterable[Rows]) -> Iterator[str]:
    is_first = True
    for chunk in chunks:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if is_first and parser.columns:
            writer.writerow(parser.columns)
        is_first = False
        writer.writerows([text_of(value) for value in row] for row in chunk)
        yield text.getvalue()


def _json(parser: ResultParser, chunks: Iterable[Rows]) -> Iterator[str]:
    comma = ""
    for number, chunk in enumerate(chunks):
        if number == 0:
            yield f'{{\n  "columns": {json.dumps(parser.columns)},\n  "rows": ['
        for row in chunk:
            yield f"{comma}\n    {json.dumps(row)}"
            comma = ","
    yield "\n  ]" if comma else "]"
    for key, value in (parser.summary or {}).items():
        text = json.dumps(value, indent=2).replace("\n", "\n  ")
        yield f",\n  {json.dumps(key)}: {text}"
    yield "\n}\n"


RENDERERS: Mapping[str, Callable[[ResultParser, Iterable[Rows]], Iterator[str]]] = {
    "table": _table, "csv": _csv, "json": _json,
}  # fmt: skip


def text_of(value: Any) -> str:
    """A cell as text; NULL is empty; lists and maps are JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
