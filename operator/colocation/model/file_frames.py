"""Several files as one stream of bytes: the answer to ``POST /v1/tables/{namespace}/{directory}/files``.

Per file, in the order asked: a line of JSON, ``{"path", "bytes"}``, and then so many bytes; or, for a file that
cannot be given, the line ``{"path", "error", "message"}`` alone. The stream of a whole answer ends after a frame.
"""

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .agent import MAX_BYTES_AT_ONCE

MAX_LINE_BYTES = 1 << 16


class FileFrame(NamedTuple):
    """A file's content, or why it was not given: ``failure`` is empty or ``<Reason>: <message>``."""

    path: str
    content: bytes
    failure: str


def content_frame(path: str, content: bytes) -> bytes:
    """The frame of a file."""
    return _line({"path": path, "bytes": len(content)}) + content


def failure_frame(path: str, reason: str, message: str) -> bytes:
    """The frame of a file that cannot be given."""
    return _line({"path": path, "error": reason, "message": message})


def file_frames(pieces: Iterable[bytes]) -> Iterator[FileFrame]:
    """The files of a stream, whatever pieces it comes in. Holds one file in memory, and the piece that ends it.

    Raises:
        ValueError: it is no such stream, or it ends within a frame.
    """
    buffer = bytearray()
    header: tuple[str, int] | None = None
    for piece in pieces:
        buffer += piece
        start = 0
        while True:
            if header is None:
                end = buffer.find(b"\n", start)
                if end < 0:
                    break
                path, length, failure = _parsed(bytes(buffer[start:end]))
                start = end + 1
                if failure:
                    yield FileFrame(path, b"", failure)
                    continue
                header = path, length
            path, length = header
            if len(buffer) - start < length:
                break
            yield FileFrame(path, bytes(memoryview(buffer)[start : start + length]), "")
            start += length
            header = None
        del buffer[:start]
        if header is None and len(buffer) > MAX_LINE_BYTES:
            raise ValueError(f"a frame begins with a line of more than {MAX_LINE_BYTES} bytes")
    if buffer or header is not None:
        raise ValueError("the answer ends within a file")


def _line(fields: dict[str, object]) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def _parsed(line: bytes) -> tuple[str, int, str]:
    """(path, bytes, failure) of a line."""
    fields = json.loads(line)
    if not isinstance(fields, dict) or not isinstance(fields.get("path"), str):
        raise ValueError("a frame's line names no path")
    if "error" in fields:
        return fields["path"], 0, f"{fields['error']}: {fields.get('message', '')}"
    length = fields.get("bytes")
    if not isinstance(length, int) or not 0 <= length <= MAX_BYTES_AT_ONCE:
        raise ValueError(f"a frame announces {length!r} bytes; allowed: 0 to {MAX_BYTES_AT_ONCE}")
    return fields["path"], length, ""
