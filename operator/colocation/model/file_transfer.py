"""How files travel between agent and client: the digest of one file, and several files as one stream.

The header ``Content-Digest`` (RFC 9530) has the SHA-256 of a file. A stream is the answer to
``POST /v1/tables/{namespace}/{directory}/files``: per file, in the order asked, a line of JSON ``{"path", "bytes"}``
and then that many bytes; or, for a file that cannot be sent, only the line ``{"path", "error", "message"}``. The stream
of a whole answer ends after a frame.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .agent import MAX_BYTES_AT_ONCE

_SHA256_MEMBER = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]+):\s*(?:$|,)")
_SHA256_HEX = re.compile(r"[0-9a-f]{64}")


def is_sha256(text: str) -> bool:
    """Whether ``text`` is a SHA-256 as we write it: 64 lower-case hex digits."""
    return _SHA256_HEX.fullmatch(text) is not None


def content_digest(sha256: str) -> str:
    """The header's value for a digest of 64 hex digits: ``sha-256=:<base64>:``."""
    return f"sha-256=:{base64.b64encode(bytes.fromhex(sha256)).decode()}:"


def sha256_of_content_digest(header: str) -> str:
    """The digest, 64 hex digits, in a header's value; other algorithms in it are ignored.

    Raises:
        ValueError: no SHA-256 in it, or it is not 32 bytes of base64.
    """
    member = _SHA256_MEMBER.search(header)
    if member is None:
        raise ValueError(f"Content-Digest {header!r} holds no sha-256; allowed: sha-256=:<base64 of 32 bytes>:")
    try:
        digest = base64.b64decode(member[1], validate=True)
    except binascii.Error as error:
        raise ValueError(f"Content-Digest {header!r} is not base64: {error}") from error
    if len(digest) != 32:
        raise ValueError(f"Content-Digest {header!r} holds {len(digest)} bytes; a sha-256 has 32")
    return digest.hex()


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
