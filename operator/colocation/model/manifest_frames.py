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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import zstandard
from pydantic import Field

from .base import Observed

_MAGIC = bytes.fromhex("502a4d18")
_PREFIX = struct.Struct("<4sII32s")
"""Magic number and length of a skippable frame, then its content."""
_CONTENT_BYTES = 36
_PIECE_BYTES = 1 << 20
_LEAST_WINDOW_BYTES = 1 << 10


class Frame(Observed):
    """One bucket's files as they are stored: how many there are, how long the frame is, and its SHA-256."""

    bucket: int = Field(ge=0)
    files: int = Field(ge=0)
    bytes: int = Field(gt=0)
    sha256: str


class _Header(Observed):
    frames: tuple[Frame, ...]


@dataclass(frozen=True)
class ManifestParts:
    """What is stored of a manifest: its JSON, and apart from it the JSON of each bucket's files.

    ``is_framed``: format 2. A manifest of format 1 has all in ``text``.
    """

    text: bytes
    buckets: tuple[tuple[Frame, bytes], ...] = ()
    is_framed: bool = False


def is_framed(stored: bytes) -> bool:
    """Whether this begins as a manifest of format 2 does."""
    return stored[:4] == _MAGIC


def split_frames(stored: bytes, sha256: str, max_bytes: int) -> ManifestParts:
    """The parts of a manifest of format 2; each frame has the digest that the one before it says.

    Args:
        stored: for which ``is_framed``.
        sha256: the manifest's name, for messages.
        max_bytes: of all texts together; nothing larger is taken into memory.

    Raises:
        ValueError: it was cut, is not what its digests say, or is larger.
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
    header = _Header.model_validate_json(text)
    left = max_bytes - len(text)
    buckets = []
    for frame, content in _frames(view[_PREFIX.size + header_bytes :], header.frames, sha256):
        files = decompressed(content, sha256, left)
        left -= len(files)
        buckets.append((frame, files))
    return ManifestParts(text, tuple(buckets), is_framed=True)


def _frames(view: memoryview, frames: Sequence[Frame], sha256: str) -> Iterator[tuple[Frame, bytes]]:
    before = -1
    position = 0
    for frame in frames:
        if frame.bucket <= before:
            raise ValueError(f"manifest {sha256} has the files of bucket {frame.bucket} behind those of {before}")
        content = bytes(view[position : position + frame.bytes])
        if hashlib.sha256(content).hexdigest() != frame.sha256:
            raise ValueError(
                f"the files of bucket {frame.bucket} in manifest {sha256} have another content than their digest says"
            )
        yield frame, content
        before = frame.bucket
        position += frame.bytes
    if position != len(view):
        raise ValueError(f"manifest {sha256} has {len(view) - position} bytes behind its last frame")


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
