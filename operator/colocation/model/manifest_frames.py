"""How a manifest of many files is stored (format 2): a header, and the files of each bucket by themselves.

Three kinds of zstd frames follow each other, so that ``zstd -dc`` shows all of it:

1. A skippable frame (magic ``184D2A50``) of 36 bytes: how long the next frame is, as four bytes, the lowest one first,
   and that frame's SHA-256.
2. The header: the manifest's JSON without its files, with ``frames``, what each further frame is.
3. For each of ``frames``, in their order: a JSON array of one bucket's files, sorted by path.

A reader of one bucket reads the first two and the bucket's, and knows each by its digest. The manifest's name is still
the SHA-256 of everything that is stored, so agents check it as any other file.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import zstandard
from pydantic import Field, TypeAdapter

from .base import Observed
from .limits import MAX_MANIFEST_FILES

_MAGIC = bytes.fromhex("502a4d18")
_PREFIX = struct.Struct("<4sII32s")
"""Magic number and length of a skippable frame, then its content."""
_CONTENT_BYTES = 36
_PIECE_BYTES = 1 << 20
_LEAST_WINDOW_BYTES = 1 << 10
_MAX_JSON_NODES = 4 * MAX_MANIFEST_FILES
_MAX_JSON_VALUES = 12 * MAX_MANIFEST_FILES
"""Objects and lists, and values, of a manifest's JSON: a file has two objects, and six values and one for each
partition column. A parser takes up to 500 bytes for two characters, and 150 for a value: they are counted before."""
Value = TypeVar("Value")


class Frame(Observed):
    """One bucket's files as they are stored: how many there are, how long the frame is, and its SHA-256."""

    bucket: int = Field(ge=0)
    files: int = Field(ge=0)
    bytes: int = Field(gt=0)
    sha256: str


class _Header(Observed):
    frames: tuple[Frame, ...]


_HEADER: TypeAdapter[_Header] = TypeAdapter(_Header)


@dataclass(frozen=True)
class ManifestParts:
    """What is stored of a manifest: its JSON, and apart from it the JSON of each bucket's files.

    ``is_framed``: format 2. A manifest of format 1 has all in ``text``. ``buckets`` can be gone through once, and
    raises what ``split_frames`` would: no more than one bucket's files are in memory at a time.
    """

    text: bytes
    buckets: Iterable[tuple[Frame, bytes]] = ()
    is_framed: bool = False


def is_framed(stored: bytes) -> bool:
    """Whether this begins as a manifest of format 2 does."""
    return stored[:4] == _MAGIC


def split_frames(stored: bytes, sha256: str, max_bytes: int, bucket: int | None = None) -> ManifestParts:
    """The parts of a manifest of format 2; each frame has the digest that the one before it says.

    Args:
        stored: for which ``is_framed``.
        sha256: the manifest's name, for messages.
        max_bytes: of all texts together; nothing larger is taken into memory.
        bucket: the only one whose files are read; None = all of them.

    Raises:
        ValueError: it was cut, is not what its digests say, or is larger; of what lies behind the header as soon as
            ``buckets`` comes to it.
    """
    view = memoryview(stored)
    if len(view) < _PREFIX.size:
        raise ValueError(f"manifest {sha256} ends in its first frame")
    _, content_bytes, header_bytes, header_digest = _PREFIX.unpack(view[: _PREFIX.size])
    if content_bytes != _CONTENT_BYTES:
        raise ValueError(f"manifest {sha256} begins with a frame of {content_bytes} bytes; allowed: {_CONTENT_BYTES}")
    head = bytes(view[_PREFIX.size : _PREFIX.size + header_bytes])
    if hashlib.sha256(head).digest() != header_digest:
        raise ValueError(f"the header of manifest {sha256} has another content than its digest says")
    text = decompressed(head, sha256, max_bytes)
    header = parsed_json(_HEADER, text, sha256)
    frames = _frames(view[_PREFIX.size + header_bytes :], header.frames, sha256, bucket)
    return ManifestParts(text, _texts(frames, sha256, max_bytes - len(text)), is_framed=True)


def _texts(frames: Iterable[tuple[Frame, bytes]], sha256: str, max_bytes: int) -> Iterator[tuple[Frame, bytes]]:
    """The frames' JSON, so many bytes together."""
    left = max_bytes
    for frame, content in frames:
        text = decompressed(content, sha256, left)
        left -= len(text)
        yield frame, text


def _frames(
    view: memoryview, frames: Sequence[Frame], sha256: str, only: int | None
) -> Iterator[tuple[Frame, bytes]]:
    before = -1
    position = 0
    for frame in frames:
        if frame.bucket <= before:
            raise ValueError(f"manifest {sha256} has the files of bucket {frame.bucket} behind those of {before}")
        start, position, before = position, position + frame.bytes, frame.bucket
        if only not in (None, frame.bucket):
            continue
        content = bytes(view[start:position])
        if hashlib.sha256(content).hexdigest() != frame.sha256:
            raise ValueError(
                f"the files of bucket {frame.bucket} in manifest {sha256} have another content than their digest says"
            )
        yield frame, content
    if position != len(view):
        raise ValueError(f"manifest {sha256} has {len(view) - position} bytes behind its last frame")


def parsed_json(kind: TypeAdapter[Value], text: bytes, sha256: str) -> Value:
    """A manifest's JSON, or a part of it, as a value.

    Raises:
        ValueError: it is another value, or has so many that they would take the memory of whoever reads it.
    """
    check_values(text, sha256)
    return kind.validate_json(text)


def check_values(text: bytes, sha256: str, before: int = 0) -> int:
    """Refuse too many values; how many these are together with those ``before``, of other parts of the manifest."""
    nodes, values = text.count(b"{") + text.count(b"["), before + text.count(b",")
    if nodes > _MAX_JSON_NODES or values > _MAX_JSON_VALUES:
        raise ValueError(
            f"manifest {sha256} has {nodes} objects and lists, and {values} values; allowed: {_MAX_JSON_NODES} and "
            f"{_MAX_JSON_VALUES}, enough for {MAX_MANIFEST_FILES} files"
        )
    return values


def decompressed(frame: bytes, sha256: str, max_bytes: int) -> bytes:
    """What a zstd frame holds, read piece by piece; what follows the frame is not looked at.

    Raises:
        ValueError: it is no zstd frame, is longer than ``max_bytes``, or not as long as it announces.
    """
    try:
        text = _decompressed(frame, max_bytes)
    except zstandard.ZstdError as error:
        raise ValueError(f"manifest {sha256} is not zstd: {error}") from error
    if text is None:
        raise ValueError(f"manifest {sha256} is longer than {max_bytes} bytes, or not as long as it announces")
    return text


def _decompressed(frame: bytes, max_bytes: int) -> bytes | None:
    announced_bytes = zstandard.frame_content_size(frame)  # -1: it announces nothing
    if announced_bytes > max_bytes:
        return None
    decompressor = zstandard.ZstdDecompressor(max_window_size=max(max_bytes, _LEAST_WINDOW_BYTES))
    text = bytearray()
    with decompressor.stream_reader(frame, read_across_frames=False) as reader:
        while piece := reader.read(_PIECE_BYTES):
            text += piece
            if len(text) > max_bytes:
                return None
    return bytes(text) if announced_bytes in (-1, len(text)) else None
