"""What all requests share: targets and ranges, JSON bodies, and the HTTP answers for errors."""

import asyncio
import contextlib
import re
from typing import NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

from aiohttp import web
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from colocation.common.review_bounds import TooManyReviews
from colocation.model.agent import STALE_ORDER, STALE_TERM, UNKNOWN_QUESTION, TableReport
from colocation.model.conditions import Reason
from colocation.model.file_transfer import is_sha256
from colocation.storage import errors as storage
from colocation.storage.errors import FileChanged, InvalidPath
from colocation.storage.paths import TablePath, file_segments, table_path

from .authorizer import AuthenticationUnavailable
from .conversation import StaleOrder, StaleTerm, UnknownQuestion

_SEGMENT = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})+")
_RANGE = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})")

Body = TypeVar("Body", bound=BaseModel)


MAX_BODY_BYTES = 1 << 20
BODY_SECONDS = 60.0
"""For a whole body: it is small, or comes from the operator."""
SKIPPED_BYTES = 1 << 16
SKIPPING_SECONDS = 1.0
"""For the body of a refused request, if it is small."""


class Refusal(Exception):
    """A request that is refused. ``reason`` is one word, ``message`` states what is allowed and what to do.

    ``fields`` are added to the JSON body.
    """

    def __init__(self, status: int, reason: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.headers = headers or {}
        self.fields: dict[str, int] = {}


_STATUS_AND_REASON: dict[type[Exception], tuple[int, str]] = {
    storage.InvalidPath: (400, "InvalidPath"),
    storage.NotHeld: (404, "NotFound"),
    storage.FileCorrupt: (404, Reason.REPLICA_CORRUPT.value),
    storage.ManifestMissing: (404, "ManifestMissing"),
    storage.ContentConflict: (409, "ContentConflict"),
    storage.DigestDiffers: (422, "DigestDiffers"),
    storage.NoRoom: (507, Reason.INSUFFICIENT_SPACE.value),
    StaleTerm: (409, STALE_TERM),
    StaleOrder: (409, STALE_ORDER),
    UnknownQuestion: (409, UNKNOWN_QUESTION),
    FileChanged: (503, "FileChanged"),
    AuthenticationUnavailable: (503, "AuthenticationUnavailable"),
    TooManyReviews: (429, "TooManyReviews"),
}

REVIEWS_RETRY_AFTER_SECONDS = 2

EXPECTED_ERRORS = tuple(_STATUS_AND_REASON)


def refusal_of(error: Exception) -> Refusal:
    """The HTTP answer for one of ``EXPECTED_ERRORS``: each cause has one status and one reason."""
    status, reason = _STATUS_AND_REASON[type(error)]
    refusal = Refusal(status, reason, str(error))
    if isinstance(error, StaleTerm):
        refusal.fields["term"] = error.term
    if isinstance(error, TooManyReviews | AuthenticationUnavailable):
        refusal.headers["Retry-After"] = str(REVIEWS_RETRY_AFTER_SECONDS)
    return refusal


def error_response(refusal: Refusal) -> web.Response:
    """The JSON response for a refusal."""
    body = {"error": refusal.reason, "message": refusal.message, **refusal.fields}
    return web.json_response(body, status=refusal.status, headers=refusal.headers)


class FileTarget(NamedTuple):
    """A file of a table; ``path`` is relative to the table's folder and allowed."""

    table: TablePath
    path: str


def decoded_segments(raw_target: str) -> tuple[str, ...]:
    """The segments of a target's path (``/v1/files/…?query``), each percent-decoded once.

    Raises:
        Refusal: 400, an empty segment, ``.`` or ``..``, a slash or NUL inside a segment, or wrong encoding.
    """
    raw_path = raw_target.partition("?")[0]
    return tuple(_decoded(segment, raw_path) for segment in raw_path.removeprefix("/").split("/"))


def file_target(segments: tuple[str, ...]) -> FileTarget:
    """The file named by ``namespace``, ``directory`` and path segments.

    Raises:
        InvalidPath: a part is missing or not allowed.
    """
    if len(segments) < 3:
        raise InvalidPath(f"file {'/'.join(segments)!r} is not allowed; allowed: <namespace>/<directory>/<path>")
    namespace, directory, *path = segments
    table = table_path(namespace, directory)
    return FileTarget(table, "/".join(file_segments("/".join(path))))


def byte_range(header: str | None, file_bytes: int) -> tuple[int, int] | None:
    """(start, end) of a ``Range`` header, end excluded and cut to the file; None without a header.

    Raises:
        Refusal: 400, not one range of bytes; 416, it begins at or after the file's end.
    """
    if header is None:
        return None
    match = _RANGE.fullmatch(header.strip())
    if match is None or match[1] == match[2] == "":
        allowed = "bytes=<first>-<last>, bytes=<first>- or bytes=-<last n>"
        raise Refusal(400, "InvalidRange", f"Range {header!r} is not allowed; allowed: {allowed}")
    if match[1]:
        start = int(match[1])
        end = min(int(match[2]) + 1, file_bytes) if match[2] else file_bytes
    else:
        start, end = max(file_bytes - int(match[2]), 0), file_bytes
    if start >= file_bytes or end <= start:
        message = f"Range {header!r} of a file of {file_bytes} bytes holds nothing; ask within it"
        raise Refusal(416, "RangeNotSatisfiable", message, {"Content-Range": f"bytes */{file_bytes}"})
    return start, end


def _decoded(segment: str, raw_path: str) -> str:
    if _SEGMENT.fullmatch(segment):
        try:
            text = unquote_to_bytes(segment.encode("utf-8", "surrogateescape")).decode()
        except UnicodeDecodeError:
            text = ""
        if text not in ("", ".", "..") and "/" not in text and "\0" not in text:
            return text
    allowed = "segments of UTF-8, percent-encoded once, none of them empty, '.', '..' or with a slash or NUL in it"
    raise Refusal(400, "InvalidPath", f"{raw_path!r} is not allowed; allowed: {allowed}")


async def body_of(request: web.Request, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """A request's whole body.

    Raises:
        Refusal: 408, it arrives too slowly; 413, it is too large.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while piece := await request.content.readany():
                body += piece
                if len(body) > max_bytes:
                    message = f"the body is too large; allowed: {max_bytes} bytes; ask about fewer tables or files"
                    raise Refusal(413, "BodyTooLarge", message)
    except TimeoutError as error:
        message = f"{len(body)} bytes came within {BODY_SECONDS:.0f} s; send the request again"
        raise Refusal(408, "RequestTimeout", message) from error
    return bytes(body)


async def skip_body(request: web.Request) -> None:
    """Read what is left of a refused request's body if it is small, so that its connection can serve the next request.

    nginx closes a connection whose request was answered before its body had arrived, without a word to the client.
    """
    if request.body_exists and (request.content_length or SKIPPED_BYTES) <= SKIPPED_BYTES:
        with contextlib.suppress(TimeoutError, ConnectionError, Refusal):
            async with asyncio.timeout(SKIPPING_SECONDS):
                await body_of(request, SKIPPED_BYTES)


def validated(kind: type[Body], content: bytes) -> Body:
    """A body's content.

    Raises:
        Refusal: 400, with the wrong fields.
    """
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise Refusal(400, "InvalidBody", f"the body is not a {kind.__name__}: {problems}") from error


async def parsed_body(request: web.Request, kind: type[Body]) -> Body:
    """A request's body.

    Raises:
        Refusal: 400, 413.
    """
    return validated(kind, await body_of(request))


def check_digests(digests: tuple[str, ...]) -> None:
    """Check that all are SHA-256 digests.

    Raises:
        Refusal: 400.
    """
    for digest in digests:
        if not is_sha256(digest):
            message = f"manifest {digest!r} is not allowed; allowed: 64 lower-case hex digits"
            raise Refusal(400, "InvalidDigest", message)


def answer_of(content: BaseModel | TableReport) -> web.Response:
    """200 with content as JSON in camelCase."""
    return web.json_response(text=to_json(content, by_alias=True).decode())
