"""Manifests as Spark's driver stores them, in Java; here for tests and benchmarks of what reads and checks them."""

import hashlib
import struct
from collections.abc import Sequence

import zstandard
from pydantic import TypeAdapter

from colocation.model.table_manifest import FORMAT_VERSION, FRAMED_FORMAT, PLAIN_FORMAT, DataFile, Frame, TableManifest

FRAMED_FROM_FILES = 10_000
"""Format 2 is written from so many files on, as ``ManifestEncoder`` does."""

_MAGIC = bytes.fromhex("502a4d18")
_PREFIX = struct.Struct("<4sII32s")
_DIGESTS_BYTES = 36
_LEVEL = 9
_FILES: TypeAdapter[list[DataFile]] = TypeAdapter(list[DataFile])
_JSON: TypeAdapter[dict[str, object]] = TypeAdapter(dict[str, object])


def encode_manifest(manifest: TableManifest, newest_format: int = FORMAT_VERSION) -> tuple[str, bytes]:
    """(sha256 hex, stored bytes) of a manifest, in the format that pays for so many files.

    Args:
        manifest: what to store; its own ``format_version`` does not matter.
        newest_format: that all readers know.
    """
    if newest_format >= FRAMED_FORMAT and len(manifest.files) >= FRAMED_FROM_FILES:
        stored = _framed(manifest)
    else:
        plain = manifest.model_copy(update={"format_version": PLAIN_FORMAT})
        stored = compressed(plain.model_dump_json(by_alias=True).encode())
    return hashlib.sha256(stored).hexdigest(), stored


def _framed(manifest: TableManifest) -> bytes:
    by_bucket: dict[int, list[DataFile]] = {}
    for file in manifest.files:
        by_bucket.setdefault(file.bucket, []).append(file)
    header = manifest.model_copy(update={"format_version": FRAMED_FORMAT, "files": ()}).to_json_dict()
    del header["files"]
    buckets = [
        (bucket, len(files), _FILES.dump_json(sorted(files, key=lambda file: file.path), by_alias=True))
        for bucket, files in sorted(by_bucket.items())
    ]
    return join_frames(header, buckets)


def join_frames(header: dict[str, object], buckets: Sequence[tuple[int, int, bytes]]) -> bytes:
    """A manifest of format 2: its header without ``frames``, and each bucket's number, number of files and JSON."""
    stored = [compressed(text) for _, _, text in buckets]
    frames = [
        Frame(bucket=bucket, files=files, bytes=len(frame), sha256=hashlib.sha256(frame).hexdigest()).to_json_dict()
        for (bucket, files, _), frame in zip(buckets, stored, strict=True)
    ]
    head = compressed(_JSON.dump_json({**header, "frames": frames}))
    return b"".join([_PREFIX.pack(_MAGIC, _DIGESTS_BYTES, len(head), hashlib.sha256(head).digest()), head, *stored])


def compressed(text: bytes) -> bytes:
    """A text as one zstd frame."""
    return zstandard.ZstdCompressor(level=_LEVEL).compress(text)
