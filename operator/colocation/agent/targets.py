"""From a request's raw target to what it names. Percent-decoding happens once, per segment, and strictly."""

import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from colocation.storage.errors import InvalidPath
from colocation.storage.paths import TablePath, file_segments, table_path

from .errors import Refusal

_SEGMENT = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})+")
_RANGE = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})")


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
    """The file that ``namespace``, ``directory`` and path segments name.

    Raises:
        InvalidPath: a part is missing, or not allowed.
    """
    if len(segments) < 3:
        raise InvalidPath(f"file {'/'.join(segments)!r} is not allowed; allowed: <namespace>/<directory>/<path>")
    namespace, directory, *path = segments
    table = table_path(namespace, directory)
    return FileTarget(table, "/".join(file_segments("/".join(path))))


def byte_range(header: str | None, file_bytes: int) -> tuple[int, int] | None:
    """(start, end) of a ``Range`` header, end excluded and cut to the file; None without one.

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
